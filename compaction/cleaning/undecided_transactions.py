"""Transactions that a round meets without their marker: which are open, and where all are decided.

A transaction is open if the newest producer snapshot says so (`ProducerStateManager`). Any other
without a marker stops the round: treated as committed, its record could supersede an older value
and be aborted later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tierfold.compaction.cleaning.transactions import TransactionStatus
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.producers import ProducerEntry


def unexplained_transaction(
    transaction_status: TransactionStatus,
    producers: Sequence[ProducerEntry],
    next_offset: int,
) -> str:
    """Return why a round must stop at `next_offset`, without its partition; empty: it need not.

    `producers`: the newest snapshot in view. A transaction from `next_offset` on does not matter.
    """
    opened = {
        entry.producer_id for entry in producers if entry.current_txn_first_offset is not None
    }
    for one in transaction_status.undecided:
        if one.first_offset < next_offset and one.producer_id not in opened:
            return (
                f"the transaction of producer {one.producer_id} from offset {one.first_offset} on"
                " has no marker in the tier, yet the newest producer snapshot does not call it"
                " open. Compare the newest segment's .snapshot with the broker's; nothing was"
                " committed."
            )
    return ""


def with_unindexed(
    aborted: Sequence[AbortedTransaction], transaction_status: TransactionStatus
) -> tuple[AbortedTransaction, ...]:
    """Return all aborted transactions by marker offset, those included that no index lists."""
    together = (*aborted, *transaction_status.unindexed)
    return tuple(sorted(together, key=lambda entry: entry.last_offset))


def transactions_end(
    next_offset: int, snapshots: Iterable[tuple[int, Sequence[ProducerEntry]]]
) -> int | None:
    """Return where all transactions that reach below `next_offset` are decided; None: nowhere.

    `snapshots`: for each segment that ends at or beyond `next_offset`, in offset order, the first
    offset beyond it and its producer snapshot. They are taken one by one, as far as needed.
    """
    for end, producers in snapshots:
        firsts = (entry.current_txn_first_offset for entry in producers)
        if not any(first is not None and first < next_offset for first in firsts):
            return end
    return None

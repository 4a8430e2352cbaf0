"""Transactions without a marker in the tier: which are open, and which stop a round.

A transaction is open if the newest producer snapshot says so (`ProducerStateManager`). Any other
without a marker stops the round. Treated as committed, its record could supersede an older value
and then be aborted.
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
    """Why a round up to `next_offset` must stop, and what to do; empty: it need not.

    `producers`: the newest snapshot in view. Transactions from `next_offset` on do not matter.
    """
    opened = {
        entry.producer_id for entry in producers if entry.current_txn_first_offset is not None
    }
    for one in transaction_status.undecided:
        if one.first_offset < next_offset and one.producer_id not in opened:
            return (
                f"the transaction of producer {one.producer_id} from offset {one.first_offset} on"
                " has no marker in the tier, and the newest producer snapshot does not list it as"
                " open; nothing was committed. Compare the newest segment's .snapshot with the"
                " broker's."
            )
    return ""


def with_unindexed(
    aborted: Sequence[AbortedTransaction], transaction_status: TransactionStatus
) -> tuple[AbortedTransaction, ...]:
    """All aborted transactions by marker offset, unindexed ones included."""
    together = (*aborted, *transaction_status.unindexed)
    return tuple(sorted(together, key=lambda entry: entry.last_offset))


def transactions_end(
    next_offset: int, snapshots: Iterable[tuple[int, Sequence[ProducerEntry]]]
) -> int | None:
    """The offset below which all transactions that start below `next_offset` end; None: unknown.

    `snapshots`: for each segment that ends at or after `next_offset`, in offset order, its next
    offset and its producer snapshot. They are read lazily, as far as needed.
    """
    for end, producers in snapshots:
        firsts = (entry.current_txn_first_offset for entry in producers)
        if not any(first is not None and first < next_offset for first in firsts):
            return end
    return None

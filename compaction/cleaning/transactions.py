"""Transactions: which batches are aborted, which markers may be removed, which stay in the index.

The rules are those of Kafka's `CleanedTransactionMetadata`, per producer in offset order:

- a transactional data batch inside an aborted transaction is aborted, and is removed at once;
- an ABORT or COMMIT marker may be removed by a pass that meets no batch of its transaction;
- while a pass meets such a batch, the ABORT marker stays, and its transaction is listed in the new
  segment's transaction index;
- an emptied control batch may be removed; control batches of other types stay.

A transaction without a marker is open if the newest producer snapshot says so
(`ProducerStateManager`). Any other stops the round: treated as committed, its record could
supersede an older value and then be aborted.

Beyond Kafka: an ABORT marker also counts if its transaction has data but no index entry (an
unindexed abort, SEMANTICS 5). Kafka would serve that data as committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numba
import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.producers import ProducerEntry

DATA: Final = -1
"""In `TransactionBatches.control_type`: a transactional data batch."""
EMPTIED: Final = -2
"""In `TransactionBatches.control_type`: a control batch without its record."""
ABORT: Final = 0
"""`ControlRecordType.ABORT`."""
COMMIT: Final = 1
"""`ControlRecordType.COMMIT`."""


def is_marker(control_type: NDArray[np.int16]) -> NDArray[np.bool_]:
    """Which batches hold a transaction marker, shape (batches,).

    KRaft's control records are none (a change of leader, the header and footer of a snapshot), and
    stay for ever: Kafka `CleanedTransactionMetadata.onControlBatchRead`.
    """
    found: NDArray[np.bool_] = (control_type == ABORT) | (control_type == COMMIT)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionBatches:
    """Transactional and control batches in offset order, from their headers."""

    base_offset: NDArray[np.int64]
    last_offset: NDArray[np.int64]
    producer_id: NDArray[np.int64]
    control_type: NDArray[np.int16]
    """`DATA`, `EMPTIED`, or the type of the control record (`ControlRecordType`)."""

    def __len__(self) -> int:
        return len(self.base_offset)


def joined_batches(pieces: Sequence[TransactionBatches]) -> TransactionBatches:
    """The batches of all pieces, in their order."""
    every = [_NO_BATCHES, *pieces]
    names = (field.name for field in fields(TransactionBatches))
    return TransactionBatches(
        **{name: np.concatenate([getattr(piece, name) for piece in every]) for name in names}
    )


_NO_BATCHES: Final = TransactionBatches(
    base_offset=np.empty(0, np.int64),
    last_offset=np.empty(0, np.int64),
    producer_id=np.empty(0, np.int64),
    control_type=np.empty(0, np.int16),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction without a marker in view."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionStatus:
    """The status of the transactions in one partition's round."""

    discardable: NDArray[np.int64]
    """Base offsets, ascending, of control batches that may be removed after their horizon."""
    listed: tuple[AbortedTransaction, ...]
    """Aborted transactions that still have a batch, by marker offset: the new index lists them."""
    unindexed: tuple[AbortedTransaction, ...]
    """Transactions with an ABORT marker that no index lists."""
    undecided: tuple[OpenTransaction, ...] = ()
    """Transactions without a marker in view, by producer."""


def aborted_batches(
    txn_batches: TransactionBatches, aborted: Sequence[AbortedTransaction]
) -> NDArray[np.bool_]:
    """Shape (batches,): whether each is a data batch of one of the aborted transactions.

    A transaction covers `[first_offset, last_offset]`, where the last offset is its marker's.
    """
    ordered = sorted(aborted, key=lambda t: (t.producer_id, t.first_offset))
    found = np.zeros(len(txn_batches), np.bool_)
    if not ordered or not len(txn_batches):
        return found
    _cover(
        (txn_batches.producer_id, txn_batches.base_offset, txn_batches.last_offset),
        (
            np.array([t.producer_id for t in ordered], np.int64),
            np.array([t.first_offset for t in ordered], np.int64),
            np.array([t.last_offset for t in ordered], np.int64),
        ),
        found,
    )
    return np.asarray(found & (txn_batches.control_type == DATA), np.bool_)


@numba.njit(cache=True, nogil=True)
def _cover(
    batches: tuple[np.ndarray, np.ndarray, np.ndarray],
    spans: tuple[np.ndarray, np.ndarray, np.ndarray],
    found: np.ndarray,
) -> None:
    producer_id, base_offset, last_offset = batches
    span_producer, span_first, span_last = spans
    for i in range(len(producer_id)):
        low, high = 0, len(span_producer)
        # The last span of this producer that begins at or below the batch's last offset.
        while low < high:
            middle = (low + high) // 2
            if span_producer[middle] < producer_id[i] or (
                span_producer[middle] == producer_id[i] and span_first[middle] <= last_offset[i]
            ):
                low = middle + 1
            else:
                high = middle
        found[i] = (
            low > 0
            and span_producer[low - 1] == producer_id[i]
            and span_last[low - 1] >= base_offset[i]
        )


def transaction_status(
    txn_batches: TransactionBatches, aborted: Sequence[AbortedTransaction]
) -> TransactionStatus:
    """The status of the transactions in one partition's whole view.

    `txn_batches` includes those above the round's end, because a marker there decides data below.
    """
    is_aborted = aborted_batches(txn_batches, aborted)
    # Per producer in offset order; a stable sort keeps the offset order within a producer.
    order = np.argsort(txn_batches.producer_id, kind="stable")
    may_go = np.zeros(len(txn_batches), np.bool_)
    met_from = np.full(len(txn_batches), -1, np.int64)
    open_from = np.full(len(txn_batches), -1, np.int64)
    _walk(
        order,
        (txn_batches.producer_id, txn_batches.base_offset, txn_batches.control_type),
        is_aborted,
        may_go,
        (met_from, open_from),
    )
    by_marker = {(t.producer_id, t.last_offset): t for t in aborted}
    listed: list[AbortedTransaction] = []
    unindexed: list[AbortedTransaction] = []
    for i in np.flatnonzero((txn_batches.control_type == ABORT) & (met_from >= 0)):
        key = (int(txn_batches.producer_id[i]), int(txn_batches.last_offset[i]))
        entry = by_marker.get(key)
        if entry is None:
            entry = _entry_of(txn_batches, int(i), int(met_from[i]), order)
            unindexed.append(entry)
        listed.append(entry)
    return TransactionStatus(
        discardable=txn_batches.base_offset[may_go],
        listed=tuple(listed),
        unindexed=tuple(unindexed),
        undecided=tuple(
            OpenTransaction(
                producer_id=int(txn_batches.producer_id[i]), first_offset=int(open_from[i])
            )
            for i in np.flatnonzero(open_from >= 0)
        ),
    )


def _entry_of(
    txn_batches: TransactionBatches, marker: int, first_offset: int, order: NDArray[np.int64]
) -> AbortedTransaction:
    """The index entry that a broker would have written for the transaction ending at `marker`.

    Its last stable offset is the first offset of another open transaction, or the one after the
    marker (Kafka's `ProducerStateManager.lastStableOffset`).
    """
    producer_id = int(txn_batches.producer_id[marker])
    last_offset = int(txn_batches.last_offset[marker])
    others = order[(order < marker) & (txn_batches.producer_id[order] != producer_id)]
    open_first: dict[int, int] = {}
    for i in np.sort(others):
        producer = int(txn_batches.producer_id[i])
        if txn_batches.control_type[i] == DATA:
            open_first.setdefault(producer, int(txn_batches.base_offset[i]))
        elif txn_batches.control_type[i] in {ABORT, COMMIT}:
            open_first.pop(producer, None)
    return AbortedTransaction(
        producer_id=producer_id,
        first_offset=first_offset,
        last_offset=last_offset,
        last_stable_offset=min(open_first.values(), default=last_offset + 1),
    )


@numba.njit(cache=True, nogil=True)
def _walk(
    order: np.ndarray,
    batches: tuple[np.ndarray, np.ndarray, np.ndarray],
    is_aborted: np.ndarray,
    may_go: np.ndarray,
    met: tuple[np.ndarray, np.ndarray],
) -> None:
    """Walk each producer's batches in offset order and fill `may_go` and `met`.

    `met` is `met_from` and `open_from`; -1: none. At an ABORT marker, `met_from` gets the base
    offset of the first batch of its transaction. At a producer's last batch, `open_from` gets that
    of the first data batch that no marker decides and no index lists.
    """
    met_from, open_from = met
    producer_id, base_offset, control_type = batches
    producer = np.int64(-1)
    committed_met, aborted_met, any_met = False, np.int64(-1), np.int64(-1)
    for k in range(len(order)):
        i = order[k]
        if k == 0 or producer_id[i] != producer:
            producer = producer_id[i]
            committed_met, aborted_met, any_met = False, np.int64(-1), np.int64(-1)
        kind = control_type[i]
        if kind == DATA:
            if is_aborted[i]:
                aborted_met = base_offset[i] if aborted_met < 0 else aborted_met
            else:
                committed_met = True
                any_met = base_offset[i] if any_met < 0 else any_met
        elif kind == ABORT:
            met_from[i] = aborted_met if aborted_met >= 0 else any_met
            may_go[i] = met_from[i] < 0
            committed_met, aborted_met, any_met = False, np.int64(-1), np.int64(-1)
        elif kind == COMMIT:
            may_go[i] = not committed_met
            committed_met, aborted_met, any_met = False, np.int64(-1), np.int64(-1)
        elif kind == EMPTIED:
            may_go[i] = True
        if k + 1 == len(order) or producer_id[order[k + 1]] != producer:
            open_from[i] = any_met


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

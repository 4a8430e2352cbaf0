"""What a round must know of a segment to leave it unread, besides its keys.

A record that no other one supersedes may still go, and a batch may change without losing a record:
a tombstone or marker whose delete horizon passes or is still to be set, a transaction that was
aborted, a batch without records that a producer no longer needs. Only such batches are listed
here. A segment with a record without a key, or of magic 0 or 1, has no facts: it is always read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.counts import Counts
from tierfold.compaction.cleaning.transactions import TransactionBatches, is_marker
from tierfold.compaction.model.units import NO_HORIZON


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedBatches:
    """The batches of a segment that may change although they lose no key, in offset order.

    They are transactional, control batches, or without records. Each array has shape (batches,).
    """

    base_offset: NDArray[np.int64]
    last_offset: NDArray[np.int64]
    producer_id: NDArray[np.int64]
    producer_epoch: NDArray[np.int16]
    control_type: NDArray[np.int16]
    """As in `TransactionBatches`; `DATA` for an ordinary batch without records, too."""
    horizon_ms: NDArray[np.int64]
    """The delete horizon (KIP-534), or `NO_HORIZON`."""
    is_transactional: NDArray[np.bool_]
    is_control: NDArray[np.bool_]
    has_records: NDArray[np.bool_]
    is_emptied: NDArray[np.bool_]
    """From the function `record_retention.is_emptied`."""

    def __len__(self) -> int:
        return len(self.base_offset)

    @property
    def transaction_batches(self) -> TransactionBatches:
        """Those among them that decide transactions."""
        rows = self.is_transactional | self.is_control
        return TransactionBatches(
            base_offset=self.base_offset[rows],
            last_offset=self.last_offset[rows],
            producer_id=self.producer_id[rows],
            control_type=self.control_type[rows],
        )


def joined_watched(pieces: Sequence[WatchedBatches]) -> WatchedBatches:
    """The batches of all pieces, at least one, in their order."""
    names = (column.name for column in fields(WatchedBatches))
    return WatchedBatches(
        **{name: np.concatenate([getattr(piece, name) for piece in pieces]) for name in names}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFacts:
    """One segment, from its effective start on."""

    segment_id: str
    start_offset: int
    """The effective start for which the facts were gathered."""
    size_bytes: int
    """Bytes of the `.log` from there on."""
    first_offset: int
    """Of its first batch."""
    last_offset: int
    """Of its last batch."""
    records: int
    record_bytes: int
    """Uncompressed, as in `Counts`."""
    tombstones_due_ms: int | None
    """The earliest delete horizon of a batch with a tombstone; None: no such batch has one."""
    has_undated_tombstones: bool
    """Whether a batch with a tombstone has no delete horizon yet."""
    watched: WatchedBatches

    @property
    def due_ms(self) -> int | None:
        """The earliest delete horizon of a tombstone or a marker; None: none is set."""
        markers = self.watched.horizon_ms[self.watched.is_control & self.watched.has_records]
        known_ms = [int(due_ms) for due_ms in markers[markers != NO_HORIZON]]
        if self.tombstones_due_ms is not None:
            known_ms.append(self.tombstones_due_ms)
        return min(known_ms, default=None)

    @property
    def counts(self) -> Counts:
        """The counts of a rewrite that keeps everything."""
        return Counts(
            records_in=self.records,
            kept=self.records,
            record_bytes_in=self.record_bytes,
            kept_bytes=self.record_bytes,
            kept_markers=int(np.count_nonzero(is_marker(self.watched.control_type))),
        )

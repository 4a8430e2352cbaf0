"""Whether and why a group of segments is rewritten.

Kafka's `Cleaner.cleanSegments` rewrites every group. Here a single segment that loses nothing stays
as it is (SEMANTICS 7), so a rewrite needs a reason. The first one counts, in this order:

    reason_before_reading   the catalog's metadata of the sources
    reason_in_batches       a batch that changes
    closing_batch_of        a batch that the end of the group lacks
    reason_after_reading    a different transaction index, a corrupt index, or a delete horizon new
                            to the catalog
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.counts import KEPT, Counts
from tierfold.compaction.cleaning.record_retention import BatchRetention, Retention
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.planning.drop_limits import DropLimits
from tierfold.compaction.planning.grouping import SegmentGroup


class RewriteReason(StrEnum):
    """Why a group is rewritten."""

    SEVERAL_SEGMENTS = "several segments become one"
    NO_BATCH = "no batch in it"
    """A broker's cleaner emptied it: its range goes to a neighbour."""
    DUE = "delete horizon passed"
    """Or a producer has expired. The catalog needs the next such time of what is left."""
    BATCHES = "batches change"
    """A batch is removed, loses records, gets a delete horizon, or is converted."""
    CLOSING_BATCH = "no batch at the end"
    TRANSACTION_INDEX = "transaction index changes"
    INDEX = "an index is corrupt"
    """Of the offset or the time index; a rewrite builds both from the log."""
    TOO_LARGE = "too large for one segment"
    """The first try to write one segment showed that it must be several."""
    UNKNOWN_HORIZON = "delete horizon not in the catalog"
    """A broker's cleaner set it (KIP-534). Without a rewrite the tombstone or marker would wait for
    new dirty data, as in Kafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosingBatch:
    """An empty batch that must follow the group's last one."""

    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainSegment:
    """What a scan found of a segment that is plain, see `record_retention.is_plain`."""

    first_offset: int
    """Of its first batch."""
    last_offset: int
    """Of its last batch."""
    records: int
    record_bytes: int
    """Uncompressed, as in `Counts`."""

    @property
    def counts(self) -> Counts:
        """The counts of a rewrite that keeps everything."""
        return Counts(
            records_in=self.records,
            kept=self.records,
            record_bytes_in=self.record_bytes,
            kept_bytes=self.record_bytes,
        )


def needs_no_rewrite(
    group: SegmentGroup, plain: PlainSegment, *, limits: DropLimits, ends_in_batch: bool
) -> bool:
    """Whether no batch of a group changes by what the scan found, so that it is not read again.

    `plain` is of the group's only segment, of which no record is superseded. What is left to
    compare is the transaction index, see `reason_after_reading`. In doubt a batch counts as
    changed, and the rewrite finds out.
    """
    if reason_before_reading(group.segments, limits) is not None:
        return False
    first, last = plain.first_offset, plain.last_offset
    is_closed = closing_batch_of(group, last, ends_in_batch=ends_in_batch) is None
    return is_closed and not offset_violation(first, last, group.segments[0])


def reason_before_reading(
    segments: Sequence[Segment], limits: DropLimits
) -> RewriteReason | None:
    """Why a group of these segments is rewritten even if it loses nothing; None: not known yet.

    Neighbours become one segment, as in Kafka's `Cleaner.cleanSegments`. Beyond Kafka, a segment
    that is due is rewritten, so that the catalog gets the next time (SEMANTICS 2).
    """
    if len(segments) > 1:
        return RewriteReason.SEVERAL_SEGMENTS
    if not segments[0].size_bytes:
        return RewriteReason.NO_BATCH
    return RewriteReason.DUE if limits.is_due(segments[0]) else None


def reason_in_batches(batch: NDArray[np.int8]) -> RewriteReason | None:
    """`BATCHES`, or None if every batch of a stretch is copied byte for byte.

    `batch` has shape (b,) and holds `BatchRetention`s. Kafka's `MemoryRecords.filterTo` copies the
    same batches (`writeOriginalBatch`).
    """
    return RewriteReason.BATCHES if (batch != BatchRetention.COPY).any() else None


def last_offset_of(
    last_offset: NDArray[np.int64],
    is_legacy: NDArray[np.bool_],
    retention: Retention,
    record_offset: NDArray[np.int64],
) -> int:
    """The last offset of a stretch's last batch once it is written.

    A batch of magic 2 keeps its last offset, even when it is emptied (Kafka's
    `MemoryRecords.filterTo`). A batch of magic 0 or 1 is converted, and then ends at its last kept
    record, as in `MemoryRecords.buildRetainedRecordsInto`. A removed batch counts with its last
    offset; the last batch of the remote range is never removed (`record_retention.must_stay`).

    `last_offset` and `is_legacy` have shape (b,), at least one batch; `record_offset` has shape
    (r,); `retention` is of these b batches and r records.
    """
    if not is_legacy[-1] or retention.batch[-1] != BatchRetention.REWRITE:
        return int(last_offset[-1])
    return int(record_offset[retention.record == KEPT][-1])


def offset_violation(first: int, last: int, segment: Segment) -> str:
    """How a segment's batches exceed its range of offsets, a phrase; empty: they do not.

    `first` is the base offset of the first batch, `last` the last offset of the last one. The range
    is the effective one (`RemoteLogSegmentMetadata` of KIP-405, less overlaps): a batch outside it
    was not compared with the neighbours' batches (SEMANTICS 1).
    """
    if first >= segment.start_offset and last <= segment.end_offset:
        return ""
    return (
        f"the batches have offsets {first} to {last}, the segment {segment.start_offset} to "
        f"{segment.end_offset}"
    )


def closing_batch_of(
    group: SegmentGroup, last_offset: int, *, ends_in_batch: bool
) -> ClosingBatch | None:
    """The batch that the group's end lacks; None: none is needed.

    Beyond Kafka: readers get stuck at a gap at the end of the remote range (SEMANTICS 5), so with
    `ends_in_batch` the group must end in a batch. The closing batch has the group's last offset and
    the newest leader epoch of the last segment. `last_offset` is that of the sources' last batch,
    from `last_offset_of`.
    """
    if not ends_in_batch or last_offset == group.end_offset:
        return None
    newest = max(group.segments[-1].leader_epochs)
    return ClosingBatch(offset=group.end_offset, leader_epoch=newest.epoch)


def reason_after_reading(
    segment: Segment,
    *,
    indexed: tuple[AbortedTransaction, ...],
    listed: tuple[AbortedTransaction, ...],
    has_corrupt_index: bool,
    due_ms: int | None,
) -> RewriteReason | None:
    """Why a single segment is rewritten although all its batches are copied; None: it is not.

    `indexed` are the aborted transactions that its transaction index lists, `listed` those that it
    must list (Kafka's `CleanedTransactionMetadata`). `has_corrupt_index`: its offset or time index
    cannot be used; a broker would rebuild it from its own log, but never in a tier. `due_ms` is the
    earliest delete horizon of its batches (KIP-534).
    """
    if indexed != listed:
        return RewriteReason.TRANSACTION_INDEX
    if has_corrupt_index:
        return RewriteReason.INDEX
    if due_ms is not None and segment.earliest_due_ms is None:
        return RewriteReason.UNKNOWN_HORIZON
    return None

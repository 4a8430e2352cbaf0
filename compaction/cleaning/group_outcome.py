"""What becomes of a group of segments: rewritten and why, left unchanged, or empty.

Kafka's `Cleaner.cleanSegments` writes every group anew. Here a single segment that loses nothing
stays as it is (SEMANTICS 7), so a rewrite needs a reason; the first one that is found counts:

    reason_before_reading   what the catalog says of the sources
    reason_in_batches       what becomes of the batches of a stretch
    closing_batch_of        the batch that the end of the group lacks
    reason_after_reading    what the transaction index or the catalog would not say otherwise

`outcome_of` then decides. Beside these: `offset_violation`, which offsets the batches of a segment
may have, and `last_offset_of`, where the last batch of a stretch ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.counts import KEPT
from tierfold.compaction.cleaning.record_retention import BatchRetention, Retention
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.planning.grouping import SegmentGroup


class RewriteReason(StrEnum):
    """Why a group is written anew."""

    SEVERAL_SEGMENTS = "several segments become one"
    DUE = "due time has come"
    """So that the catalog gets the next due time of what is left."""
    BATCHES = "batches change"
    """A batch goes, or loses records, or gets a delete horizon, or is converted."""
    CLOSING_BATCH = "no batch at the end"
    TRANSACTION_INDEX = "another transaction index"
    UNKNOWN_HORIZON = "delete horizon not in the catalog"
    """A broker's cleaner set it (KIP-534). Without a rewrite it would wait for new dirty data, as
    in Kafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosingBatch:
    """An empty batch that must follow the group's last one."""

    offset: int
    leader_epoch: int
    reason: RewriteReason = RewriteReason.CLOSING_BATCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchanged:
    """There is no reason to rewrite: the single segment stays live as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One new segment holds what is kept."""

    reason: RewriteReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Empty:
    """No batch is kept, so no segment is written: see `compaction.planning.empty_groups`."""

    reason: RewriteReason


GroupOutcome: TypeAlias = Unchanged | Written | Empty


def reason_before_reading(segments: Sequence[Segment], now_ms: int) -> RewriteReason | None:
    """Why a group of these segments is rewritten even if it loses nothing; None: not known yet.

    Neighbours become one segment, as in Kafka's `Cleaner.cleanSegments`. Beyond Kafka, a segment
    whose due time has come is written so that the catalog gets the next one (SEMANTICS 2).
    """
    if len(segments) > 1:
        return RewriteReason.SEVERAL_SEGMENTS
    return RewriteReason.DUE if segments[0].is_due(now_ms) else None


def reason_in_batches(batch: NDArray[np.int8]) -> RewriteReason | None:
    """`BATCHES` unless every batch of a stretch is copied byte for byte.

    `batch` has shape (b,), a `BatchRetention` each. A copied batch is one that Kafka's
    `MemoryRecords.filterTo` writes as it is (`writeOriginalBatch`).
    """
    return RewriteReason.BATCHES if (batch != BatchRetention.COPY).any() else None


def last_offset_of(
    last_offset: NDArray[np.int64],
    is_legacy: NDArray[np.bool_],
    retention: Retention,
    record_offset: NDArray[np.int64],
) -> int:
    """Where the last batch of a stretch ends once it is written.

    A batch of magic 2 keeps its last offset (Kafka's `MemoryRecords.filterTo`), also as an emptied
    one. One of magic 0 or 1 is converted, and then ends at its last kept record, as in
    `MemoryRecords.buildRetainedRecordsInto`. A batch that goes counts with its last offset: the
    last one of a round never goes (`record_retention.must_stay`).

    Args:
        last_offset: Shape (b,), at least one batch.
        is_legacy: Shape (b,).
        retention: What becomes of the `b` batches and their `r` records.
        record_offset: Shape (r,).
    """
    if not is_legacy[-1] or retention.batch[-1] != BatchRetention.REWRITE:
        return int(last_offset[-1])
    return int(record_offset[retention.record == KEPT][-1])


def offset_violation(
    base_offset: NDArray[np.int64], last_offset: NDArray[np.int64], segment: Segment
) -> str:
    """How a segment's batches leave its range of offsets, a phrase; empty: they do not.

    Both arrays have shape (b,), at least one batch, in offset order. The range is the effective one
    (`RemoteLogSegmentMetadata` of KIP-405, less what overlaps): a batch beside it was not compared
    with those of the neighbours (SEMANTICS 1).
    """
    first, last = int(base_offset[0]), int(last_offset[-1])
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

    Beyond Kafka: readers get stuck at a hole at the end of the remote range (SEMANTICS 5). The
    batch has the group's last offset, and the newest leader epoch of the last segment.

    Args:
        group: The sources.
        last_offset: Where their last batch ends, see `last_offset_of`.
        ends_in_batch: The group must end in a batch, an empty one if need be.
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
    due_ms: int | None,
) -> RewriteReason | None:
    """Why a single segment is rewritten of which all batches are copied; None: it is unchanged.

    Args:
        segment: The only source.
        indexed: What its transaction index lists.
        listed: What it must list (Kafka's `CleanedTransactionMetadata`).
        due_ms: When something in it may go, by the horizons of its batches (KIP-534); None: never.
    """
    if indexed != listed:
        return RewriteReason.TRANSACTION_INDEX
    if due_ms is not None and segment.earliest_due_ms is None:
        return RewriteReason.UNKNOWN_HORIZON
    return None


def outcome_of(reason: RewriteReason | None, bytes_kept: int) -> GroupOutcome:
    """What becomes of a group, from the first reason that was found and the bytes of its batches.

    A `.log` of 0 bytes is never written (SEMANTICS 7), where Kafka's `Cleaner.cleanSegments` leaves
    an empty segment.
    """
    if reason is None:
        return Unchanged()
    return Written(reason=reason) if bytes_kept else Empty(reason=reason)

"""Rewrites a group of neighbouring segments into one: reads, decides, writes what survives.

Kafka's `Cleaner.cleanSegments`; retention is decided over columns (`cleaning.record_retention`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.counts import KEPT, Counts, counts_of, total
from tierfold.compaction.cleaning.offset_map import SUPERSEDED, SUPERSEDING
from tierfold.compaction.cleaning.record_retention import (
    BatchColumns,
    BatchRetention,
    RecordFacts,
    Retention,
    decide_retention,
    earliest_due_ms,
    legacy_tombstones_go,
)
from tierfold.compaction.cleaning.rounds import GroupTask
from tierfold.compaction.cleaning.transactions import aborted_batches
from tierfold.compaction.commits.receipts import GroupReceipt, GroupResult
from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.model.units import BATCH_HEADER_BYTES, NO_TIMESTAMP_MS
from tierfold.storage.kafka.batch_headers import BatchHeads
from tierfold.storage.kafka.batch_rewrite import closing_batch, rewrite_batches
from tierfold.storage.kafka.control_records import control_types
from tierfold.storage.kafka.legacy_batches import decode_any
from tierfold.storage.kafka.records import Records, windows
from tierfold.storage.segments.lookahead import mapped_ahead
from tierfold.storage.segments.segment_metadata import read_aborted
from tierfold.storage.segments.segment_scan import (
    WINDOW_BYTES,
    checked_heads,
    transaction_batches_of,
)
from tierfold.storage.segments.segment_writer import Origin, SegmentWriter
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage, Part, counted_from

RecordBits: TypeAlias = Callable[[Segment, int], NDArray[np.uint8]]
"""(segment, its record count) → shape (records,): the bits of `offset_map`."""


class _Rewrite:
    """One group in progress.

    A single segment that loses nothing is not rewritten, so nothing is written until something is
    known to go; the stretches passed until then are written first. A segment whose due time has
    come is written anyway, so that the catalog gets its next due time.
    """

    def __init__(self, tier: LocalTieredStorage, task: GroupTask) -> None:
        self.tier = tier
        self.task = task
        self.writer: SegmentWriter | None = None
        self.passed: list[NDArray[np.uint8]] = []
        self.counts: list[Counts] = []
        self.bytes_read = 0
        self.bytes_written = 0
        self.last_offset = -1
        self.due_ms: int | None = None
        segments = task.group.segments
        self.is_changed = len(segments) > 1 or _has_come(segments[0], task.rules.now_ms)

    def add(self, data: NDArray[np.uint8], *, is_change: bool) -> None:
        """Takes the output of one stretch; `is_change`: it differs from its source."""
        self.is_changed = self.is_changed or is_change
        self.passed.append(data)
        if self.is_changed:
            self._flush()

    def _flush(self) -> None:
        for data in self.passed:
            if len(data) and self.writer is None:
                task = self.task
                self.writer = SegmentWriter(
                    self.tier,
                    Origin(
                        key=task.key,
                        group=task.group,
                        run=task.run,
                        index_interval_bytes=task.index_interval_bytes,
                    ),
                )
            if self.writer is not None:
                self.writer.append(data)
            self.bytes_written += len(data)
        self.passed.clear()


def _has_come(segment: Segment, now_ms: int) -> bool:
    return segment.earliest_due_ms is not None and segment.earliest_due_ms <= now_ms


def rewrite_group(
    tier: LocalTieredStorage, task: GroupTask, bits: RecordBits
) -> GroupReceipt:
    """Rewrites one group; raises CorruptLog or UnreadableObject, and then nothing of it counts."""
    state = _Rewrite(tier, task)
    try:
        for segment in task.group.segments:
            _rewrite_segment(state, segment, bits)
        _close_group(state)
        if _lists_differ(state) or _has_unknown_horizon(state):
            state.add(np.empty(0, np.uint8), is_change=True)
        return _receipt(state)
    except BaseException as error:
        if state.writer is not None:
            state.writer.__exit__(type(error), error, error.__traceback__)
        raise


def _rewrite_segment(state: _Rewrite, segment: Segment, bits: RecordBits) -> None:
    task = state.task
    where = state.tier.uri(task.key, segment.segment_id, segment.own_start_offset, Part.LOG)
    where = counted_from(where, segment.skipped_bytes)
    log = state.tier.read_log(task.key, segment)
    heads = checked_heads(log, where=where)
    _check_range(heads, segment, where)
    state.bytes_read += len(log)
    whole = bits(segment, int(heads.count.sum(dtype=np.int64)))
    beyond = np.cumsum(heads.count, dtype=np.int64)

    source = _Source(task=task, segment=segment, log=log, where=where)

    def rewritten(window: tuple[int, int]) -> _Window:
        first, last = window
        here = whole[beyond[first] - heads.count[first] : beyond[last - 1]]
        return _rewritten_window(source, heads.slice(first, last), here)

    cut = windows(heads, window_bytes=WINDOW_BYTES)
    for found in mapped_ahead(rewritten, cut, threads=task.threads):
        state.counts.append(found.counts)
        known_ms = (due_ms for due_ms in (state.due_ms, found.due_ms) if due_ms is not None)
        state.due_ms = min(known_ms, default=None)
        state.add(found.data, is_change=found.is_change)
        state.last_offset = found.last_offset


def _check_range(heads: BatchHeads, segment: Segment, where: str) -> None:
    """Refuse batches outside the segment's offsets: no neighbour was compared with them."""
    first, last = int(heads.base_offset[0]), int(heads.last_offset[-1])
    if first < segment.start_offset or last > segment.end_offset:
        raise CorruptLog(
            f"the batches have offsets {first} to {last}, the segment {segment.start_offset} to "
            f"{segment.end_offset}",
            where=where,
            remedy="Take the segment from a backup; nothing of this partition was changed.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """A segment that is being rewritten."""

    task: GroupTask
    segment: Segment
    log: NDArray[np.uint8]
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """What becomes of one window of a segment."""

    data: NDArray[np.uint8]
    is_change: bool
    counts: Counts
    due_ms: int | None
    """When something that is left is due; None: nothing is."""
    last_offset: int
    """Where the window ends: its last batch's last offset, as far as that is kept."""


def _rewritten_window(
    source: _Source, heads: BatchHeads, bits: NDArray[np.uint8]
) -> _Window:
    """`bits` has shape (records of the window,)."""
    log = source.log
    records = decode_any(log, heads, where=source.where)
    retention, due_ms = _retention(source, heads, records, bits)
    sizes = records.end - records.start
    records_in = int(heads.count.sum(dtype=np.int64))
    is_marker = np.repeat(heads.is_control, np.diff(records.first_record))
    counts = replace(
        counts_of(records_in, int(sizes.sum()), retention.record, sizes),
        kept_markers=int(np.count_nonzero(is_marker & (retention.record == KEPT))),
    )
    if (retention.batch == BatchRetention.COPY).all():
        start = int(heads.position[0])
        end = int(heads.position[-1] + heads.size_bytes[-1])
        data, is_change = log[start:end], False
    else:
        data, _ = rewrite_batches(
            log, heads, records, retention.record == KEPT, retention.batch, retention.horizon_ms
        )
        is_change = True
    return _Window(
        data=data,
        is_change=is_change,
        counts=counts,
        due_ms=due_ms,
        last_offset=_last_offset(heads, records, retention),
    )


def _last_offset(heads: BatchHeads, records: Records, retention: Retention) -> int:
    """Where the last batch ends: one that is converted ends at its last survivor."""
    if not heads.is_legacy[-1] or retention.batch[-1] != BatchRetention.REWRITE:
        return int(heads.last_offset[-1])
    return int(records.offset[retention.record == KEPT][-1])


def _retention(
    source: _Source, heads: BatchHeads, records: Records, bits: NDArray[np.uint8]
) -> tuple[Retention, int | None]:
    """What becomes of a window, and when something that is left of it is due."""
    task = source.task
    txn_batches, rows = transaction_batches_of(
        heads, control_types(records, heads, where=source.where)
    )
    aborted = np.zeros(len(heads), np.bool_)
    aborted[rows[aborted_batches(txn_batches, task.aborted)]] = True
    columns = BatchColumns(
        last_offset=heads.last_offset,
        producer_id=heads.producer_id,
        producer_epoch=heads.producer_epoch,
        is_control=heads.is_control,
        is_legacy=heads.is_legacy,
        is_emptied=~heads.is_legacy
        & (heads.size_bytes == BATCH_HEADER_BYTES)
        & (heads.codec == 0)
        & ~heads.has_delete_horizon
        & (heads.base_timestamp_ms == NO_TIMESTAMP_MS),
        horizon_ms=heads.delete_horizon_ms,
        record_batch=records.batch,
        has_key=records.key_bytes >= 0,
        has_value=records.value_bytes >= 0,
    )
    facts = RecordFacts(
        aborted=aborted,
        discardable=heads.is_control & np.isin(heads.base_offset, task.discardable),
        superseded=(bits & SUPERSEDED).view(np.bool_),
        supersedes=(bits & SUPERSEDING) != 0,
        legacy_tombstones_go=legacy_tombstones_go(source.segment.max_timestamp_ms, task.rules),
    )
    retention = decide_retention(columns, facts, task.rules)
    return retention, earliest_due_ms(columns, retention, task.rules)


def _close_group(state: _Rewrite) -> None:
    """Writes an empty batch at the group's end if no batch of the source ends there."""
    group = state.task.group
    if state.task.ends_in_batch and state.last_offset != group.end_offset:
        epoch = max(group.segments[-1].leader_epochs).epoch
        data = np.frombuffer(closing_batch(group.end_offset, epoch), np.uint8)
        state.add(data, is_change=True)


def _lists_differ(state: _Rewrite) -> bool:
    """Whether the new transaction index would differ from the single source's."""
    if state.is_changed:
        return False
    (segment,) = state.task.group.segments
    if not segment.has_transaction_index:
        return bool(state.task.listed)
    return read_aborted(state.tier, state.task.key, segment) != state.task.listed


def _has_unknown_horizon(state: _Rewrite) -> bool:
    """Whether a broker's cleaner set a due time that the catalog does not know.

    Without a rewrite it would wait for new dirty data, as in Kafka.
    """
    if state.is_changed or state.due_ms is None:
        return False
    (segment,) = state.task.group.segments
    return segment.earliest_due_ms is None


def _receipt(state: _Rewrite) -> GroupReceipt:
    writer = state.writer
    if not state.is_changed:
        result, segment = GroupResult.UNCHANGED, None
    elif writer is None:
        result, segment = GroupResult.EMPTY, None
    else:
        result = GroupResult.WRITTEN
        segment = writer.finish(state.task.listed, state.due_ms)
    return GroupReceipt(
        group_index=state.task.group_index,
        result=result,
        segment=segment,
        counts=total(state.counts),
        bytes_read=state.bytes_read,
        bytes_written=state.bytes_written,
        records_written=writer.records if writer is not None else 0,
        staged=writer.objects if writer is not None else (),
    )

"""Rewrites a group of neighbouring segments into one, as Kafka's `Cleaner.cleanSegments`.

`compaction.cleaning` makes all decisions: which records and batches are kept (`record_retention`),
and whether and why the group is written (`group_outcome`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.counts import KEPT, Counts, counts_of, total
from tierfold.compaction.cleaning.group_outcome import (
    RewriteReason,
    closing_batch_of,
    last_offset_of,
    offset_violation,
    reason_after_reading,
    reason_before_reading,
    reason_in_batches,
)
from tierfold.compaction.cleaning.offset_map import SUPERSEDED, SUPERSEDING
from tierfold.compaction.cleaning.record_retention import (
    BatchColumns,
    RecordFacts,
    Retention,
    decide_retention,
    earliest_due_ms,
    is_emptied,
    legacy_tombstones_go,
)
from tierfold.compaction.cleaning.rounds import GroupTask
from tierfold.compaction.commits.receipts import GroupReceipt, result_of
from tierfold.compaction.model.segments import Segment
from tierfold.storage.kafka.batch_headers import BatchHeads
from tierfold.storage.kafka.batch_layout import corrupt_batch
from tierfold.storage.kafka.batch_rewrite import closing_batch, rewrite_batches
from tierfold.storage.kafka.control_records import control_types
from tierfold.storage.kafka.legacy_batches import decode_any
from tierfold.storage.kafka.records import Records, windows
from tierfold.storage.segments.lookahead import mapped_ahead
from tierfold.storage.segments.segment_metadata import read_aborted
from tierfold.storage.segments.segment_scan import WINDOW_BYTES, checked_heads, is_aborted_in
from tierfold.storage.segments.segment_writer import SegmentWriter
from tierfold.storage.tiers.remote_tier import RemoteTier

RecordBits: TypeAlias = Callable[[Segment, int], NDArray[np.uint8]]
"""(segment, its record count) → shape (records,): the bits of `offset_map`."""


class _Rewrite:
    """One group in progress.

    Nothing is written until there is a reason to rewrite. Then the stretches so far are written.
    """

    def __init__(self, tier: RemoteTier, task: GroupTask, contexts: ExitStack) -> None:
        self.tier = tier
        self.task = task
        self.contexts = contexts
        self.writer: SegmentWriter | None = None
        self.passed: list[NDArray[np.uint8]] = []
        self.counts: list[Counts] = []
        self.bytes_read = 0
        self.bytes_written = 0
        self.last_offset = -1
        self.due_ms: int | None = None
        self.reason = reason_before_reading(task.group.segments, task.rules.now_ms)

    def add(self, data: NDArray[np.uint8], reason: RewriteReason | None) -> None:
        """Take the output of one stretch, and the reason to rewrite that it gives, if any."""
        self.reason = self.reason or reason
        self.passed.append(data)
        if self.reason is None:
            return
        for stretch in self.passed:
            if len(stretch) and self.writer is None:
                task = self.task
                writer = SegmentWriter(
                    self.tier,
                    task.key,
                    task.group,
                    run=task.run,
                    index_interval_bytes=task.index_interval_bytes,
                )
                self.writer = self.contexts.enter_context(writer)
            if self.writer is not None:
                self.writer.append(stretch)
            self.bytes_written += len(stretch)
        self.passed.clear()


def rewrite_group(tier: RemoteTier, task: GroupTask, bits: RecordBits) -> GroupReceipt:
    """Rewrite one group; raises CorruptLog or UnreadableObject, and then no receipt names it."""
    with ExitStack() as contexts:
        state = _Rewrite(tier, task, contexts)
        for segment in task.group.segments:
            _rewrite_segment(state, segment, bits)
        _close_group(state)
        if state.reason is None:
            state.add(np.empty(0, np.uint8), _reason_after_reading(state))
        return _receipt(state)


def _rewrite_segment(state: _Rewrite, segment: Segment, bits: RecordBits) -> None:
    task = state.task
    where = state.tier.log_name(task.key, segment)
    log = state.tier.read_log(task.key, segment)
    heads = checked_heads(log, where=where)
    if violation := offset_violation(heads.base_offset, heads.last_offset, segment):
        raise corrupt_batch(violation, where)
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
        state.add(found.data, found.reason)
        state.last_offset = found.last_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """A segment that is being rewritten."""

    task: GroupTask
    segment: Segment
    log: NDArray[np.uint8]
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """One window of a segment, rewritten."""

    data: NDArray[np.uint8]
    reason: RewriteReason | None
    """The reason to rewrite the group; None: `data` are the source's bytes."""
    counts: Counts
    due_ms: int | None
    """When a kept tombstone or marker is due; None: never."""
    last_offset: int
    """Where the window ends, see `last_offset_of`."""


def _rewritten_window(source: _Source, heads: BatchHeads, bits: NDArray[np.uint8]) -> _Window:
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
    reason = reason_in_batches(retention.batch)
    if reason is None:
        start = int(heads.position[0])
        end = int(heads.position[-1] + heads.size_bytes[-1])
        data = log[start:end]
    else:
        data, _ = rewrite_batches(
            log, heads, records, retention.record == KEPT, retention.batch, retention.horizon_ms
        )
    return _Window(
        data=data,
        reason=reason,
        counts=counts,
        due_ms=due_ms,
        last_offset=last_offset_of(heads.last_offset, heads.is_legacy, retention, records.offset),
    )


def _retention(
    source: _Source, heads: BatchHeads, records: Records, bits: NDArray[np.uint8]
) -> tuple[Retention, int | None]:
    """What is kept of a window, and when a kept tombstone or marker is due."""
    task = source.task
    types = control_types(records, heads, where=source.where)
    aborted, _ = is_aborted_in(heads, types, task.aborted)
    columns = BatchColumns(
        last_offset=heads.last_offset,
        producer_id=heads.producer_id,
        producer_epoch=heads.producer_epoch,
        is_control=heads.is_control,
        is_legacy=heads.is_legacy,
        is_emptied=is_emptied(
            is_legacy=heads.is_legacy,
            size_bytes=heads.size_bytes,
            codec=heads.codec,
            has_delete_horizon=heads.has_delete_horizon,
            base_timestamp_ms=heads.base_timestamp_ms,
        ),
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
    """Write the batch that is missing at the group's end, if one is."""
    task = state.task
    missing = closing_batch_of(task.group, state.last_offset, ends_in_batch=task.ends_in_batch)
    if missing is not None:
        data = np.frombuffer(closing_batch(missing.offset, missing.leader_epoch), np.uint8)
        state.add(data, RewriteReason.CLOSING_BATCH)


def _reason_after_reading(state: _Rewrite) -> RewriteReason | None:
    """Read the transaction index of the only source; all its batches were copied."""
    (segment,) = state.task.group.segments
    return reason_after_reading(
        segment,
        indexed=read_aborted(state.tier, state.task.key, segment),
        listed=state.task.listed,
        due_ms=state.due_ms,
    )


def _receipt(state: _Rewrite) -> GroupReceipt:
    writer = state.writer
    segment = writer.finish(state.task.listed, state.due_ms) if writer is not None else None
    return GroupReceipt(
        group_index=state.task.group_index,
        result=result_of(state.reason, state.bytes_written),
        segment=segment,
        counts=total(state.counts),
        bytes_read=state.bytes_read,
        bytes_written=state.bytes_written,
        records_written=writer.records if writer is not None else 0,
        staged=writer.objects if writer is not None else (),
    )

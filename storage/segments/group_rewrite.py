"""Rewrites a group of neighbouring segments into one, as Kafka's `Cleaner.cleanSegments`.

If one would be too large, it becomes several (`group_output`).

`compaction.cleaning` makes all decisions: which records and batches are kept (`record_retention`),
and whether and why the group is written (`group_outcome`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.batch_outline import BatchOutline, surely_dropped
from tierfold.compaction.cleaning.counts import Counts, superseded_unread, total
from tierfold.compaction.cleaning.group_outcome import (
    PlainSegment,
    RewriteReason,
    closing_batch_of,
    needs_no_rewrite,
    offset_violation,
    reason_before_reading,
)
from tierfold.compaction.cleaning.offset_map import SUPERSEDED
from tierfold.compaction.cleaning.rounds import GroupTask
from tierfold.compaction.commits.receipts import GroupReceipt, GroupResult
from tierfold.compaction.model.segments import Segment
from tierfold.storage.kafka.batch_headers import read_heads
from tierfold.storage.kafka.batch_layout import corrupt_batch
from tierfold.storage.kafka.batch_rewrite import closing_batch
from tierfold.storage.key_indexes.index_folder import KeyIndexes
from tierfold.storage.segments.chosen_batches import chosen_stretches, is_choosable
from tierfold.storage.segments.group_output import GroupOutput, TooLarge, producers_before
from tierfold.storage.segments.index_reason import (
    outlined_batches,
    passed_batches,
    reason_in_indexes,
)
from tierfold.storage.segments.key_indexing import indexed_batches
from tierfold.storage.segments.log_windows import (
    live_log,
    reread,
    sized_windows,
    unasked,
)
from tierfold.storage.segments.lookahead import mapped_ahead
from tierfold.storage.segments.producer_replay import ProducerReplay
from tierfold.storage.segments.rewritten_window import RewrittenWindow, rewritten_window
from tierfold.storage.segments.segment_metadata import read_snapshot
from tierfold.storage.segments.segment_writer import Cut
from tierfold.storage.segments.window import LogWindow, UncheckedWindow, decoded_windows
from tierfold.storage.tiers.remote_tier import RemoteTier

_NOTHING: Final[NDArray[np.uint8]] = np.empty(0, np.uint8)

RecordBits: TypeAlias = Callable[[Segment], NDArray[np.uint8]]
"""A segment → the bits of `offset_map` of its records; there may be zeros behind them."""

_Piece: TypeAlias = Callable[[], Iterator[UncheckedWindow]]
"""Reads a piece of a log, and returns its windows."""

NO_OUTLINES: Final[Mapping[str, BatchOutline]] = MappingProxyType({})


class _Sources(NamedTuple):
    """What is known of the segments of a group, and whether to go on reading them."""

    bits: RecordBits
    outlines: Mapping[str, BatchOutline]
    proceed: Callable[[], None]


class _Rewrite:
    """One group in progress.

    Nothing is written until there is a reason to rewrite. Until then only the headers of the
    windows are held; when a reason appears, their bytes are read again and written first.
    """

    def __init__(
        self, tier: RemoteTier, task: GroupTask, output: GroupOutput, replay: ProducerReplay | None
    ) -> None:
        self.tier = tier
        self.task = task
        self.output = output
        self.replay = replay
        self.passed: list[LogWindow] = []
        self.counts: list[Counts] = []
        self.bytes_read = 0
        self.last_offset = -1
        self.source_end = -1
        """The last offset of the sources' batches so far."""
        self.reason = reason_before_reading(task.group.segments, task.rules.limits)
        if replay is not None:
            self.reason = RewriteReason.TOO_LARGE

    def add(self, found: RewrittenWindow) -> None:
        """Take a window and what it became."""
        window = found.window
        self.counts.append(found.counts)
        self.bytes_read += window.size_bytes
        self.last_offset = found.last_offset
        self.output.cut_before(len(found.data), self.source_end)
        self.source_end = int(window.heads.last_offset[-1])
        if self.replay is not None:
            self.replay.add(window.heads, found.markers)
        if len(found.data):
            self.output.index(found.indexed, found.due_ms, found.kept_ms)
        self.give_reason(found.reason)
        if self.reason is None:
            self.passed.append(replace(window, data=_NOTHING))
        else:
            self.output.write(found.data, found.heads)

    def give_reason(self, reason: RewriteReason | None) -> None:
        """Take a reason to rewrite; the first one counts, and writes what has passed."""
        if self.reason is not None or reason is None:
            return
        self.reason = reason
        (segment,) = self.task.group.segments
        log = live_log(self.tier, self.task.key, segment)
        for data in reread(log, self.passed):
            self.output.cut_before(len(data), self.source_end)
            self.output.write(data)
        self.passed.clear()


def rewrite_group(
    tier: RemoteTier,
    task: GroupTask,
    bits: RecordBits,
    outlines: Mapping[str, BatchOutline] = NO_OUTLINES,
    key_indexes: KeyIndexes | None = None,
    proceed: Callable[[], None] = unasked,
) -> GroupReceipt:
    """Rewrite one group; raises CorruptLog or UnreadableObject, and then no receipt names it.

    Raises TooLarge if `task.must_be_one` and one segment cannot hold it; then nothing is left.

    `outlines`: of scanned segments, by id; without one, all batches are read. The new segment gets
    a key index in `key_indexes`. `proceed` is called before each window, and may raise.
    """
    if task.plain is not None and _stays_unread(tier, task, task.plain, bits, outlines):
        return GroupReceipt(
            group_index=task.group_index,
            result=GroupResult.NOT_READ,
            counts=task.plain.counts,
            bytes_read=0,
            bytes_written=0,
        )
    if not task.is_cut:
        try:
            return _rewritten(tier, task, _Sources(bits, outlines, proceed), key_indexes)
        except TooLarge:
            if task.must_be_one:
                raise
    replay = ProducerReplay(producers_before(tier, task))
    whole = _Sources(bits, NO_OUTLINES, proceed)
    return _rewritten(tier, task, whole, key_indexes, replay)


def _rewritten(
    tier: RemoteTier,
    task: GroupTask,
    sources: _Sources,
    key_indexes: KeyIndexes | None,
    replay: ProducerReplay | None = None,
) -> GroupReceipt:
    """Rewrite a group; raises TooLarge without a replay, if one segment cannot hold it."""
    with ExitStack() as contexts:
        output = GroupOutput(tier, task, contexts, key_indexes, replay)
        state = _Rewrite(tier, task, output, replay)
        for segment in task.group.segments:
            _rewrite_segment(state, segment, sources)
            if replay is not None and not task.is_cut:
                replay.restart(read_snapshot(tier, task.key, segment))
        _close_group(state)
        if state.reason is None:
            batches = passed_batches(task.group.segments[0], state.passed)
            state.give_reason(reason_in_indexes(tier, task, output.due_ms, batches))
        if state.reason is None:
            output.write_index(task.group.segments[0])
        cut = None
        if replay is not None and task.is_cut:
            cut = Cut(end_offset=task.group.end_offset, producers=replay.entries)
        output.finish(cut)
        return output.receipt(state.reason, total(state.counts), state.bytes_read)


def _stays_unread(
    tier: RemoteTier,
    task: GroupTask,
    plain: PlainSegment,
    bits: RecordBits,
    outlines: Mapping[str, BatchOutline],
) -> bool:
    """Whether the scan has shown that nothing of the group changes; reads its indexes."""
    (segment,) = task.group.segments
    of_records = bits(segment)
    # Fewer bits than records would be a bug, which the rewrite then finds.
    if of_records.any() or len(of_records) < plain.records:
        return False
    if not needs_no_rewrite(
        task.group, plain, limits=task.rules.limits, ends_in_batch=task.ends_in_batch
    ):
        return False
    batches = outlined_batches(segment, outlines.get(segment.segment_id))
    return reason_in_indexes(tier, task, None, batches) is None


def _rewrite_segment(state: _Rewrite, segment: Segment, sources: _Sources) -> None:
    task, bits = state.task, sources.bits(segment)
    outline = sources.outlines.get(segment.segment_id)
    log = live_log(state.tier, task.key, segment, task.batch_bytes_max, sources.proceed)
    if outline is None or not is_choosable(log.access()):
        windows = sized_windows(log)
        if task.is_cut:
            windows = _until(segment.end_offset, windows)
        pieces: Iterator[_Piece] = (
            partial(iter, (one,)) for one in _within(segment, windows, log.where)
        )
        _rewrite_pieces(state, segment, pieces, bits)
        return
    last = int(outline.last_offset[-1])
    if violation := offset_violation(outline.first_offset, last, segment):
        raise corrupt_batch(violation, log.where)
    dropped = surely_dropped(outline, (bits & SUPERSEDED).view(np.bool_), task.rules)
    if dropped.any():
        state.give_reason(RewriteReason.BATCHES)
    is_read = np.repeat(~dropped, outline.records)
    bits = np.append(bits[: len(is_read)][is_read], bits[len(is_read) :])
    pieces = (stretch.windows for stretch in chosen_stretches(log, outline, ~dropped))
    record_bytes = _rewrite_pieces(state, segment, pieces, bits)
    left_out = int(outline.records[dropped].sum(dtype=np.int64))
    state.counts.append(superseded_unread(left_out, outline.record_bytes - record_bytes))


def _rewrite_pieces(
    state: _Rewrite, segment: Segment, pieces: Iterator[_Piece], bits: NDArray[np.uint8]
) -> int:
    """Rewrite the pieces of a segment, and return the uncompressed bytes of their records.

    `bits` are those of the pieces' records.
    """
    task = state.task
    records = record_bytes = 0
    has_replay = state.replay is not None

    def rewritten(piece: _Piece) -> list[RewrittenWindow]:
        return [
            rewritten_window(task, segment, *decoded, bits, has_replay)
            for decoded in decoded_windows(piece())
        ]

    for found in mapped_ahead(rewritten, pieces, threads=task.threads):
        for one in found:
            state.add(one)
            if segment.is_upload:
                state.output.found(one.window.heads.delete_horizon_ms)
            records = one.window.records_end
            record_bytes += one.counts.record_bytes_in
    if bits[records:].any():
        name = state.tier.log_name(task.key, segment)
        raise ValueError(f"{records} records of {name} were read, and bits are set of later ones")
    return record_bytes


def _until(last_offset: int, windows: Iterator[UncheckedWindow]) -> Iterator[UncheckedWindow]:
    """The batches that begin up to an offset."""
    for window in windows:
        batches = int(np.searchsorted(window.heads.base_offset, last_offset, side="right"))
        if batches:
            yield window.before(batches)
        if batches < len(window.heads):
            return


def _within(
    segment: Segment, windows: Iterator[UncheckedWindow], where: str
) -> Iterator[UncheckedWindow]:
    """The segment's windows; raises CorruptLog for an offset outside the segment."""
    first: int | None = None
    for window in windows:
        first = int(window.heads.base_offset[0]) if first is None else first
        if violation := offset_violation(first, int(window.heads.last_offset[-1]), segment):
            window.checked()  # A bad checksum explains an odd offset, so it is reported first.
            raise corrupt_batch(violation, where)
        yield window


def _close_group(state: _Rewrite) -> None:
    """Write the batch that is missing at the group's end, if one is."""
    task = state.task
    missing = closing_batch_of(task.group, state.last_offset, ends_in_batch=task.ends_in_batch)
    if missing is not None:
        data = np.frombuffer(closing_batch(missing.offset, missing.leader_epoch), np.uint8)
        state.give_reason(RewriteReason.CLOSING_BATCH)
        state.output.write(data)
        indexed = None
        if task.fpp is not None:
            heads = read_heads(data, where="closing batch")
            indexed = indexed_batches(data, heads, where="closing batch")
        state.output.index(indexed, None)

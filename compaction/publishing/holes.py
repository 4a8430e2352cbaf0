"""Offsets that a segment has and no look-up finds, and the events that mend them.

A new leader's upload that is finished between a look and the arrival of its batch leaves one, and
so do late sends. Consumers that reach it fail, so it is mended before anything else.

Rule: SWAP.md 1 and 2; PUBLISHING 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator

from tierfold.compaction.brokers.broker_view import BrokerSegment
from tierfold.compaction.brokers.events import SegmentState, SegmentUpdated
from tierfold.compaction.brokers.partition_fold import PartitionFold
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.ranges import (
    OffsetRange,
    joined,
    range_of,
    ranges_found,
    without,
)
from tierfold.compaction.publishing.replacements import update_event


def holes(look: Look, fold: PartitionFold) -> tuple[OffsetRange, ...]:
    """The offsets that segments have and look-ups do not find, ascending.

    Of finished segments of the log, and of live ones: what brokers deleted, and its copy, cannot
    wait for an upload beyond it. Uploads that brokers have not finished are still theirs.
    """
    ranges = [range_of(segment.added) for segment in look.finished]
    ranges += [
        OffsetRange(segment.own_start_offset, segment.end_offset)
        for segment in look.row.segments
        if not segment.is_named_by_brokers
        or look.state_of(segment.segment_id) is not SegmentState.COPY_STARTED
    ]
    had = joined(OffsetRange(max(first, look.log_start), last) for first, last in ranges)
    if not had:
        return ()
    bounds = OffsetRange(had[0].first, had[-1].last)
    return without(had, ranges_found(fold, look.lineage, bounds))


def repairs(look: Look, fold: PartitionFold) -> tuple[SegmentUpdated, ...]:
    """The events that let look-ups find offsets again; empty: none are lost, or nothing mends them.

    Each is `COPY_SEGMENT_FINISHED` once more: of a live segment that covers the hole, else of an
    upload of the log that the row has not retired. `fold` goes on with what is returned.
    """
    events: list[SegmentUpdated] = []
    while (event := _next_repair(look, fold)) is not None:
        fold.apply(event, look.now_ms)
        events.append(event)
    return tuple(events)


def _next_repair(look: Look, fold: PartitionFold) -> SegmentUpdated | None:
    for hole in holes(look, fold):
        for segment in _covering(look, hole.first):
            event = update_event(segment, SegmentState.COPY_FINISHED, look.now_ms)
            if _mends(look, fold, hole, event):
                return event
    return None


def _covering(look: Look, offset: int) -> Iterator[BrokerSegment]:
    """What may be finished once more over an offset, the best first."""
    over = [
        segment
        for segment in look.finished
        if segment.added.start_offset <= offset <= segment.added.end_offset
        and segment.added.segment_id not in look.retired_ids
    ]
    # Of several the one that starts first, and of these the longest, hides the fewest others.
    over.sort(key=lambda one: (one.added.start_offset, -one.added.end_offset))
    yield from (one for one in over if one.added.segment_id in look.live_ids)
    yield from (one for one in over if look.is_upload(one.added.segment_id))


def _mends(look: Look, fold: PartitionFold, hole: OffsetRange, event: SegmentUpdated) -> bool:
    """Whether the event closes the start of the hole and opens no other."""
    bounds = OffsetRange(look.log_start, max(one.added.end_offset for one in look.finished))
    mended = fold.copied()
    mended.apply(event, look.now_ms)
    before = ranges_found(fold, look.lineage, bounds)
    after = ranges_found(mended, look.lineage, bounds)
    is_closed = not without((OffsetRange(hole.first, hole.first),), after)
    return is_closed and not without(before, after)

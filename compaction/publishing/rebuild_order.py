"""The order in which `rebuild` finishes what is live, so that look-ups lose nothing on the way.

Rule: PUBLISHING 3.3, 6.6; SWAP.md 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from tierfold.compaction.brokers.broker_view import BrokerSegment
from tierfold.compaction.brokers.events import SegmentAdded, SegmentState, SegmentUpdated
from tierfold.compaction.brokers.partition_fold import PartitionFold
from tierfold.compaction.model.segment_ids import is_restored_id
from tierfold.compaction.publishing.batches import clusters
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.must_be_finished import required_ids
from tierfold.compaction.publishing.ranges import (
    OffsetRange,
    joined,
    overlapping,
    range_of,
    ranges_found,
    without,
)
from tierfold.compaction.publishing.replacements import NO_BROKER
from tierfold.compaction.publishing.steps import RefusalCode, Refused


def in_order(
    look: Look, to_start: tuple[SegmentAdded, ...], to_finish: tuple[SegmentAdded, ...]
) -> tuple[SegmentAdded, ...] | Refused:
    """The live segments in the order in which they are finished, so that no event hides an offset.

    As in a swap, where that hides nothing. Otherwise by their ends: one that reaches as far as any
    before it takes the place of all behind its start. Where brokers have uploaded offsets again
    since, they may have to descend; and where what they uploaded hides a part of what is named, a
    merge has to follow, which `next_step` asks for. The last way hides offsets within the batch: of
    two segments that begin alike in a leader epoch, look-ups find the one that was finished last.
    """
    required = required_ids(look)
    ends = [*(one for one in to_start if one.segment_id in required), *to_finish]
    ends.sort(key=_by_end)
    orders = [(*_as_in_a_swap(look, ends),), (*ends,), (*reversed(ends),)]
    hidden: tuple[OffsetRange, ...] = ()
    for is_lost in (lost_offsets, hidden_offsets):
        for ordered in orders:
            hidden = _first_lost(is_lost, look, to_start, ordered)
            if not hidden:
                return ordered
    again = _read_already(look, ends)
    ordered = (*sorted((*ends, *again), key=_by_end),)
    if again and not hidden_offsets(look, _after(look, to_start, ordered)):
        return ordered
    return Refused(
        code=RefusalCode.NO_ORDER,
        why=f"brokers read offsets {hidden[0]} from what they uploaded since"
        f"{_not_live(look, hidden[0])}, and whatever is named again would hide some of them",
    )


def _not_live(look: Look, bounds: OffsetRange) -> str:
    """The segments over these offsets that the listing does not show as whole, for a sentence."""
    ids = (
        one.added.segment_id
        for one in look.finished
        if one.added.segment_id not in look.live_ids and range_of(one.added).overlaps(bounds)
    )
    names = ", ".join(ids)
    return f" ({names}, not whole in the listing)" if names else ""


def _read_already(look: Look, ends: Iterable[SegmentAdded]) -> list[SegmentAdded]:
    """The live segments over the same offsets that brokers have finished already."""
    required = required_ids(look)
    return [
        one.added
        for one in look.finished
        if one.added.segment_id in required
        and any(range_of(one.added).overlaps(range_of(other)) for other in ends)
    ]


def _by_end(added: SegmentAdded) -> tuple[int, int, str]:
    return added.end_offset, -added.start_offset, added.segment_id


def _as_in_a_swap(look: Look, ends: Sequence[SegmentAdded]) -> Iterator[SegmentAdded]:
    """The order of the swap that retired these sources: brokers may not have taken it.

    From memory they then read the sources until they are listed, also those that are cut.
    """
    gone = [one for segment_id, one in look.rebuilds.items() if segment_id in look.retired_ids]
    if _may_be_restored(look, ends):
        yield from sorted(ends, key=range_of, reverse=True)
        return
    new_ids = {one.segment_id for one in ends}
    for run in overlapping((range_of(one), one) for one in (*ends, *gone)):
        members = [BrokerSegment(one, SegmentState.COPY_STARTED, None, 0) for _, one in run]
        new = [one for one in members if one.added.segment_id in new_ids]
        old = [one for one in members if one.added.segment_id not in new_ids]
        for cluster in clusters(new, old):
            yield from (one.added for one in reversed(cluster))


def _may_be_restored(look: Look, ends: Iterable[SegmentAdded]) -> bool:
    """Whether the latest swap, the only one that can be open, is that of a restore."""
    gone = [one for one in look.row.retired if one.segment.segment_id in look.rebuilds]
    last_ms = max((one.retired_at_ms for one in gone), default=-1)
    latest = [
        range_of(look.rebuilds[one.segment.segment_id])
        for one in gone
        if one.retired_at_ms == last_ms
    ]
    restored = [range_of(one) for one in ends if is_restored_id(one.segment_id)]
    return any(bounds.overlaps(its) for bounds in restored for its in latest)


def _first_lost(
    is_lost: Callable[[Look, PartitionFold], tuple[OffsetRange, ...]],
    look: Look,
    to_start: tuple[SegmentAdded, ...],
    ends: tuple[SegmentAdded, ...],
) -> tuple[OffsetRange, ...]:
    """The offsets that are lost after the first event that loses any: other segments hide them."""
    fold, contested = _after(look, to_start), contested_ids(look)
    for added in ends:
        fold.apply(finished_event(look, added), look.now_ms)
        if added.segment_id in contested and (lost := is_lost(look, fold)):
            return lost
    return ()


def _after(
    look: Look, started: Iterable[SegmentAdded], finished: Iterable[SegmentAdded] = ()
) -> PartitionFold:
    """What brokers have once these are started, and then those finished."""
    fold = PartitionFold.resumed(look.view)
    for added in started:
        fold.apply(added, look.now_ms)
    for added in finished:
        fold.apply(finished_event(look, added), look.now_ms)
    return fold


def contested_ids(look: Look) -> frozenset[str]:
    """Ids of segments that share offsets with others that look-ups find, or are to find.

    To finish any other segment hides nothing.
    """
    ranges = {
        segment_id: range_of(added)
        for segment_id, added in look.rebuilds.items()
        if segment_id in look.live_ids
    }
    finished = look.view.in_state(SegmentState.COPY_FINISHED)
    ranges |= {one.added.segment_id: range_of(one.added) for one in finished}
    runs = overlapping((bounds, segment_id) for segment_id, bounds in ranges.items())
    return frozenset(segment_id for run in runs if len(run) > 1 for _, segment_id in run)


def lost_offsets(look: Look, fold: PartitionFold) -> tuple[OffsetRange, ...]:
    """The offsets that look-ups found at the look, or that are live and finished, and now do not.

    `fold`: after events that followed the look.
    """
    live = [
        range_of(one.added)
        for segment_id, one in fold.segments.items()
        if segment_id in look.live_ids and one.state is SegmentState.COPY_FINISHED
    ]
    return _not_found(look, fold, live)


def hidden_offsets(look: Look, fold: PartitionFold) -> tuple[OffsetRange, ...]:
    """The offsets that look-ups found at the look, and now do not; `fold`: as of `lost_offsets`."""
    return _not_found(look, fold, ())


def _not_found(
    look: Look, fold: PartitionFold, ranges: Sequence[OffsetRange]
) -> tuple[OffsetRange, ...]:
    """Of these ranges, and of what look-ups found at the look, what they do not find now."""
    ends = [*(last for _, last in ranges), *(one.added.end_offset for one in look.finished)]
    bounds = OffsetRange(look.log_start, max(ends, default=-1))
    before = ranges_found(PartitionFold.resumed(look.view), look.lineage, bounds)
    in_log = (OffsetRange(max(first, bounds.first), last) for first, last in ranges)
    return without(joined([*before, *in_log]), ranges_found(fold, look.lineage, bounds))


def finished_event(look: Look, added: SegmentAdded) -> SegmentUpdated:
    """The event that finishes a segment; it repeats what the plugin noted since."""
    known = look.view.segments.get(added.segment_id)
    return SegmentUpdated(
        added.key,
        added.segment_id,
        NO_BROKER,
        look.now_ms,
        added.custom_metadata if known is None else known.custom_metadata,
        SegmentState.COPY_FINISHED,
    )

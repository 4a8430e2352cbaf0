"""In which order the events of one batch leave no offset without a segment.

Brokers take a batch event by event, and readers may come between any two. So every prefix is folded
as brokers fold it: none may lose an offset that was found before, and the whole batch must find
every offset of its group. The order is found, not assumed:

    in turn       a replacement, then what ends within it, ascending; then the next replacement
    descending    where a source holds a whole replacement, in any leader epoch, and ends beyond it:
                  all replacements that such sources join go first, the last one first
    of a restore  all replacements go first, the last one first: tombstones are back before the
                  values that they hide

Rule: SWAP.md 1 (`trial_in_turn.py`, `trial_split.py`); PUBLISHING 3.3, 3.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, TypeVar

from tierfold.compaction.brokers.broker_view import BrokerSegment
from tierfold.compaction.brokers.cluster_configs import Configs, number_in
from tierfold.compaction.brokers.event_bytes import encode
from tierfold.compaction.brokers.events import Event, SegmentState, SegmentUpdated
from tierfold.compaction.brokers.partition_fold import PartitionFold
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.model.units import OFFSET_MAX
from tierfold.compaction.publishing.look import BATCH_BYTES_MAX, Look
from tierfold.compaction.publishing.ranges import (
    OffsetRange,
    joined,
    range_of,
    ranges_found,
    without,
)
from tierfold.compaction.publishing.replacements import NO_BROKER, update_event

_RECORD_BYTES_MAX: Final = 32
"""The most that a record adds to its value: a length, deltas, no key, no headers."""
_BATCH_BYTES: Final = 61
_NOTED_BYTES_MAX: Final = 128
"""The most that a plugin may note of a segment, by the default of
`remote.log.metadata.custom.metadata.max.bytes`."""


def swap_batch(
    look: Look,
    new: Sequence[BrokerSegment],
    old: Sequence[BrokerSegment],
    *,
    descends: bool = False,
) -> tuple[SegmentUpdated, ...] | None:
    """The events of a group's second send, as far as they fit into one batch; None: no order does.

    `new`: replacements that are started or finished, by start offset; `old`: what is to be listed
    for deletion, by start offset; `descends`: whether a restore brings the group back.
    """
    orders: list[Sequence[Sequence[BrokerSegment]]] = [[new]] if descends else []
    for ordered in (*orders, [[segment] for segment in new], list(clusters(new, old))):
        events = _events(look, ordered, old)
        # What brokers read already is left out where not all fits, so that each batch brings some
        # of the rest, and where to finish it once more would hide another segment.
        for chosen in (events, tuple(one for one in events if not _is_repeated(look, one))):
            batch = fitting(chosen, look.limits.batch_bytes_max)
            is_whole = len(batch) == len(chosen)
            if chosen is events and not is_whole:
                continue
            expected = (*new, *_finished(old)) if is_whole else ()
            if batch and _is_safe(look, batch, expected):
                return batch
    return None


def _is_repeated(look: Look, event: SegmentUpdated) -> bool:
    return look.state_of(event.segment_id) is event.state


def _is_safe(
    look: Look, events: Sequence[SegmentUpdated], expected: Sequence[BrokerSegment]
) -> bool:
    """Whether no event loses an offset that was found, and `expected` are found at the end."""
    segments = [look.view.segments[event.segment_id].added for event in events]
    start = max(look.log_start, min(one.start_offset for one in segments))
    end = max(one.end_offset for one in segments)
    reached = [one.added.end_offset for one in look.finished if one.added.start_offset <= end]
    bounds = OffsetRange(start, max([end, *reached]))
    fold = PartitionFold.resumed(look.view)
    before = ranges_found(fold, look.lineage, bounds)
    for event, added in zip(events, segments, strict=True):
        fold.apply(event, look.now_ms)
        # One that is finished may hide others, beyond its end too. What is listed was found only in
        # its own range, so a batch of thousands is not looked up again for each.
        is_listed = event.state is SegmentState.DELETE_STARTED
        part = range_of(added) if is_listed else bounds
        if without(_within(before, part), ranges_found(fold, look.lineage, part)):
            return False
    after = ranges_found(fold, look.lineage, bounds)
    group = joined(
        OffsetRange(max(start, segment.added.start_offset), segment.added.end_offset)
        for segment in expected
        if look.is_of_log(segment.added)
    )
    return not without(group, after)


def _within(ranges: Sequence[OffsetRange], bounds: OffsetRange) -> tuple[OffsetRange, ...]:
    return tuple(
        OffsetRange(max(one.first, bounds.first), min(one.last, bounds.last))
        for one in ranges
        if one.overlaps(bounds)
    )


_AnEvent = TypeVar("_AnEvent", bound=Event)


def fitting(events: Sequence[_AnEvent], batch_bytes_max: int) -> tuple[_AnEvent, ...]:
    """As many of the events, from the first on, as one batch holds."""
    sizes = accumulate(len(encode(event)) + _RECORD_BYTES_MAX for event in events)
    count = sum(_BATCH_BYTES + size <= batch_bytes_max for size in sizes)
    return tuple(events[:count])


def sources_max(key: PartitionKey) -> int:
    """How many sources a planned group has at most: their events fill a quarter of a batch.

    Whatever else shares offsets with the group by the time it is sent needs room, too.
    """
    replacement = 1
    return updates_max(key, BATCH_BYTES_MAX // 4) - replacement


def updates_max(key: PartitionKey, bytes_max: int) -> int:
    """How many segments a batch of that size gives another state, whatever a plugin noted."""
    noted = bytes(_NOTED_BYTES_MAX)
    event = SegmentUpdated(key, "A" * 22, NO_BROKER, 0, noted, SegmentState.DELETE_STARTED)
    event_bytes = len(encode(event)) + _RECORD_BYTES_MAX
    return (bytes_max - _BATCH_BYTES) // event_bytes


def batch_bytes_max(metadata_configs: Configs) -> int:
    """The bytes of a record batch that the metadata topic takes: `max.message.bytes`, or less.

    Raises UnreadableObject if brokers answer no number for it.
    """
    limit = number_in(metadata_configs, "max.message.bytes")
    return BATCH_BYTES_MAX if limit is None else min(limit, BATCH_BYTES_MAX)


def batch_bytes(values: Iterable[bytes]) -> int:
    """The most bytes that a record batch of these values has."""
    return _BATCH_BYTES + sum(len(value) + _RECORD_BYTES_MAX for value in values)


def _finished(segments: Sequence[BrokerSegment]) -> Iterator[BrokerSegment]:
    return (one for one in segments if one.state is SegmentState.COPY_FINISHED)


def _events(
    look: Look, clusters: Sequence[Sequence[BrokerSegment]], old: Sequence[BrokerSegment]
) -> tuple[SegmentUpdated, ...]:
    """The replacements of a cluster, the last one first, then the sources that end within it."""
    events: list[SegmentUpdated] = []
    left = list(old)
    for cluster in clusters:
        end = max(segment.added.end_offset for segment in cluster)
        events += [
            update_event(segment, SegmentState.COPY_FINISHED, look.now_ms)
            for segment in reversed(cluster)
        ]
        events += [
            update_event(segment, SegmentState.DELETE_STARTED, look.now_ms)
            for segment in left
            if segment.added.end_offset <= end
        ]
        left = [segment for segment in left if segment.added.end_offset > end]
    events += [update_event(one, SegmentState.DELETE_STARTED, look.now_ms) for one in left]
    return tuple(events)


def clusters(
    new: Sequence[BrokerSegment], old: Sequence[BrokerSegment]
) -> Iterator[list[BrokerSegment]]:
    """Replacements that must be finished together, by start offset."""
    cluster: list[BrokerSegment] = []
    for segment in new:
        if cluster and not any(_crosses(source, cluster[-1], segment) for source in old):
            yield from _as_needed(cluster, old)
            cluster = []
        cluster.append(segment)
    yield from _as_needed(cluster, old)


def _as_needed(
    cluster: list[BrokerSegment], old: Sequence[BrokerSegment]
) -> Iterator[list[BrokerSegment]]:
    """The cluster, or its replacements one by one, where no source holds one of them."""
    if any(_holds(source, segment) for source in old for segment in cluster):
        yield cluster
    else:
        yield from ([segment] for segment in cluster)


def _crosses(source: BrokerSegment, left: BrokerSegment, right: BrokerSegment) -> bool:
    bounds = range_of(source.added)
    return bounds.overlaps(range_of(left.added)) and bounds.overlaps(range_of(right.added))


def _holds(source: BrokerSegment, segment: BrokerSegment) -> bool:
    """Whether the source ends beyond a replacement that begins in it, in any leader epoch.

    Once that is finished, look-ups behind it no longer find the source.
    """
    starts = {entry.epoch: entry.start_offset for entry in source.added.leader_epochs}
    return source.added.end_offset > segment.added.end_offset and any(
        starts.get(entry.epoch, OFFSET_MAX) <= entry.start_offset
        for entry in segment.added.leader_epochs
    )

"""What one broker makes of the events in `__remote_log_metadata`, written from Kafka's own rules.

It shares no code with the product, which folds the same events (`compaction.brokers`).

Rule: Kafka `RemoteLogMetadataCache` and `RemoteLogLeaderEpochState`; SWAP.md 1 and 2.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tierfold.compaction.brokers.events import Event, SegmentAdded, SegmentState

STARTED, FINISHED, LISTED, GONE = SegmentState

_VALID: Final = {
    (None, STARTED),
    (STARTED, STARTED),
    (STARTED, FINISHED),
    (STARTED, LISTED),
    (FINISHED, FINISHED),
    (FINISHED, LISTED),
    (LISTED, LISTED),
    (LISTED, GONE),
}

Lineage: TypeAlias = list[tuple[int, int]]
"""Leader epochs and their first offsets, ascending."""


@dataclass(slots=True)
class CachedSegment:
    """A segment that a broker knows, and its ranges: leader epoch, first and last offset."""

    added: SegmentAdded
    state: SegmentState
    ranges: tuple[tuple[int, int, int], ...]

    @property
    def segment_id(self) -> str:
        """Its id."""
        return self.added.segment_id


@dataclass(slots=True)
class _EpochCache:
    referenced: dict[int, str] = field(default_factory=dict)
    """First offset → segment id: where look-ups go."""
    unreferenced: set[str] = field(default_factory=set)
    highest: int = -1
    """The highest offset that a finished segment ever had; it never falls."""
    _starts: list[int] | None = None

    @property
    def starts(self) -> list[int]:
        """The first offsets of what look-ups find, ascending."""
        if self._starts is None:
            self._starts = sorted(self.referenced)
        return self._starts

    def floor(self, offset: int) -> str | None:
        """The id of the segment with the highest first offset at or below this one."""
        place = bisect_right(self.starts, offset)
        return self.referenced[self.starts[place - 1]] if place else None

    def finish(self, segment_id: str, first: int, last: int) -> None:
        if last >= self.highest:
            for start in [start for start in self.referenced if start >= first]:
                self.unreferenced.add(self.referenced.pop(start))
            self.highest = last
        self.referenced[first] = segment_id
        self.unreferenced.discard(segment_id)
        self._starts = None

    def list_for_deletion(self, segment_id: str, first: int) -> None:
        if self.referenced.get(first) == segment_id:
            del self.referenced[first]
            self._starts = None
        self.unreferenced.add(segment_id)


@dataclass(slots=True)
class MetadataCache:
    """The state of one partition after the events so far."""

    segments: dict[str, CachedSegment] = field(default_factory=dict)
    """By id; those that are gone are not in it."""
    named: set[str] = field(default_factory=set)
    """All ids that were ever started."""
    listed_ever: set[str] = field(default_factory=set)
    """All ids that were ever listed for deletion."""
    _epochs: dict[int, _EpochCache] = field(default_factory=dict)

    def apply(self, event: Event) -> bool:
        """Apply one event; return False if it is dropped, with a line in the broker's log."""
        segment_id = event.segment_id
        known = self.segments.get(segment_id)
        state = STARTED if isinstance(event, SegmentAdded) else event.state
        if (None if known is None else known.state, state) not in _VALID:
            return False
        if known is None and not isinstance(event, SegmentAdded):
            return False  # An update of a segment that the broker does not know.
        if isinstance(event, SegmentAdded):
            self.named.add(segment_id)
            self.segments[segment_id] = known = CachedSegment(event, STARTED, _ranges(event))
            for epoch, _, _ in known.ranges:
                self._epoch(epoch).unreferenced.add(segment_id)
            return True
        assert known is not None
        known.state = state
        for epoch, first, last in known.ranges:
            if state is FINISHED:
                self._epoch(epoch).finish(segment_id, first, last)
            elif state is LISTED:
                self._epoch(epoch).list_for_deletion(segment_id, first)
            else:
                self._epoch(epoch).unreferenced.discard(segment_id)
        if state is LISTED:
            self.listed_ever.add(segment_id)
        if state is GONE:
            del self.segments[segment_id]
        return True

    def found(self, epoch: int, offset: int) -> CachedSegment | None:
        """The segment that serves an offset of a leader epoch; None: out of range."""
        cache = self._epochs.get(epoch)
        segment_id = None if cache is None else cache.floor(offset)
        if segment_id is None:
            return None
        segment = self.segments[segment_id]
        last = next(last for of_epoch, _, last in segment.ranges if of_epoch == epoch)
        return segment if offset <= last else None

    def all_found(self, lineage: Lineage, offsets: range) -> dict[int, CachedSegment]:
        """The segment that serves each of these offsets, without those out of range."""
        found: dict[int, CachedSegment] = {}
        ends = [first for _, first in lineage[1:]] + [offsets.stop]
        for (epoch, first), beyond in zip(lineage, ends, strict=True):
            cache = self._epochs.get(epoch)
            starts = [] if cache is None else cache.starts
            for start, next_start in zip(starts, [*starts[1:], offsets.stop], strict=False):
                assert cache is not None
                segment = self.segments[cache.referenced[start]]
                last = next(last for of_epoch, _, last in segment.ranges if of_epoch == epoch)
                low = max(start, first, offsets.start)
                high = min(last + 1, next_start, beyond, offsets.stop)
                found.update(dict.fromkeys(range(low, high), segment))
        return found

    def in_state(self, *states: SegmentState) -> Iterator[CachedSegment]:
        """The segments in one of these states, by start offset."""
        among = (segment for segment in self.segments.values() if segment.state in states)
        return iter(sorted(among, key=lambda one: (one.added.start_offset, one.segment_id)))

    def highest_offset(self, lineage: Lineage) -> int:
        """The last offset that a leader takes for tiered (`findHighestRemoteOffset`)."""
        beyond = None
        for epoch, first in reversed(lineage):
            cache = self._epochs.get(epoch)
            if cache is not None and cache.highest >= first:
                return cache.highest if beyond is None else min(cache.highest, beyond - 1)
            beyond = first
        return -1

    def first_at_the_head(self, epochs: Iterable[int], log_start: int) -> CachedSegment | None:
        """What the expiry task deletes next because it is listed, from Kafka 4.0 on.

        Per epoch it walks over the segments by start offset, up to the first finished one. Whether
        one that is only started stops it too was not tried, so here it does not.
        """
        for epoch in epochs:
            cache = self._epochs.get(epoch)
            if cache is None:
                continue
            # Of those with the same start, the one that look-ups find comes first.
            ids = (*cache.referenced.values(), *sorted(cache.unreferenced))
            known = [self.segments[segment_id] for segment_id in ids]
            for segment in sorted(known, key=lambda one: one.added.start_offset):
                if segment.state is LISTED:
                    return segment
                if segment.state is FINISHED and segment.added.end_offset >= log_start:
                    return None
        return None

    def _epoch(self, epoch: int) -> _EpochCache:
        return self._epochs.setdefault(epoch, _EpochCache())


def epoch_at(lineage: Lineage, offset: int) -> int:
    """The leader epoch in which an offset was written; the first one below its start."""
    return next((epoch for epoch, first in reversed(lineage) if first <= offset), lineage[0][0])


def _ranges(added: SegmentAdded) -> tuple[tuple[int, int, int], ...]:
    entries = added.leader_epochs
    ends = [entry.start_offset - 1 for entry in entries[1:]] + [added.end_offset]
    return tuple(
        (entry.epoch, entry.start_offset, end) for entry, end in zip(entries, ends, strict=True)
    )

"""The events of one partition, folded as a broker's cache folds them.

Rule: Kafka 4.4 `RemoteLogMetadataCache`, `RemoteLogLeaderEpochState` and `RemoteLogSegmentState`.
A segment's look-ups are kept per leader epoch: each epoch has one segment for each first offset.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Final

from tierfold.compaction.brokers.broker_view import BrokerSegment, BrokerView, Reference
from tierfold.compaction.brokers.events import Event, SegmentAdded, SegmentState, SegmentUpdated
from tierfold.compaction.model.segments import LeaderEpoch


class Taken(StrEnum):
    """What an event does to a broker that has the partition."""

    APPLIED = "applied"
    DROPPED = "dropped"
    """The segment's state does not allow it, or the segment is unknown."""
    STOPS_BROKERS = "stops brokers"
    """Its metadata consumer ends with an error."""


_STARTED, _FINISHED, _LISTED, _GONE = SegmentState
_NEXT_STATES: Final[tuple[tuple[SegmentState, ...], ...]] = (
    (_FINISHED, _LISTED),
    (_FINISHED, _LISTED),
    (_LISTED, _GONE),
)
"""By a segment's state, those that an update may give it."""


class PartitionFold:
    """What a broker has of one partition after the events so far."""

    def __init__(self) -> None:
        self._segments: dict[str, BrokerSegment] = {}
        self._epochs: dict[int, _EpochFold] = {}

    @classmethod
    def resumed(cls, view: BrokerView) -> PartitionFold:
        """The fold that the view is of; what it folds from now on leaves the view alone."""
        fold = cls()
        fold._segments = dict(view.segments)
        fold._epochs = {
            epoch: _EpochFold.resumed(
                references, view.unreferenced[epoch], view.highest_offsets.get(epoch)
            )
            for epoch, references in view.references.items()
        }
        return fold

    def copied(self) -> PartitionFold:
        """Another fold of the same events, which goes on by itself."""
        fold = PartitionFold()
        fold._segments = dict(self._segments)
        fold._epochs = {
            epoch: _EpochFold.resumed(
                of_epoch.references(), of_epoch.unreferenced, of_epoch.highest_offset
            )
            for epoch, of_epoch in self._epochs.items()
        }
        return fold

    @property
    def segments(self) -> Mapping[str, BrokerSegment]:
        """The segments that are not gone, by id; it changes with the next event."""
        return self._segments

    def references(self) -> dict[int, tuple[Reference, ...]]:
        """By leader epoch: the segments that look-ups find, ascending by start offset."""
        return {epoch: fold.references() for epoch, fold in self._epochs.items()}

    def references_in(self, epoch: int, first: int, last: int) -> list[Reference]:
        """What look-ups of these offsets, both inclusive, find in an epoch, and the next one."""
        fold = self._epochs.get(epoch)
        return [] if fold is None else fold.references_in(first, last)

    def unreferenced(self) -> dict[int, frozenset[str]]:
        """By leader epoch: ids of the segments that brokers list and no look-up finds."""
        return {epoch: frozenset(fold.unreferenced) for epoch, fold in self._epochs.items()}

    def highest_offsets(self) -> dict[int, int]:
        """By leader epoch: the highest offset of all segments that were ever finished in it."""
        return {
            epoch: fold.highest_offset
            for epoch, fold in self._epochs.items()
            if fold.highest_offset is not None
        }

    def apply(self, event: Event, timestamp_ms: int) -> Taken:
        """Fold one event; the timestamp is its record's."""
        if isinstance(event, SegmentAdded):
            return self._add(event, timestamp_ms)
        return self._update(event, timestamp_ms)

    def _add(self, event: SegmentAdded, timestamp_ms: int) -> Taken:
        segment_id = event.segment_id
        known = self._segments.get(segment_id)
        if known is not None and known.state != _STARTED:
            return Taken.DROPPED
        for entry in event.leader_epochs:
            self._epoch(entry).unreferenced.add(segment_id)
        self._segments[segment_id] = BrokerSegment(
            event, _STARTED, event.custom_metadata, timestamp_ms
        )
        return Taken.APPLIED

    def _update(self, event: SegmentUpdated, timestamp_ms: int) -> Taken:
        segment_id, state = event.segment_id, event.state
        known = self._segments.get(segment_id)
        if known is None:
            return Taken.DROPPED
        if known.state == state == _STARTED:
            return Taken.STOPS_BROKERS
        if state not in _NEXT_STATES[known.state]:
            return Taken.DROPPED
        added = known.added
        if state == _FINISHED:
            for entry, end_offset in added.ranges():
                self._epoch(entry).finish(entry.start_offset, segment_id, end_offset)
        elif state == _LISTED:
            for entry in added.leader_epochs:
                self._epoch(entry).start_deletion(entry.start_offset, segment_id)
        else:
            for entry in added.leader_epochs:
                self._epoch(entry).unreferenced.discard(segment_id)
            del self._segments[segment_id]
            return Taken.APPLIED
        self._segments[segment_id] = BrokerSegment(
            added, state, event.custom_metadata, timestamp_ms
        )
        return Taken.APPLIED

    def _epoch(self, entry: LeaderEpoch) -> _EpochFold:
        fold = self._epochs.get(entry.epoch)
        if fold is None:
            fold = self._epochs[entry.epoch] = _EpochFold()
        return fold


class _EpochFold:
    """What look-ups find in one leader epoch."""

    __slots__ = ("_ids", "_starts", "highest_offset", "unreferenced")

    def __init__(self) -> None:
        self._starts: list[int] = []
        """The first offsets of the segments that look-ups find, ascending."""
        self._ids: dict[int, str] = {}
        """Their ids, by first offset."""
        self.highest_offset: int | None = None
        """The highest offset of all segments that were ever finished in the epoch."""
        self.unreferenced: set[str] = set()

    @classmethod
    def resumed(
        cls,
        references: Collection[Reference],
        unreferenced: Iterable[str],
        highest_offset: int | None,
    ) -> _EpochFold:
        fold = cls()
        fold._starts = [reference.start_offset for reference in references]
        fold._ids = {reference.start_offset: reference.segment_id for reference in references}
        fold.unreferenced = set(unreferenced)
        fold.highest_offset = highest_offset
        return fold

    def references(self) -> tuple[Reference, ...]:
        return tuple(Reference(start, self._ids[start]) for start in self._starts)

    def references_in(self, first: int, last: int) -> list[Reference]:
        begin = max(bisect_right(self._starts, first) - 1, 0)
        end = bisect_right(self._starts, last) + 1
        return [Reference(start, self._ids[start]) for start in self._starts[begin:end]]

    def finish(self, start_offset: int, segment_id: str, end_offset: int) -> None:
        """Let look-ups find a segment, in place of those behind its start that it ends beyond."""
        starts, ids = self._starts, self._ids
        if self.highest_offset is None or end_offset >= self.highest_offset:
            while starts and starts[-1] >= start_offset:
                self.unreferenced.add(ids.pop(starts.pop()))
            self.highest_offset = end_offset
        if start_offset not in ids:
            insort(starts, start_offset)
        ids[start_offset] = segment_id
        self.unreferenced.discard(segment_id)

    def start_deletion(self, start_offset: int, segment_id: str) -> None:
        """Let look-ups find the segment no longer."""
        if self._ids.get(start_offset) == segment_id:
            del self._ids[start_offset]
            del self._starts[bisect_left(self._starts, start_offset)]
        self.unreferenced.add(segment_id)

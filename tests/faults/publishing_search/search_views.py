"""What brokers have of the partition, by the product's own fold: one object for each content.

Times are ages in halves of the grace period. Only a deletion and a segment that is not finished
have one: nothing is decided by the age of anything else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from tests.compaction.builders import KEY
from tests.compaction.looks import NOW_MS, given, started
from tests.faults.publishing_search.search_segments import (
    BY_ID,
    HALF_GRACE_MS,
    OLD,
    Stored,
    segment_of,
)
from tierfold.compaction.brokers.broker_view import BrokerSegment, BrokerView
from tierfold.compaction.brokers.events import Event, SegmentAdded, SegmentState
from tierfold.compaction.brokers.partition_fold import PartitionFold, Taken
from tierfold.compaction.model.segments import LeaderEpoch


@dataclass(frozen=True, slots=True, eq=False)
class Sent:
    """An event of the metadata topic."""

    event: Event

    @property
    def segment(self) -> Stored:
        """The segment that it is about."""
        return BY_ID[self.event.segment_id]

    def __str__(self) -> str:
        event = self.event
        state = SegmentState.COPY_STARTED if isinstance(event, SegmentAdded) else event.state
        return f"{state.name}({self.segment})"


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """What brokers have after some events."""

    broker: BrokerView
    named: frozenset[str]
    """The ids of all segments that were ever named."""
    stops: bool
    """Whether an event stopped the broker's metadata consumer."""

    def state_of(self, segment: Stored) -> SegmentState | None:
        """The segment's state; None: brokers do not have it."""
        known = self.broker.segments.get(segment.segment_id)
        return None if known is None else known.state

    def in_state(self, state: SegmentState) -> tuple[Stored, ...]:
        """The segments in a state, by start offset."""
        return tuple(BY_ID[one.added.segment_id] for one in self.broker.in_state(state))


@cache
def sent(event: Event) -> Sent:
    """The one object of this event."""
    return Sent(event)


@cache
def started_of(segment: Stored) -> Sent:
    """What a broker writes when it begins to upload a segment."""
    return sent(started(segment_of(segment, segment.start)))


@cache
def given_to(segment: Stored, state: SegmentState) -> Sent:
    """What gives a segment another state."""
    return sent(given(segment_of(segment, segment.start), state))


@cache
def after(view: View, message: Sent, age: int) -> View:
    """The view after one more event."""
    fold = PartitionFold.resumed(view.broker)
    taken = fold.apply(message.event, NOW_MS - age * HALF_GRACE_MS)
    its_id = message.event.segment_id
    is_known = taken is not Taken.DROPPED or its_id in fold.segments
    named = view.named | {its_id} if is_known else view.named
    return _view(fold, named, view.stops or taken is Taken.STOPS_BROKERS)


def after_all(view: View, pending: Iterable[tuple[Sent, int]]) -> View:
    """The view after these events."""
    for message, age in pending:
        view = after(view, message, age)
    return view


@cache
def older(view: View) -> View:
    """The view half a grace period later."""
    fold = PartitionFold.resumed(view.broker)
    aged = {
        its_id: one._replace(since_ms=one.since_ms - HALF_GRACE_MS)
        for its_id, one in fold.segments.items()
    }
    return _view(PartitionFold.resumed(_broker_view(fold, aged)), view.named, view.stops)


def _view(fold: PartitionFold, named: frozenset[str], stops: bool) -> View:
    segments = {its_id: _with_an_age(one) for its_id, one in sorted(fold.segments.items())}
    broker = _broker_view(fold, segments)
    key = (
        tuple((one.added, one.state, one.since_ms) for one in segments.values()),
        tuple(sorted(broker.references.items())),
        tuple(sorted(broker.unreferenced.items())),
        tuple(sorted(broker.highest_offsets.items())),
        named,
        stops,
    )
    return _VIEWS.setdefault(key, View(broker, named, stops))


_VIEWS: Final[dict[tuple[Any, ...], View]] = {}


def _with_an_age(segment: BrokerSegment) -> BrokerSegment:
    oldest = NOW_MS - OLD * HALF_GRACE_MS
    is_finished = segment.state is SegmentState.COPY_FINISHED
    return segment._replace(since_ms=oldest if is_finished else max(segment.since_ms, oldest))


def _broker_view(fold: PartitionFold, segments: dict[str, BrokerSegment]) -> BrokerView:
    return BrokerView(
        key=KEY,
        segments=segments,
        references=fold.references(),
        unreferenced=fold.unreferenced(),
        highest_offsets=fold.highest_offsets(),
        last_offset=None,
        last_timestamp_ms=None,
        read_only=(),
    )


NOTHING: Final = _view(PartitionFold(), frozenset(), stops=False)
"""Brokers have nothing."""


def deleted_next(view: View, log_start: int, lineage: Iterable[LeaderEpoch]) -> Stored | None:
    """The segment in DELETE_STARTED that the expiry task deletes next; None: there is none.

    From Kafka 4.0 on it walks in each epoch over the segments by start offset, those first that
    look-ups find, up to the first that readers need (SWAP.md 1).
    """
    for entry in lineage:
        found = [one.segment_id for one in view.broker.references.get(entry.epoch, ())]
        found += sorted(view.broker.unreferenced.get(entry.epoch, ()))
        for segment in sorted((BY_ID[its_id] for its_id in found), key=lambda one: one.start):
            state = view.state_of(segment)
            if state is SegmentState.DELETE_STARTED:
                return segment
            if state is SegmentState.COPY_FINISHED and segment.end >= log_start:
                break
    return None

"""A metadata topic that is lost, what brokers do then, and what a rebuild decides from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.faults.publishing_search.search_readers import TheLog, is_read, tiered_end_of
from tests.faults.publishing_search.search_segments import Row, Stored, in_order
from tests.faults.publishing_search.search_state import (
    Loss,
    Mistake,
    Next,
    Scenario,
    State,
)
from tests.faults.publishing_search.search_views import NOTHING, View
from tierfold.compaction.brokers.events import SegmentState


class Ground(NamedTuple):
    """What a rebuild takes as the log: the row and the listing say it, and brokers do not."""

    row: Row
    """With the uploads that end beyond its live segments."""
    covered: tuple[Stored, ...]
    """The uploads of which live segments have all offsets."""


def ground_of(row: Row, store: frozenset[Stored], log_start: int) -> Ground:
    """The ground of a partition, as the product's discovery without brokers finds it."""
    live = [one for one in row.live if one.end >= log_start or one in store]
    covered = []
    end = max((one.end for one in live), default=-1)
    for upload in sorted(_unnamed_uploads(row, store), key=lambda one: (one.end, one.start)):
        if upload.end > end:
            live.append(upload)
            end = upload.end
        elif upload.end >= log_start:
            covered.append(upload)
    return Ground(row.with_live(in_order(live)), in_order(covered))


def _unnamed_uploads(row: Row, store: frozenset[Stored]) -> Iterator[Stored]:
    named = row.gone.union(row.live)
    return (one for one in store if one.is_upload and not one.is_diverged and one not in named)


def lacks_names(row: Row, view: View, store: frozenset[Stored], log_start: int) -> bool:
    """Whether there are whole uploads that neither the row nor the topic names."""
    return any(
        one.segment_id not in view.named and one.end >= log_start
        for one in _unnamed_uploads(row, store)
    )


def is_due(state: State) -> bool:
    """Whether other verbs than a rebuild refuse: by what the row notes, or by an upload."""
    return state.topic.is_lost or lacks_names(
        state.row, state.view, state.store, state.log_start
    )


def noted(state: State) -> State:
    """The state after the row's note that all is named again."""
    if not state.topic.is_lost:
        return state
    topic = state.topic._replace(is_lost=False, tiered_end=-1)
    return state._replace(row=state.row.rebuilt(), topic=topic)


def with_all_read(state: State) -> State:
    """The state, without a gap if brokers have just what the topic says."""
    topic = state.topic
    has_all = state.applied is state.view and state.second in {None, state.view}
    if not topic.has_gap or topic.is_lost or not has_all:
        return state
    return state._replace(topic=topic._replace(has_gap=False))


def is_served(log: TheLog, state: State) -> bool:
    """Whether a consumer gets a record at the log start."""
    at = (state.store, state.log_start, state.topic.tiered_end)
    return is_read(log, state.applied, *at)


def known_by_brokers(state: State, segment: Stored) -> SegmentState | None:
    """What brokers have of a segment; after a loss, from memory what the topic does not say."""
    known = state.view.state_of(segment)
    is_named = segment.segment_id in state.view.named
    if is_named or not state.topic.was_lost or state.topic.is_unread:
        return known
    is_on_its_way = any(event.segment is segment for event, _ in state.pending)
    known = state.applied.state_of(segment)
    is_gone = known is SegmentState.DELETE_STARTED and segment not in state.store
    return None if is_on_its_way or is_gone else known


class Losses(NamedTuple):
    """What may become of the metadata topic in one scenario."""

    scenario: Scenario
    mistakes: frozenset[Mistake]

    def steps(self, state: State) -> Iterator[Next]:
        """The topic is lost; a person stops the copying; brokers restart where it is safe."""
        topic = state.topic
        if topic.may_be_lost:
            yield self._lost(state)
        if not topic.was_lost:
            return
        if self.scenario.stops_copying and topic.is_lost and topic.is_copying:
            yield (
                ("copying is stopped", ()),
                state._replace(topic=topic._replace(is_copying=False)),
            )
        if not (topic.is_lost or topic.is_copying):
            yield ("copying goes on", ()), state._replace(topic=topic._replace(is_copying=True))
        is_safe = not topic.is_copying if topic.is_lost else not is_due(state)
        if is_safe or Mistake.RESTARTS_EARLY in self.mistakes:
            yield from self._restarts(state)

    def _lost(self, state: State) -> Next:
        is_unread = self.scenario.loss is Loss.CREATED_AGAIN
        topic = state.topic._replace(
            may_be_lost=False,
            was_lost=True,
            is_lost=True,
            is_unread=is_unread,
            has_gap=bool(state.pending or state.second_pending),
        )
        lost = state._replace(view=NOTHING, pending=(), second_pending=(), topic=topic)
        return ("the metadata topic is lost", ()), lost

    def _restarts(self, state: State) -> Iterator[Next]:
        topic = state.topic
        if topic.is_lost:
            end = max(topic.tiered_end, tiered_end_of(self.scenario.log, state.applied))
            topic = topic._replace(tiered_end=end)
        if state.second is None:
            # Only where there is one broker, it reads from then on all that is written.
            topic = topic._replace(is_unread=False)
        elif state.second is not state.view or state.second_pending:
            again = state._replace(second=state.view, second_pending=(), topic=topic)
            yield ("the second broker restarts", ()), with_all_read(again)
        if state.applied is not state.view or state.pending or topic != state.topic:
            again = state._replace(applied=state.view, pending=(), topic=topic)
            yield ("the broker restarts", ()), with_all_read(again)

"""What the topic, the broker, its leaders, an administrator and the clock do by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.compaction.looks import LIMITS, NOW_MS
from tests.faults.publishing_search.search_readers import read_on
from tests.faults.publishing_search.search_rebuild import Losses, known_by_brokers, with_all_read
from tests.faults.publishing_search.search_segments import OLD, Stored
from tests.faults.publishing_search.search_state import (
    Message,
    Mistake,
    Next,
    Reading,
    Scenario,
    State,
    Step,
)
from tests.faults.publishing_search.search_views import (
    Sent,
    after,
    deleted_next,
    given_to,
    older,
    started_of,
)
from tierfold.compaction.brokers.events import SegmentState

_STARTED, _FINISHED, _LISTED, _GONE = SegmentState


@dataclass(frozen=True, slots=True)
class Surroundings:
    """All but the runs."""

    scenario: Scenario
    mistakes: frozenset[Mistake]

    def steps(self, state: State) -> Iterator[Next]:
        """What may happen next."""
        yield from _arrivals(state)
        if state.pending:
            (event, age), *rest = state.pending
            applied = after(state.applied, event, age)
            yield (
                ("the broker applies", (event,)),
                with_all_read(state._replace(applied=applied, pending=tuple(rest))),
            )
        if state.second is not None and state.second_pending:
            (event, age), *rest = state.second_pending
            second = after(state.second, event, age)
            yield (
                ("the second broker applies", (event,)),
                with_all_read(state._replace(second=second, second_pending=tuple(rest))),
            )
        if state.topic.is_copying:
            yield from self._of_the_broker(state)
            yield from _uploads(state)
        yield from Losses(self.scenario, self.mistakes).steps(state)
        for start in self.scenario.log_starts:
            if start > state.log_start:
                yield (f"DeleteRecords to {start}", ()), state._replace(log_start=start)
        yield from _strays(state)
        if self.scenario.has_reader:
            yield from self._reading(state)
        if self.scenario.passes_time:
            yield from self._time(state)

    def _reading(self, state: State) -> Iterator[Next]:
        """A consumer reads the next segment, from a broker that may lag."""
        log, reader = self.scenario.log, state.reader
        if reader.next_offset > log.records[-1].offset:
            return
        answer = read_on(log, state.applied, state.store, reader.next_offset)
        if not isinstance(answer, str):
            records, last = answer
            values = dict(reader.values) | {record.key: record.value for record in records}
            read = Reading(last + 1, tuple(sorted(values.items())))
            yield (f"a consumer reads to {last}", ()), state._replace(reader=read)

    def _of_the_broker(self, state: State) -> Iterator[Next]:
        """What it deletes, by what it has read of the topic."""
        for segment in state.applied.in_state(_LISTED):
            if segment.end < state.log_start and known_by_brokers(state, segment) is _LISTED:
                yield _deleted(state, segment)
        for its_state in (_STARTED, _FINISHED):
            for segment in state.applied.in_state(its_state):
                known = known_by_brokers(state, segment)
                if segment.end < state.log_start and known in {_STARTED, _FINISHED}:
                    yield (
                        ("the broker lists", (segment,)),
                        state.written([given_to(segment, _LISTED)]),
                    )
        at_the_head = deleted_next(state.applied, state.log_start, self.scenario.log.lineage)
        if at_the_head is not None and known_by_brokers(state, at_the_head) is _LISTED:
            yield _deleted(state, at_the_head)

    def _time(self, state: State) -> Iterator[Next]:
        """Half a grace period passes; a send that is later than that is refused."""
        unread = (*state.pending, *state.second_pending)
        if any(age + 1 >= OLD for _, age in unread) and Mistake.LAGS not in self.mistakes:
            return
        late = Mistake.SENDS_LATE in self.mistakes
        aged = [one._replace(age=min(one.age + 1, OLD)) for one in state.on_the_way]
        refused = [one for one in aged if one.age >= OLD and not late]
        passed = state._replace(
            row=state.row.older(),
            view=older(state.view),
            applied=older(state.applied),
            pending=_aged(state.pending),
            second=state.second and older(state.second),
            second_pending=_aged(state.second_pending),
            on_the_way=tuple(one for one in aged if one not in refused),
        )
        for message in refused:
            if message.run is not None and passed.runs[message.run].step is Step.SENT:
                passed = passed.with_run(message.run, step=Step.END)
        yield ("half a grace period passes", ()), passed


def _aged(events: Iterable[tuple[Sent, int]]) -> tuple[tuple[Sent, int], ...]:
    return tuple((event, min(age + 1, OLD)) for event, age in events)


def _arrivals(state: State) -> Iterator[Next]:
    for place, message in enumerate(state.on_the_way):
        rest = state.on_the_way[:place] + state.on_the_way[place + 1 :]
        came = arrived(state._replace(on_the_way=rest), message)
        yield ("arrives", message.events), came
        if state.repeats:
            again = (*rest, message._replace(run=None))
            yield (
                ("arrives, and will once more", message.events),
                came._replace(on_the_way=again, repeats=state.repeats - 1),
            )


def arrived(state: State, message: Message) -> State:
    """The state after a batch came to the topic; its run looks again."""
    state = state.written(message.events, message.age)
    if message.races:
        state = state._replace(has_raced=True)
    if message.run is not None and state.runs[message.run].step is Step.SENT:
        return state.with_run(message.run, step=Step.LOOK)
    return state


def _strays(state: State) -> Iterator[Next]:
    for segment in state.row.live[1:] if state.strays else ():
        if state.view.state_of(segment) is _FINISHED:
            yield (
                ("a broker lists, for no reason,", (segment,)),
                state._replace(strays=state.strays - 1).written([given_to(segment, _LISTED)]),
            )


def _uploads(state: State) -> Iterator[Next]:
    views = (state.view, state.applied)
    ends = (end for view in views for end in view.broker.highest_offsets.values())
    tiered_end = max(ends, default=state.topic.tiered_end)
    for upload in state.uploads:
        known = known_by_brokers(state, upload)
        if known is _STARTED:
            # One that was given up may be finished all the same, and one within other uploads
            # hides offsets whatever tierfold does.
            begun = [view.broker.segments.get(upload.segment_id) for view in views]
            since_ms = next(one.since_ms for one in begun if one is not None)
            is_lost = upload.segment_id not in state.view.named
            whole = state._replace(
                store=state.store | {upload},
                uploads=tuple(one for one in state.uploads if one is not upload),
                # No look knows of one that began before the loss.
                on_the_way=_racing(state) if is_lost else state.on_the_way,
                has_raced=state.has_raced
                or NOW_MS - since_ms >= LIMITS.upload_wait_ms
                or upload.end < tiered_end,
            )
            yield ("a leader finishes", (upload,)), whole.written([given_to(upload, _FINISHED)])
        elif _may_begin(state, upload, tiered_end):
            # A leader uploads from the end of the tier on.
            begun = state._replace(on_the_way=_racing(state))
            yield ("a leader begins", (upload,)), begun.written([started_of(upload)])


def _racing(state: State) -> tuple[Message, ...]:
    """What is on the way, sent by a look that could not know of an upload."""
    return tuple(one._replace(races=True) for one in state.on_the_way)


def _may_begin(state: State, upload: Stored, tiered_end: int) -> bool:
    """Whether a leader may begin it: no leader moves while the metadata topic is lost."""
    if upload.segment_id in state.view.named | state.applied.named or upload.end <= tiered_end:
        return False
    return not state.topic.is_lost or upload.start > tiered_end


def _deleted(state: State, segment: Stored) -> Next:
    without = state._replace(store=state.store - {segment})
    return ("the broker deletes", (segment,)), without.written([given_to(segment, _GONE)])

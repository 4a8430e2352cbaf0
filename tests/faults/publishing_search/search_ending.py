"""Whether a next run can finish from a state, when all others have stopped.

A next run completes what is open and a vacuum follows it; or another run plans a round first, then
what is still on the way arrives, and then a run and a vacuum follow. Each wait may take its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Final, NamedTuple

from tests.faults.publishing_search.search_actors import Actors, left
from tests.faults.publishing_search.search_decisions import Decision
from tests.faults.publishing_search.search_readers import TheLog, what_consumers_miss
from tests.faults.publishing_search.search_rebuild import ground_of, lacks_names
from tests.faults.publishing_search.search_segments import OLD, Row, Stored, row_of, upload_of
from tests.faults.publishing_search.search_state import Mistake, Run, State, Topic, Window
from tests.faults.publishing_search.search_views import (
    Sent,
    View,
    after,
    given_to,
    older,
    started_of,
)
from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.publishing.lost_metadata import LostAlready, NameAgain, NothingLost
from tierfold.compaction.publishing.must_be_finished import must_be_finished
from tierfold.compaction.publishing.ranges import OffsetRange
from tierfold.compaction.publishing.steps import (
    Copy,
    Delete,
    Done,
    Merge,
    RefusalCode,
    Refused,
    Retire,
    Wait,
)
from tierfold.compaction.publishing.uploads import uploads_at_work

_STEPS_MAX: Final = 80
_NEXT: Final = Run("C", 1)
_PLANNING: Final = Run("P", 1)


class Settled(NamedTuple):
    """What others find when a run has nothing left to do."""

    row: Row
    view: View
    store: frozenset[Stored]
    log_start: int
    has_aged: bool = False
    """Whether the grace period passed meanwhile."""
    topic: Topic = Topic()
    """As it was when the others stopped, and then as after a rebuild."""


class Ending:
    """Finishes states, each distinct one once."""

    def __init__(self, actors: Actors, log: TheLog) -> None:
        self._actors = actors
        self._log = log
        self._ends: dict[tuple[Settled, bool], Settled | str] = {}
        self._problems: dict[tuple[Settled, frozenset[tuple[Sent, ...]]], str | None] = {}

    def problem(self, state: State) -> str | None:
        """Why no next run can finish; None: it can."""
        row = row_of(0, state.row.live, state.row.retired, state.row.unknown)
        settled = Settled(row, state.view, state.store, state.log_start, topic=state.topic)
        late = frozenset(message.events for message in state.on_the_way)
        key = (settled, late)
        if key not in self._problems:
            self._problems[key] = self._problem(settled, sorted(late, key=_in_words))
        return self._problems[key]

    def _problem(self, settled: Settled, late: list[tuple[Sent, ...]]) -> str | None:
        rebuilt = self._rebuilt(settled)
        if rebuilt is None or isinstance(rebuilt, str):
            return rebuilt
        settled = rebuilt
        finished = self._finished(settled, _NEXT, vacuums=False)
        if isinstance(finished, str):
            return f"the next run cannot finish: {finished}"
        cleaned = self._finished(finished, _NEXT, vacuums=True)
        if isinstance(cleaned, str):
            return f"the vacuum after it cannot finish: {cleaned}"
        arrive_late = Mistake.SENDS_LATE in self._actors.mistakes
        planned = self._finished(cleaned if arrive_late else finished, _PLANNING, vacuums=False)
        if isinstance(planned, str):
            return f"another round cannot finish: {planned}"
        if arrive_late:
            planned = self._finished(planned, _NEXT, vacuums=True)
            assert isinstance(planned, Settled)
        if planned.has_aged and not arrive_late:
            late = []
        for order in permutations(late):
            wrong = self._with_late(planned._replace(has_aged=False), order)
            if wrong is not None:
                return wrong
        return None

    def _rebuilt(self, settled: Settled) -> Settled | str | None:
        """The end of a rebuild if one is due, or what is wrong with it.

        None: a person must act, as the log start has passed what brokers never had.
        """
        row, view, store, log_start = settled[:4]
        if not settled.topic.is_lost and not lacks_names(row, view, store, log_start):
            return settled._replace(topic=Topic())
        row = ground_of(row, store, log_start).row
        is_copying = settled.topic.is_copying
        for _ in range(_STEPS_MAX):
            decision = self._actors.decisions.rebuild(
                (row, view, store, log_start), is_served=is_copying, is_copying=is_copying
            )
            match decision.step:
                case LostAlready():
                    return None
                case NothingLost():
                    row = row.rebuilt() if settled.topic.is_lost else row
                    return settled._replace(row=row, view=view, topic=Topic())
                case NameAgain():
                    for event in decision.events:
                        view = after(view, event, 0)
                case _:
                    return f"a rebuild cannot finish: {decision.why}"
        return "a rebuild goes on for ever"

    def _with_late(self, settled: Settled, late: tuple[tuple[Sent, ...], ...]) -> str | None:
        for events in late:
            for event in events:
                settled = settled._replace(view=after(settled.view, event, 0))
                missed = self._missed(settled)
                if missed is not None and self._actors.scenario.window is Window.NONE:
                    return f"a send that arrives late: {missed}"
        finished = self._finished(settled, _NEXT, vacuums=True)
        if isinstance(finished, str):
            return f"a run after late sends cannot finish: {finished}"
        return None

    def _finished(self, settled: Settled, run: Run, *, vacuums: bool) -> Settled | str:
        """The end of a run that nothing disturbs, or what is wrong with it."""
        passed: list[tuple[Settled, bool]] = []
        plans = run is _PLANNING
        for _ in range(_STEPS_MAX):
            key = (settled, vacuums)
            if not plans and key in self._ends:
                end = self._ends[key]
                break
            if not plans:
                passed.append(key)
            following = self._next(settled, run, plans=plans, vacuums=vacuums)
            if following is None:
                end = self._wrong(settled, vacuums=vacuums) or settled
                break
            if isinstance(following, str):
                end = following
                break
            settled, has_planned = following
            plans = plans and not has_planned
        else:
            end = "it goes on for ever"
        for key in passed:
            self._ends[key] = end
        return end

    def _next(
        self, settled: Settled, run: Run, *, plans: bool, vacuums: bool
    ) -> tuple[Settled, bool] | str | None:
        """The state after the next step, and whether it was a round; None: there is none."""
        place = settled[:4]
        decision = self._actors.decisions.step(place)
        if isinstance(decision.step, Done):
            if plans:
                return self._written(settled, run, decision), True
            if not vacuums:
                return None
            decision = self._actors.decisions.deletion(place)
        match decision.step:
            case Refused(code=RefusalCode.OUTSIDE_LINEAGE) if not self._actors.scenario.gives_up:
                return None
            case Refused():
                return decision.why
            case Wait(until_ms=until_ms):
                return self._after_a_wait(settled, decision, is_for_ever=until_ms is None)
            case Merge() | Copy():
                return self._written(settled, run, decision), False
            case Retire():
                row = settled.row.changed(settled.row.live, decision.segments)
                return settled._replace(row=row), False
            case Delete():
                store = settled.store.difference(decision.segments)
                return settled._replace(store=store), False
            case Done():
                row = left(settled.row, settled.view, settled.store)
                aged = settled._replace(row=row.older(), view=older(settled.view))
                return None if aged == settled else (aged._replace(has_aged=True), False)
        view = settled.view
        for event in decision.events:
            view = after(view, event, 0)
        return settled._replace(view=view), False

    def _written(self, settled: Settled, run: Run, decision: Decision) -> Settled:
        row, view, store, log_start = settled[:4]
        plan = self._actors.planned(run, decision, settled[:4])
        if not plan:
            return settled
        planner = self._actors.planner(run, row, view, log_start)
        made = {segment for rewrite in plan for segment in rewrite.made}
        return settled._replace(row=planner.committed(plan), store=store | made)

    def _after_a_wait(
        self, settled: Settled, decision: Decision, *, is_for_ever: bool
    ) -> tuple[Settled, bool] | str:
        aged = older(settled.view)
        row = settled.row.older()
        if aged is not settled.view or row is not settled.row:
            return settled._replace(view=aged, row=row, has_aged=True), False
        if not is_for_ever:
            return f"it waits for ever ({decision.why})"
        return self._uploaded_again(settled, decision)

    def _uploaded_again(self, settled: Settled, decision: Decision) -> tuple[Settled, bool] | str:
        """What a leader does about an upload that was never finished: it uploads the rest."""
        broker = settled.view.broker
        start = max(broker.highest_offsets.values(), default=-1) + 1
        ends = [one.added.end_offset for one in uploads_at_work(broker)]
        if max(ends, default=-1) < start:
            return f"it waits for ever ({decision.why})"
        bounds = (start, max(ends))
        upload = upload_of("Uagain", self._log.records, bounds, self._log.lineage)
        view = after(settled.view, started_of(upload), OLD)
        view = after(view, given_to(upload, SegmentState.COPY_FINISHED), OLD)
        return settled._replace(view=view, store=settled.store | {upload}), False

    def _wrong(self, settled: Settled, *, vacuums: bool) -> str | None:
        """What is not as it must be once nothing is left to do."""
        row, view, store, log_start = settled[:4]
        if isinstance(self._actors.decisions.step(settled[:4]).step, Refused):
            return self._missed(settled)
        for segment in _unread(row, view):
            if segment.end >= log_start:
                return f"{segment} is live and not published"
        for segment in row.gone:
            if view.state_of(segment) is SegmentState.COPY_FINISHED and segment.end >= log_start:
                return f"{segment} is retired, and brokers still read it"
            if vacuums and segment in store and segment.end >= log_start:
                return f"{segment} is retired, and its objects are still there"
        if vacuums:
            for segment in view.in_state(SegmentState.COPY_STARTED):
                if not segment.is_upload and segment.end >= log_start:
                    return f"{segment} is started and in no row"
        return self._missed(settled)

    def _missed(self, settled: Settled) -> str | None:
        return what_consumers_miss(self._log, settled.view, settled.store, settled.log_start)


def _unread(row: Row, view: View) -> Iterator[Stored]:
    """What is live and brokers must have as finished, and do not.

    An upload that was never finished is read through another one that contains it.
    """
    required = must_be_finished(
        {one.segment_id: OffsetRange(one.start, one.end) for one in row.live}
    )
    read = [
        one
        for one in view.in_state(SegmentState.COPY_FINISHED)
        if not one.is_diverged and one not in row.gone
    ]
    for segment in row.live:
        if not segment.is_upload:
            is_read = segment in read
        elif segment.segment_id in required:
            is_read = any(one.start <= segment.start and segment.end <= one.end for one in read)
        else:
            is_read = True
        if not is_read:
            yield segment


def _in_words(events: tuple[Sent, ...]) -> str:
    return " + ".join(map(str, events))

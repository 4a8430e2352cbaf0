"""Every order of steps of a scenario, breadth first, and what is wrong after each."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tests.faults.publishing_search.search_actors import Actors
from tests.faults.publishing_search.search_decisions import Decisions
from tests.faults.publishing_search.search_ending import Ending
from tests.faults.publishing_search.search_readers import (
    OUT_OF_RANGE,
    what_a_reader_missed,
    what_consumers_miss,
)
from tests.faults.publishing_search.search_segments import BY_ID, Stored
from tests.faults.publishing_search.search_state import (
    Happening,
    Mistake,
    Next,
    Scenario,
    State,
    Step,
    Window,
    first_state,
)
from tests.faults.publishing_search.search_surroundings import Surroundings
from tests.faults.publishing_search.search_views import View, after
from tierfold.compaction.publishing.steps import Retire

LIMIT: Final = 20_000
_LOOKS_MAX: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """What a search came to."""

    states: int
    is_whole: bool
    """Whether every state was seen, and not only as many as allowed."""
    problem: str | None
    way: tuple[str, ...]
    """The shortest way to it."""

    def __str__(self) -> str:
        lines = [f"{self.states} states{'' if self.is_whole else ' (not all)'}: "]
        lines[0] += self.problem or "nothing is wrong"
        lines += [f"  {number}. {step}" for number, step in enumerate(self.way, 1)]
        return "\n".join(lines)


class Search:
    """A scenario, and what was learnt of its states."""

    def __init__(
        self, scenario: Scenario, mistakes: Iterable[Mistake] = (), *, is_checked: bool = True
    ) -> None:
        """`is_checked`: whether the check of events counts, which finds most bugs by itself."""
        self._log = scenario.log
        self._scenario = scenario
        planted = frozenset(mistakes)
        self._is_checked = is_checked
        self._decisions = Decisions(scenario)
        self._actors = Actors(scenario, self._decisions, planted)
        self._surroundings = Surroundings(scenario, planted)
        self._ending = Ending(self._actors, self._log)
        self._missed: dict[tuple[View, frozenset[Stored], int, int], str | None] = {}

    def result(self, limit: int = LIMIT) -> Searched:
        """Visit states until one is wrong, all were seen or as many as allowed."""
        first = self._first()
        came_from: dict[State, tuple[Happening, State] | None] = {first: None}
        queue = deque([first])
        while queue:
            state = queue.popleft()
            for happening, following in self._following(state):
                if following in came_from:
                    continue
                came_from[following] = (happening, state)
                problem = self._problem(following)
                if problem is not None or len(came_from) >= limit:
                    way = tuple(_way_to(following, came_from)) if problem else ()
                    return Searched(
                        states=len(came_from), is_whole=False, problem=problem, way=way
                    )
                queue.append(following)
        return Searched(states=len(came_from), is_whole=True, problem=None, way=())

    def steps_seen(self) -> Counter[str]:
        """How many looks came to each kind of step, and to each purpose of a send."""
        return self._decisions.seen()

    def _first(self) -> State:
        """The state from which all is tried: some runs have ended, and brokers have read all."""
        state = first_state(self._scenario)
        for index in range(self._scenario.ended):
            while state.runs[index].step is not Step.END:
                _, state = next(self._following_by(state, index))
        second = None if state.second is None else state.view
        return state._replace(applied=state.view, pending=(), second=second, second_pending=())

    def _following_by(self, state: State, index: int) -> Iterator[Next]:
        yield from self._actors.steps(state, index)
        yield from self._surroundings.steps(state)

    def _following(self, state: State) -> Iterator[Next]:
        for index in range(len(state.runs)):
            yield from self._actors.steps(state, index)
        yield from self._surroundings.steps(state)

    def _problem(self, state: State) -> str | None:
        if state.view.stops:
            return "a broker's metadata consumer stops"
        if self._is_checked and self._decisions.forbidden is not None:
            return self._decisions.forbidden
        return (
            self._reading(state)
            or self._read_through(state)
            or _forgotten_too_early(state)
            or self._ending.problem(state)
        )

    def _reading(self, state: State) -> str | None:
        """What consumers miss, of what a broker has read of the topic by now."""
        if state.topic.has_gap:
            return None  # A broker lacks what it had not read.
        for view in (state.applied, state.second):
            wrong = None if view is None else self._reading_from(view, state)
            if wrong is not None:
                return wrong
        return None

    def _reading_from(self, applied: View, state: State) -> str | None:
        missed = self._missed_by(applied, state)
        window = self._scenario.window
        if missed is None or OUT_OF_RANGE not in missed:
            return missed
        if window is Window.NEXT_RUN or state.topic.is_forgotten:
            return None
        if window is Window.NONE or not state.has_raced:
            return missed
        # The window of PUBLISHING 8. The next look mends it by one send; or, where what covers the
        # hole was retired by a merge meanwhile, by sends of the merge.
        row, view, why = state.row, state.view, ""
        for _ in range(_LOOKS_MAX):
            missed = self._missed_by(view, state)
            if missed is None:
                return None
            decision = self._decisions.step((row, view, state.store, state.log_start))
            why = decision.why
            if isinstance(decision.step, Retire):
                row = row.changed(row.live, decision.segments)
            for event in decision.events:
                view = after(view, event, 0)
        return f"the next looks do not mend it: {missed} ({why})"

    def _read_through(self, state: State) -> str | None:
        """What a consumer that paused has missed once it is at the end."""
        if state.reader.next_offset <= self._log.records[-1].offset:
            return None
        return what_a_reader_missed(self._log, dict(state.reader.values))

    def _missed_by(self, view: View, state: State) -> str | None:
        key = (view, state.store, state.log_start, state.topic.tiered_end)
        if key not in self._missed:
            self._missed[key] = what_consumers_miss(self._log, *key)
        return self._missed[key]


def _forgotten_too_early(state: State) -> str | None:
    """Brokers forget a segment only after its objects: otherwise they never delete them."""
    known = state.view.broker.segments
    for its_id in state.view.named:
        if its_id not in known and BY_ID[its_id] in state.store:
            return f"brokers forgot {BY_ID[its_id]}, and its objects are still there"
    return None


def _way_to(
    state: State, came_from: dict[State, tuple[Happening, State] | None]
) -> Iterator[str]:
    steps = []
    while (reached := came_from[state]) is not None:
        (what, about), state = reached
        steps.append(" ".join([what, *map(str, about)]))
    yield from reversed(steps)

"""No order of steps of runs, a vacuum, brokers and leaders loses an offset, a value or a deletion.

`python -m tests.faults.publishing_search.search_run` goes on where this stops.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.faults.publishing_search.search import Search
from tests.faults.publishing_search.search_drawn import drawn_scenario
from tests.faults.publishing_search.search_readers import what_consumers_miss
from tests.faults.publishing_search.search_scenarios import SCENARIOS
from tests.faults.publishing_search.search_segments import Record
from tests.faults.publishing_search.search_state import Scenario, first_state
from tests.faults.publishing_search.search_views import after, given_to
from tests.spread import most_in_soak
from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.publishing.steps import Purpose

STATES_MAX = 400


@pytest.mark.parametrize("name", SCENARIOS)
def test_nothing_is_wrong_after_any_step(name: str) -> None:
    searched = Search(SCENARIOS[name]).result(STATES_MAX)
    assert searched.problem is None, f"{name}: {searched}"


@pytest.mark.parametrize("seed", most_in_soak(range(40), 10))
def test_nothing_is_wrong_in_scenarios_drawn_at_random(seed: int) -> None:
    searched = Search(drawn_scenario(seed)).result(200)
    assert searched.problem is None, searched


def test_the_scenarios_together_see_every_kind_of_step() -> None:
    seen: Counter[str] = Counter()
    for name in (
        "vacuum",
        "an overlap of a whole group",
        "a live segment is listed",
        "a late start",
        "a clock that is ahead",
        "another history that is not given up",
        "lost metadata",
    ):
        search = Search(SCENARIOS[name])
        search.result(600)
        seen += search.steps_seen()
    steps = {"Done", "Wait", "Merge", "Copy", "Retire", "Delete", "Refused"}
    assert steps | {purpose.value for purpose in Purpose} <= seen.keys()


def test_what_consumers_see() -> None:
    scenario = Scenario(runs="A")
    state = first_state(scenario)
    log, store = scenario.log, state.store
    assert what_consumers_miss(log, state.view, store, 0) is None
    first, second = sorted(store, key=lambda segment: segment.start)[:2]
    assert "objects are missing" in str(what_consumers_miss(log, state.view, store - {first}, 0))
    assert what_consumers_miss(log, state.view, store - {first}, 1) is None
    hole = after(state.view, given_to(second, SegmentState.DELETE_STARTED), 0)
    assert "offset 1 is out of range" in str(what_consumers_miss(log, hole, store, 0))
    longer = (*log.records[:3], Record(3, "a", 7))
    another = replace(log, records=longer)
    wrong = what_consumers_miss(another, state.view, store, 0)
    assert "key a is None instead of 7" in str(wrong)

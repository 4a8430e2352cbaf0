"""Whether a run may write by its time, against a model that knows no order of the checks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.builders import a_chain, a_state
from tierfold.compaction.commits.clocks import (
    BEHIND_MAX_MS,
    ClockEffect,
    ClockFinding,
    ClockReason,
    Clocks,
    WritingVerb,
    clock_findings,
    early_horizons,
)

HERE_MS = 1_800_000_000_000
TIMES_MS = st.sampled_from(
    [HERE_MS + sign * by for by in (0, 1, BEHIND_MAX_MS, BEHIND_MAX_MS + 1) for sign in (-1, 1)]
)
ANY_CLOCKS = st.builds(
    Clocks,
    machine_ms=TIMES_MS,
    store_ms=st.none() | TIMES_MS,
    newest_commit_ms=st.none() | TIMES_MS,
    given_ms=st.none() | TIMES_MS,
)


def modelled(clocks: Clocks, verb: WritingVerb, *, insists: bool) -> dict[ClockReason, ClockEffect]:
    """What is wrong, without the distances: a line for each sentence of the rule."""
    never = HERE_MS * 2
    newest_ms, store_ms = clocks.newest_commit_ms or 0, clocks.store_ms or 0
    behind_ms = clocks.machine_ms + BEHIND_MAX_MS
    wrong = {
        ClockReason.NOW_BELOW_COMMIT: (clocks.given_ms or never) < newest_ms,
        ClockReason.NOW_AHEAD: (clocks.given_ms or 0) > clocks.machine_ms,
        ClockReason.BEHIND_COMMIT: newest_ms > behind_ms,
        ClockReason.BEHIND_STORE: store_ms > behind_ms,
    }
    goes_on = {ClockReason.BEHIND_COMMIT, ClockReason.BEHIND_STORE} if insists else set()
    if verb is not WritingVerb.VACUUM:
        goes_on.add(ClockReason.NOW_AHEAD)
    return {
        reason: ClockEffect.WARNS if reason in goes_on else ClockEffect.STOPS
        for reason, is_wrong in wrong.items()
        if is_wrong
    }


@given(ANY_CLOCKS, st.sampled_from(WritingVerb), st.booleans())
def test_the_findings_are_those_of_the_model(
    clocks: Clocks, verb: WritingVerb, insists: bool
) -> None:
    found = clock_findings(clocks, verb, insists=insists)
    assert {one.reason: one.effect for one in found} == modelled(clocks, verb, insists=insists)
    assert all(one.by_ms > 0 for one in found)


@given(ANY_CLOCKS, st.sampled_from(WritingVerb), st.integers(0, 10**12))
def test_a_later_machine_clock_is_never_behind_where_an_earlier_was_not(
    clocks: Clocks, verb: WritingVerb, later_ms: int
) -> None:
    later = replace(clocks, machine_ms=clocks.machine_ms + later_ms)
    before = {one.reason for one in clock_findings(clocks, verb)}
    assert {one.reason for one in clock_findings(later, verb)} <= before


def test_a_finding_says_by_how_much() -> None:
    clocks = Clocks(machine_ms=HERE_MS, newest_commit_ms=HERE_MS + 700_000)
    assert clock_findings(clocks, WritingVerb.FORGET) == (
        ClockFinding(
            reason=ClockReason.BEHIND_COMMIT, effect=ClockEffect.STOPS, by_ms=700_000
        ),
    )


@pytest.mark.parametrize(
    ("due_ms", "passes"), [(HERE_MS, 0), (HERE_MS + 1, 1), (HERE_MS + 50, 1), (HERE_MS + 51, 0)]
)
def test_a_horizon_passes_early_above_the_clock_and_up_to_the_given_time(
    due_ms: int, passes: int
) -> None:
    first, second, bare = a_chain(10, 10, 10)
    due = [replace(first, earliest_due_ms=due_ms), replace(second, earliest_due_ms=None), bare]
    found = early_horizons([a_state(due)], HERE_MS, HERE_MS + 50)
    assert [(one.segments, one.first_ms) for one in found] == [(1, due_ms)][:passes]

"""Who is at work: a live run keeps its partitions, a silent one does not, and the user may insist.

A short model decides the same from the ages alone; Hypothesis draws signs of any age, also of runs
that have none, of this run, and from the future.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfold.compaction.commits.holders import (
    NO_SIGNS,
    SILENT_MS,
    Claim,
    Decision,
    Holder,
    IfHeld,
    Sign,
    SignsSeen,
    Skip,
    Wait,
    WhyClaimed,
    decided,
)

OWN = "own"
OWN_MS = 1_800_000_000_000
RUNS = ("", OWN, "a", "b")

ages_ms = st.integers(-3 * SILENT_MS, 3 * SILENT_MS) | st.sampled_from(
    [-SILENT_MS, 1 - SILENT_MS, -1, 0, SILENT_MS - 1, SILENT_MS]
)
signs = st.dictionaries(st.sampled_from(RUNS[1:]), ages_ms)


def seen_at(ages: dict[str, int], own_ms: int | None = OWN_MS) -> SignsSeen:
    by_run = {run: Sign(run=run, modified_ms=OWN_MS - age_ms) for run, age_ms in ages.items()}
    return SignsSeen(own_ms=own_ms, by_run=by_run)


def expected(owner: str, ages: dict[str, int], mode: IfHeld, *, has_own: bool) -> Decision:
    """The model: the run is at work if its sign and this run's are less than SILENT_MS apart."""
    is_other = owner not in {"", OWN}
    if not is_other:
        return Claim(why=WhyClaimed.FREE)
    if mode is IfHeld.TAKE_OVER:
        return Claim(why=WhyClaimed.INSISTED)
    if not has_own or owner not in ages or abs(ages[owner]) >= SILENT_MS:
        return Claim(why=WhyClaimed.SILENT)
    holder = Holder(run=owner, sign_age_ms=max(ages[owner], 0))
    return Skip(holder=holder) if mode is IfHeld.SKIP else Wait(holder=holder)


@given(st.sampled_from(RUNS), signs, st.sampled_from(IfHeld), st.booleans())
def test_the_decision_is_the_models(
    owner: str, ages: dict[str, int], mode: IfHeld, has_own: bool
) -> None:
    seen = seen_at(ages, OWN_MS if has_own else None)
    assert decided(owner, OWN, seen, mode) == expected(owner, ages, mode, has_own=has_own)


@pytest.mark.parametrize("mode", IfHeld)
@pytest.mark.parametrize(
    "age_ms", [-SILENT_MS, 1 - SILENT_MS, -1, 0, SILENT_MS - 1, SILENT_MS, -(10**15), 10**15]
)
def test_the_borders_are_the_models(age_ms: int, mode: IfHeld) -> None:
    ages = {"a": age_ms}
    assert decided("a", OWN, seen_at(ages), mode) == expected("a", ages, mode, has_own=True)


@given(st.sampled_from(RUNS), signs, st.sampled_from(IfHeld), st.integers(-(2**62), 2**62))
def test_no_clock_but_the_stores_counts(
    owner: str, ages: dict[str, int], mode: IfHeld, shift_ms: int
) -> None:
    """Whatever the store's clock shows, only the distance of two signs matters."""
    seen = seen_at(ages)
    shifted = SignsSeen(
        own_ms=OWN_MS + shift_ms,
        by_run={
            run: replace(sign, modified_ms=sign.modified_ms + shift_ms)
            for run, sign in seen.by_run.items()
        },
    )
    assert decided(owner, OWN, shifted, mode) == decided(owner, OWN, seen, mode)


@pytest.mark.parametrize("mode", [IfHeld.SKIP, IfHeld.WAIT])
def test_without_signs_a_partition_is_taken_over(mode: IfHeld) -> None:
    assert decided("dead", OWN, NO_SIGNS, mode) == Claim(why=WhyClaimed.SILENT)


def test_a_holder_is_named_as_far_as_it_is_known() -> None:
    bare = Holder(run="r")
    assert bare.sentence == "run r"
    assert Holder(run="").named == "another run"
    known = Holder(run="r", host="node-7", process=31, verb="compact", sign_age_ms=20_499)
    assert known.sentence == (
        "run r of `compact` on node-7 (process 31) is at work on it, its last sign of life is 20 s"
        " old"
    )
    young = Holder(run="r", sign_age_ms=999)
    assert young.sentence.endswith("its last sign of life is less than a second old")

"""A plan fits the view it comes from; the checker catches tampered and outdated plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.aged import NOW_MS as AGED_AT_MS
from tests.compaction.aged import aged
from tests.compaction.builders import KEY, LINEAGE, a_chain, a_segment, a_view, cleaned_to, epochs
from tests.compaction.planning.plan_check import violations
from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.planning.grouping import SegmentGroup
from tierfold.compaction.planning.plan import Compact, propose
from tierfold.compaction.planning.regions import LastStable, Regions, regions_of

NOW_MS = 2_000_000
RULES = Rules(cleanup_policy=frozenset({"compact"}))
CHAIN = a_chain(100, 100, 100, 100)
OTHER_PARTITION, OTHER_TOPIC_ID = replace(KEY, partition=4), replace(KEY, topic_id="U" * 22)


KINDS = (
    OTHER := "the plan is for",
    NO_SOURCES := "the plan has no group, or a group without a segment",
    NOT_LIVE := "is not live as planned",
    OUT_OF_LINEAGE := "lies outside the leader epoch lineage",
    GAP := "the next one,",
    OUT_OF_ORDER := "is followed by",
    NOT_DUE := "no delete horizon in segment",
    NOT_CLEAN := "assumes that everything below",
    TOO_YOUNG := "holds or follows records that are too young",
    WRONG_END := "the sources end at offset",
    NO_BOUNDARY := "no live segment ends right before offset",
    UNSTABLE := "an open transaction begins at",
    WRONG_START := "not at the log's first",
    FIRST_DIRTY := "the first dirty offset",
)


def proposed(
    view: PartitionView, last_stable: LastStable | None = None, *, segment_bytes: int = 2000
) -> Compact | None:
    rules = replace(RULES, min_cleanable_dirty_ratio=Fraction(0), segment_bytes=segment_bytes)
    regions = regions_of(view, last_stable, rules, NOW_MS)
    assert isinstance(regions, Regions)
    choice = propose(view, rules, regions, NOW_MS)
    return choice if isinstance(choice, Compact) else None


def the_plan() -> Compact:
    """Groups [0, 200) and [200, 400) of four segments, never cleaned."""
    plan = proposed(a_view(CHAIN))
    assert plan is not None
    return plan


def kinds(
    plan: Compact,
    view: PartitionView,
    last_stable: LastStable | None = None,
    rules: Rules = RULES,
    now_ms: int = NOW_MS,
) -> list[str]:
    """The part of each violation that says what is wrong."""
    found = violations(plan, view, last_stable, rules, now_ms)
    return [next(kind for kind in KINDS if kind in violation) for violation in found]


def groups(*parts: tuple[Segment, ...]) -> tuple[SegmentGroup, ...]:
    return tuple(SegmentGroup(segments=part) for part in parts)


def test_a_plan_is_valid_in_the_view_it_was_made_from() -> None:
    assert kinds(the_plan(), a_view(CHAIN)) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda plan: replace(plan, key=OTHER_PARTITION), [OTHER]),
        # A topic that is created again has another id.
        (lambda plan: replace(plan, key=OTHER_TOPIC_ID), [OTHER]),
        (lambda plan: replace(plan, groups=()), [NO_SOURCES]),
        (lambda plan: replace(plan, groups=groups(CHAIN, ())), [NO_SOURCES]),
        # A segment left out.
        (lambda plan: replace(plan, groups=groups(CHAIN[:1], CHAIN[2:])), [GAP]),
        # A segment named twice.
        (lambda plan: replace(plan, groups=groups(CHAIN[:2], CHAIN[1:])), [GAP]),
        # Groups out of order: 400 then 0.
        (
            lambda plan: replace(plan, groups=groups(CHAIN[2:], CHAIN[:2])),
            [GAP, WRONG_START, WRONG_END],
        ),
        # The log's head left out.
        (lambda plan: replace(plan, groups=groups(CHAIN[1:])), [WRONG_START]),
        # The last group left out, the end as before.
        (lambda plan: replace(plan, groups=groups(CHAIN[:2])), [WRONG_END]),
        # The end inside a segment.
        (lambda plan: replace(plan, next_offset=399), [WRONG_END, NO_BOUNDARY]),
        (lambda plan: replace(plan, first_dirty=-1), [FIRST_DIRTY]),
        # A round that cleans nothing.
        (lambda plan: replace(plan, first_dirty=400), [FIRST_DIRTY]),
    ],
)
def test_a_plan_that_was_tampered_with_is_caught(
    change: Callable[[Compact], Compact], expected: list[str]
) -> None:
    assert kinds(change(the_plan()), a_view(CHAIN)) == expected


def test_a_source_that_was_replaced_meanwhile_is_caught_and_named() -> None:
    merged = a_segment(0, 199, segment_id="merged")
    found = violations(the_plan(), a_view([merged, *CHAIN[2:]]), None, RULES, NOW_MS)
    assert found == tuple(f"segment {gone.segment_id} {NOT_LIVE}" for gone in CHAIN[:2])


OF_A_LOST_LEADER = (*LINEAGE, *epochs((1, 350)))


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        # A source with the same id and other metadata.
        (a_view([replace(CHAIN[0], size_bytes=999), *CHAIN[1:]]), [NOT_LIVE]),
        # A live end that moved back.
        (a_view(CHAIN[:3]), [NOT_LIVE, NO_BOUNDARY]),
        # A log start that moved.
        (a_view(CHAIN[1:]), [NOT_LIVE, WRONG_START, FIRST_DIRTY]),
        # No live segment is left.
        (a_view(()), [*[NOT_LIVE] * 4, *[OUT_OF_LINEAGE] * 4, WRONG_START, NO_BOUNDARY]),
        (replace(a_view(CHAIN), lineage=OF_A_LOST_LEADER), [OUT_OF_LINEAGE]),
        # Uploads since then are no violation.
        (a_view(a_chain(100, 100, 100, 100, 100)), []),
    ],
)
def test_a_plan_is_checked_against_the_view_as_it_is_now(
    view: PartitionView, expected: list[str]
) -> None:
    assert kinds(the_plan(), view) == expected


def test_a_plan_that_reaches_an_open_transaction_is_caught() -> None:
    view = a_view(CHAIN)
    assert kinds(the_plan(), view, LastStable(offset=399)) == [UNSTABLE]
    assert kinds(the_plan(), view, LastStable(offset=400)) == []


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    cleaner_offset=st.none() | st.integers(0, 60),
    opened=st.none() | st.integers(0, 60),
    segment_bytes=st.sampled_from([1, 2000, 10_000]),
)
def test_every_proposal_is_valid_in_its_own_view(
    lengths: list[int], cleaner_offset: int | None, opened: int | None, segment_bytes: int
) -> None:
    vector = () if cleaner_offset is None else cleaned_to(cleaner_offset)
    view = a_view(a_chain(*lengths, start_offset=5), cleaner_offsets=vector)
    last_stable = None if opened is None else LastStable(offset=opened)
    plan = proposed(view, last_stable, segment_bytes=segment_bytes)
    if plan is not None:
        assert violations(plan, view, last_stable, RULES, NOW_MS) == ()
    else:
        # The partition is clean, or held back up to the first segment boundary above.
        starts_dirty = cleaner_offset if cleaner_offset in range(5, view.next_offset + 1) else 5
        holds = opened is not None and opened < view.next_offset
        assert starts_dirty == view.next_offset or holds


DUE = (
    CHAIN[0],
    replace(CHAIN[1], earliest_due_ms=NOW_MS),
    CHAIN[2],
    replace(CHAIN[3], earliest_due_ms=5),
)


def due_view(cleaned: int = 400) -> PartitionView:
    return a_view(DUE, cleaner_offsets=cleaned_to(cleaned))


def the_partial_plan() -> Compact:
    """Groups [100, 200) and [300, 400) of a clean partition, whose horizons have passed."""
    plan = proposed(due_view())
    assert plan is not None
    assert plan.is_partial
    return plan


def test_a_partial_plan_is_valid_in_the_view_it_was_made_from() -> None:
    assert kinds(the_partial_plan(), due_view()) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        # A segment in which nothing is due.
        (lambda plan: replace(plan, groups=groups(DUE[:1], DUE[1:2], DUE[3:])), [NOT_DUE]),
        # One group of segments that are not neighbours.
        (lambda plan: replace(plan, groups=groups((DUE[1], DUE[3]))), [GAP]),
        # Groups out of order, and twice the same.
        (lambda plan: replace(plan, groups=groups(DUE[3:], DUE[1:2])), [OUT_OF_ORDER, WRONG_END]),
        (lambda plan: replace(plan, groups=groups(DUE[1:2], DUE[1:2], DUE[3:])), [OUT_OF_ORDER]),
        (lambda plan: replace(plan, next_offset=300), [WRONG_END]),
        # The part that it assumes to be clean is not.
        (lambda plan: replace(plan, first_dirty=401), [NOT_CLEAN]),
        (lambda plan: replace(plan, first_dirty=300), [NOT_CLEAN]),
    ],
)
def test_a_partial_plan_that_was_tampered_with_is_caught(
    change: Callable[[Compact], Compact], expected: list[str]
) -> None:
    assert kinds(change(the_partial_plan()), due_view()) == expected


def test_a_partial_plan_before_its_due_time_is_caught() -> None:
    found = violations(the_partial_plan(), due_view(), None, RULES, NOW_MS - 1)
    why = "has passed, and no producer of it has expired"
    assert found == (f"{NOT_DUE} {DUE[1].segment_id} {why}",)


@pytest.mark.parametrize("cleaned", [300, 500])
def test_a_partial_plan_of_segments_that_are_no_longer_clean_is_caught(cleaned: int) -> None:
    found = kinds(the_partial_plan(), due_view(cleaned))
    assert found == [NOT_CLEAN]


@pytest.mark.parametrize(
    ("ages_ms", "is_caught"),
    [
        ([90, 90, 90, 90], False),
        ([90, 90, 90, 49], True),
        ([90, 90, 90, 50], False),
        ([49, 90, 90, 90], True),
        # An overdue segment at or above a young one allows it, one below does not.
        ([90, 20, 90, 101], False),
        ([101, 20, 90, 90], True),
        ([20, 101, 90, 90], True),
        ([90, 90, 101, (90, 20)], True),
        ([90, 90, 90, (101, 20)], False),
        ([90, 90, 90, (100, 20)], True),
    ],
)
def test_a_plan_with_records_that_are_too_young_is_caught(
    ages_ms: list[int | tuple[int, int]], is_caught: bool
) -> None:
    view = aged(*ages_ms)
    lags = replace(RULES, min_compaction_lag_ms=50, max_compaction_lag_ms=100)
    plan = replace(the_plan(), groups=groups(view.segments))
    found = kinds(plan, view, None, lags, AGED_AT_MS)
    assert found == [TOO_YOUNG] * is_caught


def test_clean_segments_may_be_young() -> None:
    view = aged(20, 90, 90, 90, cleaned=100)
    lags = replace(RULES, min_compaction_lag_ms=50)
    plan = replace(the_plan(), groups=groups(view.segments), first_dirty=100)
    assert violations(plan, view, None, lags, AGED_AT_MS) == ()


@pytest.mark.parametrize(
    ("first", "last", "last_stable"),
    [(0, 1, None), (1, 2, None), (0, 2, LastStable(offset=250))],
    ids=["first chunk", "next chunk", "the overdue segment is unstable"],
)
def test_an_overdue_segment_above_a_round_allows_young_ones_in_it(
    first: int, last: int, last_stable: LastStable | None
) -> None:
    view = aged(20, 20, 110, cleaned=100 * first)
    lags = replace(RULES, min_compaction_lag_ms=50, max_compaction_lag_ms=100)
    plan = replace(
        the_plan(),
        groups=groups(view.segments[:last]),
        first_dirty=100 * first,
        next_offset=100 * last,
    )
    assert violations(plan, view, last_stable, lags, AGED_AT_MS) == ()

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest
from builders import KEY, LINEAGE, a_chain, a_segment, a_view, cleaned_to
from hypothesis import given
from hypothesis import strategies as st

from compaction.grouping import SegmentGroup
from compaction.plan import Compact, propose
from compaction.plan_check import FaultKind, faults
from compaction.regions import LastStable, Regions, regions_of
from compaction.rules import Rules
from compaction.segments import LeaderEpoch, Segment
from compaction.view import PartitionView

NOW_MS = 2_000_000
RULES = Rules(cleanup_policy=frozenset({"compact"}))
CHAIN = a_chain(100, 100, 100, 100)


def proposed(
    view: PartitionView, last_stable: LastStable | None = None, *, segment_bytes: int = 2000
) -> Compact | None:
    rules = Rules(
        cleanup_policy=frozenset({"compact"}),
        min_cleanable_dirty_ratio=Fraction(0),
        segment_bytes=segment_bytes,
    )
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
    plan: Compact, view: PartitionView, last_stable: LastStable | None = None
) -> list[FaultKind]:
    return [fault.kind for fault in faults(plan, view, last_stable, RULES, NOW_MS)]


def groups(*parts: tuple[Segment, ...]) -> tuple[SegmentGroup, ...]:
    return tuple(SegmentGroup(segments=part) for part in parts)


def test_a_plan_has_no_fault_in_the_view_it_was_made_from() -> None:
    assert kinds(the_plan(), a_view(CHAIN)) == []


def test_what_was_uploaded_since_is_no_fault() -> None:
    assert kinds(the_plan(), a_view(a_chain(100, 100, 100, 100, 100))) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda plan: replace(plan, key=replace(KEY, partition=4)),
            [FaultKind.OTHER_PARTITION],
        ),
        # A topic made anew has another id.
        (
            lambda plan: replace(plan, key=replace(KEY, topic_id="U" * 22)),
            [FaultKind.OTHER_PARTITION],
        ),
        (lambda plan: replace(plan, groups=()), [FaultKind.NO_SOURCES]),
        (lambda plan: replace(plan, groups=groups(CHAIN, ())), [FaultKind.NO_SOURCES]),
        # A segment left out.
        (
            lambda plan: replace(plan, groups=groups(CHAIN[:1], CHAIN[2:])),
            [FaultKind.NOT_CONTIGUOUS],
        ),
        # A segment named twice.
        (
            lambda plan: replace(plan, groups=groups(CHAIN[:2], CHAIN[1:])),
            [FaultKind.NOT_CONTIGUOUS],
        ),
        # Groups out of order: 400 then 0.
        (
            lambda plan: replace(plan, groups=groups(CHAIN[2:], CHAIN[:2])),
            [FaultKind.NOT_CONTIGUOUS, FaultKind.WRONG_COVER, FaultKind.WRONG_COVER],
        ),
        # The log's head left out.
        (lambda plan: replace(plan, groups=groups(CHAIN[1:])), [FaultKind.WRONG_COVER]),
        # The last group left out, the end as before.
        (lambda plan: replace(plan, groups=groups(CHAIN[:2])), [FaultKind.WRONG_COVER]),
        # The end inside a segment.
        (
            lambda plan: replace(plan, end_offset=399),
            [FaultKind.WRONG_COVER, FaultKind.END_NOT_ON_BOUNDARY],
        ),
        (
            lambda plan: replace(plan, first_dirty=-1),
            [FaultKind.FIRST_DIRTY_OUT_OF_RANGE],
        ),
        # A round that cleans nothing.
        (
            lambda plan: replace(plan, first_dirty=400),
            [FaultKind.FIRST_DIRTY_OUT_OF_RANGE],
        ),
    ],
)
def test_a_plan_that_was_tampered_with_is_caught(
    change: Callable[[Compact], Compact], expected: list[FaultKind]
) -> None:
    assert kinds(change(the_plan()), a_view(CHAIN)) == expected


def test_a_source_that_was_replaced_since_is_caught_and_named() -> None:
    merged = a_segment(0, 199, segment_id="merged")
    found = faults(the_plan(), a_view([merged, *CHAIN[2:]]), None, RULES, NOW_MS)
    assert [fault.kind for fault in found] == [FaultKind.NOT_LIVE] * 2
    assert CHAIN[0].segment_id in found[0].detail


def test_a_source_with_the_same_id_and_other_metadata_is_caught() -> None:
    changed = replace(CHAIN[0], size_bytes=999)
    assert kinds(the_plan(), a_view([changed, *CHAIN[1:]])) == [FaultKind.NOT_LIVE]


def test_a_live_end_that_moved_back_is_caught() -> None:
    assert kinds(the_plan(), a_view(CHAIN[:3])) == [
        FaultKind.NOT_LIVE,
        FaultKind.END_NOT_ON_BOUNDARY,
    ]


def test_a_log_start_that_moved_is_caught() -> None:
    assert kinds(the_plan(), a_view(CHAIN[1:])) == [
        FaultKind.NOT_LIVE,
        FaultKind.WRONG_COVER,
        FaultKind.FIRST_DIRTY_OUT_OF_RANGE,
    ]


def test_a_view_in_which_nothing_lives_any_more_is_caught() -> None:
    assert FaultKind.WRONG_COVER in kinds(the_plan(), a_view(()))


def test_a_source_out_of_lineage_is_caught() -> None:
    cut = (*LINEAGE, LeaderEpoch(epoch=1, start_offset=350))
    view = replace(a_view(CHAIN), lineage=cut)
    assert kinds(the_plan(), view) == [FaultKind.OUT_OF_LINEAGE]


def test_a_plan_that_reaches_an_open_transaction_is_caught() -> None:
    view = a_view(CHAIN)
    assert kinds(the_plan(), view, LastStable(offset=399)) == [FaultKind.UNSTABLE]
    assert kinds(the_plan(), view, LastStable(offset=400)) == []


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    cleaner_offset=st.none() | st.integers(0, 60),
    opened=st.none() | st.integers(0, 60),
    segment_bytes=st.sampled_from([1, 2000, 10_000]),
)
def test_whatever_is_proposed_has_no_fault_in_its_own_view(
    lengths: list[int], cleaner_offset: int | None, opened: int | None, segment_bytes: int
) -> None:
    vector = () if cleaner_offset is None else cleaned_to(cleaner_offset)
    view = a_view(a_chain(*lengths, start_offset=5), cleaner_offsets=vector)
    last_stable = None if opened is None else LastStable(offset=opened)
    plan = proposed(view, last_stable, segment_bytes=segment_bytes)
    if plan is not None:
        assert faults(plan, view, last_stable, RULES, NOW_MS) == ()
    else:
        # Only what is clean, or held back at or below the first segment boundary beyond, rests.
        starts_dirty = cleaner_offset if cleaner_offset in range(5, view.next_offset + 1) else 5
        holds = opened is not None and opened < view.next_offset
        assert starts_dirty == view.next_offset or holds

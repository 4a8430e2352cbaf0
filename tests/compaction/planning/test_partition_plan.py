"""A partition's plan is decided by its view, its producers, its settings and the time."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Final

import pytest

from tests.compaction.builders import KEY, a_chain, a_producer, a_state, a_view, cleaned_to
from tests.compaction.claimed import NOW_MS, RULES
from tests.compaction.planning.plan_check import plan_violations
from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.compaction.model.rules import CompactionStrategy, Rules
from tierfold.compaction.planning.eligibility import dirty_ratio
from tierfold.compaction.planning.partition_plan import (
    PartitionPlan,
    in_order_of_work,
    needs_producers,
    partition_plan,
    with_row_notes,
)
from tierfold.compaction.planning.plan import Compact, Rest
from tierfold.compaction.planning.regions import Regions

CLEAN, DIRTY = cleaned_to(20), cleaned_to(10)
NEVER: Final = replace(RULES, min_cleanable_dirty_ratio=Fraction(1))


def a_log(due_ms: int | None = None, **fields: object) -> PartitionView:
    """A log of 20 offsets; `due_ms` is the delete horizon in its first segment."""
    first, second = a_chain(10, 10)
    return a_view((replace(first, earliest_due_ms=due_ms), second), **fields)


def open_from(offset: int | None) -> ProducerEntry:
    return a_producer(7, offset)


# Whether the newest snapshot is read.


@pytest.mark.parametrize(
    ("offsets", "is_forced", "due_ms", "expected"),
    [
        pytest.param((), False, None, True, id="a log that was never cleaned"),
        pytest.param(DIRTY, False, None, True, id="a log that is dirty at its end"),
        pytest.param(CLEAN, False, None, False, id="a clean log of which nothing is due"),
        pytest.param(CLEAN, True, None, True, id="a clean log that a person has cleaned again"),
        pytest.param(CLEAN, False, NOW_MS - 1, True, id="a clean log of which something was due"),
        pytest.param(CLEAN, False, NOW_MS, True, id="a clean log of which something is due now"),
        pytest.param(CLEAN, False, NOW_MS + 1, False, id="a clean log of which something will be"),
        pytest.param(CLEAN, False, 0, True, id="a clean log of which something is due since 1970"),
        pytest.param(DIRTY, False, NOW_MS + 1, True, id="a dirty log of which something will be"),
        pytest.param(CLEAN, True, NOW_MS, True, id="a clean log, forced, and something is due"),
    ],
)
def test_producers_are_read_where_they_decide_something(
    offsets: tuple[object, ...], is_forced: bool, due_ms: int | None, expected: bool
) -> None:
    view = a_log(due_ms, cleaner_offsets=offsets)
    assert needs_producers(view, Rules(), NOW_MS, is_forced=is_forced) == expected


@pytest.mark.parametrize(("kept_ms", "expected"), [(0, True), (1, False), (None, False)])
def test_producers_are_read_where_one_has_expired(kept_ms: int | None, expected: bool) -> None:
    view, rules = a_log(None, cleaner_offsets=CLEAN), Rules(producer_id_expiration_ms=NOW_MS)
    kept = tuple(replace(one, kept_for_producer_ms=kept_ms) for one in view.segments)
    view = replace(view, segments=kept)
    assert needs_producers(view, rules, NOW_MS, is_forced=False) == expected


@pytest.mark.parametrize("is_forced", [False, True])
def test_a_log_without_a_segment_has_no_producers_to_read(is_forced: bool) -> None:
    view = a_view(())
    assert view.segments == ()
    assert not needs_producers(view, Rules(), NOW_MS, is_forced=is_forced)


# What is decided.


def test_a_dirty_partition_is_due_and_the_plan_keeps_its_facts() -> None:
    view, producers = a_log(cleaner_offsets=DIRTY), (open_from(None),)
    plan = partition_plan(view, producers, RULES, NOW_MS)
    assert isinstance(plan.choice, Compact)
    assert plan.is_due
    assert plan.compact is plan.choice
    assert (plan.compact.first_dirty, plan.compact.next_offset) == (10, 20)
    assert (plan.key, plan.rules, plan.view) == (KEY, RULES, view)
    assert plan.producers == producers
    assert isinstance(plan.regions, Regions)
    assert plan.ratio == dirty_ratio(view, plan.regions, RULES, NOW_MS)
    assert (plan.epoch, plan.should_have_rolled_at_ms) == (0, None)


def test_an_open_transaction_ends_the_plan_before_its_segment() -> None:
    plan = partition_plan(a_log(), (open_from(15),), RULES, NOW_MS)
    assert plan.compact.next_offset == 10
    assert plan.regions is not None
    assert plan.regions.unstable_from == 10


def test_first_dirty_moves_the_start_of_the_dirty_region() -> None:
    plan = partition_plan(a_log(cleaner_offsets=CLEAN), (), RULES, NOW_MS, first_dirty=3)
    assert plan.compact.first_dirty == 3


def test_an_offset_outside_the_log_is_refused_and_the_view_is_kept() -> None:
    view = a_log()
    plan = partition_plan(view, (), RULES, NOW_MS, first_dirty=21)
    assert isinstance(plan.choice, Refusal)
    assert (plan.view, plan.regions, plan.ratio) == (view, None, None)
    assert not plan.is_due


def test_a_partition_without_work_has_its_ratio() -> None:
    plan = partition_plan(a_log(cleaner_offsets=DIRTY), (), NEVER, NOW_MS)
    assert isinstance(plan.choice, Rest)
    assert plan.ratio is not None
    assert not plan.is_due
    with pytest.raises(TypeError, match="orders-3: the partition is not due"):
        _ = plan.compact


def test_a_segment_that_should_have_rolled_is_reported() -> None:
    segments = a_chain(10, 10, first_timestamp_ms=1_000, max_timestamp_ms=1_000)
    rules = replace(RULES, max_compaction_lag_ms=5_000)
    plan = partition_plan(a_view(segments), (), rules, NOW_MS)
    assert plan.should_have_rolled_at_ms is not None
    assert partition_plan(a_view(segments), (), RULES, NOW_MS).should_have_rolled_at_ms is None


# Notes from the row alone.

CLAIMED = "run dead has not released its claim: `compact` leaves it the partition while it is"
BY_TIME: Final = replace(RULES, compaction_strategy=CompactionStrategy.TIMESTAMP)
CHANGED = "the compaction strategy was offset and is timestamp now"


@pytest.mark.parametrize(
    ("owner", "rules", "expected"),
    [
        pytest.param(None, RULES, [], id="no row: nothing to report"),
        pytest.param(None, BY_TIME, [], id="no row: no strategy has changed"),
        pytest.param("", RULES, [], id="a claim that was released, the same strategy"),
        pytest.param("", BY_TIME, [CHANGED], id="a claim that was released, another strategy"),
        pytest.param("dead", RULES, [CLAIMED], id="a claim that is held, the same strategy"),
        pytest.param("dead", BY_TIME, [CLAIMED, CHANGED], id="a held claim, another strategy"),
    ],
)
def test_notes_on_the_claim_and_the_strategy_come_before_those_of_the_view(
    owner: str | None, rules: Rules, expected: list[str]
) -> None:
    view = replace(a_log(cleaner_offsets=DIRTY), notes=("something waits",))
    state = None
    if owner is not None:
        state = a_state(view.segments, owner_run=owner, cleaner_offsets=DIRTY)
    noted = with_row_notes(view, state, rules)
    assert len(noted.notes) == len(expected) + 1
    for note, begin in zip(noted.notes, (*expected, "something waits"), strict=True):
        assert note.startswith(begin)
    assert replace(noted, notes=view.notes) == view


# The checker of plans.


def test_a_plan_of_the_current_view_has_no_violations() -> None:
    plan = partition_plan(a_log(), (), RULES, NOW_MS)
    assert plan_violations(plan, NOW_MS) == ()


def test_a_plan_that_reaches_beyond_an_open_transaction_is_a_violation() -> None:
    plan = replace(partition_plan(a_log(), (), RULES, NOW_MS), producers=(open_from(15),))
    (violation,) = plan_violations(plan, NOW_MS)
    assert "15" in violation


def test_a_plan_of_other_segments_is_a_violation() -> None:
    plan = partition_plan(a_log(), (), RULES, NOW_MS)
    later = replace(plan, view=a_view(a_chain(10)))
    assert plan_violations(later, NOW_MS) != ()


def test_a_plan_that_is_not_due_or_not_inspected_has_no_violation() -> None:
    resting = partition_plan(a_log(cleaner_offsets=CLEAN), (), RULES, NOW_MS)
    assert plan_violations(resting, NOW_MS) == ()
    refusal = Refusal(reason=RefusalReason.GAP, detail="a gap", remedy="Look.")
    refused = PartitionPlan(key=KEY, rules=RULES, choice=refusal)
    assert plan_violations(refused, NOW_MS) == ()
    unseen = replace(partition_plan(a_log(), (), RULES, NOW_MS), view=None)
    assert plan_violations(unseen, NOW_MS) == ()


def test_only_due_plans_are_worked_on_most_overdue_first_then_dirtiest() -> None:
    half, whole, clean = (
        partition_plan(a_log(cleaner_offsets=offsets), (), RULES, NOW_MS)
        for offsets in (DIRTY, (), CLEAN)
    )
    overdue = partition_plan(
        a_log(cleaner_offsets=DIRTY), (), replace(RULES, max_compaction_lag_ms=1), NOW_MS
    )
    assert in_order_of_work([half, clean, whole, overdue]) == [overdue, whole, half]

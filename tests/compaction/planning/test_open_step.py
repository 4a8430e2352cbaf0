"""A new pass is planned only once brokers have what the row says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from tests.compaction.beside_brokers import CATALOG, brokers_have, own_id
from tests.compaction.broker_events import FINISHED, added, updated, uploaded
from tests.compaction.builders import CLUSTER, a_chain, a_segment, a_view, cleaned_to, retired
from tests.compaction.claimed import NOW_MS, RULES
from tierfold.compaction.brokers.events import Event, SegmentState
from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.rules import CompactionStrategy
from tierfold.compaction.model.serving import Pass
from tierfold.compaction.planning.open_step import step_of
from tierfold.compaction.planning.partition_plan import PartitionPlan, partition_plan
from tierfold.compaction.planning.plan import Compact, Rest, RestReason
from tierfold.compaction.publishing.steps import (
    Copy,
    Done,
    Merge,
    RefusalCode,
    Refused,
    Send,
    Step,
    Wait,
)

OLD: Final = a_chain(10, 10, 10)
NEW: Final = a_segment(0, 19, segment_id=own_id(), origin=Compacted("run"))
"""What an earlier pass wrote in the place of the first two; the third is dirty."""
UPLOADS: Final = [
    event
    for one in OLD
    for event in uploaded(one.start_offset, one.start_offset, one.end_offset)
]
STARTED: Final = added("x", 0, 19)._replace(segment_id=NEW.segment_id)
SWAPPED: Final = [
    STARTED,
    updated("x", FINISHED)._replace(segment_id=NEW.segment_id),
]
HEADER: Final = replace(
    RULES,
    tail_margin_segments=0,
    compaction_strategy=CompactionStrategy.HEADER,
    compaction_strategy_header="v",
)


def seen(events: list[Event], live_dirty: int = 1, **fields: Any) -> PartitionView:
    """The row after that pass, and brokers with these events."""
    row = {"served_by": (CLUSTER,), "epoch": 1, "cleaner_offsets": cleaned_to(20)} | fields
    view = a_view(
        [NEW, *OLD[2 : 2 + live_dirty]], retired=tuple(map(retired, OLD[:2])), **row
    )
    ids = {NEW.segment_id, *(one.segment_id for one in OLD)}
    return replace(view, brokers=brokers_have(events, ids), fingerprint=CATALOG)


def plan_of(view: PartitionView) -> PartitionPlan:
    return partition_plan(view, (), HEADER, NOW_MS, step=step_of(view, HEADER, NOW_MS))


@pytest.mark.parametrize("events", [UPLOADS, [*UPLOADS, STARTED]])
@pytest.mark.parametrize("live_dirty", [0, 1])
def test_no_second_pass_is_planned_over_an_unpublished_first(
    events: list[Event], live_dirty: int
) -> None:
    plan = plan_of(seen(events, live_dirty))
    assert isinstance(plan.step, Send)
    assert isinstance(plan.choice, Rest)
    assert plan.choice.reason is RestReason.UNPUBLISHED
    assert "an earlier pass is not wholly published" in plan.choice.detail
    # Though nothing of it may be dirty.
    assert plan.is_publishing_due
    assert not plan.is_due


def test_a_published_pass_is_followed_by_the_next() -> None:
    listed = [updated(one.start_offset, SegmentState.DELETE_STARTED) for one in OLD[:2]]
    plan = plan_of(seen([*UPLOADS, *SWAPPED, *listed]))
    assert plan.step == Done()
    assert isinstance(plan.choice, Compact)
    assert not plan.is_publishing_due


@pytest.mark.parametrize(("at_ms", "is_due"), [(None, True), (NOW_MS, False)])
def test_that_brokers_have_a_pass_is_noted_though_the_run_that_sent_it_died(
    at_ms: int | None, *, is_due: bool
) -> None:
    listed = [updated(one.start_offset, SegmentState.DELETE_STARTED) for one in OLD[:2]]
    passes = (Pass(epoch=1, horizon_ms=None, published_at_ms=at_ms, has_spared=False),)
    plan = plan_of(seen([*UPLOADS, *SWAPPED, *listed], 0, passes=passes))
    assert plan.step == Done()
    assert not plan.is_due
    assert plan.is_publishing_due is is_due


def test_nothing_is_published_of_a_topic_that_is_taken_out() -> None:
    plan = plan_of(seen(UPLOADS, 0))
    assert plan.is_publishing_due
    assert not replace(plan, rules=replace(HEADER, publish=False)).is_publishing_due


def test_nothing_is_published_of_what_is_refused() -> None:
    plan = plan_of(seen(UPLOADS, 0, has_dropped=True))
    assert isinstance(plan.choice, Refusal)
    assert plan.choice.reason is RefusalReason.DELETED_KEYS
    assert isinstance(plan.step, Send)
    assert not plan.is_publishing_due


def test_a_tier_that_no_broker_serves_has_no_step() -> None:
    view = seen(UPLOADS, served_by=())
    assert step_of(view, HEADER, NOW_MS) is None
    plan = plan_of(view)
    assert isinstance(plan.choice, Compact)
    assert not plan.is_publishing_due


def test_without_a_look_no_pass_is_planned_on_a_served_row() -> None:
    view = replace(seen(UPLOADS), brokers=None)
    choice = plan_of(view).choice
    assert isinstance(choice, Rest)
    assert choice.reason is RestReason.UNPUBLISHED
    assert "not known" in choice.detail


STEPS: Final[list[tuple[Step, bool, bool]]] = [
    (Done(), True, False),
    (Merge(segment_ids=("a", "b"), why="w"), True, True),
    (Wait(until_ms=None, why="they upload"), False, True),
    (Copy(segment_id="a", why="they deleted it"), False, True),
    (Refused(code=RefusalCode.NO_ORDER, why="no order"), False, False),
]


@pytest.mark.parametrize(("step", "is_planned", "is_publishing_due"), STEPS)
def test_each_step_says_whether_a_pass_may_begin(
    step: Step, *, is_planned: bool, is_publishing_due: bool
) -> None:
    plan = partition_plan(seen(UPLOADS), (), HEADER, NOW_MS, step=step)
    assert isinstance(plan.choice, Compact) is is_planned
    assert plan.is_publishing_due is is_publishing_due
    if isinstance(plan.choice, Rest) and not isinstance(step, Done):
        assert plan.choice.detail.endswith(step.why)

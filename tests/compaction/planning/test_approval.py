"""A partition is carried out only as it was planned; what has changed is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pytest

from tests.compaction.builders import a_chain, a_view, cleaned_to, segment_id
from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.planning.approval import IDS_MAX, approved, unless_changed
from tierfold.compaction.planning.partition_plan import PartitionPlan, partition_plan
from tierfold.compaction.planning.plan import Compact

RULES: Final = Rules(cleanup_policy=frozenset({"compact"}))
NOW_MS: Final = 8_640_000_000
SETTINGS: Final = {"cleanup.policy": "compact"}


def planned(view: PartitionView, rules: Rules = RULES) -> PartitionPlan:
    return partition_plan(view, (), rules, NOW_MS)


def view_of(segments: int, *, commit_id: str = "c" * 22) -> PartitionView:
    return a_view(
        a_chain(*[10] * segments), cleaner_offsets=cleaned_to(10), commit_id=commit_id
    )


PLAN: Final = planned(view_of(3))
APPROVED: Final = approved(PLAN, SETTINGS)


def changes(now: PartitionPlan, settings: Mapping[str, str] = SETTINGS) -> str:
    found = unless_changed(now, APPROVED, settings).choice
    assert isinstance(found, Refusal)
    assert found.reason is RefusalReason.PLAN_OUTDATED
    return found.detail.removeprefix("it has changed since it was planned: ")


def test_what_has_not_changed_is_carried_out() -> None:
    assert unless_changed(PLAN, APPROVED, SETTINGS) is PLAN


def test_a_partition_may_have_had_no_row() -> None:
    first = replace(PLAN, view=replace(view_of(3), state=None))
    was = approved(first, SETTINGS)
    assert was.row == ""
    assert unless_changed(first, was, SETTINGS) is first
    now = unless_changed(PLAN, was, SETTINGS).choice
    assert isinstance(now, Refusal)
    assert "a run has changed its row in the catalog" in now.detail


def test_what_is_refused_anyway_keeps_its_reason() -> None:
    gap = Refusal(reason=RefusalReason.GAP, detail="a gap", remedy="Close it.")
    refused = replace(PLAN, choice=gap)
    assert unless_changed(refused, APPROVED, {}) is refused


@pytest.mark.parametrize(
    ("settings", "detail"),
    [
        ({"cleanup.policy": "delete"}, "cleanup.policy was compact and is delete"),
        ({}, "cleanup.policy was compact and is unknown"),
        ({**SETTINGS, "segment.ms": "1"}, "segment.ms was unknown and is 1"),
    ],
)
def test_another_setting_is_named(settings: Mapping[str, str], detail: str) -> None:
    assert changes(PLAN, settings) == detail


def test_another_commit_is_named_with_its_epoch() -> None:
    assert changes(planned(view_of(3, commit_id="d" * 22))) == (
        f"a run has changed its row in the catalog (epoch {PLAN.epoch} then, {PLAN.epoch} now)"
    )


def test_segments_that_came_and_went_are_named() -> None:
    assert changes(planned(view_of(4))) == f"1 segment is new: {segment_id(30)}"
    gone = changes(planned(view_of(2)))
    assert gone == f"1 segment is gone: {segment_id(20)}"
    came = changes(planned(view_of(3 + IDS_MAX)))
    assert came.startswith(f"{IDS_MAX} segments are new: {segment_id(30)}, ")
    assert "more" not in came
    many = changes(planned(view_of(5 + IDS_MAX)))
    assert many.startswith(f"{2 + IDS_MAX} segments are new: ")
    assert many.endswith(" and 2 more")
    assert many.count(",") == IDS_MAX - 1


def test_another_choice_from_the_same_facts_is_named() -> None:
    rest = planned(view_of(3), replace(RULES, cleanup_policy=frozenset()))
    assert changes(rest).startswith("nothing would be done now: ")
    assert isinstance(PLAN.choice, Compact)
    smaller = replace(PLAN, choice=replace(PLAN.choice, next_offset=20))
    assert changes(smaller) == (
        "1 new segment up to offset 19 would be written now, 1 up to 29 then"
    )


def test_of_a_changed_partition_only_the_facts_are_named() -> None:
    rest = planned(view_of(4), replace(RULES, cleanup_policy=frozenset()))
    assert changes(rest) == f"1 segment is new: {segment_id(30)}"


def test_a_partition_that_cannot_be_seen_has_no_facts_to_compare() -> None:
    rest = planned(view_of(3), replace(RULES, cleanup_policy=frozenset()))
    assert changes(replace(rest, view=None)).startswith("nothing would be done now: ")

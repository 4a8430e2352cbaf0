"""The page's model: what needs a person, and what a survey of thousands of partitions leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.compaction.builders import (
    CLUSTER,
    KEY,
    a_chain,
    a_segment,
    a_view,
    cleaned_to,
    retired,
)
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.model.bindings import UNDECLARED, Detached
from tierfold.compaction.model.errors import UNCHANGED, BadSettings
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.planning.partition_plan import PartitionPlan, partition_plan
from tierfold.compaction.planning.plan import Rest, RestReason
from tierfold.compaction.publishing.steps import Done, RefusalCode, Refused, Step, Wait
from tierfold.jobs.context.request_prices import storage_price
from tierfold.jobs.page.page_model import Day, Page, Skipped, Urgency
from tierfold.jobs.page.page_of import TOP, About, page_of
from tierfold.jobs.page.recorded import Recorded, Unfinished
from tierfold.jobs.page.surveyed import most_dirty

DAY_MS: Final = 86_400_000
NOW_MS: Final = 100 * DAY_MS
RULES: Final = Rules(cleanup_policy=frozenset({"compact"}))
VIEW: Final = a_view(a_chain(10, 10, 10), cleaner_offsets=cleaned_to(10))
PLAN: Final = partition_plan(VIEW, (), RULES, NOW_MS)
GAP: Final = Refusal(reason=RefusalReason.GAP, detail="a gap", remedy="Close it.")
NOT_COMPACTED: Final = PartitionPlan(
    key=replace(KEY, topic="events"),
    rules=RULES,
    choice=Rest(reason=RestReason.NO_POLICY, detail="no cleanup.policy is set"),
)


def shown(
    *plans: PartitionPlan,
    runs: Recorded | None = None,
    documents: Mapping[str, Mapping[str, Any]] | None = None,
) -> Page:
    about = About(
        tier="/tier",
        made_at_ms=NOW_MS,
        price=storage_price("s3", None),
        stored_bytes=7,
        owner_of=lambda topic: f"team={topic[0]}",
    )
    return page_of(about, plans, runs or Recorded(), documents=documents)


def replaced(plan: PartitionPlan, retired_at_ms: int, **changed: Any) -> PartitionPlan:
    """The plan with a replaced segment of 1000 bytes that a broker uploaded."""
    entry = retired(a_segment(0, 9), retired_at_ms=retired_at_ms)
    return replace(plan, retired=(entry,), **changed)


def test_a_quiet_tier_has_no_problem() -> None:
    page = shown(PLAN, NOT_COMPACTED)
    assert (page.problems, page.partitions, page.topics_in_all) == ((), 1, 1)
    assert page.problems_left_out == 0
    (topic,) = page.topics
    assert (topic.live_bytes, topic.clean_bytes, topic.cleanable_bytes) == (3000, 1000, 2000)
    assert topic.dirty_ratio == 2 / 3


def test_what_needs_a_person_comes_by_urgency_with_its_remedy() -> None:
    failed = Unfinished(
        topic=KEY.topic,
        topic_id=KEY.topic_id,
        partition=KEY.partition,
        outcome="lost_race",
        reason="another run was first; run again",
        command="compact",
    )
    gone = replace(failed, topic="gone")
    refused = [replace(PLAN, key=replace(KEY, partition=n), choice=GAP) for n in (7, 8)]
    behind = replaced(PLAN, NOW_MS - 3 * DAY_MS, binding=Detached())
    kept = replaced(PLAN, NOW_MS, key=replace(KEY, partition=9), binding=UNDECLARED)
    page = shown(behind, *refused, kept, runs=Recorded(unfinished=(gone, failed)))
    found = [(one.urgency, one.where, one.why, one.remedy) for one in page.problems]
    assert found[:3] == [
        (
            Urgency.FAILED,
            "orders-3",
            "compact lost race: another run was first; run again",
            "",
        ),
        (Urgency.REFUSED, "orders-7, orders-8", "a gap [gap]", "Close it."),
        (
            Urgency.BEHIND,
            "orders-3",
            "1 000 bytes of replaced segments may go since 1970-04-09T00:00:00.000Z, and are still"
            " there",
            "Run `tierfold vacuum`; its report says what it could not delete, and why.",
        ),
    ]
    (last,) = found[3:]
    assert last[:2] == (Urgency.KEPT, "orders-9")
    assert last[2].startswith("1 000 bytes of replaced segments stay: a broker may serve them")
    assert last[3] == "If no broker serves this tier, set tier.binding=detached."


def test_that_nothing_was_changed_is_nothing_to_do() -> None:
    unreadable = replace(GAP, remedy=UNCHANGED)
    lost = replace(GAP, detail="it is gone", remedy=f"{UNCHANGED} Bring it back.")
    plans = [
        replace(PLAN, key=replace(KEY, partition=number), choice=refusal)
        for number, refusal in enumerate((unreadable, lost))
    ]
    assert [one.remedy for one in shown(*plans).problems] == ["", "Bring it back."]


def test_clean_topics_have_no_place_among_the_dirty_ones() -> None:
    clean = a_view(a_chain(10), cleaner_offsets=cleaned_to(10))
    quiet = replace(partition_plan(clean, (), RULES, NOW_MS), key=replace(KEY, topic="quiet"))
    page = shown(PLAN, quiet)
    assert [one.topic for one in page.topics] == ["orders", "quiet"]
    assert [one.topic for one in page.dirty_topics] == ["orders"]
    late = replace(page, topics=tuple(replace(one, delay_ms=1) for one in page.topics))
    assert late.dirty_topics == late.topics


def test_vacuum_has_a_day_to_delete() -> None:
    last_ms = NOW_MS - 2 * DAY_MS
    assert shown(replaced(PLAN, last_ms, binding=Detached())).problems == ()
    (problem,) = shown(replaced(PLAN, last_ms - 1, binding=Detached())).problems
    assert problem.urgency is Urgency.BEHIND


def test_a_swap_that_brokers_have_not_is_unfinished() -> None:
    served = a_view(a_chain(10), cleaner_offsets=cleaned_to(10), served_by=CLUSTER)
    (problem,) = shown(replace(PLAN, view=served)).problems
    assert (problem.urgency, problem.where) == (Urgency.OPEN, "orders-3")
    assert problem.why == "the catalog does not note that brokers have the newest pass"


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (Done(), []),
        (Wait(until_ms=None, why="copies are on"), ["not wholly published: copies are on"]),
        (
            Refused(code=RefusalCode.READ_ONLY, why="a strange record"),
            ["nothing can be published, so no new pass begins: a strange record"],
        ),
    ],
)
def test_what_brokers_were_seen_to_have_counts(step: Step, why: list[str]) -> None:
    served = a_view(a_chain(10), cleaner_offsets=cleaned_to(10), served_by=CLUSTER)
    found = shown(replace(PLAN, view=served, step=step)).problems
    assert [one.why for one in found] == why


def test_compaction_is_late_past_its_lag() -> None:
    late = partition_plan(VIEW, (), replace(RULES, max_compaction_lag_ms=DAY_MS), NOW_MS)
    (problem,) = shown(late).problems
    assert (problem.urgency, problem.partitions) == (Urgency.LATE, 1)
    assert "the most overdue by 98.9 d" in problem.why
    assert problem.remedy.startswith("Raise `--max-duration` or `--max-bytes`")


def test_thousands_of_partitions_leave_the_top_and_the_totals() -> None:
    plans = [
        replace(PLAN, key=replace(KEY, topic=f"{number % 40:02}", partition=number))
        for number in range(5000)
    ]
    refused = [
        replace(plan, choice=replace(GAP, detail=f"gap {number}"))
        for number, plan in enumerate(plans[:100])
    ]
    page = shown(*refused, *plans[100:])
    assert (page.partitions, page.topics_in_all, len(page.topics)) == (5000, 40, TOP)
    assert (len(page.problems), page.problems_left_out) == (TOP, 100 - TOP)
    assert sum(owner.partitions for owner in page.owners) == 5000
    assert len(most_dirty(plans, 6)) == 6


def test_the_newest_day_has_the_sums_and_without_days_there_are_none() -> None:
    first = Day(
        day="2026-01-01",
        bytes_in=9,
        bytes_out=4,
        saved_bytes=5,
        freed_bytes=0,
        cost_usd=None,
        removed={},
        requests={},
    )
    days = (first, replace(first, saved_bytes=7, cost_usd=2.0), replace(first, cost_usd=1.0))
    page = shown(PLAN, runs=Recorded(days=days))
    assert (page.saved_bytes, page.cost_usd) == (5, 3.0)
    assert replace(page, days=days[:1]).cost_usd is None
    assert (shown(PLAN).saved_bytes, shown(PLAN).cost_usd) == (0, None)
    (topic,) = page.topics
    assert replace(topic, clean_bytes=0, cleanable_bytes=0).dirty_ratio == 0


def test_what_could_not_be_inspected_counts_without_bytes() -> None:
    unseen = PartitionPlan(key=replace(KEY, partition=9), rules=RULES, choice=GAP)
    page = shown(PLAN, unseen)
    (topic,) = page.topics
    assert (topic.partitions, topic.live_bytes, topic.clean_bytes) == (2, 3000, 1000)
    assert (page.oldest_horizon, len(page.problems)) == (None, 1)
    assert most_dirty([unseen, PLAN], 2) == [PLAN]


def test_the_dirtiest_partition_comes_first_and_an_empty_one_not_at_all() -> None:
    clean = a_view(a_chain(*[10] * 5), cleaner_offsets=cleaned_to(50))
    large = replace(partition_plan(clean, (), RULES, NOW_MS), key=replace(KEY, partition=7))
    unknown = replace(large, key=replace(KEY, partition=8), ratio=None)
    empty = replace(PLAN, view=a_view(()), key=replace(KEY, partition=6))
    assert most_dirty([empty, large, unknown, PLAN], 9) == [PLAN, unknown, large]


def test_owners_have_what_was_saved_for_them_also_of_topics_that_are_gone() -> None:
    runs = Recorded(saved_by_topic={"orders": 50, "old": 7}, usd_by_topic={"orders": 2.0, "old": 1})
    (first,) = shown(PLAN, runs=runs).owners
    assert (first.owner, first.saved_bytes, first.request_usd) == ("team=o", 57, 3.0)
    assert (first.topics, first.live_bytes) == (1, 3000)


def test_the_oldest_horizon_is_that_of_a_live_segment() -> None:
    due = a_view([a_segment(0, 9, earliest_due_ms=40), a_segment(10, 19, earliest_due_ms=30)])
    found = shown(PLAN, replace(PLAN, view=due)).oldest_horizon
    assert found is not None
    assert (found.partition, found.due_at_ms) == ("orders-3", 30)
    assert shown(PLAN).oldest_horizon is None


def test_a_runs_document_says_what_key_indexes_spared() -> None:
    entry = {
        "key_indexes": {"by_bloom_filter": 5, "no_index": 2},
        "segments_skipped": 5,
        "segments_read_once": 1,
    }
    document = {"verb": "compact", "run": "r", "partitions": [entry, entry]}
    assert shown(documents={"d": document}).skipped == (
        Skipped(run="r", asked=14, skipped=10, read_once=2),
    )


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"verb": "plan", "run": None, "partitions": []},
        {"verb": "compact", "run": "r", "partitions": [{}]},
    ],
)
def test_another_document_is_refused_by_its_place(document: dict[str, Any]) -> None:
    with pytest.raises(BadSettings, match=r"d\.json"):
        shown(documents={"d.json": document})

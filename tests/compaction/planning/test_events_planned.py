"""How many events a plan would need until brokers have what it leads to."""

from __future__ import annotations

from dataclasses import replace

from tests.compaction.beside_brokers import brokers_have
from tests.compaction.builders import a_chain, a_view, retired
from tests.compaction.looks import replacement, whole
from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.planning.partition_plan import PartitionPlan, partition_plan

RULES = Rules(
    cleanup_policy=frozenset({"compact"}), segment_bytes=2000, tail_margin_segments=0
)
NOW_MS = 10**12
LIVE = a_chain(10, 10, 10, 10)
GONE = (replacement("A", 0, 9), replacement("B", 10, 19))


def planned(view: PartitionView, rules: Rules = RULES) -> PartitionPlan:
    return partition_plan(view, (), rules, NOW_MS)


def test_a_round_counts_its_replacements_and_its_sources() -> None:
    plan = planned(replace(a_view(LIVE), brokers=brokers_have(whole(*LIVE))))
    groups, sources = len(plan.compact.groups), len(plan.compact.sources)
    assert sources == 4
    assert plan.events_planned == 2 * groups + 2 * sources


def test_a_source_that_brokers_never_had_needs_no_event() -> None:
    plan = planned(replace(a_view(LIVE), brokers=brokers_have(whole(*LIVE[1:]))))
    assert plan.events_planned == 2 * len(plan.compact.groups) + 2 * 3


def test_what_an_earlier_run_left_open_counts_too() -> None:
    view = a_view(LIVE, retired=tuple(map(retired, GONE)))
    beside = replace(view, brokers=brokers_have(whole(*LIVE, *GONE)))
    plan = planned(beside)
    assert plan.events_planned == 2 * len(plan.compact.groups) + 2 * 4 + 2 * 2
    idle = planned(beside, replace(RULES, min_compaction_lag_ms=2 * NOW_MS))
    assert not idle.is_due
    assert idle.events_planned == 2 * 2
    unserved = replace(view, brokers=brokers_have(whole(*LIVE[:3])))
    idle = planned(unserved, replace(RULES, min_compaction_lag_ms=2 * NOW_MS))
    assert idle.events_planned == 2


def test_without_brokers_or_after_a_refusal_there_are_none() -> None:
    assert planned(a_view(LIVE)).events_planned == 0
    plan = planned(replace(a_view(LIVE), brokers=brokers_have(whole(*LIVE))))
    refusal = Refusal(reason=RefusalReason.OVERLAP, detail="d", remedy="r")
    assert replace(plan, choice=refusal).events_planned == 0

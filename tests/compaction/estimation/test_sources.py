"""Which segments an estimate is about, and what a run may remove of them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from tests.compaction.builders import a_chain, a_segment, a_view, cleaned_to
from tests.compaction.claimed import NOW_MS, RULES, THREE, a_plan
from tierfold.compaction.estimation.sources import Sources, sources_of
from tierfold.compaction.model.rules import CompactionStrategy, Rules
from tierfold.compaction.planning.partition_plan import PartitionPlan, partition_plan
from tierfold.compaction.planning.plan import CompactReason, RestReason

RATIO = replace(RULES, min_cleanable_dirty_ratio=Fraction(1, 2))


def cleaned_plan(offset: int, rules: Rules = RULES) -> PartitionPlan:
    """The plan of a partition that is clean below an offset."""
    return partition_plan(a_view(THREE, cleaner_offsets=cleaned_to(offset)), (), rules, NOW_MS)


def test_a_due_partition_is_compared_from_its_dirty_part_on() -> None:
    assert sources_of(a_plan()) == Sources(segments=THREE, competes_from=0)
    found = sources_of(cleaned_plan(22))
    assert found == Sources(segments=THREE, competes_from=22)
    assert (found.clean, found.dirty, found.next_offset) == (THREE[:2], THREE[2:], 33)


def test_a_partition_that_only_its_ratio_holds_back_has_an_estimate() -> None:
    plan = cleaned_plan(22, RATIO)
    assert getattr(plan.choice, "reason", None) is RestReason.RATIO_TOO_LOW
    assert sources_of(plan) == Sources(segments=THREE, competes_from=22)
    assert plan.regions is not None
    held = replace(plan, regions=replace(plan.regions, first_uncleanable=22))
    assert sources_of(held) == Sources(segments=THREE[:2], competes_from=22)


def test_what_is_clean_and_a_merge_have_none() -> None:
    plan = cleaned_plan(33)
    assert getattr(plan.choice, "reason", None) is RestReason.NOTHING_DIRTY
    assert sources_of(plan) is None
    merge = replace(a_plan().compact, reason=CompactReason.MERGE)
    assert sources_of(replace(a_plan(), choice=merge)) is None


@pytest.mark.parametrize("reason", [CompactReason.HORIZON_PASSED, CompactReason.PRODUCER_EXPIRED])
def test_a_round_for_horizons_compares_no_keys(reason: CompactReason) -> None:
    due = replace(a_plan().compact, reason=reason)
    found = sources_of(replace(a_plan(), choice=due))
    assert found == Sources(segments=THREE, competes_from=0, compares_keys=False)


def test_segments_without_bytes_are_left_out() -> None:
    empty, full = a_segment(0, 9, size_bytes=0), a_segment(10, 19)
    found = sources_of(a_plan((empty, full)))
    assert found is not None
    assert found.segments == (full,)
    assert sources_of(a_plan((empty,))) is None


def test_what_rules_and_brokers_change() -> None:
    by_version = replace(RULES, compaction_strategy=CompactionStrategy.TIMESTAMP)
    assert sources_of(cleaned_plan(22, by_version)) == Sources(segments=THREE, competes_from=0)
    for rules in (
        replace(RULES, min_rewrite_gain=Fraction(1, 10)),
        replace(RULES, min_rewrite_bytes=1),
    ):
        assert sources_of(a_plan(rules=rules)) == Sources(
            segments=THREE, competes_from=0, may_spare=True
        )
    served = replace(a_plan(), view=a_view(THREE, served_by="cluster"))
    assert sources_of(served) == Sources(segments=THREE, competes_from=0, drops_expired=False)


def test_logs_may_be_stored_in_fewer_bytes() -> None:
    packed, plain = a_chain(10, 10, size_bytes=1000)
    packed = replace(packed, stored_log_bytes=200)
    assert Sources(segments=(packed, plain), competes_from=0).stored_per_byte == 0.6

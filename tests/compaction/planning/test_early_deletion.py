"""A round waits while fees for deleting young objects are higher than what it can save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

import pytest

from tests.compaction.builders import a_chain, a_view, listed
from tests.compaction.claimed import NOW_MS, RULES
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.model.rules import DAY_MS, Rules
from tierfold.compaction.model.wording import dollars
from tierfold.compaction.planning.early_deletion import with_fees
from tierfold.compaction.planning.partition_plan import PartitionPlan, partition_plan
from tierfold.compaction.planning.plan import Compact, CompactReason, Rest, RestReason
from tierfold.compaction.planning.storage_fees import GIB, ClassPrice, fees_of

PRICES: Final = {
    "": ClassPrice(usd_per_gib_month=Fraction(3, 100)),
    "IA": ClassPrice(
        usd_per_gib_month=Fraction(1, 100), usd_per_gib_read=Fraction(2, 100), minimum_days=30
    ),
    "IR": ClassPrice(usd_per_gib_month=Fraction(4, 1000), minimum_days=90),
}
SEGMENTS: Final = a_chain(10, 10, 10)


def stored(number: int, storage_class: str, age_days: float, gib: int = 1) -> ListedSegment:
    """The listing of a segment whose `.log` has that class and age."""
    return replace(
        listed(SEGMENTS[number]),
        parts=(("index", 0), ("log", gib * GIB)),
        modified_ms=NOW_MS - round(age_days * DAY_MS),
        classes=(("log", storage_class),) if storage_class else (),
    )


def planned(
    found: Sequence[ListedSegment], rules: Rules = RULES, **options: int
) -> PartitionPlan:
    view = replace(a_view(SEGMENTS), stored=tuple(found))
    return with_fees(partition_plan(view, (), rules, NOW_MS, **options), PRICES, NOW_MS)


IA_NEW: Final = [stored(number, "IA", 0) for number in range(3)]


@pytest.mark.parametrize(
    ("found", "waits"),
    [
        pytest.param([], False, id="the usual class, which no listing is kept of"),
        pytest.param([stored(n, "", 0) for n in range(3)], False, id="no minimum duration"),
        pytest.param(IA_NEW, True, id="all of it is new"),
        pytest.param([stored(n, "IA", 29.99) for n in range(3)], True, id="nearly old enough"),
        pytest.param([stored(n, "IA", 30) for n in range(3)], False, id="old enough"),
        pytest.param([stored(n, "OTHER", 0) for n in range(3)], False, id="an unknown class"),
        pytest.param(
            [stored(0, "IA", 40, 2), stored(1, "IA", 0), stored(2, "IA", 40, 0)],
            False,
            id="what is old saves more than the fee",
        ),
        pytest.param(
            [stored(0, "IA", 40, 2), stored(1, "IA", 0, 2), stored(2, "IA", 0, 1)],
            True,
            id="what is old saves less than the fee",
        ),
        pytest.param(
            [stored(0, "IA", 40), stored(1, "IA", 0), stored(2, "IA", 40, 0)],
            False,
            id="as much as the fee",
        ),
        pytest.param(
            [stored(0, "", 0, 1), stored(1, "IA", 0, 2), stored(2, "IA", 0, 0)],
            False,
            id="a class without a minimum saves at its own price",
        ),
        pytest.param(
            [stored(0, "IA", 40), stored(1, "IR", 30), stored(2, "IA", 40, 0)],
            False,
            id="several classes with a minimum",
        ),
    ],
)
def test_a_round_waits_if_the_fees_are_higher_than_what_it_saves(
    found: Sequence[ListedSegment], waits: bool
) -> None:
    plan = planned(found)
    assert isinstance(plan.choice, Rest) == waits
    assert plan.is_due != waits
    if isinstance(plan.choice, Rest):
        assert plan.choice.reason is RestReason.EARLY_DELETION


def test_the_reason_has_the_sums_and_the_way_out() -> None:
    plan = planned([stored(0, "IA", 40, 2), stored(1, "IA", 15, 9), stored(2, "IR", 60, 30)])
    assert isinstance(plan.choice, Rest)
    # 9 GiB at $0.01 for 15 days, 30 GiB at $0.004 for 30; 2 GiB at $0.01 for 30 days.
    assert plan.choice.detail == (
        "a rewrite now costs $0.17 for deleting objects before the minimum storage duration of"
        " their class (IA 30 d, IR 90 d), and saves at most $0.02 of storage until that is over,"
        " in 30 d; rewrite.young.objects=true does not wait"
    )


def test_a_person_and_a_deadline_do_not_wait() -> None:
    assert not planned(IA_NEW).is_due
    for plan, reason in (
        (planned(IA_NEW, replace(RULES, rewrite_young_objects=True)), CompactReason.DIRTY),
        (planned(IA_NEW, first_dirty=0), CompactReason.FORCED),
        (planned(IA_NEW, replace(RULES, max_compaction_lag_ms=1)), CompactReason.MUST_CLEAN),
    ):
        assert isinstance(plan.choice, Compact)
        assert plan.choice.reason is reason
        assert len(plan.fees_of_sources) == 3


def test_a_partition_without_work_keeps_its_own_reason() -> None:
    never = replace(RULES, min_compaction_lag_ms=NOW_MS)
    plan = planned(IA_NEW, never)
    assert isinstance(plan.choice, Rest)
    assert plan.choice.reason is not RestReason.EARLY_DELETION
    assert plan.fees_of_sources == ()


def test_a_partition_with_steady_uploads_is_not_held_back_for_ever() -> None:
    # What a round left, and uploads of 1 GiB in each of the days since.
    days = next(
        days
        for days in range(1, 100)
        if _saves([stored(0, "IA", days, 3), *(stored(1, "IA", age) for age in range(days))])
    )
    assert 30 < days <= 45


def _saves(found: Sequence[ListedSegment]) -> bool:
    fees = fees_of(found, PRICES, NOW_MS)
    wait_ms = max(one.free_at_ms for one in fees) - NOW_MS
    return sum(one.early_deletion_usd for one in fees) <= wait_ms * sum(
        one.free_usd_per_ms for one in fees
    )


def test_the_fees_of_a_segment_add_up_over_its_objects() -> None:
    found = replace(
        stored(0, "IA", 10), parts=(("index", GIB), ("log", 2 * GIB)), classes=(("log", "IA"),)
    )
    (fees,) = fees_of([found], PRICES, NOW_MS)
    assert fees.early_deletion_usd == Fraction(2 * 20, 30 * 100)
    assert fees.retrieval_usd == Fraction(4, 100)
    assert fees.free_at_ms == NOW_MS + 20 * DAY_MS
    assert fees.free_usd_per_ms * 30 * DAY_MS == Fraction(3, 100)
    assert (fees.storage_class, fees.minimum_days) == ("IA", 30)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (Fraction(0), "$0.00"),
        (Fraction(1, 10**6), "less than $0.001"),
        (Fraction(1, 1000), "$0.001"),
        (Fraction(1234, 10**5), "$0.012"),
        (Fraction(99, 100), "$0.99"),
        (Fraction(1), "$1.00"),
        (Fraction(123456789, 100), "$1 234 567.89"),
    ],
)
def test_dollars_are_short(amount: Fraction, text: str) -> None:
    assert dollars(amount) == text

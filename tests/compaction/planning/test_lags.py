"""min.compaction.lag.ms and max.compaction.lag.ms: a table of cases per rule, with its source."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.aged import NOW_MS, aged
from tests.compaction.beside_brokers import brokers_have
from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.model.units import OffsetSpan
from tierfold.compaction.planning.eligibility import (
    DirtyRatio,
    dirty_ratio,
    should_have_rolled_at_ms,
)
from tierfold.compaction.planning.plan import (
    Choice,
    Compact,
    CompactReason,
    Rest,
    RestReason,
    propose,
)
from tierfold.compaction.planning.regions import LastStable, Regions, regions_of

NONE_MS = NOW_MS + 1
"""The age of a record without a timestamp (−1)."""


def rules(minimum_ms: int = 0, maximum_ms: int = 2**63 - 1) -> Rules:
    return Rules(
        cleanup_policy=frozenset({"compact"}),
        min_compaction_lag_ms=minimum_ms,
        max_compaction_lag_ms=maximum_ms,
    )


def divided(
    view: PartitionView, of: Rules, open_from: int | None = None, forced: int | None = None
) -> Regions:
    last_stable = None if open_from is None else LastStable(offset=open_from)
    regions = regions_of(view, last_stable, of, NOW_MS, forced_first_dirty=forced)
    assert isinstance(regions, Regions)
    return regions


def weighed(view: PartitionView, of: Rules, open_from: int | None = None) -> DirtyRatio:
    return dirty_ratio(view, divided(view, of, open_from), of, NOW_MS)


def chosen(view: PartitionView, of: Rules, open_from: int | None = None) -> Choice:
    return propose(view, of, divided(view, of, open_from), NOW_MS)


@pytest.mark.parametrize(
    ("view", "minimum_ms", "first_uncleanable"),
    [
        # LogCleanerManager.findFirstUncleanableSegment: largestTimestamp > now - lag.
        (aged(90, 60, 30), 50, 200),
        (aged(90, 60, 30), 1000, 0),
        (aged(90, 60, 30), 30, 300),
        # Exactly as old as the lag is old enough; a millisecond less is not.
        (aged(90, 60), 60, 200),
        (aged(90, 60), 61, 100),
        # The first young one counts even if an older one follows: producers' clocks differ.
        (aged(90, 10, 80), 50, 100),
        # The youngest record of a segment counts.
        (aged((90, 10), 80), 50, 0),
        # Not checked if it is 0, even if a timestamp lies in the future.
        (aged(90, -500), 0, 200),
        (aged(90, -500), 1, 100),
        # Clean segments do not count; the one that holds the first dirty offset does
        # (UnifiedLog.nonActiveLogSegmentsFrom).
        (aged(10, 10, 90, cleaned=200), 50, 300),
        (aged(10, 10, 90, cleaned=150), 50, 100),
        (aged(10, 10, 90, cleaned=300), 50, 300),
    ],
)
def test_the_minimum_lag_holds_back_from_the_first_young_dirty_segment(
    view: PartitionView, minimum_ms: int, first_uncleanable: int
) -> None:
    assert divided(view, rules(minimum_ms)).first_uncleanable == first_uncleanable


def test_regions_follow_each_other_in_offset_order() -> None:
    # SEMANTICS 1: cleaned, dirty, uncleanable, unstable; active is never in the remote tier.
    regions = divided(aged(90, 90, 90, 20, 20, 20, cleaned=150), rules(50), open_from=450)
    assert regions.cleaned == OffsetSpan(start=0, end=150)
    assert regions.dirty == OffsetSpan(start=150, end=300)
    assert regions.uncleanable == OffsetSpan(start=300, end=400)
    assert regions.unstable == OffsetSpan(start=400, end=600)


@pytest.mark.parametrize(
    ("ages_ms", "open_from", "first_uncleanable"),
    [
        # KIP-354, "overrides min.compaction.lag.ms": the maximum is 100 here, the minimum 50.
        ([200, 20, 20], None, 100),
        # Up to the end of the last overdue segment, young ones between included.
        ([20, 200, 20], None, 200),
        ([20, 20, 200], None, 300),
        # The first batch makes a segment overdue, its youngest record holds it back.
        ([(200, 20), 20], None, 100),
        # No further than the minimum allows anyway.
        ([200, 90, 20], None, 200),
        # Exactly as old as the maximum is not overdue.
        ([(100, 20), 20], None, 0),
        ([(101, 20), 20], None, 100),
        # The LSO still binds.
        ([20, 20, 200], 210, 200),
        ([20, 20, 200], 110, 100),
        # A first batch without a timestamp does not count (only > 0 does).
        ([(NONE_MS, 20), 20], None, 0),
        ([(NOW_MS, 20), 20], None, 0),
        ([(NOW_MS - 1, 20), 20], None, 100),
    ],
)
def test_the_maximum_lag_overrides_the_minimum(
    ages_ms: list[int | tuple[int, int]], open_from: int | None, first_uncleanable: int
) -> None:
    regions = divided(aged(*ages_ms), rules(50, 100), open_from)
    assert regions.first_uncleanable == first_uncleanable


def test_a_clean_segment_is_never_overdue() -> None:
    view = aged(500, 500, 20, cleaned=200)
    assert divided(view, rules(50, 100)).first_uncleanable == 200
    assert weighed(view, rules(50, 100)).delay_ms == 0


@pytest.mark.parametrize(
    ("view", "open_from", "delay_ms", "must_clean_bytes"),
    [
        # LogCleanerManager.maxCompactionDelay; the maximum is 100.
        (aged(150, 120, 20), None, 50, 2000),
        (aged(100, 20), None, 0, 0),
        (aged(101, 20), None, 1, 1000),
        # The earliest of all uncompacted segments, not of the first.
        (aged(20, 400), None, 300, 1000),
        # Compacted segments do not count; the one that holds the first dirty offset does.
        (aged(400, 150, 20, cleaned=100), None, 50, 1000),
        (aged(400, 150, 20, cleaned=50), None, 300, 2000),
        (aged(400, 150, cleaned=200), None, 0, 0),
        # No timestamp, nothing known.
        (aged(NONE_MS, NONE_MS), None, 0, 0),
        (aged(NONE_MS, 150), None, 50, 1000),
        # A segment that an open transaction holds back is late, too, but cannot be cleaned.
        (aged(20, 150), 110, 50, 0),
    ],
)
def test_how_overdue_a_partition_is(
    view: PartitionView, open_from: int | None, delay_ms: int, must_clean_bytes: int
) -> None:
    ratio = weighed(view, rules(0, 100), open_from)
    assert (ratio.delay_ms, ratio.must_clean_bytes) == (delay_ms, must_clean_bytes)


def test_must_clean_overrides_the_dirty_ratio() -> None:
    # KIP-354 and LogCleanerManager.grabFilthiestCompactedLog: needCompactionNow.
    view = aged(20, 20, 20, 150, cleaned=300)
    resting = chosen(view, rules(0, 200))
    assert isinstance(resting, Rest)
    assert resting.reason is RestReason.RATIO_TOO_LOW
    plan = chosen(view, rules(0, 100))
    assert isinstance(plan, Compact)
    assert (plan.reason, plan.next_offset) == (CompactReason.MUST_CLEAN, 400)


def test_must_clean_needs_cleanable_bytes() -> None:
    # grabFilthiestCompactedLog: needCompactionNow && cleanableBytes > 0.
    choice = chosen(aged(150), rules(0, 100), open_from=0)
    assert isinstance(choice, Rest)
    assert choice.reason is RestReason.ALL_UNSTABLE


def test_a_log_that_is_too_young_rests_and_says_so() -> None:
    choice = chosen(aged(20, 20), rules(50))
    assert isinstance(choice, Rest)
    assert choice.reason is RestReason.TOO_YOUNG
    assert choice.detail == (
        "held back from offset 0 on: the segment there holds records younger than"
        " min.compaction.lag.ms (50)"
    )


def test_a_round_gives_every_reason_that_holds_it_back() -> None:
    plan = chosen(aged(90, 20, 20), rules(50), open_from=200)
    assert isinstance(plan, Compact)
    young, unstable = plan.held_back
    assert young.startswith("held back from offset 100 on: the segment there")
    assert unstable.startswith("held back from offset 200 on: the transaction that")


def test_a_forced_first_dirty_offset_does_not_override_the_minimum() -> None:
    of = rules(50)
    view = aged(90, 20, cleaned=200)
    regions = divided(view, of, forced=0)
    assert regions.dirty == OffsetSpan(start=0, end=100)
    plan = propose(view, of, regions, NOW_MS)
    assert isinstance(plan, Compact)
    assert plan.reason is CompactReason.FORCED


@pytest.mark.parametrize(
    ("first", "second"),
    [
        # KIP-354: by must clean dirty ratio first, however dirty the other is ...
        (DirtyRatio(clean_bytes=90, cleanable_bytes=10, must_clean_bytes=1),
         DirtyRatio(clean_bytes=0, cleanable_bytes=100)),
        # ... the higher one first ...
        (DirtyRatio(clean_bytes=50, cleanable_bytes=50, must_clean_bytes=2),
         DirtyRatio(clean_bytes=10, cleanable_bytes=90, must_clean_bytes=1)),
        # ... as a share, not in bytes; ...
        (DirtyRatio(clean_bytes=5, cleanable_bytes=5, must_clean_bytes=1),
         DirtyRatio(clean_bytes=50, cleanable_bytes=50, must_clean_bytes=9)),
        # ... then by dirty ratio; an empty log comes last.
        (DirtyRatio(clean_bytes=40, cleanable_bytes=60),
         DirtyRatio(clean_bytes=50, cleanable_bytes=50)),
        (DirtyRatio(clean_bytes=40, cleanable_bytes=60, must_clean_bytes=10),
         DirtyRatio(clean_bytes=50, cleanable_bytes=50, must_clean_bytes=10)),
        (DirtyRatio(clean_bytes=99, cleanable_bytes=1),
         DirtyRatio(clean_bytes=0, cleanable_bytes=0)),
    ],
)
def test_the_order_of_work(first: DirtyRatio, second: DirtyRatio) -> None:
    assert first.precedence > second.precedence


def test_only_a_late_and_cleanable_partition_must_be_cleaned() -> None:
    late = DirtyRatio(clean_bytes=0, cleanable_bytes=1, delay_ms=1)
    assert late.must_clean
    assert not DirtyRatio(clean_bytes=1, cleanable_bytes=0, delay_ms=1).must_clean
    assert not DirtyRatio(clean_bytes=0, cleanable_bytes=1).must_clean


@pytest.mark.parametrize(
    ("view", "segment_ms", "maximum_ms", "overdue_ms"),
    [
        # LogConfig.maxSegmentMs: min(segment.ms, max.compaction.lag.ms).
        (aged(900, 300), 200, 250, 100),
        (aged(900, 300), 250, 200, 100),
        (aged(900, 300), 300, 2**63 - 1, None),
        (aged(900, (600, 300)), 299, 2**63 - 1, 1),
        # Nothing uploaded, or no timestamp: nothing known.
        (aged(), 1, 1, None),
        (aged(300, NONE_MS), 1, 1, None),
        (aged(-10), 1, 1, None),
    ],
)
def test_when_the_active_segment_should_have_rolled(
    view: PartitionView, segment_ms: int, maximum_ms: int, overdue_ms: int | None
) -> None:
    of = Rules(segment_ms=segment_ms, max_compaction_lag_ms=maximum_ms)
    expected = None if overdue_ms is None else NOW_MS - overdue_ms
    assert should_have_rolled_at_ms(view, of, NOW_MS) == expected


@pytest.mark.parametrize(("beyond", "rolls"), [(-1, False), (0, False), (1, True)])
def test_an_active_segment_that_brokers_say_is_empty_need_not_roll(
    beyond: int, *, rolls: bool
) -> None:
    view = aged(900, 300)
    beside = replace(view, brokers=brokers_have([], high_watermark=view.next_offset + beyond))
    late_ms = should_have_rolled_at_ms(beside, Rules(segment_ms=200), NOW_MS)
    assert (late_ms is not None) == rolls


def allowed(dirty: list[Segment], of: Rules) -> int:
    """How many of the dirty segments may be cleaned, checked segment by segment."""
    young = [NOW_MS - segment.max_timestamp_ms < of.min_compaction_lag_ms for segment in dirty]
    late = [
        segment.first_timestamp_ms > 0
        and NOW_MS - segment.first_timestamp_ms > of.max_compaction_lag_ms
        for segment in dirty
    ]
    return max(
        count
        for count in range(len(dirty) + 1)
        if not any(young[:count]) or (count and late[count - 1]) or of.min_compaction_lag_ms == 0
    )


AGES = st.tuples(st.integers(-5, 40), st.integers(-5, 40))


@given(
    ages_ms=st.lists(AGES, min_size=1, max_size=6),
    cleaned=st.none() | st.integers(0, 6),
    lags_ms=st.tuples(st.integers(0, 30), st.integers(0, 30)),
)
def test_both_lags_together(
    ages_ms: list[tuple[int, int]], cleaned: int | None, lags_ms: tuple[int, int]
) -> None:
    edge = None if cleaned is None else min(cleaned, len(ages_ms)) * 100
    view = aged(*ages_ms, cleaned=edge)
    of = rules(lags_ms[0], sum(lags_ms))
    dirty = [segment for segment in view.segments if segment.start_offset >= (edge or 0)]
    regions = divided(view, of)
    assert regions.first_uncleanable == (edge or 0) + 100 * allowed(dirty, of)
    ratio = weighed(view, of)
    assert ratio.exceeds(Fraction(0)) == (not regions.dirty.is_empty)

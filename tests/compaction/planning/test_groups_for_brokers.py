"""Groups whose replacements brokers will read: overlaps stay together, and a batch holds one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from tests.compaction.beside_brokers import brokers_have, view_beside
from tests.compaction.broker_events import FINISHED, updated, uploaded
from tests.compaction.builders import (
    CLUSTER,
    KEY,
    a_chain,
    a_segment,
    a_state,
    a_view,
    cleaned_to,
    segment_id,
)
from tests.compaction.planning.plan_check import plan_violations
from tierfold.compaction.brokers.event_bytes import encode
from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.model.serving import LocalRange, Pass
from tierfold.compaction.model.units import OFFSET_SPAN_MAX
from tierfold.compaction.planning.chunks import RemainingBudget, next_wave, rest_of_plan
from tierfold.compaction.planning.grouping import SegmentGroup, grouped, merge_empty
from tierfold.compaction.planning.partition_plan import PartitionPlan, partition_plan
from tierfold.compaction.planning.plan import CompactReason, Rest, RestReason
from tierfold.compaction.planning.regions import LastStable, Regions, regions_of
from tierfold.compaction.publishing.batches import sources_max
from tierfold.compaction.publishing.look import BATCH_BYTES_MAX
from tierfold.compaction.publishing.steps import Done
from tierfold.compaction.skipping.skip_decision import kept_apart

NOW_MS = 2_000_000
SMALL = Rules(
    cleanup_policy=frozenset({"compact"}),
    min_cleanable_dirty_ratio=Fraction(0),
    segment_bytes=1,
)
MANY = 10**6


def cut(start: int, end: int, skipped: int, **fields: Any) -> Segment:
    """An upload of which earlier ones give the first `skipped` offsets to the log."""
    return a_segment(start, end, skipped_offsets=skipped, **fields)


U, V, W, X = a_segment(0, 9), cut(10, 14, 5), cut(15, 19, 2), a_segment(20, 29)
OVERLAPPING = (U, V, W, X)


def starts(groups: Sequence[SegmentGroup]) -> list[list[int]]:
    return [[segment.start_offset for segment in group.segments] for group in groups]


def plan_of(view: PartitionView, rules: Rules = SMALL) -> PartitionPlan:
    plan = partition_plan(view, (), rules, NOW_MS, step=Done())
    assert plan_violations(plan, NOW_MS) == ()
    return plan


def test_what_shares_offsets_is_one_group_for_brokers_whatever_the_limits() -> None:
    assert starts(grouped(OVERLAPPING, SMALL, MANY)) == [[0, 10, 15], [20]]
    assert starts(grouped(OVERLAPPING, SMALL)) == [[0], [10], [15], [20]]
    assert starts(grouped((U, X), SMALL, MANY)) == [[0], [20]]


def test_offsets_are_shared_with_earlier_ones_than_the_last() -> None:
    over_two = cut(20, 29, 10)
    chain = (a_segment(0, 9), a_segment(10, 14), a_segment(15, 19), over_two)
    assert starts(grouped(chain, SMALL, MANY)) == [[0], [10, 15, 20]]


def test_what_shares_offsets_joins_its_neighbours_within_the_limits() -> None:
    assert starts(grouped(OVERLAPPING, replace(SMALL, segment_bytes=4000), MANY)) == [
        [0, 10, 15, 20]
    ]
    assert starts(grouped(OVERLAPPING, replace(SMALL, segment_bytes=3999), MANY)) == [
        *([0, 10, 15], [20])
    ]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_group_has_so_many_sources_at_most(most: int) -> None:
    chain = a_chain(*[10] * 6)
    sizes = [len(group.segments) for group in grouped(chain, Rules(), most)]
    assert sizes == [most] * (6 // most)


def test_the_events_of_a_group_fill_a_quarter_of_a_batch() -> None:
    most = sources_max(KEY)
    noted = [bytes(128)] * most
    events = [updated(0, FINISHED)] + [updated(0, FINISHED, custom_metadata=one) for one in noted]
    size = 61 + sum(len(encode(event)) + 32 for event in events)
    assert size <= BATCH_BYTES_MAX / 4 < size + 2 * (len(encode(events[-1])) + 32)
    assert most > 500


def test_the_own_start_of_a_group_is_its_sources_lowest() -> None:
    group = SegmentGroup(segments=(cut(10, 14, 5), cut(15, 19, 12)))
    assert group.own_start_offset == group.start_offset == 10
    group = replace(group, is_for_brokers=True)
    assert (group.own_start_offset, group.start_offset) == (3, 10)


def test_the_own_range_of_a_group_fits_31_bits() -> None:
    first = cut(10, 19, 10)
    for end, expected in ((OFFSET_SPAN_MAX, [[10, 20]]), (OFFSET_SPAN_MAX + 1, [[10], [20]])):
        assert starts(grouped((first, a_segment(20, end)), Rules(), MANY)) == expected


def test_only_where_brokers_were_asked_or_serve_the_row() -> None:
    together, apart = [[0, 10, 15], [20]], [[0], [10], [15], [20]]
    served = a_view(OVERLAPPING, served_by=(CLUSTER,))
    assert starts(plan_of(served).compact.groups) == together
    assert starts(plan_of(a_view(OVERLAPPING)).compact.groups) == apart
    events = [event for one in OVERLAPPING for event in _uploaded(one)]
    asked = view_beside(a_state(OVERLAPPING), (), events)
    plan = partition_plan(asked, (), SMALL, NOW_MS)
    assert starts(plan.compact.groups) == together[:1], "the newest is left alone"


def _uploaded(segment: Segment) -> list[Any]:
    name = segment.start_offset
    return uploaded(name, segment.own_start_offset, segment.end_offset)


@pytest.mark.parametrize("offset", [10, 14, 15, 19])
def test_what_shares_offsets_waits_together(offset: int) -> None:
    view = a_view(OVERLAPPING, served_by=(CLUSTER,))
    opened = LastStable(offset=offset)
    regions = regions_of(view, opened, SMALL, NOW_MS)
    assert isinstance(regions, Regions)
    assert (regions.first_uncleanable, regions.dirty.is_empty) == (0, True)
    start = 10 if offset < 15 else 15
    assert regions.why_uncleanable == (
        "held back from offset 0 on: the segments there share offsets with what is held back from"
        f" offset {start} on"
    )
    young = replace(SMALL, min_compaction_lag_ms=1)
    newest = a_view((U, V, W, replace(X, max_timestamp_ms=NOW_MS)), served_by=(CLUSTER,))
    assert regions_of(newest, opened, young, NOW_MS) == regions
    apart = regions_of(a_view(OVERLAPPING), opened, SMALL, NOW_MS)
    assert isinstance(apart, Regions)
    assert apart.first_uncleanable == start


def test_what_begins_where_a_round_ends_waits_for_itself() -> None:
    view = a_view((U, a_segment(10, 14), W, X), served_by=(CLUSTER,))
    regions = regions_of(view, LastStable(offset=12), SMALL, NOW_MS)
    assert isinstance(regions, Regions)
    assert (regions.first_uncleanable, regions.hold) == (10, None)


def test_what_shares_offsets_with_what_is_too_young_is_too_young() -> None:
    young = replace(W, max_timestamp_ms=NOW_MS)
    rules = replace(SMALL, min_compaction_lag_ms=1)
    view = a_view((U, V, young, X), served_by=(CLUSTER,))
    plan = partition_plan(view, (), rules, NOW_MS, step=Done())
    assert isinstance(plan.choice, Rest)
    assert plan.choice.reason is RestReason.TOO_YOUNG
    assert "share offsets with what is held back from offset 15 on: the segment" in (
        plan.choice.detail
    )
    view = a_view((U, V, W, replace(X, max_timestamp_ms=NOW_MS)), served_by=(CLUSTER,))
    assert starts(plan_of(view, rules).compact.groups) == [[0, 10, 15]]


def test_the_rest_of_a_plan_is_for_brokers_as_the_whole() -> None:
    for fields in ({}, {"served_by": (CLUSTER,)}):
        plan = plan_of(a_view(OVERLAPPING, **fields), replace(SMALL, chunk_bytes=1000))
        (first,) = next_wave([plan], RemainingBudget()).chunks
        assert starts(first.compact.groups) == [[0]]
        rest = rest_of_plan(plan, 10, a_state(OVERLAPPING, cleaner_offsets=cleaned_to(10)))
        assert starts(rest.compact.groups) == starts(plan.compact.groups)


def test_what_shares_offsets_with_a_passed_horizon_is_rewritten_with_it() -> None:
    segments = (U, replace(V, earliest_due_ms=5), W, X)
    rules = replace(SMALL, delete_retention_ms=1, tail_margin_segments=0)
    published = {
        "served_by": (CLUSTER,),
        "passes": (Pass(epoch=0, horizon_ms=5, published_at_ms=5, has_spared=False),),
        "local_ranges": tuple(LocalRange(end_offset=end, until_ms=5) for end in (19, 29)),
    }
    events = [event for one in segments for event in _uploaded(one)]
    brokers = replace(brokers_have(events), local_retention_ms=0)
    for fields, asked, expected in (({}, None, [[10]]), (published, brokers, [[0, 10, 15]])):
        view = a_view(segments, cleaner_offsets=cleaned_to(30), **fields)
        plan = plan_of(replace(view, brokers=asked), rules).compact
        assert (plan.reason, starts(plan.groups)) == (CompactReason.HORIZON_PASSED, expected)
    half = replace(a_view(segments, cleaner_offsets=cleaned_to(15), **published), brokers=brokers)
    rules = replace(rules, min_cleanable_dirty_ratio=Fraction(1))
    assert not plan_of(half, rules).is_due, "what is dirty shares offsets with it"


def test_empty_groups_join_others_for_brokers_too() -> None:
    groups = grouped(OVERLAPPING, SMALL, MANY)
    (joined,) = merge_empty(groups, [False, True]).groups
    assert joined == SegmentGroup(segments=OVERLAPPING, is_for_brokers=True)


def test_segments_that_share_offsets_are_never_kept_apart() -> None:
    group = SegmentGroup(segments=OVERLAPPING)
    stays = {one.segment_id for one in OVERLAPPING}
    assert starts(kept_apart([group], stays)) == [[0], [10], [15], [20]]
    large = replace(group, segments=(*OVERLAPPING[:3], replace(X, size_bytes=9000)))
    cuts = kept_apart([replace(large, is_for_brokers=True)], stays)
    assert starts(cuts) == [[0, 10, 15], [20]]
    assert all(cut.is_for_brokers for cut in cuts)
    joined = kept_apart([replace(group, is_for_brokers=True)], stays)
    assert starts(joined) == [[0, 10, 15, 20]], "what is rewritten together takes a small one"


@pytest.mark.parametrize("seed", range(50))
def test_drawn_overlaps_stay_together(seed: int) -> None:
    rng, segments, start = Random(seed), list[Segment](), 0
    for _ in range(12):
        end = start + rng.randrange(1, 10)
        skipped = rng.choice((0, 0, 1, 5, 20)) if segments else 0
        segments.append(
            cut(start, end, min(skipped, start), segment_id=segment_id(start), size_bytes=100)
        )
        start = end + 1
    rules = replace(SMALL, segment_bytes=rng.choice((1, 300, 10_000)))
    groups = grouped(segments, rules, rng.choice((3, MANY)))
    stays = {one.segment_id for one in segments if rng.random() < 0.5}
    for found in (groups, kept_apart(groups, stays)):
        assert [one for group in found for one in group.segments] == segments
        for before, after in pairwise(found):
            assert after.own_start_offset > before.end_offset

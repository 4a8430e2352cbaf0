"""Checks a plan against a view, with code of its own.

Property tests and the simulation check with it what planning decides. Nothing here calls what
`compaction.planning.plan` calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.leader_epochs import is_within_lineage
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.planning.plan import Compact
from tierfold.compaction.planning.regions import LastStable, last_stable_of


def plan_violations(plan: PartitionPlan, now_ms: int) -> tuple[str, ...]:
    """Why a due plan does not fit the view that it was made from; empty: it does."""
    if plan.view is None or not plan.is_due:
        return ()
    last_stable = last_stable_of(plan.producers)
    return violations(plan.compact, plan.view, last_stable, plan.rules, now_ms)


def violations(
    plan: Compact,
    view: PartitionView,
    last_stable: LastStable | None,
    rules: Rules,
    now_ms: int,
) -> tuple[str, ...]:
    """Why `plan`, which may be from another view, does not fit `view`, a phrase each.

    `last_stable`: the view's oldest open transaction, if any.
    """
    sources = plan.sources
    if plan.key != view.key:
        return (f"the plan is for {plan.key}, the view shows {view.key}",)
    if not sources or not all(group.segments for group in plan.groups):
        return ("the plan has no group, or a group without a segment",)
    return (
        *_wrong_sources(sources, view),
        *(
            (*_breaks_in_groups(plan), *_not_due(plan, view, rules, now_ms))
            if plan.is_partial
            else (
                *_breaks(sources),
                *_wrong_edges(plan, view),
                *_too_young(plan, view, rules, now_ms),
            )
        ),
        *_wrong_end(plan, view, last_stable),
    )


def _wrong_sources(sources: Sequence[Segment], view: PartitionView) -> Iterator[str]:
    """Sources that are not live exactly as planned, or outside the leader epoch lineage."""
    live = {segment.segment_id: segment for segment in view.segments}
    for segment in sources:
        # The same id is not enough: the metadata must be the same, too.
        if live.get(segment.segment_id) != segment:
            yield f"segment {segment.segment_id} is not live as planned"
    for segment in sources:
        if not is_within_lineage(segment, view.lineage):
            yield f"segment {segment.segment_id} lies outside the leader epoch lineage"


def _breaks(sources: Sequence[Segment]) -> Iterator[str]:
    """A gap, an overlap, a repeated segment, or groups out of order."""
    for before, after in pairwise(sources):
        if after.start_offset != before.end_offset + 1:
            yield (
                f"segment {before.segment_id} ends at offset {before.end_offset}, the next one,"
                f" {after.segment_id}, starts at {after.start_offset}"
            )


def _breaks_in_groups(plan: Compact) -> Iterator[str]:
    """As `_breaks`, but live segments between two groups may stay as they are."""
    for group in plan.groups:
        yield from _breaks(group.segments)
    for before, after in pairwise(plan.groups):
        if after.start_offset <= before.end_offset:
            yield (
                f"group [{before.start_offset}, {before.end_offset}] is followed by"
                f" [{after.start_offset}, {after.end_offset}]"
            )


def _not_due(
    plan: Compact, view: PartitionView, rules: Rules, now_ms: int
) -> Iterator[str]:
    """Segments in a partial plan of which nothing may go, or a plan beyond what is clean."""
    is_due = {
        segment.segment_id: any(
            since_ms is not None and now_ms - since_ms >= wait_ms
            for since_ms, wait_ms in (
                (segment.earliest_due_ms, 0),
                (segment.kept_for_producer_ms, rules.producer_id_expiration_ms),
            )
        )
        for segment in plan.sources
    }
    for group in plan.groups:
        for segment in group.segments:
            beside = _beside(segment, group.segments) if group.is_for_brokers else []
            if not any(is_due[one.segment_id] for one in (segment, *beside)):
                yield (
                    f"no delete horizon in segment {segment.segment_id} has passed, and no producer"
                    " of it has expired"
                )
    clean_until = -1 if view.cleaner_offset is None else view.cleaner_offset
    if not plan.next_offset <= plan.first_dirty == clean_until <= view.next_offset:
        yield (
            f"the plan ends before offset {plan.next_offset} and assumes that everything below"
            f" {plan.first_dirty} is clean, the cleaner offset is {view.cleaner_offset}"
        )


def _beside(segment: Segment, segments: Sequence[Segment]) -> list[Segment]:
    """Those that share offsets with the segment, or with one that does."""
    found = [segment]
    for _ in segments:
        found = [
            one
            for one in segments
            if any(
                one.own_start_offset <= other.end_offset
                and other.own_start_offset <= one.end_offset
                for other in found
            )
        ]
    return found


def _too_young(
    plan: Compact, view: PartitionView, rules: Rules, now_ms: int
) -> Iterator[str]:
    """A dirty segment within `min.compaction.lag.ms`, unless one at or above it is overdue.

    The overdue segment may lie above the plan, which may be a chunk or end at an open transaction.
    """
    if rules.min_compaction_lag_ms == 0:
        return
    overdue_until = max(
        (
            segment.end_offset
            for segment in view.segments
            if segment.end_offset >= plan.first_dirty
            and 0 < segment.first_timestamp_ms < now_ms - rules.max_compaction_lag_ms
        ),
        default=-1,
    )
    dirty = [segment for segment in plan.sources if segment.end_offset >= plan.first_dirty]
    is_young = any(
        now_ms - segment.max_timestamp_ms < rules.min_compaction_lag_ms for segment in dirty
    )
    if is_young and dirty[-1].end_offset > overdue_until:
        yield f"segment {dirty[-1].segment_id} holds or follows records that are too young"


def _wrong_end(
    plan: Compact, view: PartitionView, last_stable: LastStable | None
) -> Iterator[str]:
    sources_end = plan.sources[-1].end_offset
    if sources_end + 1 != plan.next_offset:
        yield f"the sources end at offset {sources_end}, the plan before {plan.next_offset}"
    if plan.next_offset not in {segment.end_offset + 1 for segment in view.segments}:
        yield f"no live segment ends right before offset {plan.next_offset}"
    if last_stable is not None and plan.next_offset > last_stable.offset:
        yield (
            f"the plan reaches offset {plan.next_offset - 1}, an open transaction begins at"
            f" {last_stable.offset}"
        )


def _wrong_edges(plan: Compact, view: PartitionView) -> Iterator[str]:
    start = plan.sources[0].start_offset
    if not view.segments or start != view.segments[0].start_offset:
        yield f"the plan starts at offset {start}, not at the log's first"
    if not view.log_start_offset <= plan.first_dirty < plan.next_offset:
        yield (
            f"the first dirty offset {plan.first_dirty} lies outside"
            f" [{view.log_start_offset}, {plan.next_offset})"
        )

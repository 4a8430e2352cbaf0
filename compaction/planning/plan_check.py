"""Checks a plan against a fresh view, with code of its own.

A plan may be minutes old. It is checked right before its partition is claimed; one violation is
enough to drop it. The commit itself requires what may change after the claim: the row's epoch, and
that the sources are live. Nothing here calls what `compaction.planning.plan` calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.leader_epochs import is_within_lineage
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.planning.plan import Compact
from tierfold.compaction.planning.regions import LastStable


class ViolationKind(StrEnum):
    """What is wrong with a plan."""

    OTHER_PARTITION = "other partition"
    NO_SOURCES = "no sources"
    NOT_LIVE = "not live"
    OUT_OF_LINEAGE = "out of lineage"
    NOT_CONTIGUOUS = "not contiguous"
    WRONG_COVER = "wrong cover"
    END_NOT_ON_BOUNDARY = "end not on a segment boundary"
    FIRST_DIRTY_OUT_OF_RANGE = "first dirty out of range"
    UNSTABLE = "unstable"
    TOO_YOUNG = "too young"
    NOT_DUE = "not due"


class PlanViolation(NamedTuple):
    """One reason not to carry a plan out."""

    kind: ViolationKind
    detail: str


def violations(
    plan: Compact,
    view: PartitionView,
    last_stable: LastStable | None,
    rules: Rules,
    now_ms: int,
) -> tuple[PlanViolation, ...]:
    """The violations of `plan`, which may be from an older view; empty: it may be carried out.

    `view` is the partition as it is now; `last_stable`: its oldest open transaction, if any.
    """
    sources = plan.sources
    if plan.key != view.key:
        detail = f"the plan is for {plan.key}, the view shows {view.key}"
        return (PlanViolation(ViolationKind.OTHER_PARTITION, detail),)
    if not sources or not all(group.segments for group in plan.groups):
        detail = "the plan has no group, or a group without a segment"
        return (PlanViolation(ViolationKind.NO_SOURCES, detail),)
    return (
        *_wrong_sources(sources, view),
        *(
            (*_breaks_in_groups(plan), *_not_due(plan, view, now_ms))
            if plan.is_partial
            else (
                *_breaks(sources),
                *_wrong_edges(plan, view),
                *_too_young(plan, view, rules, now_ms),
            )
        ),
        *_wrong_end(plan, view, last_stable),
    )


def _wrong_sources(sources: Sequence[Segment], view: PartitionView) -> Iterator[PlanViolation]:
    """Sources that are not live exactly as planned, or outside the leader epoch lineage."""
    live = {segment.segment_id: segment for segment in view.segments}
    for segment in sources:
        # The same id is not enough: the metadata must be the same, too.
        if live.get(segment.segment_id) != segment:
            detail = f"segment {segment.segment_id} is not live as planned"
            yield PlanViolation(ViolationKind.NOT_LIVE, detail)
    for segment in sources:
        if not is_within_lineage(segment, view.lineage):
            detail = f"segment {segment.segment_id} lies outside the leader epoch lineage"
            yield PlanViolation(ViolationKind.OUT_OF_LINEAGE, detail)


def _breaks(sources: Sequence[Segment]) -> Iterator[PlanViolation]:
    """A gap, an overlap, a repeated segment, or groups out of order."""
    for before, after in pairwise(sources):
        if after.start_offset != before.end_offset + 1:
            detail = (
                f"segment {before.segment_id} ends at offset {before.end_offset}, the next one,"
                f" {after.segment_id}, starts at {after.start_offset}"
            )
            yield PlanViolation(ViolationKind.NOT_CONTIGUOUS, detail)


def _breaks_in_groups(plan: Compact) -> Iterator[PlanViolation]:
    """As `_breaks`, but live segments between two groups may stay as they are."""
    for group in plan.groups:
        yield from _breaks(group.segments)
    for before, after in pairwise(plan.groups):
        if after.start_offset <= before.end_offset:
            detail = (
                f"group [{before.start_offset}, {before.end_offset}] is followed by"
                f" [{after.start_offset}, {after.end_offset}]"
            )
            yield PlanViolation(ViolationKind.NOT_CONTIGUOUS, detail)


def _not_due(plan: Compact, view: PartitionView, now_ms: int) -> Iterator[PlanViolation]:
    """Segments without a passed horizon in a partial plan, or a plan beyond what is clean."""
    for segment in plan.sources:
        if segment.earliest_due_ms is None or segment.earliest_due_ms > now_ms:
            detail = f"no delete horizon in segment {segment.segment_id} has passed"
            yield PlanViolation(ViolationKind.NOT_DUE, detail)
    clean_until = -1 if view.cleaner_offset is None else view.cleaner_offset
    if not plan.next_offset <= plan.first_dirty == clean_until <= view.next_offset:
        detail = (
            f"the plan ends before offset {plan.next_offset} and assumes that everything below"
            f" {plan.first_dirty} is clean, the cleaner offset is {view.cleaner_offset}"
        )
        yield PlanViolation(ViolationKind.FIRST_DIRTY_OUT_OF_RANGE, detail)


def _too_young(
    plan: Compact, view: PartitionView, rules: Rules, now_ms: int
) -> Iterator[PlanViolation]:
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
        detail = f"segment {dirty[-1].segment_id} holds or follows records that are too young"
        yield PlanViolation(ViolationKind.TOO_YOUNG, detail)


def _wrong_end(
    plan: Compact, view: PartitionView, last_stable: LastStable | None
) -> Iterator[PlanViolation]:
    sources_end = plan.sources[-1].end_offset
    if sources_end + 1 != plan.next_offset:
        detail = f"the sources end at offset {sources_end}, the plan before {plan.next_offset}"
        yield PlanViolation(ViolationKind.WRONG_COVER, detail)
    if plan.next_offset not in {segment.end_offset + 1 for segment in view.segments}:
        detail = f"no live segment ends right before offset {plan.next_offset}"
        yield PlanViolation(ViolationKind.END_NOT_ON_BOUNDARY, detail)
    if last_stable is not None and plan.next_offset > last_stable.offset:
        detail = (
            f"the plan reaches offset {plan.next_offset - 1}, an open transaction begins at"
            f" {last_stable.offset}"
        )
        yield PlanViolation(ViolationKind.UNSTABLE, detail)


def _wrong_edges(plan: Compact, view: PartitionView) -> Iterator[PlanViolation]:
    start = plan.sources[0].start_offset
    if not view.segments or start != view.segments[0].start_offset:
        detail = f"the plan starts at offset {start}, not at the log's first"
        yield PlanViolation(ViolationKind.WRONG_COVER, detail)
    if not view.log_start_offset <= plan.first_dirty < plan.next_offset:
        detail = (
            f"the first dirty offset {plan.first_dirty} lies outside"
            f" [{view.log_start_offset}, {plan.next_offset})"
        )
        yield PlanViolation(ViolationKind.FIRST_DIRTY_OUT_OF_RANGE, detail)

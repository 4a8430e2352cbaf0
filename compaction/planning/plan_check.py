"""Checks a plan against a fresh view, with code of its own.

A plan may be minutes old. It is checked right before its partition is claimed; one violation is
enough to drop it. What may change between the claim and the commit is what the commit itself
requires: the row's epoch, and that the sources are live. Nothing here calls what
`compaction.planning.plan` calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanViolation:
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
    """The violations of `plan` against `view`; empty: it may be carried out.

    Args:
        plan: what was proposed, from this view or an older one.
        view: the partition as it is now.
        last_stable: the oldest open transaction in view; None: none is open.
        rules: the topic's settings.
        now_ms: the time, epoch milliseconds.
    """
    sources = tuple(segment for group in plan.groups for segment in group.segments)
    if plan.key != view.key:
        detail = f"the plan is for {plan.key}, the view shows {view.key}"
        return (PlanViolation(kind=ViolationKind.OTHER_PARTITION, detail=detail),)
    if not sources or not all(group.segments for group in plan.groups):
        detail = "a group without a segment, or no group"
        return (PlanViolation(kind=ViolationKind.NO_SOURCES, detail=detail),)
    return (
        *_sources_not_live(sources, view),
        *_sources_out_of_lineage(sources, view),
        *(
            (*_breaks_in_groups(plan), *_not_due(plan, sources, view, now_ms))
            if plan.is_partial
            else (
                *_breaks(sources),
                *_wrong_edges(plan, sources, view),
                *_too_young(plan, sources, view, rules, now_ms),
            )
        ),
        *_wrong_end(plan, sources, view),
        *_unstable(plan, last_stable),
    )


def _sources_not_live(
    sources: tuple[Segment, ...], view: PartitionView
) -> tuple[PlanViolation, ...]:
    """The same id is not enough: a source must equal the segment in the view."""
    live = {segment.segment_id: segment for segment in view.segments}
    return tuple(
        PlanViolation(
            kind=ViolationKind.NOT_LIVE,
            detail=f"segment {segment.segment_id} is not live as planned",
        )
        for segment in sources
        if live.get(segment.segment_id) != segment
    )


def _sources_out_of_lineage(
    sources: tuple[Segment, ...], view: PartitionView
) -> tuple[PlanViolation, ...]:
    return tuple(
        PlanViolation(
            kind=ViolationKind.OUT_OF_LINEAGE,
            detail=f"segment {segment.segment_id} lies outside the leader epoch lineage",
        )
        for segment in sources
        if not is_within_lineage(segment, view.lineage)
    )


def _breaks(sources: tuple[Segment, ...]) -> tuple[PlanViolation, ...]:
    """A gap, an overlap, a repeated segment, or groups out of order."""
    return tuple(
        PlanViolation(
            kind=ViolationKind.NOT_CONTIGUOUS,
            detail=f"segment {before.segment_id} ends at offset {before.end_offset},"
            f" {after.segment_id} follows at {after.start_offset}",
        )
        for before, after in pairwise(sources)
        if after.start_offset != before.end_offset + 1
    )


def _breaks_in_groups(plan: Compact) -> tuple[PlanViolation, ...]:
    """As `_breaks`, but between two groups a live segment may stay as it is."""
    between = tuple(
        PlanViolation(
            kind=ViolationKind.NOT_CONTIGUOUS,
            detail=f"group [{before.start_offset}, {before.end_offset}] is followed by"
            f" [{after.start_offset}, {after.end_offset}]",
        )
        for before, after in pairwise(plan.groups)
        if after.start_offset <= before.end_offset
    )
    within = (violation for group in plan.groups for violation in _breaks(group.segments))
    return (*within, *between)


def _not_due(
    plan: Compact, sources: tuple[Segment, ...], view: PartitionView, now_ms: int
) -> tuple[PlanViolation, ...]:
    """A partial plan may touch only what is clean, and holds something that may go now."""
    clean_until = -1 if view.cleaner_offset is None else view.cleaner_offset
    found = [
        PlanViolation(
            kind=ViolationKind.NOT_DUE,
            detail=f"segment {segment.segment_id} holds nothing whose delete horizon has passed",
        )
        for segment in sources
        if segment.earliest_due_ms is None or segment.earliest_due_ms > now_ms
    ]
    if not plan.next_offset <= plan.first_dirty == clean_until <= view.next_offset:
        detail = (
            f"the plan ends before {plan.next_offset} and takes what lies below"
            f" {plan.first_dirty} for clean, the cleaner offset is {view.cleaner_offset}"
        )
        found.append(PlanViolation(kind=ViolationKind.FIRST_DIRTY_OUT_OF_RANGE, detail=detail))
    return tuple(found)


def _too_young(
    plan: Compact, sources: tuple[Segment, ...], view: PartitionView, rules: Rules, now_ms: int
) -> tuple[PlanViolation, ...]:
    """A dirty segment within `min.compaction.lag.ms`, with none overdue at or above it.

    What is overdue may lie above the plan: it may be a chunk, or end at an open transaction.
    """
    if rules.min_compaction_lag_ms == 0:
        return ()
    overdue_until = max(
        (
            segment.end_offset
            for segment in view.segments
            if segment.end_offset >= plan.first_dirty
            and 0 < segment.first_timestamp_ms < now_ms - rules.max_compaction_lag_ms
        ),
        default=-1,
    )
    dirty = [segment for segment in sources if segment.end_offset >= plan.first_dirty]
    is_young = any(
        now_ms - segment.max_timestamp_ms < rules.min_compaction_lag_ms for segment in dirty
    )
    if not is_young or dirty[-1].end_offset <= overdue_until:
        return ()
    detail = f"segment {dirty[-1].segment_id} holds or follows records that are too young"
    return (PlanViolation(kind=ViolationKind.TOO_YOUNG, detail=detail),)


def _wrong_end(
    plan: Compact, sources: tuple[Segment, ...], view: PartitionView
) -> tuple[PlanViolation, ...]:
    found: list[PlanViolation] = []
    if sources[-1].end_offset + 1 != plan.next_offset:
        detail = f"sources end at {sources[-1].end_offset}, the plan before {plan.next_offset}"
        found.append(PlanViolation(kind=ViolationKind.WRONG_COVER, detail=detail))
    if plan.next_offset not in {segment.end_offset + 1 for segment in view.segments}:
        detail = f"no live segment ends right before offset {plan.next_offset}"
        found.append(PlanViolation(kind=ViolationKind.END_NOT_ON_BOUNDARY, detail=detail))
    return tuple(found)


def _wrong_edges(
    plan: Compact, sources: tuple[Segment, ...], view: PartitionView
) -> tuple[PlanViolation, ...]:
    found: list[PlanViolation] = []
    if not view.segments or sources[0].start_offset != view.segments[0].start_offset:
        detail = f"the plan begins at offset {sources[0].start_offset}, not at the log's first"
        found.append(PlanViolation(kind=ViolationKind.WRONG_COVER, detail=detail))
    if not view.log_start_offset <= plan.first_dirty < plan.next_offset:
        detail = (
            f"the first dirty offset {plan.first_dirty} lies outside"
            f" [{view.log_start_offset}, {plan.next_offset})"
        )
        found.append(PlanViolation(kind=ViolationKind.FIRST_DIRTY_OUT_OF_RANGE, detail=detail))
    return tuple(found)


def _unstable(plan: Compact, last_stable: LastStable | None) -> tuple[PlanViolation, ...]:
    if last_stable is None or plan.next_offset <= last_stable.offset:
        return ()
    detail = (
        f"the plan reaches offset {plan.next_offset - 1}, an open transaction begins at"
        f" {last_stable.offset}"
    )
    return (PlanViolation(kind=ViolationKind.UNSTABLE, detail=detail),)

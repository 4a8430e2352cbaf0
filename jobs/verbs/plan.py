"""`tierfold plan`: what `compact` would do to each partition, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.planning.approval import Approved
from tierfold.compaction.planning.chunks import UNBOUND, Budget, RemainingBudget, Wave, next_wave
from tierfold.compaction.planning.explanation import ExplainedSegment, explained
from tierfold.compaction.planning.partition_plan import PartitionPlan, in_order_of_work
from tierfold.compaction.planning.regions import Regions, last_stable_of, regions_of
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.engines.engine_choice import check_local_max, input_bytes
from tierfold.jobs.pipeline.left_unpublished import unless_taken_out
from tierfold.jobs.pipeline.partition_report import (
    PLANNED,
    PartitionReport,
    Reporting,
    left_report,
    planned_report,
    with_sources_superseded,
)
from tierfold.jobs.pipeline.survey import known_by_name, survey_of
from tierfold.jobs.settings.resolution import Settings
from tierfold.jobs.verbs.approved_plans import approved_plans, surveyed


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained(Reporting):
    """One partition, and what happens to each of its segments, with the reasons."""

    report: PartitionReport
    """The report of `plan`."""
    plan: PartitionPlan
    """Its choice is the first chunk."""
    now_ms: int
    regions: Regions | None
    """None: the partition could not be read or understood."""
    segments: tuple[ExplainedSegment, ...]


def plan(
    context: RunContext,
    settings: Settings,
    scope: Scope,
    budget: Budget = UNBOUND,
    local_max_bytes: int | None = None,
) -> list[PartitionReport]:
    """Return one report per partition in scope; nothing is changed, no catalog is created.

    If a partition is compacted in chunks, the report shows the first. Raises BadSettings, also if
    the run would read more than `local_max_bytes`; an error in one partition is in its report.
    """
    return [one.report for one in _planned(context, settings, scope, budget, local_max_bytes)]


def plan_with_estimates(
    context: RunContext, settings: Settings, scope: Scope
) -> list[PartitionReport]:
    """Return the reports of `plan`, with how many bytes would probably go; raises as `plan`."""
    return _with_estimates(context, _planned(context, settings, scope, UNBOUND, None))


def plan_to_approve(
    context: RunContext, settings: Settings, scope: Scope, *, has_estimates: bool
) -> tuple[list[PartitionReport], dict[PartitionKey, Approved]]:
    """Return the reports of `plan`, and what a plan file keeps of those that are planned.

    What is approved is the whole plan, also where the report shows a first chunk. Raises as `plan`.
    """
    planned = _planned(context, settings, scope, UNBOUND, None)
    whole = [one.whole for one in planned if one.report.outcome == PLANNED]
    reports = (
        _with_estimates(context, planned) if has_estimates else [one.report for one in planned]
    )
    return reports, approved_plans(context, whole)


class _Planned(NamedTuple):
    report: PartitionReport
    plan: PartitionPlan
    """Its choice is what the report shows: of a partition in chunks, the first."""
    whole: PartitionPlan
    """All that would be done."""


def _with_estimates(context: RunContext, planned: list[_Planned]) -> list[PartitionReport]:
    # Its kernels would slow the start of verbs that read no segment.
    from tierfold.jobs.verbs.estimating import estimates_of

    found = estimates_of(context, [one.plan for one in planned])
    return [replace(one.report, estimate=found.get(one.report.key)) for one in planned]


def _planned(
    context: RunContext,
    settings: Settings,
    scope: Scope,
    budget: Budget,
    local_max_bytes: int | None,
) -> list[_Planned]:
    found = surveyed(context, settings, scope)
    planned = {one.key: _Planned(unless_taken_out(context, one), one, one) for one in found}
    due = in_order_of_work([one for one in found if planned[one.key].report.outcome == PLANNED])
    if due:
        if local_max_bytes is not None:
            check_local_max(input_bytes(due, budget), local_max_bytes)
        planned |= _first_chunks(due, budget, context)
    return [planned[partition.key] for partition in found]


def explain(context: RunContext, settings: Settings, scope: Scope, name: str) -> Explained:
    """Explain what happens to each segment of the partition `name` if it is compacted alone.

    `name` is `orders-0`, or the partition's folder, which also contains the topic's id. Raises
    BadSettings if it matches none in scope, or several; nothing is changed.
    """
    known = known_by_name(context, name, where="--explain", scope=scope)
    (partition,) = survey_of(context, settings, [known], scope.first_dirty)
    return explained_plan(context, partition)


def explained_plan(context: RunContext, partition: PartitionPlan) -> Explained:
    """Explain a surveyed partition as `explain` does."""
    if partition.is_due:
        partition = _wave([partition], UNBOUND, 0, context.tier.free_bytes()).chunks[0]
    now_ms, regions = context.now_ms, _regions(partition, context.now_ms)
    segments: tuple[ExplainedSegment, ...] = ()
    if partition.view is not None and regions is not None:
        segments = explained(partition.view, partition.rules, regions, partition.choice, now_ms)
    return Explained(
        report=with_sources_superseded(planned_report(partition), partition, now_ms),
        plan=partition,
        now_ms=now_ms,
        regions=regions,
        segments=segments,
    )


def _regions(partition: PartitionPlan, now_ms: int) -> Regions | None:
    """The regions of the choice; those of the catalog if --first-dirty is out of range."""
    if partition.view is None or partition.regions is not None:
        return partition.regions
    last_stable = last_stable_of(partition.producers)
    found = regions_of(partition.view, last_stable, partition.rules, now_ms)
    return found if isinstance(found, Regions) else None


def _first_chunks(
    due: list[PartitionPlan], budget: Budget, context: RunContext
) -> dict[PartitionKey, _Planned]:
    """The first chunk of each partition, or why none begins, as far as it is known in advance."""
    found: dict[PartitionKey, _Planned] = {}
    free = context.tier.free_bytes()
    chosen = due[: budget.max_partitions]
    pending, spent_bytes = chosen, 0
    while pending:
        wave = _wave(pending, budget, spent_bytes, free)
        for partition, chunk in zip(pending, wave.chunks, strict=False):
            report = with_sources_superseded(planned_report(chunk), chunk, context.now_ms)
            found[partition.key] = _Planned(report, chunk, partition)
            spent_bytes += chunk.compact.bytes_in
        pending = pending[len(wave.chunks) :]
        if wave.stop:
            for partition in pending:
                report = left_report(planned_report(partition), wave.stop)
                found[partition.key] = _Planned(report, partition, partition)
            break
    for partition in due[len(chosen) :]:
        why = f"--max-partitions is {budget.max_partitions}"
        report = left_report(planned_report(partition), why)
        found[partition.key] = _Planned(report, partition, partition)
    return found


def _wave(due: list[PartitionPlan], budget: Budget, spent_bytes: int, free: int | None) -> Wave:
    budget_left = RemainingBudget(
        budget_bytes=budget.max_bytes, spent_bytes=spent_bytes, free_bytes=free
    )
    return next_wave(due, budget_left)

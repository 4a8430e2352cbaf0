"""`tierfold plan`: what `compact` would do to each partition, and why not more."""

from __future__ import annotations

from dataclasses import replace

from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.planning.chunks import (
    UNBOUND,
    Budget,
    Due,
    RemainingBudget,
    Wave,
    next_wave,
)
from tierfold.compaction.planning.explanation import explained
from tierfold.compaction.planning.plan import Compact
from tierfold.compaction.planning.regions import Regions, last_stable_of, regions_of
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.partition_report import PartitionReport, left_report, survey_report
from tierfold.jobs.pipeline.survey import (
    Surveyed,
    in_order_of_work,
    known_by_name,
    survey,
    survey_of,
)
from tierfold.jobs.settings.resolution import Settings
from tierfold.jobs.verbs.plan_explained import Explained


def plan(
    context: RunContext, settings: Settings, scope: Scope, budget: Budget = UNBOUND
) -> list[PartitionReport]:
    """Return one report per partition in scope; nothing is changed, no catalog is created.

    If a partition is compacted in chunks, the report shows the first. Raises BadSettings; an error
    in one partition is in its report.
    """
    surveyed = survey(context, settings, scope)
    reports = {partition.key: survey_report(partition) for partition in surveyed}
    due = in_order_of_work(surveyed)
    if due:
        reports |= _first_chunks(due, budget, context.tier.store.free_bytes())
    return [reports[partition.key] for partition in surveyed]


def explain(context: RunContext, settings: Settings, scope: Scope, name: str) -> Explained:
    """Explain what happens to each segment of the partition `name` if it is compacted alone.

    `name` is `orders-0`, or the partition's folder, which also contains the topic's id. Raises
    BadSettings if it matches none in scope, or several; nothing is changed.
    """
    known = known_by_name(context, name, where="--explain", scope=scope)
    (partition,) = survey_of(context, settings, [known], scope.first_dirty)
    if isinstance(partition.choice, Compact):
        wave = _wave([partition], UNBOUND, 0, context.tier.store.free_bytes())
        partition = replace(partition, choice=wave.chunks[0].plan)
    report = survey_report(partition)
    regions = _regions(partition, context.now_ms, scope.first_dirty)
    if partition.view is None or regions is None:
        return Explained(report=report, surveyed=partition, now_ms=context.now_ms)
    return Explained(
        report=report,
        surveyed=partition,
        now_ms=context.now_ms,
        regions=regions,
        segments=explained(
            partition.view, partition.rules, regions, partition.choice, context.now_ms
        ),
    )


def _regions(partition: Surveyed, now_ms: int, first_dirty: int | None) -> Regions | None:
    """The regions of the choice; the stored ones if --first-dirty is out of range."""
    if partition.view is None:
        return None
    last_stable = last_stable_of(partition.producers)
    for forced in (first_dirty, None):
        found = regions_of(
            partition.view, last_stable, partition.rules, now_ms, forced_first_dirty=forced
        )
        if isinstance(found, Regions):
            return found
    return None


def _first_chunks(
    due: list[Surveyed], budget: Budget, free: int
) -> dict[PartitionKey, PartitionReport]:
    """The first chunk of each partition, or why none begins, as far as known in advance."""
    reports: dict[PartitionKey, PartitionReport] = {}
    pending = due[: budget.max_partitions]
    spent_bytes = 0
    while pending:
        wave = _wave(pending, budget, spent_bytes, free)
        for partition, chunk in zip(pending, wave.chunks, strict=False):
            reports[partition.key] = survey_report(replace(partition, choice=chunk.plan))
            spent_bytes += chunk.plan.bytes_in
        pending = pending[len(wave.chunks) :]
        if wave.stop:
            for partition in pending:
                reports[partition.key] = left_report(survey_report(partition), wave.stop)
            break
    for partition in due[len(due[: budget.max_partitions]) :]:
        why = f"--max-partitions is {budget.max_partitions}"
        reports[partition.key] = left_report(survey_report(partition), why)
    return reports


def _wave(due: list[Surveyed], budget: Budget, spent_bytes: int, free: int) -> Wave:
    budget_left = RemainingBudget(
        budget_bytes=budget.max_bytes, spent_bytes=spent_bytes, free_bytes=free
    )
    plans = [
        Due(plan=partition.choice, rules=partition.rules)
        for partition in due
        if isinstance(partition.choice, Compact)
    ]
    return next_wave(plans, budget_left)

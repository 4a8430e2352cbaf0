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
    """One report per partition in scope; nothing is changed, no catalog is made.

    Of a partition that is compacted in chunks it shows the first. Raises BadSettings; whatever is
    wrong with one partition is in its report.
    """
    surveyed = survey(context, settings, scope)
    reports = {partition.key: survey_report(partition) for partition in surveyed}
    due = in_order_of_work(surveyed)
    if due:
        reports |= _first_chunks(due, budget, context.tier.store.free_bytes())
    return [reports[partition.key] for partition in surveyed]


def explain(context: RunContext, settings: Settings, scope: Scope, name: str) -> Explained:
    """Why each segment of the partition `name` meets what it meets, were it compacted alone.

    `name` is `orders-0`, or the partition's folder, which names the topic's id too. Raises
    BadSettings where it is none in scope, or several; nothing is changed.
    """
    known = known_by_name(context, name, where="--explain", scope=scope)
    (each,) = survey_of(context, settings, [known], scope.first_dirty)
    if isinstance(each.choice, Compact):
        wave = _wave([each], UNBOUND, 0, context.tier.store.free_bytes())
        each = replace(each, choice=wave.chunks[0].plan)
    report = survey_report(each)
    regions = _regions(each, context.now_ms, scope.first_dirty)
    if each.view is None or regions is None:
        return Explained(report=report, surveyed=each, now_ms=context.now_ms)
    return Explained(
        report=report,
        surveyed=each,
        now_ms=context.now_ms,
        regions=regions,
        segments=explained(each.view, each.rules, regions, each.choice, context.now_ms),
    )


def _regions(partition: Surveyed, now_ms: int, first_dirty: int | None) -> Regions | None:
    """Those that the choice was made by; the stored ones where --first-dirty is out of range."""
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
    """What is begun of each partition, or why nothing is, as far as that can be told before."""
    reports: dict[PartitionKey, PartitionReport] = {}
    pending = due[: budget.max_partitions]
    spent_bytes = 0
    while pending:
        wave = _wave(pending, budget, spent_bytes, free)
        for each, chunk in zip(pending, wave.chunks, strict=False):
            reports[each.key] = survey_report(replace(each, choice=chunk.plan))
            spent_bytes += chunk.plan.bytes_in
        pending = pending[len(wave.chunks) :]
        if wave.stop:
            for each in pending:
                reports[each.key] = left_report(survey_report(each), wave.stop)
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

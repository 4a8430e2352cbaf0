"""`tierfold plan`: what `compact` would do to each partition, and why not more."""

from __future__ import annotations

from dataclasses import replace

from compaction.chunks import UNBOUND, Budget, Due, Room, Wave, next_wave
from compaction.plan import Compact
from compaction.segments import PartitionKey
from jobs.outcome_reports import PartitionReport, left_report, survey_report
from jobs.settings import Settings
from jobs.survey import Scope, Surveyed, in_order_of_work, survey
from jobs.wiring import Wiring
from storage.tiers import free_bytes


def plan(
    live: Wiring, settings: Settings, scope: Scope, budget: Budget = UNBOUND
) -> list[PartitionReport]:
    """One report per partition in scope; nothing is changed, no catalog is made.

    Of a partition that is compacted in chunks it shows the first. Raises BadSettings; whatever is
    wrong with one partition is in its report.
    """
    surveyed = survey(live, settings, scope)
    reports = {each.key: survey_report(each) for each in surveyed}
    due = in_order_of_work(surveyed)
    if due:
        reports |= _first_chunks(due, budget, free_bytes(live.tier_uri))
    return [reports[each.key] for each in surveyed]


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
    for each in due[len(due[: budget.max_partitions]) :]:
        why = f"--max-partitions is {budget.max_partitions}"
        reports[each.key] = left_report(survey_report(each), why)
    return reports


def _wave(due: list[Surveyed], budget: Budget, spent_bytes: int, free: int) -> Wave:
    room = Room(budget_bytes=budget.max_bytes, spent_bytes=spent_bytes, free_bytes=free)
    plans = [
        Due(plan=each.choice, rules=each.rules)
        for each in due
        if isinstance(each.choice, Compact)
    ]
    return next_wave(plans, room)

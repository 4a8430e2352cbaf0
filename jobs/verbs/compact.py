"""`tierfold compact`: stages 1 to 8, and the run's rows in the `runs` table.

Also a script for spark-submit: `spark-submit --master local[2,4] jobs/compact_job.py TIER …`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tierfold.compaction.model.bindings import Detached
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.planning.chunks import UNBOUND, Budget
from tierfold.compaction.planning.partition_plan import PartitionPlan, in_order_of_work
from tierfold.jobs.context.byte_progress import Listener, unheard
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.context.stage_seconds import TimedStage
from tierfold.jobs.context.stopping import Stopped
from tierfold.jobs.engines.engine_choice import Engine, input_bytes, on_spark
from tierfold.jobs.pipeline.partition_report import (
    NOT_BEGUN,
    PLANNED,
    PartitionReport,
    left_report,
    planned_report,
)
from tierfold.jobs.pipeline.run_loop import Waves
from tierfold.jobs.pipeline.run_records import keep_record
from tierfold.jobs.pipeline.survey import survey
from tierfold.jobs.settings.resolution import Settings
from tierfold.storage.clock import now_ms


def compact(
    context: RunContext,
    settings: Settings,
    scope: Scope,
    listener: Listener = unheard,
    budget: Budget = UNBOUND,
    engine: Engine = on_spark,
) -> list[PartitionReport]:
    """Compact every eligible partition in scope; return one report per partition in scope.

    The `runs` table gets a row for each tried chunk, and one for each partition without a tried
    chunk. `listener` receives the progress. Raises BadSettings; an error in one
    partition is in its report.
    """
    started_at_ms = now_ms()
    with context.seconds.timed(TimedStage.SURVEY):
        plans = survey(context, settings, scope)
    return carried_out(context, plans, listener, budget, engine, started_at_ms)


def carried_out(
    context: RunContext,
    plans: Sequence[PartitionPlan],
    listener: Listener,
    budget: Budget,
    engine: Engine,
    started_at_ms: int,
) -> list[PartitionReport]:
    """Carry out the plans that are due; return one report per plan, in their order.

    `--max-duration` counts from `started_at_ms`. Partitions that were not begun are recorded, also
    if an error ends the run.
    """
    reports = {plan.key: planned_report(plan) for plan in plans}
    due = in_order_of_work(plans)
    try:
        if due:
            # Before the claim: if the engine cannot start, no epoch should be opened.
            executor = engine(context, listener, input_bytes(due, budget))
            waves = Waves(
                context=context,
                executor=executor,
                budget=budget,
                started_at_ms=started_at_ms,
                record=lambda chunks, began_at_ms: keep_record(
                    context, chunks, began_at_ms, "compact"
                ),
            )
            try:
                waves.run(due)
            finally:
                reports |= {report.key: report for report in waves.reports}
    except BaseException as error:
        planned = [report for report in reports.values() if report.outcome == PLANNED]
        reports |= {report.key: left_report(report, _why_ended(error)) for report in planned}
        raise
    finally:
        not_begun = [(0, report) for report in reports.values() if report.outcome in NOT_BEGUN]
        keep_record(context, not_begun, started_at_ms, "compact")
    return [*reports.values()]


def _why_ended(error: BaseException) -> str:
    """Why the run ended before its first claim."""
    match error:
        case Stopped():
            return f"stopped by {error.by}"
        case TierfoldError():
            return f"the engine did not start: {error}"
        case _:
            return "an unexpected error ended the run"


def broker_warnings(settings: Settings, reports: Sequence[PartitionReport]) -> tuple[str, ...]:
    """Return a warning if segments were replaced and brokers may serve the tier."""
    has_replaced = any(report.objects_written for report in reports)
    if not has_replaced or isinstance(settings.binding, Detached):
        return ()
    return (
        "This tier may be served by brokers. They keep serving the segments that they"
        " uploaded, which stay in the tier. If no broker serves it, set tier.binding=detached.",
    )

"""`tierfold compact`: stages 1 to 8, and the run's rows in the `runs` table.

Also a script for spark-submit: `spark-submit --master local[2,4] jobs/compact_job.py TIER …`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.planning.chunks import UNBOUND, Budget
from tierfold.compaction.planning.partition_plan import PartitionPlan, in_order_of_work
from tierfold.jobs.context.publishing_settings import Publishing
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.context.stage_seconds import TimedStage
from tierfold.jobs.context.stopping import Stopped, deferred
from tierfold.jobs.engines.engine_choice import Engine, input_bytes, on_spark
from tierfold.jobs.pipeline.left_unpublished import unless_published, why_left
from tierfold.jobs.pipeline.partition_report import (
    NOT_BEGUN,
    PLANNED,
    PartitionReport,
    left_report,
)
from tierfold.jobs.pipeline.publication import PublishesPartitions
from tierfold.jobs.pipeline.run_loop import Waves
from tierfold.jobs.pipeline.run_records import keep_record
from tierfold.jobs.pipeline.survey import is_at_rest
from tierfold.jobs.settings.resolution import Settings
from tierfold.jobs.verbs.approved_plans import surveyed
from tierfold.jobs.verbs.waiting import freed_scope, waiting
from tierfold.storage.clock import now_ms


def compact(
    context: RunContext,
    settings: Settings,
    scope: Scope,
    budget: Budget = UNBOUND,
    engine: Engine = on_spark,
) -> list[PartitionReport]:
    """Compact every eligible partition in scope; return one report per partition in scope.

    With `--if-held wait`, partitions that live runs hold are planned again once they are free. The
    `runs` table gets a row for each tried chunk, and one for each partition without a tried
    chunk. Beside brokers to which the run does not publish, nothing is changed or recorded. Raises
    BadSettings; an error in one partition is in its report.
    """
    if context.publishing_state is Publishing.OFF:
        return _unchanged(context, settings, scope)
    started_at_ms = now_ms()
    reports: dict[PartitionKey, PartitionReport] = {}
    left: Scope | None = scope
    while left is not None:
        try:
            with context.seconds.timed(TimedStage.SURVEY):
                plans = surveyed(context, settings, left)
        except TierfoldError:
            if not reports:
                raise
            break  # What is done must be reported; what was waited for stays left.
        if not reports:
            _remember(context, plans)
        rest = _rest_of(budget, reports.values())
        run = partial(carried_out, context, rest, engine, started_at_ms)
        if context.publishing_state is Publishing.ON:
            found = _published(context, settings, left, plans, run)
        else:
            found = run(plans)
        reports |= {report.key: report for report in found}
        left = _freed(context, scope, reports.values(), budget, started_at_ms)
    _record(context, [reports[key] for key in waiting(context, reports.values())], started_at_ms)
    return [*reports.values()]


def _remember(context: RunContext, plans: Sequence[PartitionPlan]) -> None:
    """Keep what was read of the partitions that rest; as `record_run`, it creates no catalog."""
    with suppress(TierfoldError):  # Then the next run reads them again.
        if context.memory is not None and context.catalog.exists():
            resting = [plan.key for plan in plans if is_at_rest(plan)]
            context.memory.save([plan.key for plan in plans], resting)


def _published(
    context: RunContext,
    settings: Settings,
    scope: Scope,
    plans: Sequence[PartitionPlan],
    run: Callable[[Sequence[PartitionPlan], PublishesPartitions], list[PartitionReport]],
) -> list[PartitionReport]:
    """Publish what earlier runs have committed; then compact and publish, wave by wave."""
    # Imported here: the client is loaded only where brokers are named.
    from tierfold.jobs.publishing.open_swaps import after_open_swaps
    from tierfold.jobs.publishing.publisher import publisher_of

    publisher, began_at_ms = publisher_of(context, settings), now_ms()
    publisher.begin(plans)
    rest, reports = after_open_swaps(publisher, plans, scope)
    again = {plan.key for plan in rest}
    _record(context, [reports[key] for key in reports if key not in again], began_at_ms)
    for report in run(rest, publisher):
        earlier = reports.get(report.key)
        events = report.events_sent + (0 if earlier is None else earlier.events_sent)
        reports[report.key] = replace(report, events_sent=events)
    return [reports[plan.key] for plan in plans]


def _unchanged(
    context: RunContext, settings: Settings, scope: Scope
) -> list[PartitionReport]:
    with context.seconds.timed(TimedStage.SURVEY):
        plans = surveyed(context, settings, scope)
    return [unless_published(context, plan) for plan in plans]


def _rest_of(budget: Budget, done: Iterable[PartitionReport]) -> Budget:
    """Return what is left of the budget for partitions that were waited for."""
    if budget.max_bytes is None:
        return budget
    spent = sum(report.bytes_in for report in done if report.outcome not in NOT_BEGUN)
    return replace(budget, max_bytes=max(0, budget.max_bytes - spent))


def _freed(
    context: RunContext,
    scope: Scope,
    reports: Collection[PartitionReport],
    budget: Budget,
    started_at_ms: int,
) -> Scope | None:
    """Wait for partitions that live runs hold; None: there are none, or the run ends before."""
    keys = waiting(context, reports)
    if not keys or _rest_of(budget, reports).max_bytes == 0:
        return None
    bound_ms = budget.max_duration_ms
    with deferred():  # After a signal, the reports are still to be printed.
        until_ms = None if bound_ms is None else started_at_ms + bound_ms
        return freed_scope(context, keys, "compact", scope, until_ms)


def carried_out(
    context: RunContext,
    budget: Budget,
    engine: Engine,
    started_at_ms: int,
    plans: Sequence[PartitionPlan],
    publishing: PublishesPartitions | None = None,
) -> list[PartitionReport]:
    """Carry out the plans that are due; return one report per plan, in their order.

    `--max-duration` counts from `started_at_ms`. Partitions that were not begun are recorded, also
    if an error ends the run. `publishing`: as of `Waves`.
    """
    reports = {plan.key: unless_published(context, plan) for plan in plans}
    due = in_order_of_work([plan for plan in plans if not why_left(context, plan)])
    try:
        if due:
            # Before the claim: if the engine cannot start, no epoch should be opened.
            executor = engine(context, input_bytes(due, budget))
            waves = Waves(
                context=context,
                executor=executor,
                budget=budget,
                started_at_ms=started_at_ms,
                record=lambda chunks, began_at_ms: keep_record(
                    context, chunks, began_at_ms, "compact"
                ),
                publishing=publishing,
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
        not_begun = [key for key, report in reports.items() if report.outcome in NOT_BEGUN]
        again = set(waiting(context, reports.values()))
        _record(context, [reports[key] for key in not_begun if key not in again], started_at_ms)
    return [*reports.values()]


def _record(context: RunContext, left: Sequence[PartitionReport], started_at_ms: int) -> None:
    keep_record(context, [(0, report) for report in left], started_at_ms, "compact")


def _why_ended(error: BaseException) -> str:
    """Why the run ended before its first claim."""
    match error:
        case Stopped():
            return f"stopped by {error.by}"
        case TierfoldError():
            return f"the engine did not start: {error}"
        case _:
            return "an unexpected error ended the run"

"""`tierfold compact`: stages 1 to 8 and the record of them in the `runs` table.

Also a script for spark-submit: `spark-submit --master local[2] jobs/compact_job.py TIER …`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from rich.console import Console

from compaction.aborted import AbortedTransaction
from compaction.errors import TierfoldError
from compaction.outcomes import Committed
from compaction.plan import Compact
from compaction.segments import PartitionKey
from compaction.view import state_with_new
from jobs.outcome_reports import (
    PartitionReport,
    failure_report,
    outcome_report,
    result_report,
    survey_report,
)
from jobs.pipeline import Pipeline, RoundResult
from jobs.progress import ByteProgress
from jobs.rounds import Round
from jobs.run_records import record_run
from jobs.session import tierfold_session
from jobs.settings import Settings
from jobs.survey import READERS, Scope, Surveyed, contradictions, in_order_of_work, survey
from jobs.wiring import Wiring
from storage.catalog import Catalog
from storage.clock import now_ms
from storage.first_sight import read_aborted

CAUSE_MAX: Final = 300
"""Characters of Spark's own words that are passed on."""

Reports = dict[PartitionKey, PartitionReport]


def compact(
    live: Wiring, settings: Settings, scope: Scope, console: Console
) -> list[PartitionReport]:
    """Compact every eligible partition in scope; one report per partition in scope.

    Raises BadSettings; whatever is wrong with one partition is in its report.
    """
    started_at_ms = now_ms()
    surveyed = survey(live, settings, scope)
    reports = {each.key: survey_report(each) for each in surveyed}
    due = in_order_of_work(surveyed)
    if due:
        # Before the claim: where Spark cannot start, nobody's epoch should be opened.
        spark = tierfold_session()
        pipeline = Pipeline(spark, live.tier_uri, ByteProgress(spark, console))
        for result in results_of(pipeline, _claimed(live, due, reports), live.catalog):
            key = result.round.key
            reports[key] = result_report(reports[key], result)
        _record(live, [reports[each.key] for each in due], started_at_ms, console)
    return [reports[each.key] for each in surveyed]


def results_of(
    pipeline: Pipeline, rounds: Sequence[Round], catalog: Catalog
) -> list[RoundResult]:
    """Run the rounds; where that takes Spark's workers down, in halves, until one is to blame.

    A worker that dies, for want of memory say, ends the job of all partitions; data that do that
    must stop their own partition alone.
    """
    if not rounds:
        return []
    try:
        return pipeline.run(rounds, catalog)
    except (PySparkException, Py4JError) as error:
        if len(rounds) == 1:
            return [RoundResult(round=rounds[0], failure=_worker_died(rounds[0], error))]
    middle = len(rounds) // 2
    return [
        *results_of(pipeline, rounds[:middle], catalog),
        *results_of(pipeline, rounds[middle:], catalog),
    ]


def _worker_died(each: Round, error: Exception) -> str:
    cause = next((line for line in str(error).splitlines() if "Exception" in line), repr(error))
    return (
        f"{each.key}: a Spark worker died over this partition ({cause.strip()[:CAUSE_MAX]}). "
        "Its log says more; often it needs more memory. Nothing was published."
    )


def _record(
    live: Wiring, reports: Sequence[PartitionReport], started_at_ms: int, console: Console
) -> None:
    """Keep the run's record, which is no part of it: without one the outcomes are told as well."""
    try:
        record_run(live, reports, started_at_ms, "compact")
    except TierfoldError as error:
        console.print(f"The run's record could not be kept: {error}", style="yellow")


def _claimed(live: Wiring, due: Sequence[Surveyed], reports: Reports) -> list[Round]:
    """Stage 3: one commit opens the next epoch of every due partition."""
    with ThreadPoolExecutor(READERS) as pool:
        aborted = dict(pool.map(lambda each: (each.key, _aborted(live, each)), due))
    ready: list[Surveyed] = []
    for each in due:
        found = aborted[each.key]
        faults = contradictions(each, live.now_ms)
        if isinstance(found, TierfoldError):
            reports[each.key] = failure_report(reports[each.key], str(found))
        elif faults:
            why = f"the plan contradicts the view: {'; '.join(faults)}. Please report this bug."
            reports[each.key] = failure_report(reports[each.key], why)
        else:
            ready.append(each)
    rows = [state_with_new(each.view) for each in ready if each.view is not None]
    claims = live.catalog.claim(rows, live.run, at_ms=live.now_ms) if rows else {}
    rounds: list[Round] = []
    for each in ready:
        claim, found = claims[each.key], aborted[each.key]
        if not isinstance(claim.outcome, Committed):
            reports[each.key] = outcome_report(reports[each.key], claim.outcome)
        elif isinstance(each.choice, Compact) and not isinstance(found, TierfoldError):
            rounds.append(
                Round(
                    index=len(rounds),
                    state=claim.state,
                    first_dirty=each.choice.first_dirty,
                    end_offset=each.choice.end_offset,
                    groups=each.choice.groups,
                    rules=each.rules,
                    aborted=found,
                    producers=each.producers,
                    now_ms=live.now_ms,
                    is_partial=each.choice.is_partial,
                )
            )
    return rounds


def _aborted(
    live: Wiring, each: Surveyed
) -> tuple[AbortedTransaction, ...] | TierfoldError:
    """The aborted transactions of every segment in view, above the round too.

    A marker may sit there. An index that metadata promises and that is absent refuses the
    partition.
    """
    segments = each.view.segments if each.view is not None else ()
    try:
        return tuple(
            transaction
            for segment in segments
            for transaction in read_aborted(live.tier, each.key, segment)
        )
    except TierfoldError as error:
        return error


if __name__ == "__main__":
    from jobs.cli import main

    main(prog_name="compact_job.py", first_arguments=("compact",))

"""`tierfold compact`: stages 1 to 8 and the record of them in the `runs` table.

Also a script for spark-submit: `spark-submit --master local[2,4] jobs/compact_job.py TIER …`.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from compaction.chunks import UNBOUND, Budget
from compaction.errors import TierfoldError
from jobs.outcome_reports import PartitionReport, survey_report
from jobs.pipeline import Pipeline
from jobs.progress import ByteProgress
from jobs.run_records import record_run
from jobs.session import spark_answers, tierfold_session
from jobs.settings import Settings
from jobs.survey import Scope, in_order_of_work, survey
from jobs.waves import Waves
from jobs.wiring import Wiring
from storage.clock import now_ms


def compact(
    live: Wiring, settings: Settings, scope: Scope, console: Console, budget: Budget = UNBOUND
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
        with spark_answers():
            spark = tierfold_session()
            pipeline = Pipeline(spark, live.tier_uri, ByteProgress(spark, console))
        waves = Waves(
            live=live,
            pipeline=pipeline,
            budget=budget,
            started_at_ms=started_at_ms,
            record=lambda chunks, began_at_ms: _record(live, chunks, began_at_ms, console),
        )
        reports |= {each.key: each for each in waves.run(due)}
    return [reports[each.key] for each in surveyed]


def _record(
    live: Wiring, chunks: Sequence[tuple[int, PartitionReport]], began_at_ms: int, console: Console
) -> None:
    """Keep the run's record, which is no part of it: without one the outcomes are told as well."""
    try:
        record_run(live, chunks, began_at_ms, "compact")
    except TierfoldError as error:
        console.print(f"The run's record could not be kept: {error}", style="yellow")


if __name__ == "__main__":
    from jobs.cli import main

    main(prog_name="compact_job.py", first_arguments=("compact",))

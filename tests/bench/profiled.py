"""The time of one pass, by stage and by function: `python -m tests.bench.profiled`.

The stages' times come from Spark's event log, in a pass without a profiler. The functions' times
come from PySpark's profiler (cProfile in the workers), in the next pass. There every task has one
thread, since cProfile sees no other. Session and kernels are warm.
"""

from __future__ import annotations

import json
import os
import pstats
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from tests.bench.contenders import fresh_tier, session_start, tierfold_pass
from tests.bench.logs import LOGS, BenchLog, made
from tests.bench.options import folder_option, only_option
from tierfold.jobs.engines import task_assignment
from tierfold.jobs.spark.session import tierfold_session

WARM_PASSES: Final = 3
FUNCTIONS: Final = 12
"""How many functions are printed, by time of their own."""

STAGES: Final = ("assign segments", "scan", "reduce", "assign superseded", "rewrite")
"""The stages of a wave without unindexed aborts and empty groups, in order."""


class StageTime(NamedTuple):
    """One stage of the pass."""

    elapsed_ms: int
    tasks: int
    task_ms: int
    """The time of all its tasks together."""


def stages_between(folder: Path, begin_ms: int, end_ms: int) -> list[StageTime]:
    """The stages that ran in a span of time, in order, from the event log in `folder`."""
    task_ms: dict[int, int] = {}
    stages: list[tuple[int, dict[str, Any]]] = []
    for event in _events(folder):
        if event["Event"] == "SparkListenerTaskEnd":
            times = event["Task Info"]
            stage = event["Stage ID"]
            spent = times["Finish Time"] - times["Launch Time"]
            task_ms[stage] = task_ms.get(stage, 0) + spent
        elif event["Event"] == "SparkListenerStageCompleted":
            info = event["Stage Info"]
            if begin_ms <= info["Submission Time"] and info["Completion Time"] <= end_ms:
                stages.append((info["Stage ID"], info))
    return [
        StageTime(
            elapsed_ms=info["Completion Time"] - info["Submission Time"],
            tasks=info["Number of Tasks"],
            task_ms=task_ms.get(number, 0),
        )
        for number, info in sorted(stages, key=lambda stage: stage[0])
    ]


def _events(folder: Path) -> Iterator[dict[str, Any]]:
    for path in folder.rglob("events_*"):
        for line in path.read_text().splitlines():
            yield json.loads(line)


def print_stages(stages: Sequence[StageTime], elapsed_ms: int) -> None:
    """Print a line per stage, and one for the driver: metadata, claim, planning, commit."""
    names = STAGES if len(stages) == len(STAGES) else [f"stage {i}" for i in range(len(stages))]
    for name, stage in zip(names, stages, strict=True):
        click.echo(
            f"  {name:<18}{stage.elapsed_ms:>7} ms {stage.tasks:>4} tasks {stage.task_ms:>7} ms"
        )
    rest_ms = elapsed_ms - sum(stage.elapsed_ms for stage in stages)
    click.echo(f"  {'the driver':<18}{rest_ms:>7} ms   between the stages")
    click.echo(f"  {'in all':<18}{elapsed_ms:>7} ms")


def print_functions(folder: Path) -> None:
    """Print the workers' slowest functions over all stages."""
    dumps = sorted(str(path) for path in folder.rglob("*.pstats"))
    stats = pstats.Stats(*dumps)
    own = sorted(
        ((times[2], times[0], place) for place, times in stats.stats.items()), reverse=True
    )
    in_all = sum(spent for spent, _, _ in own)
    for spent_s, calls, (path, _, function) in own[:FUNCTIONS]:
        share = 100 * spent_s / in_all
        click.echo(f"  {share:5.1f} % {spent_s:7.2f} s {calls:>8} x {Path(path).name} {function}")
    click.echo(f"  {in_all:15.2f} s in all")


def profiled(log: BenchLog, scale: int, folder: Path, events: Path) -> None:
    """Print both tables for one log."""
    spark = tierfold_session()
    source = made(log, scale, folder)
    scratch = folder / "scratch"
    for _ in range(WARM_PASSES):
        tierfold_pass(fresh_tier(source, scratch))
    tier = fresh_tier(source, scratch)
    begin_ms = time.time_ns() // 1_000_000
    passed = tierfold_pass(tier)
    end_ms = time.time_ns() // 1_000_000
    click.echo(f"{log.title}, {scale} GB: {passed.bytes_in / 1e6:.0f} MB, by stage")
    # Spark writes events late; the next pass makes it write those of the last one.
    with tempfile.TemporaryDirectory() as dumps:
        spark.profile.clear()
        spark.conf.set("spark.sql.pyspark.udf.profiler", "perf")
        threads_max = task_assignment.THREADS_MAX
        task_assignment.THREADS_MAX = 1  # type: ignore[misc]
        tierfold_pass(fresh_tier(source, scratch))
        task_assignment.THREADS_MAX = threads_max  # type: ignore[misc]
        spark.conf.unset("spark.sql.pyspark.udf.profiler")
        print_stages(stages_between(events, begin_ms, end_ms), round(passed.cost.elapsed_s * 1000))
        click.echo("by function, all workers together (including the profiler's cost)")
        spark.profile.dump(dumps, type="perf")
        print_functions(Path(dumps))


@click.command()
@click.option("--scale", type=int, default=1, help="Gigabytes.")
@only_option
@folder_option
def profile(scale: int, only: tuple[str, ...], folder: Path) -> None:
    """Compact each log, and print where the time went."""
    with tempfile.TemporaryDirectory() as events:
        logged = f"--conf spark.eventLog.enabled=true --conf spark.eventLog.dir=file://{events}"
        plain = "--conf spark.eventLog.compress=false"
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"{logged} {plain} pyspark-shell"
        session_start(folder / "scratch")
        for log in LOGS:
            if not only or log.name in only:
                profiled(log, scale, folder, Path(events))
        tierfold_session().stop()  # It writes to that folder until then.


if __name__ == "__main__":
    profile()

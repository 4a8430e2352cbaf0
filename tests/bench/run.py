"""`make bench`: measures the table of docs/performance.md again.

    python -m tests.bench.run --scale 1 --runs 3 --only raw1k

The contenders take turns, log by log and run by run, so that a slower machine slows both. The first
run of each does not count.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from statistics import median

import click

from tests.bench.contenders import (
    Passed,
    fresh_tier,
    io_limit_s,
    kafka_pass,
    session_start,
    tierfold_pass,
)
from tests.bench.logs import LOGS, BenchLog, made
from tests.bench.measures import spread
from tests.jobs.commands import ROOT
from tests.oracle.kafka_lab import KafkaLab


def measured(log: BenchLog, scale: int, runs: int, folder: Path) -> dict[str, object]:
    """One row of the table: both contenders take turns on one log."""
    source = made(log, scale, folder)
    scratch = folder / "scratch"
    kafka: list[Passed] = []
    ours: list[Passed] = []
    with KafkaLab(jvm_flags=("-Xmx3g", "-XX:+UseSerialGC")) as lab:
        for _ in range(runs + 1):
            kafka.append(kafka_pass(lab, source, scratch))
            ours.append(tierfold_pass(fresh_tier(source, scratch)))
    limit_s = io_limit_s(fresh_tier(source, scratch), ours[-1].bytes_out)
    shutil.rmtree(scratch, ignore_errors=True)
    if (kafka[-1].records_in, kafka[-1].records_out) != (ours[-1].records_in, ours[-1].records_out):
        raise RuntimeError(f"{log.name}: the two kept different records: {kafka[-1]}, {ours[-1]}")
    return _row(log, scale, kafka[1:], ours[1:], limit_s)


def _row(
    log: BenchLog, scale: int, kafka: list[Passed], ours: list[Passed], limit_s: float
) -> dict[str, object]:
    megabytes = ours[0].bytes_in / 1e6
    pairs = list(zip(kafka, ours, strict=True))
    return {
        "log": log.title,
        "scale": scale,
        "MB in": round(megabytes),
        "MB out": round(ours[0].bytes_out / 1e6),
        "records": ours[0].records_in,
        "kafka elapsed s": spread([run.cost.elapsed_s for run in kafka]),
        "tierfold elapsed s": spread([run.cost.elapsed_s for run in ours]),
        "elapsed ratio": spread([k.cost.elapsed_s / o.cost.elapsed_s for k, o in pairs]),
        "kafka cpu s": spread([run.cost.cpu_s for run in kafka]),
        "tierfold cpu s": spread([run.cost.cpu_s for run in ours]),
        "cpu ratio": spread([k.cost.cpu_s / o.cost.cpu_s for k, o in pairs]),
        "tierfold MB/s": round(megabytes / median(run.cost.elapsed_s for run in ours)),
        "kafka MB/s": round(megabytes / median(run.cost.elapsed_s for run in kafka)),
        "I/O limit s": round(limit_s, 2),
    }


@click.command()
@click.option("--scale", type=int, multiple=True, default=(1,), help="Gigabytes. Repeatable.")
@click.option("--runs", type=int, default=3, help="Counted runs of each contender.")
@click.option("--only", multiple=True, help="Only these logs, by name.")
@click.option("--folder", type=click.Path(path_type=Path), default=ROOT / "build" / "bench")
def bench(scale: tuple[int, ...], runs: int, only: tuple[str, ...], folder: Path) -> None:
    """Measure each log, and print a JSON object for it."""
    folder.mkdir(parents=True, exist_ok=True)
    start = session_start(ROOT / "sample", folder / "scratch")
    click.echo(json.dumps({"session start s": round(start.elapsed_s, 1), "cpu s": start.cpu_s}))
    for size in scale:
        for log in LOGS:
            if not only or log.name in only:
                click.echo(json.dumps(measured(log, size, runs, folder)))
                sys.stdout.flush()


if __name__ == "__main__":
    bench()

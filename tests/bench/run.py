"""`make bench`: measures the table of docs/performance.md again.

    python -m tests.bench.run --scale 1 --runs 5 --only raw1k

The contenders take turns, log by log and run by run, so that a slower machine slows all: Kafka's
cleaner, tierfold on Spark, tierfold in this process (`--engine local`), and plain reads and writes
of as many bytes. The first run of each does not count. Two more rows compare eight partitions
with two of Kafka's cleaners at once, and state what a run costs that has next to nothing to do.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Final

import click

from tests.bench.contenders import (
    Passed,
    fresh_tier,
    kafka_pass,
    kafka_passes,
    partitions_of,
    plain_io_s,
    session_start,
    tierfold_pass,
)
from tests.bench.logs import LOGS, BenchLog, made
from tests.bench.measures import Cost, spread
from tests.bench.results import printed
from tests.bench.synthetic import Shape, fresh_folder, put_log
from tests.jobs.commands import ROOT
from tests.oracle.kafka_lab import KafkaLab
from tierfold.jobs.engines.engine_choice import in_process
from tierfold.jobs.engines.local_executor import usable_cores

TOGETHER: Final = ("eight", "tiny")
"""Names of the rows that are not about one of the logs."""
_PARTITIONS: Final = 8
_JVM: Final = ("-Xmx3g", "-XX:+UseSerialGC")
_LOCAL_ENGINE: Final = in_process(2**40)
"""Also for logs that exceed the default of `--local-max`."""


def measured(log: BenchLog, scale: int, runs: int, folder: Path) -> dict[str, object]:
    """One row of the table: the contenders take turns on one log."""
    source = made(log, scale, folder)
    scratch = folder / "scratch"
    kafka: list[Passed] = []
    spark: list[Passed] = []
    local: list[Passed] = []
    plain_s: list[float] = []
    with KafkaLab(jvm_flags=_JVM) as lab:
        for _ in range(runs + 1):
            kafka.append(kafka_pass(lab, source, scratch))
            spark.append(tierfold_pass(fresh_tier(source, scratch)))
            local.append(tierfold_pass(fresh_tier(source, scratch), _LOCAL_ENGINE))
            plain_s.append(plain_io_s(fresh_tier(source, scratch), spark[-1].bytes_out))
    shutil.rmtree(scratch, ignore_errors=True)
    kept = {(found[-1].records_in, found[-1].records_out) for found in (kafka, spark, local)}
    if len(kept) > 1:
        raise RuntimeError(f"{log.name}: different records were kept: {kept}")
    row: dict[str, object] = {
        "log": log.title,
        "scale": scale,
        "MB in": round(spark[0].bytes_in / 1e6),
        "MB out": round(spark[0].bytes_out / 1e6),
        "records": spark[0].records_in,
        **_costs("kafka", [run.cost for run in kafka[1:]]),
    }
    for name, found in (("spark", spark[1:]), ("local", local[1:])):
        row |= _beside(name, found, kafka[1:], plain_s[1:])
    return row | {"plain I/O s": spread(plain_s[1:])}


def _costs(name: str, costs: list[Cost]) -> dict[str, object]:
    return {
        f"{name} elapsed s": spread([cost.elapsed_s for cost in costs]),
        f"{name} cpu s": spread([cost.cpu_s for cost in costs]),
    }


def _beside(
    name: str, ours: list[Passed], kafka: list[Passed], plain_s: list[float]
) -> dict[str, object]:
    """tierfold's columns with one engine."""
    megabytes = ours[0].bytes_in / 1e6
    pairs = list(zip((run.cost for run in kafka), (run.cost for run in ours), strict=True))
    rate = megabytes / median(run.cost.elapsed_s for run in ours)
    return _costs(name, [run.cost for run in ours]) | {
        f"kafka ÷ {name}, elapsed": spread([k.elapsed_s / o.elapsed_s for k, o in pairs]),
        f"kafka ÷ {name}, cpu": spread([k.cpu_s / o.cpu_s for k, o in pairs]),
        f"{name} ÷ plain I/O": spread(
            [o.cost.elapsed_s / s for o, s in zip(ours, plain_s, strict=True)]
        ),
        f"{name} MB/s": round(rate),
        f"{name} MB/s per core": round(rate / usable_cores()),
        f"{name} MB per cpu s": round(megabytes / median(run.cost.cpu_s for run in ours)),
    }


def eight_partitions(scale: int, runs: int, folder: Path) -> dict[str, object]:
    """A row: eight partitions at once beside two of Kafka's cleaners, which clean four each."""
    source, scratch = made(LOGS[0], scale, folder), folder / "scratch"
    kafka: list[Cost] = []
    spark: list[Cost] = []
    with KafkaLab(jvm_flags=_JVM) as one, KafkaLab(jvm_flags=_JVM) as other:
        for _ in range(runs + 1):
            kafka.append(kafka_passes((one, other), source, scratch, _PARTITIONS))
            spark.append(tierfold_pass(partitions_of(source, scratch, _PARTITIONS)).cost)
    shutil.rmtree(scratch, ignore_errors=True)
    pairs = list(zip(kafka[1:], spark[1:], strict=True))
    return {
        "log": f"{_PARTITIONS} partitions of {LOGS[0].title}, two of Kafka's cleaners",
        "scale": scale,
        **_costs("kafka", kafka[1:]),
        **_costs("spark", spark[1:]),
        "kafka ÷ spark, elapsed": spread([k.elapsed_s / o.elapsed_s for k, o in pairs]),
        "kafka ÷ spark, cpu": spread([k.cpu_s / o.cpu_s for k, o in pairs]),
    }


def tiny_partition(runs: int, folder: Path) -> dict[str, object]:
    """A row: a run over one segment of 1000 records, which is all planning, jobs and commits."""
    tier, shape = folder / "scratch" / "tiny", Shape(records=1000, keys=100)
    row: dict[str, object] = {"log": "one segment of 1000 records"}
    for name, engine in (("spark", None), ("local", _LOCAL_ENGINE)):
        elapsed_ms = []
        for _ in range(runs + 1):
            put_log(fresh_folder(tier), "tiny", 0, shape)
            done = tierfold_pass(tier) if engine is None else tierfold_pass(tier, engine)
            elapsed_ms.append(1000 * done.cost.elapsed_s)
        row[f"{name} elapsed ms"] = spread(elapsed_ms[1:], 0)
    shutil.rmtree(folder / "scratch", ignore_errors=True)
    return row


@click.command()
@click.option("--scale", type=int, multiple=True, default=(1,), help="Gigabytes. Repeatable.")
@click.option("--runs", type=int, default=5, help="Counted runs of each contender.")
@click.option("--only", multiple=True, help=f"Only these logs, by name, or {TOGETHER}.")
@click.option("--folder", type=click.Path(path_type=Path), default=ROOT / "build" / "bench")
def bench(scale: tuple[int, ...], runs: int, only: tuple[str, ...], folder: Path) -> None:
    """Measure each log, and print a JSON object for it."""
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / "results.jsonl"
    start = session_start(ROOT / "sample", folder / "scratch")
    printed("run", {"session start s": round(start.elapsed_s, 1), "cpu s": start.cpu_s}, results)
    for name, row in _rows(scale, runs, folder):
        if not only or name in only:
            printed("run", row(), results)


def _rows(
    scale: tuple[int, ...], runs: int, folder: Path
) -> Iterator[tuple[str, Callable[[], dict[str, object]]]]:
    yield "tiny", lambda: tiny_partition(runs, folder)
    for size in scale:
        for log in LOGS:
            yield log.name, lambda log=log, size=size: measured(log, size, runs, folder)
        yield "eight", lambda size=size: eight_partitions(size, runs, folder)


if __name__ == "__main__":
    bench()

"""`make bench`: measures the first table of docs/performance.md.

    python -m tests.bench.run --scale 1 --runs 5 --only raw1k

The contenders take turns, so that other work on the machine slows all of them: Kafka's cleaner,
tierfold on Spark, tierfold in this process (`--engine local`), and plain reads and writes of the
same number of bytes. The first run of each does not count. Two more rows show eight partitions
beside two of Kafka's cleaners at once, and the cost of a run with next to nothing to do.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

import click

from tests.bench.contenders import (
    PassResult,
    fresh_tier,
    kafka_pass,
    kafka_passes,
    partitions_of,
    plain_io_s,
    require_same_records,
    session_start,
    tierfold_pass,
)
from tests.bench.logs import LOGS, BenchLog, made
from tests.bench.measures import Cost, ratios, spread
from tests.bench.options import folder_option
from tests.bench.results import print_row
from tests.bench.synthetic import Shape, fresh_folder, put_log
from tests.oracle.kafka_lab import KafkaLab
from tierfold.jobs.engines.engine_choice import Engine, in_process, on_spark
from tierfold.jobs.engines.local_executor import usable_cores

TOGETHER: Final = ("eight", "tiny")
"""Names of the rows that are about none of the four logs."""
_PARTITIONS: Final = 8
_JVM: Final = ("-Xmx3g", "-XX:+UseSerialGC")
_LOCAL_ENGINE: Final = in_process(2**40)
"""It accepts logs above the default of `--local-max`."""


def measured(log: BenchLog, scale: int, runs: int, folder: Path) -> dict[str, object]:
    """One row of the table."""
    source = made(log, scale, folder)
    scratch = folder / "scratch"
    kafka: list[PassResult] = []
    spark: list[PassResult] = []
    local: list[PassResult] = []
    plain_s: list[float] = []
    with KafkaLab(jvm_flags=_JVM) as lab:
        for _ in range(runs + 1):
            kafka.append(kafka_pass(lab, source, scratch))
            spark.append(tierfold_pass(fresh_tier(source, scratch)))
            local.append(tierfold_pass(fresh_tier(source, scratch), _LOCAL_ENGINE))
            plain_s.append(plain_io_s(fresh_tier(source, scratch), spark[-1].bytes_out))
    shutil.rmtree(scratch, ignore_errors=True)
    require_same_records(log.name, (kafka[-1], spark[-1], local[-1]))
    kafka_costs = [run.cost for run in kafka[1:]]
    row: dict[str, object] = {
        "log": log.title,
        "scale": scale,
        "MB in": round(spark[0].bytes_in / 1e6),
        "MB out": round(spark[0].bytes_out / 1e6),
        "records": spark[0].records_in,
        **_costs("kafka", kafka_costs),
    }
    for name, passes in (("spark", spark[1:]), ("local", local[1:])):
        costs = [run.cost for run in passes]
        row |= _costs(name, costs) | _kafka_over(name, costs, kafka_costs)
        row |= _rates(name, costs, passes[0].bytes_in / 1e6, plain_s[1:])
    return row | {"plain I/O s": spread(plain_s[1:])}


def _costs(name: str, costs: list[Cost]) -> dict[str, object]:
    return {
        f"{name} elapsed s": spread(cost.elapsed_s for cost in costs),
        f"{name} cpu s": spread(cost.cpu_s for cost in costs),
    }


def _kafka_over(name: str, ours: list[Cost], kafka: list[Cost]) -> dict[str, object]:
    return {
        f"kafka ÷ {name}, elapsed": ratios(
            (cost.elapsed_s for cost in kafka), (cost.elapsed_s for cost in ours)
        ),
        f"kafka ÷ {name}, cpu": ratios(
            (cost.cpu_s for cost in kafka), (cost.cpu_s for cost in ours)
        ),
    }


def _rates(
    name: str, costs: list[Cost], megabytes: float, plain_s: list[float]
) -> dict[str, object]:
    rate = megabytes / median(cost.elapsed_s for cost in costs)
    return {
        f"{name} ÷ plain I/O": ratios((cost.elapsed_s for cost in costs), plain_s),
        f"{name} MB/s": round(rate),
        f"{name} MB/s per core": round(rate / usable_cores()),
        f"{name} MB per cpu s": round(megabytes / median(cost.cpu_s for cost in costs)),
    }


def eight_partitions(scale: int, runs: int, folder: Path) -> dict[str, object]:
    """A row: eight partitions in one run beside two of Kafka's cleaners with four each."""
    source, scratch = made(LOGS[0], scale, folder), folder / "scratch"
    kafka: list[Cost] = []
    spark: list[Cost] = []
    with KafkaLab(jvm_flags=_JVM) as one, KafkaLab(jvm_flags=_JVM) as other:
        for _ in range(runs + 1):
            kafka.append(kafka_passes((one, other), source, scratch, _PARTITIONS))
            spark.append(tierfold_pass(partitions_of(source, scratch, _PARTITIONS)).cost)
    shutil.rmtree(scratch, ignore_errors=True)
    return {
        "log": f"{_PARTITIONS} partitions of {LOGS[0].title}, two of Kafka's cleaners",
        "scale": scale,
        **_costs("kafka", kafka[1:]),
        **_costs("spark", spark[1:]),
        **_kafka_over("spark", spark[1:], kafka[1:]),
    }


def tiny_partition(runs: int, folder: Path) -> dict[str, object]:
    """A row: one segment of 1000 records; the time goes into planning, jobs and commits."""
    tier, shape = folder / "scratch" / "tiny", Shape(records=1000, keys=100)
    row: dict[str, object] = {"log": "one segment of 1000 records"}
    engines: dict[str, Engine] = {"spark": on_spark, "local": _LOCAL_ENGINE}
    for name, engine in engines.items():
        elapsed_ms = []
        for _ in range(runs + 1):
            put_log(fresh_folder(tier), "tiny", 0, shape)
            elapsed_ms.append(1000 * tierfold_pass(tier, engine).cost.elapsed_s)
        row[f"{name} elapsed ms"] = spread(elapsed_ms[1:], 0)
    shutil.rmtree(folder / "scratch", ignore_errors=True)
    return row


@click.command()
@click.option("--scale", type=int, multiple=True, default=(1,), help="Gigabytes. Repeatable.")
@click.option("--runs", type=int, default=5, help="Counted runs of each contender.")
@click.option("--only", multiple=True, help=f"Only these logs, by name, or {TOGETHER}.")
@folder_option
def bench(scale: tuple[int, ...], runs: int, only: tuple[str, ...], folder: Path) -> None:
    """Measure each log, and print a JSON object for it."""
    start = session_start(folder / "scratch")
    print_row("run", {"session start s": round(start.elapsed_s, 1), "cpu s": start.cpu_s}, folder)
    for name, row in _rows(scale, runs, folder):
        if not only or name in only:
            print_row("run", row(), folder)


def _rows(
    scale: tuple[int, ...], runs: int, folder: Path
) -> Iterator[tuple[str, Callable[[], dict[str, object]]]]:
    yield "tiny", partial(tiny_partition, runs, folder)
    for size in scale:
        for log in LOGS:
            yield log.name, partial(measured, log, size, runs, folder)
        yield "eight", partial(eight_partitions, size, runs, folder)


if __name__ == "__main__":
    bench()

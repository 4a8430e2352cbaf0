"""`make soak`: is there a number of keys, or a shape of log, at which a pass becomes slow or large?

    python -m tests.bench.cliff --millions 50
    python -m tests.bench.cliff --millions 5 --only keys --only "key bytes"

Every row is one pass of tierfold on Spark over a log of its own, with the session warm. The first
two rows have as many records: one with a million keys, one with as many keys as 10/11 of the
records, ten times what Kafka's default buffer holds at 50 million. Their time per record must not
differ by more than `RATIO_MAX`, and a row's worker may hold `worker_mib_max` at most.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import click

from tests.bench.contenders import NOW_MS, session_start
from tests.bench.measures import Cost, Stopwatch
from tests.bench.results import printed
from tests.bench.synthetic import Shape, fresh_folder, put_log
from tests.bench.worker_memory import ProcessPeaks
from tests.jobs.commands import ROOT
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.engines.engine_choice import on_spark
from tierfold.jobs.pipeline.partition_report import COMPACTED
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.verbs.compact import compact

RATIO_MAX: Final = 1.5
"""Time per record with most keys ÷ that with a million keys."""
WORKER_MIB_MAX: Final = 2048
"""What one Python worker may hold, with uncompressed logs."""
PACKED_MIB_MAX: Final = 5 * 1024
"""The same where 40 MB of zstd hold 2.2 GB of keys: the log's bytes decide how many buckets share
the keys, so all of them are in one, which holds them twice."""
_SETTINGS: Final = ("cleanup.policy=compact", f"segment.bytes={256 * 2**20}")


class Log(NamedTuple):
    """A row of the table."""

    name: str
    title: str
    shape: Shape
    partitions: int = 1
    worker_mib_max: int = WORKER_MIB_MAX
    """What one Python worker may hold."""


class Cliff(RuntimeError):
    """A limit of the benchmark is exceeded."""


def logs(millions: int) -> Iterator[Log]:
    """The logs, in a size that fits `millions` of keys at most."""
    many, some = millions * 1_000_000, max(1, millions // 25) * 1_000_000
    records = many + many // 10
    yield Log("few", "a million keys", Shape(records=records, keys=min(many, 1_000_000)))
    yield Log("keys", f"{millions} million keys", Shape(records=records, keys=many))
    yield Log("duplicates", "10 keys", Shape(records=some, keys=10))
    dead = Shape(records=some, keys=some // 5, value_bytes=100, tombstones_in_20=3)
    yield Log("tombstones", "15 % tombstones", dead)
    large = Shape(records=45_000 * millions, keys=44_000 * millions, key_bytes=1000, value_bytes=8,
        segment_bytes=2**31 - 2**24)
    yield Log("key bytes", "keys of 1 KB, one segment", large)
    packed = Shape(records=45_000 * millions, keys=44_000 * millions, key_bytes=1000,
        value_bytes=8, segment_bytes=2**33, is_compressed=True)
    yield Log("packed keys", "keys of 1 KB in zstd, one segment", packed,
        worker_mib_max=PACKED_MIB_MAX)
    yield Log("partitions", "32 partitions", Shape(records=some // 8, keys=some // 80), 32)
    kitchen = Shape(records=some // 8, keys=some // 40, value_bytes=100, tombstones_in_20=3,
        is_compressed=True)
    yield Log("all", "32 partitions, 15 % tombstones, zstd, many keys", kitchen, 32)


def measured(log: Log, folder: Path) -> dict[str, object]:
    """One row: the log is made, compacted and deleted."""
    tier = fresh_folder(folder / "cliff")
    size_bytes = sum(
        put_log(tier, "cliff", number, log.shape, number) for number in range(log.partitions)
    )
    with ProcessPeaks() as peaks, Stopwatch() as watch:
        reports = compact(run_context(str(tier), None, NOW_MS), resolve(_SETTINGS), Scope(),
            engine=on_spark)
    shutil.rmtree(tier)
    stopped = [report for report in reports if report.outcome != COMPACTED]
    if stopped:
        raise Cliff(f"{log.title}: {stopped[0].outcome}: {stopped[0].reason}")
    records = sum(report.counts.records_in for report in reports)
    kept = sum(report.counts.kept for report in reports)
    row = _row(log, records, kept, watch.cost)
    return row | {
        "MB in": round(size_bytes / 1e6),
        "worker MiB": peaks.mib("python"),
        "worker MiB, at most": log.worker_mib_max,
        "JVM MiB": peaks.mib("java"),
    }


def _row(log: Log, records: int, kept: int, cost: Cost) -> dict[str, object]:
    return {
        "log": log.title,
        "partitions": log.partitions,
        "records": records,
        "kept": kept,
        "elapsed s": round(cost.elapsed_s, 2),
        "cpu s": round(cost.cpu_s, 2),
        "us per record": round(cost.elapsed_s / records * 1e6, 3),
        "cpu us per record": round(cost.cpu_s / records * 1e6, 3),
    }


def exceeded(rows: dict[str, dict[str, object]]) -> list[str]:
    """What is beyond the limits; `rows` by the log's name."""
    found = [
        f"{row['log']}: a worker held {row['worker MiB']} MiB, above {row['worker MiB, at most']}"
        for row in rows.values()
        if float(str(row["worker MiB"])) > float(str(row["worker MiB, at most"]))
    ]
    if {"few", "keys"} <= rows.keys():
        few, many = (float(str(rows[name]["us per record"])) for name in ("few", "keys"))
        if many > RATIO_MAX * few:
            found.append(f"{many} µs per record with most keys, {few} with a million")
    return found


@click.command()
@click.option("--millions", default=50, show_default=True, help="Distinct keys of the largest log.")
@click.option("--only", multiple=True, help="Only these logs, by name.")
@click.option("--folder", type=click.Path(path_type=Path), default=ROOT / "build" / "bench")
def main(millions: int, only: tuple[str, ...], folder: Path) -> None:
    """Measure each log, and print a JSON object for it; exit with 1 beyond a limit."""
    folder.mkdir(parents=True, exist_ok=True)
    session_start(ROOT / "sample", folder / "scratch")
    rows = {}
    for log in logs(millions):
        if not only or log.name in only:
            rows[log.name] = measured(log, folder)
            printed("cliff", rows[log.name], folder / "results.jsonl")
    found = exceeded(rows)
    if found:
        raise click.ClickException("; ".join(found))


if __name__ == "__main__":
    main()

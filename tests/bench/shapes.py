"""`make soak`: is there a shape of log at which a pass becomes slow, large, or fails?

    python -m tests.bench.shapes --millions 50
    python -m tests.bench.shapes --millions 2 --only "key bytes"

Every row is one pass of tierfold on Spark over a log of its own, with the session warm: the
scenarios of Redpanda's compaction stress tests, and gigabytes of keys. What one Python worker may
hold at most is asserted. `tests.bench.cliff` measures how time grows with the number of keys.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import click

from tests.bench.cliff import WorkerMemory
from tests.bench.contenders import session_start, tierfold_pass
from tests.bench.results import printed
from tests.bench.synthetic import Shape, fresh_folder, put_log
from tests.jobs.commands import ROOT

WORKER_MIB_MAX: Final = 2048
"""What one Python worker may hold."""
KEYS_MIB_MAX: Final = 3 * 1024
"""The same with a segment of 2 GiB that is nearly all keys: the scan holds them to its end."""
PACKED_MIB_MAX: Final = 5 * 1024
"""The same where 40 MB of zstd hold 2.2 GB of keys: the log's bytes decide how many buckets share
the keys, so all of them are in one, which holds them twice."""


class Log(NamedTuple):
    """A row of the table."""

    name: str
    title: str
    shape: Shape
    partitions: int = 1
    worker_mib_max: int = WORKER_MIB_MAX


def logs(millions: int) -> Iterator[Log]:
    """The logs; `millions` is the size of all: 50 makes 2.2 GB of keys in one segment."""
    some = max(1, millions // 25) * 1_000_000
    dead = Shape(records=some, keys=some // 5, value_bytes=100, tombstones_in_20=3)
    yield Log("duplicates", "10 keys", Shape(records=some, keys=10))
    yield Log("tombstones", "15 % tombstones", dead)
    keys, of_keys = 44_000 * millions, 45_000 * millions
    large = Shape(
        records=of_keys, keys=keys, key_bytes=1000, value_bytes=8, segment_bytes=2**31 - 2**24
    )
    yield Log("key bytes", "keys of 1 KB, segments of 2 GiB", large, 1, KEYS_MIB_MAX)
    packed = Shape(
        records=of_keys,
        keys=keys,
        key_bytes=1000,
        value_bytes=8,
        segment_bytes=2**33,
        is_compressed=True,
    )
    yield Log("packed keys", "keys of 1 KB in zstd, one segment", packed, 1, PACKED_MIB_MAX)
    yield Log("partitions", "32 partitions", Shape(records=some // 8, keys=some // 80), 32)
    every = Shape(
        records=some // 8,
        keys=some // 40,
        value_bytes=100,
        tombstones_in_20=3,
        is_compressed=True,
    )
    yield Log("all", "32 partitions, 15 % tombstones, zstd, many keys", every, 32)


def measured(log: Log, folder: Path) -> dict[str, object]:
    """One row: the log is made, compacted and deleted. Raises ClickException beyond the limit."""
    tier, memory = fresh_folder(folder / "shapes"), WorkerMemory()
    for number in range(log.partitions):
        put_log(tier, "shapes", number, log.shape)
    with memory.watched():
        done = tierfold_pass(tier)
    shutil.rmtree(tier)
    held_mib = memory.peak_bytes / 2**20
    if held_mib > log.worker_mib_max:
        raise click.ClickException(
            f"{log.title}: a worker held {held_mib:.0f} MiB, above {log.worker_mib_max}"
        )
    return {
        "log": log.title,
        "partitions": log.partitions,
        "MB in": round(done.bytes_in / 1e6),
        "records": done.records_in,
        "kept": done.records_out,
        "elapsed s": round(done.cost.elapsed_s, 2),
        "cpu s": round(done.cost.cpu_s, 2),
        "cpu us per record": round(done.cost.cpu_s / done.records_in * 1e6, 3),
        "worker MiB": round(held_mib),
        "worker MiB, at most": log.worker_mib_max,
    }


@click.command()
@click.option("--millions", default=50, show_default=True, help="The size; 50 takes minutes.")
@click.option("--only", multiple=True, help="Only these logs, by name.")
@click.option("--folder", type=click.Path(path_type=Path), default=ROOT / "build" / "bench")
def main(millions: int, only: tuple[str, ...], folder: Path) -> None:
    """Measure each log, and print a JSON object for it."""
    folder.mkdir(parents=True, exist_ok=True)
    session_start(ROOT / "sample", folder / "scratch")
    for log in logs(millions):
        if not only or log.name in only:
            printed("shapes", measured(log, folder), folder / "results.jsonl")


if __name__ == "__main__":
    main()

"""`make soak`: whether some shape of log makes a pass slow, large, or fail.

    python -m tests.bench.shapes --millions 50
    python -m tests.bench.shapes --millions 2 --only "key bytes"

Every row is one pass of tierfold on Spark over a log of its own, in a warm session. The logs are
those of Redpanda's compaction stress tests, and some with gigabytes of keys. The limit of what one
Python worker holds is asserted. `tests.bench.cliff` measures how time grows with the keys.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import click

from tests.bench.contenders import session_start, tierfold_pass
from tests.bench.measures import peak_of_workers
from tests.bench.options import folder_option, only_option
from tests.bench.results import print_row
from tests.bench.synthetic import Shape, fresh_folder, put_log

WORKER_MIB_MAX: Final = 2048
"""The limit of what one Python worker holds."""
KEYS_MIB_MAX: Final = 3 * 1024
"""The limit with a segment of 2 GiB that is nearly all keys: the scan holds them to its end."""
PACKED_MIB_MAX: Final = 5 * 1024
"""The limit where 40 MB of zstd hold 2.2 GB of keys.

The number of buckets depends on the log's bytes. So one bucket has all the keys, and a worker holds
them twice.
"""


class Log(NamedTuple):
    """A row of the table."""

    name: str
    title: str
    shape: Shape
    partitions: int = 1
    worker_mib_max: int = WORKER_MIB_MAX


def logs(millions: int) -> Iterator[Log]:
    """The logs; `millions` scales all of them: 50 makes 2.2 GB of keys in one segment."""
    some = max(1, millions // 25) * 1_000_000
    tombstones = Shape(records=some, keys=some // 5, value_bytes=100, tombstones_in_20=3)
    yield Log("duplicates", "10 keys", Shape(records=some, keys=10))
    yield Log("tombstones", "15 % tombstones", tombstones)
    large = Shape(
        records=45_000 * millions,
        keys=44_000 * millions,
        key_bytes=1000,
        value_bytes=8,
        segment_bytes=2**31 - 2**24,
    )
    yield Log("key bytes", "keys of 1 KB, segments of 2 GiB", large, 1, KEYS_MIB_MAX)
    packed = replace(large, segment_bytes=2**33, is_compressed=True)
    yield Log("packed keys", "keys of 1 KB in zstd, one segment", packed, 1, PACKED_MIB_MAX)
    yield Log("partitions", "32 partitions", Shape(records=some // 8, keys=some // 80), 32)
    mixed = replace(tombstones, records=some // 8, keys=some // 40, is_compressed=True)
    yield Log("all", "32 partitions, 15 % tombstones, zstd, many keys", mixed, 32)


def measured(log: Log, folder: Path) -> dict[str, object]:
    """Make, compact and delete a log; return its row. Raises ClickException above the limit."""
    tier = fresh_folder(folder / "shapes")
    for number in range(log.partitions):
        put_log(tier, "shapes", number, log.shape)
    with peak_of_workers() as memory:
        done = tierfold_pass(tier)
    shutil.rmtree(tier)
    held_mib = memory.peak_bytes / 2**20
    if held_mib > log.worker_mib_max:
        raise click.ClickException(
            f"{log.title}: a worker held {held_mib:.0f} MiB, the limit is {log.worker_mib_max}"
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
@click.option("--millions", default=50, show_default=True, help="Scales the logs; 50: minutes.")
@only_option
@folder_option
def main(millions: int, only: tuple[str, ...], folder: Path) -> None:
    """Measure each log, and print a JSON object for it."""
    session_start(folder / "scratch")
    for log in logs(millions):
        if not only or log.name in only:
            print_row("shapes", measured(log, folder), folder)


if __name__ == "__main__":
    main()

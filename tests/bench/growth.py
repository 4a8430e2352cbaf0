"""`make soak`: how the time of a pass grows with cores, bytes, segments and partitions.

    python -m tests.bench.growth --gigabytes 4
    python -m tests.bench.growth --gigabytes 0.1 --most 8

Each axis changes one number and keeps the others. The logs have 100-byte values and 10 % distinct
keys; the passes run on Spark in a warm session. Rows go to results.jsonl. A line is fitted to each
axis, and growth.svg shows points and lines. One more point runs on a standalone cluster of two
workers, by spark-submit and the archive. `tests.bench.planning` measures how planning grows.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click
import numpy as np

from tests.bench.contenders import NOW_MS, session_start, tierfold_pass
from tests.bench.measures import in_new_process
from tests.bench.options import folder_option
from tests.bench.results import print_row
from tests.bench.synthetic import Shape, fresh_folder, put_log
from tests.bench.xy_plot import Axis, plot
from tests.built_archive import built_archive
from tests.end_to_end.spark_cluster import bare_python, spark_cluster
from tests.jobs.commands import ROOT
from tierfold.jobs.engines.local_executor import usable_cores

RECORD_BYTES: Final = 137
"""A record with a 24-byte key and a 100-byte value, and its share of the batch header."""
_SEGMENT_BYTES: Final = 64 * 2**20
_PASSES: Final = ROOT / "tests" / "bench" / "passes_in_turn.py"
_POINTS: Final = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One pass."""

    axis: str
    x: float
    gigabytes: float
    segment_bytes: int = _SEGMENT_BYTES
    partitions: int = 1
    cores: int = 0
    """How many cores the pass may use; 0: all."""


def points(gigabytes: float, most: int) -> list[Point]:
    """The points of all axes, with at most `most` segments and `most` partitions."""
    one = min(1.0, gigabytes)
    counts = [count for count in _POINTS if count <= most]
    sizes = [gigabytes / 2**step for step in (5, 4, 3, 2, 1, 0)]
    cores = sorted({1, usable_cores()})
    return [
        *(Point(axis="gigabytes", x=size, gigabytes=size) for size in sizes),
        *(
            Point(
                axis="segments", x=count, gigabytes=one, segment_bytes=int(one * 1e9 / count) + 4096
            )
            for count in counts
        ),
        *(Point(axis="partitions", x=count, gigabytes=one, partitions=count) for count in counts),
        *(Point(axis="cores", x=count, gigabytes=one, cores=count) for count in cores),
    ]


def measured(group: Sequence[Point], folder: Path) -> list[dict[str, object]]:
    """One row per point, measured in this process; all points have the same number of cores."""
    if group[0].cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: group[0].cores])
    session_start(folder / "scratch")
    return [_measured(point, folder) for point in group]


def put_point(point: Point, tier: Path) -> None:
    """Make a new tier with the logs of a point."""
    records = int(point.gigabytes * 1e9 / RECORD_BYTES / point.partitions)
    shape = Shape(
        records=records,
        keys=max(10, records // 10),
        value_bytes=100,
        segment_bytes=point.segment_bytes,
        batch_records=min(1000, max(10, records // 64)),
    )
    fresh_folder(tier)
    for number in range(point.partitions):
        put_log(tier, "growth", number, shape)


def _measured(point: Point, folder: Path) -> dict[str, object]:
    """The row of the faster of two passes."""
    tier = folder / "scratch" / "growth"
    passes = []
    for _ in range(2):
        put_point(point, tier)
        passes.append(tierfold_pass(tier))
    shutil.rmtree(tier)
    best = min(passes, key=lambda done: done.cost.elapsed_s)
    row = {
        "axis": point.axis,
        "x": round(point.x, 3),
        "MB in": round(best.bytes_in / 1e6),
        "elapsed s": round(best.cost.elapsed_s, 3),
        "cpu s": round(best.cost.cpu_s, 3),
    }
    print_row("growth", row, folder)
    return row


def on_cluster(gigabytes: float, folder: Path) -> None:
    """Print the row of two workers with one core each: the faster of two passes."""
    with TemporaryDirectory() as scratch:
        place = Path(scratch)
        archive = built_archive()
        tiers = [place / name for name in ("small", "first", "second")]
        for tier, size in zip(tiers, (0.01, gigabytes, gigabytes), strict=True):
            put_point(Point(axis="cluster", x=2, gigabytes=size), tier)
        with spark_cluster(place, bare_python(place / "bare")) as cluster:
            application = cluster.submitted(archive, _PASSES, str(NOW_MS), *tiers)
            done = application.ended()
    if done.code != 0:
        raise RuntimeError(done.stderr)
    _, *large = json.loads(done.stdout)
    print_row("growth", {"axis": "cluster", "x": 2, "elapsed s": round(min(large), 3)}, folder)


def axis_of(name: str, rows: Sequence[dict[str, object]]) -> Axis:
    """The points of one axis, and the least-squares line through them."""
    xs = [float(str(row["x"])) for row in rows if row["axis"] == name]
    ys = [float(str(row["elapsed s"])) for row in rows if row["axis"] == name]
    slope, base = np.polyfit(xs, ys, 1)
    return Axis(name=name, xs=tuple(xs), ys=tuple(ys), slope=float(slope), base=float(base))


def predicted(rows: Sequence[dict[str, object]]) -> dict[str, object]:
    """Extrapolate the CPU seconds of the axis `gigabytes` to 100 TB."""
    of_size = [row for row in rows if row["axis"] == "gigabytes"]
    megabytes, cpu_s = (
        [float(str(row[column])) for row in of_size] for column in ("MB in", "cpu s")
    )
    slope, base = np.polyfit(megabytes, cpu_s, 1)
    return {
        "cpu s per GB": round(float(slope) * 1000, 2),
        "cpu s in any case": round(float(base), 2),
        "hours for 100 TB on 100 cores, if cores scale": round(
            float(slope) * 100e6 / 100 / 3600, 1
        ),
    }


@click.command()
@click.option("--gigabytes", default=4.0, show_default=True, help="The largest log.")
@click.option("--most", default=64, show_default=True, help="The most segments and partitions.")
@folder_option
def main(gigabytes: float, most: int, folder: Path) -> None:
    """Measure all axes, print rows and lines, and draw growth.svg."""
    rows = []
    # A session keeps its number of cores, so each number gets a process of its own.
    for _, group in groupby(points(gigabytes, most), key=lambda point: point.cores):
        rows += in_new_process(measured, list(group), folder)
    on_cluster(min(1.0, gigabytes), folder)
    axes = [axis_of(name, rows) for name in dict.fromkeys(str(row["axis"]) for row in rows)]
    for axis in axes:
        line = {"axis": axis.name, "s per unit": axis.slope, "s in any case": axis.base}
        print_row("growth, line", line, folder)
    print_row("growth, predicted", predicted(rows), folder)
    picture = folder / "growth.svg"
    picture.write_text(plot(axes), encoding="utf-8")
    click.echo(f"drawn: {picture}")


if __name__ == "__main__":
    main()

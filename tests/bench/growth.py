"""`make soak`: how a pass grows with cores, bytes, segments and partitions; lines and a picture.

    python -m tests.bench.growth --gigabytes 4
    python -m tests.bench.growth --gigabytes 0.1 --most 8

Each axis changes one number and keeps the others: logs of 100 B values, 10 % distinct keys, on
Spark, with the session warm. Rows go to results.jsonl; a line is fitted to each axis, and the
picture growth.svg shows the points beside it. One more point runs on a standalone cluster of two
workers, by spark-submit and the archive. `tests.bench.planning` measures how planning grows.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click
import numpy as np

from tests.bench.contenders import NOW_MS, session_start, tierfold_pass
from tests.bench.results import printed
from tests.bench.synthetic import Shape, fresh_folder, put_log
from tests.bench.xy_plot import Axis, plot
from tests.built_archive import built_archive
from tests.end_to_end.spark_cluster import bare_python, spark_cluster
from tests.jobs.commands import ROOT
from tierfold.jobs.engines.local_executor import usable_cores

RECORD_BYTES: Final = 137
"""Of a record with 24 bytes of key and 100 of value, the batch's header shared."""
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
    """0: all."""


def points(gigabytes: float, most: int) -> list[Point]:
    """The passes of all axes; `most`: the largest number of segments and of partitions."""
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


def measured(these: Sequence[Point], folder: Path) -> list[dict[str, object]]:
    """One row per point, in this process; all have the same number of cores."""
    if these[0].cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: these[0].cores])
    session_start(ROOT / "sample", folder / "scratch")
    return [_measured(point, folder) for point in these]


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
    tier = folder / "scratch" / "growth"
    best = None
    for _ in range(2):
        put_point(point, tier)
        done = tierfold_pass(tier)
        if best is None or done.cost.elapsed_s < best.cost.elapsed_s:
            best = done
    shutil.rmtree(tier)
    assert best is not None
    row = {
        "axis": point.axis,
        "x": round(point.x, 3),
        "MB in": round(best.bytes_in / 1e6),
        "elapsed s": round(best.cost.elapsed_s, 3),
        "cpu s": round(best.cost.cpu_s, 3),
    }
    printed("growth", row, folder / "results.jsonl")
    return row


def in_own_process(these: Sequence[Point], folder: Path) -> list[dict[str, object]]:
    """Measure in a fresh process, whose cores may be fewer."""
    pool: Any = ProcessPoolExecutor(1, get_context("spawn"))
    with pool:
        found: list[dict[str, object]] = pool.submit(measured, these, folder).result()
    return found


def on_cluster(gigabytes: float, folder: Path) -> None:
    """Print a row of a cluster of two workers with a core each: the better of two passes."""
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
    row = {"axis": "cluster", "x": 2, "elapsed s": round(min(large), 3)}
    printed("growth", row, folder / "results.jsonl")


def axis_of(name: str, rows: Sequence[dict[str, object]]) -> Axis:
    """The points of one axis, and the line of least squares through them."""
    xs = [float(str(row["x"])) for row in rows if row["axis"] == name]
    ys = [float(str(row["elapsed s"])) for row in rows if row["axis"] == name]
    slope, base = np.polyfit(xs, ys, 1)
    return Axis(name=name, xs=tuple(xs), ys=tuple(ys), slope=float(slope), base=float(base))


def predicted(rows: Sequence[dict[str, object]]) -> dict[str, object]:
    """What the line through the CPU seconds of the axis `gigabytes` says about more."""
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
@click.option("--most", default=64, show_default=True, help="Most segments, and most partitions.")
@click.option("--folder", type=click.Path(path_type=Path), default=ROOT / "build" / "bench")
def main(gigabytes: float, most: int, folder: Path) -> None:
    """Measure all axes; print rows and lines, and draw the picture."""
    folder.mkdir(parents=True, exist_ok=True)
    by_cores: dict[int, list[Point]] = {}
    for point in points(gigabytes, most):
        by_cores.setdefault(point.cores, []).append(point)
    rows = [row for these in by_cores.values() for row in in_own_process(these, folder)]
    on_cluster(min(1.0, gigabytes), folder)
    axes = [axis_of(name, rows) for name in dict.fromkeys(str(row["axis"]) for row in rows)]
    for axis in axes:
        line = {"axis": axis.name, "s per unit": axis.slope, "s in any case": axis.base}
        printed("growth, line", line, folder / "results.jsonl")
    printed("growth, predicted", predicted(rows), folder / "results.jsonl")
    picture = folder / "growth.svg"
    picture.write_text(plot(axes), encoding="utf-8")
    click.echo(f"drawn: {picture}")


if __name__ == "__main__":
    main()

"""What a run reads of a large clean tier after a little new data.

    python -m tests.bench.second_runs

The partition is clean, and each segment has its key index. Then new records arrive: with keys that
the tier lacks, or with keys from all its segments. Each case is run with and without the indexes
in turn, several times. On some machines fast and slow runs alternate, so the order changes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import click

from tests.bench.contenders import NOW_MS, SETTINGS, session_start
from tests.bench.measures import Stopwatch, spread
from tests.bench.options import folder_option
from tests.bench.results import print_row
from tests.bench.synthetic import Shape, fresh_folder, put_log
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.engines.engine_choice import Engine, on_spark
from tierfold.jobs.pipeline.partition_report import COMPACTED, NOTHING_TO_DO, PartitionReport
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.verbs.compact import compact
from tierfold.storage.key_indexes.index_folder import FOLDER
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER

BATCH_RECORDS: Final = 100
_ALWAYS: Final = "min.cleanable.dirty.ratio=0"


class NewData(NamedTuple):
    """The records that arrive in the clean tier."""

    name: str
    records: int
    keys: int
    are_known: bool
    """Whether the tier has the keys, spread over all its segments."""
    settings: tuple[str, ...] = ()


def cases(records: int) -> Iterator[NewData]:
    """The new data for a tier of `records`: a hundredth of them, or one record per key if more."""
    for keys in (10, 1_000, 100_000):
        new = max(records // 100, keys)
        yield NewData(f"{keys} new keys", new, keys, are_known=False)
        yield NewData(f"{keys} known keys", new, keys, are_known=True)
    gain = ("min.rewrite.gain=0.05",)
    yield NewData("1000 known keys, gain 5 %", max(records // 100, 1_000), 1_000, True, gain)


def run(tier: Path, engine: Engine, *settings: str) -> tuple[PartitionReport, float]:
    """One run and its seconds; raises RuntimeError if the run refused or failed."""
    with Stopwatch() as watch:
        context = run_context(str(tier), None, NOW_MS)
        (report,) = compact(
            context, resolve((*SETTINGS, _ALWAYS, *settings)), Scope(), engine=engine
        )
    if report.outcome not in {COMPACTED, NOTHING_TO_DO}:
        raise RuntimeError(f"{report.key}: {report.outcome}: {report.reason}")
    return report, watch.cost.elapsed_s


def clean_tier(tier: Path, shape: Shape, engine: Engine) -> int:
    """Make a clean tier whose segments all have a key index; return its log bytes."""
    size_bytes = put_log(fresh_folder(tier), "bench", 0, shape)
    run(tier, engine)
    # A segment that lost nothing gets its index only when the next run reads it.
    size_bytes += put_log(tier, "bench", 0, _new(shape, 1, shape.keys), _batches(shape))
    run(tier, engine)
    return size_bytes


def _batches(shape: Shape) -> int:
    return -(-shape.records // shape.batch_records)


def _new(shape: Shape, records: int, first_key: int, keys: int = 1) -> Shape:
    return replace(shape, records=records, keys=keys, first_key=first_key)


def measured(
    tier: Path, shape: Shape, new: NewData, engine: Engine, *, has_indexes: bool
) -> tuple[dict[str, object], float]:
    """One run on a copy of the clean tier after the new data: a row of results, and its seconds."""
    copy = tier.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(tier, copy, copy_function=os.link)
    if not has_indexes:
        shutil.rmtree(copy / CATALOG_FOLDER / FOLDER)
    first_key = 0 if new.are_known else 2 * shape.keys
    data = _new(shape, new.records, first_key, new.keys)
    new_bytes = put_log(copy, "bench", 0, data, _batches(shape) + 1)
    report, seconds = run(copy, engine, *new.settings)
    asked = report.key_indexes
    row: dict[str, object] = {
        "new data": new.name,
        "indexes": has_indexes,
        "new MB": round(new_bytes / 1e6, 1),
        "log MB read": round(report.bytes_read / 1e6, 1),
        "index MB read": round(asked.index_bytes_read / 1e6, 2),
        "by filter": asked.by_bloom_filter,
        "by index": asked.by_key_index,
        "by gain": asked.by_small_gain,
        "read": asked.superseded + asked.no_index,
        "skipped": report.segments_skipped,
        "filter claims %": round(100 * asked.keys_claimed / max(1, asked.keys_lacked), 3),
        "MB written": round(report.bytes_written / 1e6, 1),
    }
    return row, seconds


def index_share(tier: Path, size_bytes: int) -> float:
    """The bytes of the key indexes of live segments as a share of their logs."""
    states = run_context(str(tier), None, NOW_MS).catalog.read()
    live = {segment.segment_id for state in states.values() for segment in state.segments}
    files = (tier / CATALOG_FOLDER / FOLDER).rglob("*.*")
    return sum(path.stat().st_size for path in files if path.stem in live) / size_bytes


@click.command()
@click.option("--records", type=int, default=1_000_000, help="Records of the clean tier.")
@click.option("--value-bytes", type=int, default=1000)
@click.option("--segment-mib", type=int, default=32)
@click.option("--runs", type=int, default=4, help="Runs of each case, best an even number.")
@folder_option
def bench(records: int, value_bytes: int, segment_mib: int, runs: int, folder: Path) -> None:
    """Measure each case, and print a JSON object for it."""
    session_start(folder / "scratch")
    shape = Shape(
        records=records,
        keys=records,
        value_bytes=value_bytes,
        batch_records=BATCH_RECORDS,
        segment_bytes=segment_mib * 2**20,
    )
    tier = folder / "clean" / "tier"
    size_bytes = clean_tier(tier, shape, on_spark)
    share = index_share(tier, size_bytes)
    head = {"clean MB": round(size_bytes / 1e6), "value bytes": value_bytes}
    print_row("second runs", {**head, "indexes % of logs": round(100 * share, 2)}, folder)
    again, seconds = run(tier, on_spark)
    unchanged = {"new data": "none", "log MB read": again.bytes_read / 1e6, "s": round(seconds, 2)}
    print_row("second runs", {**head, **unchanged}, folder)
    for new in cases(records):
        rows: dict[bool, dict[str, object]] = {}
        times: dict[bool, list[float]] = {True: [], False: []}
        for turn in range(runs):
            for has_indexes in ((True, False), (False, True))[turn % 2]:
                rows[has_indexes], seconds = measured(
                    tier, shape, new, on_spark, has_indexes=has_indexes
                )
                times[has_indexes].append(seconds)
        for has_indexes, row in sorted(rows.items(), reverse=True):
            print_row("second runs", {**head, **row, "s": spread(times[has_indexes])}, folder)
    shutil.rmtree(folder / "clean")


if __name__ == "__main__":
    bench()

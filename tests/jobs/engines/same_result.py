"""Compacts copies of one tier on both engines, and compares what they write, byte by byte."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.jobs.tiers import folder_of
from tests.scratch import SCRATCH
from tierfold.compaction.model.origins import UPLOADED, Compacted
from tierfold.compaction.model.segments import PartitionKey, PartitionState, RetiredSegment, Segment
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.engines.engine_choice import Engine, in_process, on_spark
from tierfold.jobs.pipeline.partition_report import PartitionReport
from tierfold.jobs.settings.resolution import Settings
from tierfold.jobs.verbs.compact import compact

ENGINES: Final[Mapping[str, Engine]] = {"spark": on_spark, "local": in_process(2**40)}
NOW_MS: Final = 1_800_000_000_000

Result = dict[str, object]
"""Values by a description of what they are."""


def check_same_result(
    tier: Path, settings: Settings, now_ms: int = NOW_MS
) -> list[PartitionReport]:
    """Compact copies of the tier on each engine; return the reports.

    Raises AssertionError, with the differences, unless the reports, the rows and all objects of the
    live segments are equal, apart from ids of segments and names of runs. The tier is unchanged.
    """
    with copies_of(tier) as copies:
        results: dict[str, Result] = {}
        reports: dict[str, list[PartitionReport]] = {}
        for (name, engine), copy in zip(ENGINES.items(), copies, strict=True):
            context = run_context(str(copy), None, now_ms)
            reports[name] = compact(context, settings, Scope(), engine=engine)
            results[name] = {f"{report.key}": timeless(report) for report in reports[name]}
            for key, state in context.catalog.read().items():
                results[name] |= result_of(copy, key, state)
    spark, local = results["spark"], results["local"]
    different = {
        what: (spark.get(what), local.get(what))
        for what in sorted(spark.keys() | local.keys())
        if spark.get(what) != local.get(what)
    }
    assert not different, f"spark and local differ: {different}"
    return reports["spark"]


@contextmanager
def copies_of(tier: Path) -> Iterator[tuple[Path, ...]]:
    """A copy of the tier for each engine."""
    with TemporaryDirectory(dir=SCRATCH) as folder:
        yield tuple(Path(shutil.copytree(tier, Path(folder) / name)) for name in ENGINES)


def timeless(report: PartitionReport) -> PartitionReport:
    """The report without the times that depend on its commit's."""
    parts = tuple(replace(part, gone_at_ms=None) for part in report.superseded or ())
    return replace(report, superseded=parts)


def result_of(tier: Path, key: PartitionKey, state: PartitionState) -> Result:
    """The row of a partition, and every object of its live segments."""
    found: Result = {
        f"{key}, row": (
            state.epoch,
            state.owner_run,
            state.cleaner_offsets,
            state.log_start_offset,
            state.lineage,
            state.strategies,
            [unnamed(segment) for segment in state.segments],
            [unnamed(entry.segment) for entry in in_offset_order(state.retired)],
        )
    }
    for segment in state.segments:
        for path in folder_of(tier, key).glob(f"*-{segment.segment_id}.*"):
            part = path.name.replace(segment.segment_id, "")
            found[f"{key}, {part}"] = path.read_bytes()
    return found


def in_offset_order(retired: Sequence[RetiredSegment]) -> list[RetiredSegment]:
    """Sort by start and size: segments that chunks wrote and replaced have random ids."""
    return sorted(retired, key=lambda entry: (entry.segment.start_offset, entry.segment.size_bytes))


def unnamed(segment: Segment) -> Segment:
    """The segment without its id, and with a fixed name for the run that wrote it, if any."""
    origin = Compacted("run") if segment.written_by_run else UPLOADED
    return replace(segment, segment_id="", origin=origin)

"""`tierfold runs`: what the last runs did, by the catalog's table `runs`; reads no tier, no Spark.

The table has a row per run, partition and chunk. Arrow sums them: a night may have thousands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.pipeline.partition_report import (
    COMPACTED,
    FAILED,
    FENCED,
    FORGOTTEN,
    LOST_RACE,
    REFUSED,
    RESTORED,
    UNKNOWN,
    UPLOADED,
    VACUUMED,
)
from tierfold.storage.catalog.runs_table import RunsTable, run_rows
from tierfold.storage.catalog.schema import RunRow

SLOWEST: Final = 5
"""How many of a run's partitions are named as the slowest."""

_UNFINISHED: Final = (FAILED, UNKNOWN, REFUSED, FENCED, LOST_RACE)
MOVED: Final = (COMPACTED, RESTORED, FORGOTTEN, UPLOADED, VACUUMED)
"""The outcomes with which logs were replaced or deleted."""

VACUUM: Final = "vacuum"
"""The verb that deletes what others replaced."""

_KEY: Final = ("run", "topic", "topic_id", "partition")
_SUMS: Final = ("bytes_read", "bytes_written", "task_ms")
_OF_RUN: Final = ("command", "started_at_ms", "finished_at_ms", "cost_usd", "tierfold_version")
COLUMNS: Final = (
    *(*_KEY, *_OF_RUN, *_SUMS),
    *("chunk", "outcome", "reason", "bytes_in", "bytes_out"),
)
"""The columns that a summary needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPartition:
    """A partition that a run names: it failed, or took long."""

    topic: str
    partition: int
    outcome: str
    reason: str
    task_ms: int
    """How long the workers' tasks took in all; 0: none ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run."""

    run: str
    command: str
    """Its verb."""
    started_at_ms: int
    finished_at_ms: int
    partitions: Mapping[str, int]
    """How many have each outcome, by the outcome's name."""
    bytes_in: int
    """Bytes of the logs that were replaced or deleted."""
    bytes_out: int
    """Bytes of the logs that are live in their place."""
    bytes_read: int
    bytes_written: int
    cost_usd: float | None
    """What its requests cost at list prices; None: the tier is a folder."""
    tierfold_version: str
    failed: tuple[RunPartition, ...]
    """Those that failed, were refused, or were taken over by another run, by topic and number."""
    slowest: tuple[RunPartition, ...]
    """Those whose tasks took longest, the longest first."""

    @property
    def duration_ms(self) -> int:
        """From when its first wave began to when its last one ended."""
        return self.finished_at_ms - self.started_at_ms

    @property
    def saved_bytes(self) -> int:
        """By how much the live logs shrank."""
        return self.bytes_in - self.bytes_out


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRuns:
    """Runs, and the rows of one."""

    runs: tuple[RunSummary, ...]
    """The newest first."""
    rows: tuple[RunRow, ...] = ()
    """All rows of the only run, oldest first; none: no run was named."""


def last_runs(context: RunContext, count: int) -> RecordedRuns:
    """Return the last runs; raises TierfoldError if they cannot be read."""
    table = RunsTable(context.catalog_uri, context.catalog_options)
    return RecordedRuns(runs=summaries(table.last(count, COLUMNS)))


def one_run(context: RunContext, name: str) -> RecordedRuns:
    """Return the run of this name, or of which it is a prefix, with all its rows.

    Raises BadSettings if it is no run, or several, and TierfoldError as `last_runs`.
    """
    rows = RunsTable(context.catalog_uri, context.catalog_options).of_run(name)
    found = sorted(set(rows["run"].to_pylist()))
    if len(found) != 1:
        several = f"{name!r} is the beginning of {len(found)} runs, such as {', '.join(found[:2])}"
        raise BadSettings(
            several if found else f"no run {name!r} is recorded",
            where=f"{context.catalog_uri}/runs",
            remedy="`tierfold runs TIER` lists the last runs; give a name, or enough of it.",
        )
    return RecordedRuns(runs=summaries(rows), rows=run_rows(rows))


def summaries(rows: pa.Table) -> tuple[RunSummary, ...]:
    """Return the runs of these rows, the newest first.

    A partition in several chunks has the outcome of the last one. Each chunk replaces what the one
    before it wrote, so only the last one's `bytes_out` count.
    """
    by_run = _by_run(rows.select(COLUMNS))
    of_runs = rows.group_by("run").aggregate(
        [
            *(("command", "min"), ("tierfold_version", "max"), ("cost_usd", "max")),
            *(("started_at_ms", "min"), ("finished_at_ms", "max")),
        ]
    )
    names = {f"{name}_{how}": name for name in _OF_RUN for how in ("min", "max")}
    values = of_runs.rename_columns([names.get(name, name) for name in of_runs.column_names])
    # By time first: names of one second are in no order.
    ordered = sorted(
        values.to_pylist(), key=lambda one: (one["started_at_ms"], one["run"]), reverse=True
    )
    return tuple(_summary(one, by_run[one["run"]]) for one in ordered)


def _by_run(rows: pa.Table) -> dict[str, pa.Table]:
    """By run, one row per partition, by topic and number."""
    is_moved = pc.is_in(rows["outcome"], pa.array(MOVED))
    nothing = pa.scalar(None, pa.int64())
    gone = pc.subtract(rows["bytes_in"], rows["bytes_out"])
    rows = rows.append_column("gone", pc.if_else(is_moved, gone, nothing))
    rows = rows.append_column("live", pc.if_else(is_moved, rows["bytes_out"], nothing))
    rows = rows.sort_by([("finished_at_ms", "ascending"), ("chunk", "ascending")])
    # Only in one thread is the last row of a group the last one of the table.
    found = rows.group_by([*_KEY], use_threads=False).aggregate(
        [
            *((name, "last") for name in ("outcome", "reason", "live")),
            *((name, "sum") for name in ("gone", *_SUMS)),
        ]
    )
    plain = [name.removesuffix("_last").removesuffix("_sum") for name in found.column_names]
    found = found.rename_columns(plain).sort_by([(name, "ascending") for name in _KEY])
    # The rows of a run follow each other.
    runs = pc.run_end_encode(found["run"].combine_chunks())
    ends = runs.run_ends.to_pylist()
    spans = zip(runs.values.to_pylist(), [0, *ends], ends, strict=False)
    return {run: found.slice(start, end - start) for run, start, end in spans}


def _summary(of_run: Mapping[str, Any], found: pa.Table) -> RunSummary:
    outcomes = pc.value_counts(found["outcome"]).to_pylist()
    is_failed = pc.is_in(found["outcome"], pa.array(_UNFINISHED))
    by_time = found.filter(pc.greater(found["task_ms"], 0)).sort_by([("task_ms", "descending")])
    bytes_out = _sum(found, "live")
    return RunSummary(
        **of_run,
        partitions={one["values"]: one["counts"] for one in outcomes},
        bytes_in=_sum(found, "gone") + bytes_out,
        bytes_out=bytes_out,
        bytes_read=_sum(found, "bytes_read"),
        bytes_written=_sum(found, "bytes_written"),
        failed=_named(found.filter(is_failed)),
        slowest=_named(by_time.slice(0, SLOWEST)),
    )


def _sum(rows: pa.Table, name: str) -> int:
    return int(pc.sum(rows[name]).as_py() or 0)


def _named(rows: pa.Table) -> tuple[RunPartition, ...]:
    names = ("topic", "partition", "outcome", "reason", "task_ms")
    found = rows.select(names).to_pylist()
    return tuple(RunPartition(**one | {"task_ms": one["task_ms"] or 0}) for one in found)

"""What the table `runs` says of the days so far; Arrow sums its rows, which may be a million."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tierfold.compaction.cleaning.counts import RECORD_OUTCOMES
from tierfold.jobs.context.request_prices import Worked, shared_out
from tierfold.jobs.page.page_model import Day, LastRun, Slow
from tierfold.jobs.pipeline.partition_report import FAILED, FENCED, LOST_RACE, UNKNOWN
from tierfold.jobs.reports.result import OF_PARTITIONS
from tierfold.jobs.verbs.runs import COLUMNS, MOVED, VACUUM, RunSummary, summaries

RUNS_READ: Final = 200
"""The page is of this many runs at most: a quarter of a year, at two runs a night."""

COLUMNS_READ: Final = (*COLUMNS, "tally", "requests")
REMOVED: Final = RECORD_OUTCOMES[1:]
"""The reasons for which records are removed, by their names in `tally`."""

_UNFINISHED: Final = (FAILED, UNKNOWN, FENCED, LOST_RACE)
_PARTITION: Final = ("topic", "topic_id", "partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """A partition that did not end well in the newest run of a verb that tried it."""

    topic: str
    topic_id: str
    partition: int
    outcome: str
    reason: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What runs did."""

    days: tuple[Day, ...] = ()
    last_runs: tuple[LastRun, ...] = ()
    unfinished: tuple[Unfinished, ...] = ()
    slowest: tuple[Slow, ...] = ()
    saved_by_topic: Mapping[str, int] = field(default_factory=dict)
    usd_by_topic: Mapping[str, float] | None = None
    """None: the tier is a folder."""


def recorded(rows: pa.Table) -> Recorded:
    """Sum the rows of runs, with the columns `COLUMNS_READ`, in any order."""
    runs = summaries(rows)
    working = [run for run in runs if run.slowest]
    return Recorded(
        days=_days(runs, rows),
        last_runs=tuple(_last_run(run) for run in _newest_of_each_verb(runs)),
        unfinished=_unfinished(rows),
        slowest=tuple(
            Slow(partition=f"{one.topic}-{one.partition}", task_ms=one.task_ms)
            for one in (working[0].slowest if working else ())
        ),
        saved_by_topic=_saved_by_topic(runs, rows),
        usd_by_topic=_usd_by_topic(runs, rows),
    )


def _days(runs: Sequence[RunSummary], rows: pa.Table) -> tuple[Day, ...]:
    removed = _map_sums(rows, "tally", "sum")
    # Each row has the requests of its whole run until then.
    requests = _map_sums(rows, "requests", "max")
    by_day: dict[str, list[RunSummary]] = defaultdict(list)
    for run in runs:
        by_day[_day(run.started_at_ms)].append(run)
    names = sorted(by_day)
    saved = accumulate(_saved(by_day[day]) for day in names)
    freed = accumulate(_freed(by_day[day]) for day in names)
    return tuple(
        Day(
            day=day,
            bytes_in=sum(run.bytes_in for run in by_day[day] if run.command != VACUUM),
            bytes_out=sum(run.bytes_out for run in by_day[day] if run.command != VACUUM),
            saved_bytes=saved_bytes,
            freed_bytes=freed_bytes,
            cost_usd=_cost(by_day[day]),
            removed=_merged([removed.get(run.run, {}) for run in by_day[day]], REMOVED),
            requests=_merged([requests.get(run.run, {}) for run in by_day[day]]),
        )
        for day, saved_bytes, freed_bytes in zip(names, saved, freed, strict=True)
    )


def _day(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).date().isoformat()


def _saved(runs: Sequence[RunSummary]) -> int:
    return sum(run.saved_bytes for run in runs if run.command != VACUUM)


def _freed(runs: Sequence[RunSummary]) -> int:
    return sum(run.bytes_in for run in runs if run.command == VACUUM)


def _cost(runs: Sequence[RunSummary]) -> float | None:
    costs = [run.cost_usd for run in runs if run.cost_usd is not None]
    return sum(costs) if costs else None


def _merged(sums: Sequence[Mapping[str, int]], names: Sequence[str] = ()) -> dict[str, int]:
    """The sums by name, without zeros; `names`: only these, in their order."""
    shown = names or sorted({name for one in sums for name in one if not name.endswith("_bytes")})
    merged = {name: sum(one.get(name, 0) for one in sums) for name in shown}
    return {name: count for name, count in merged.items() if count}


def _map_sums(rows: pa.Table, column: str, how: str) -> dict[str, dict[str, int]]:
    """By run, the entries of a column of maps, summed by their keys, or the largest of each."""
    maps = rows[column].combine_chunks()
    ends = maps.offsets.to_numpy()
    # Of a slice, keys and items are those of the whole array.
    first, count = int(ends[0]), int(ends[-1] - ends[0])
    owners = np.repeat(np.arange(len(maps)), np.diff(ends))
    found = pa.table(
        {
            "run": rows["run"].combine_chunks().take(pa.array(owners)),
            "name": maps.keys.slice(first, count),
            "value": maps.items.slice(first, count),
        }
    ).group_by(["run", "name"]).aggregate([("value", how)])
    by_run: dict[str, dict[str, int]] = defaultdict(dict)
    for run, name, value in zip(*(one.to_pylist() for one in found.columns), strict=True):
        by_run[run][name] = value
    return by_run


def _newest_of_each_verb(runs: Sequence[RunSummary]) -> list[RunSummary]:
    newest: dict[str, RunSummary] = {}
    for run in runs:
        newest.setdefault(run.command, run)
    return [*newest.values()]


def _last_run(run: RunSummary) -> LastRun:
    return LastRun(
        run=run.run,
        verb=run.command,
        started_at_ms=run.started_at_ms,
        duration_ms=run.duration_ms,
        outcomes={one: run.partitions[one] for one in OF_PARTITIONS if run.partitions.get(one)},
        bytes_in=run.bytes_in,
        bytes_out=run.bytes_out,
        cost_usd=run.cost_usd,
    )


def _unfinished(rows: pa.Table) -> tuple[Unfinished, ...]:
    """Partitions whose newest row of a verb says that a person or another run must act."""
    names = (*_PARTITION, "command")
    when, what = ("finished_at_ms", "chunk"), ("outcome", "reason")
    ordered = rows.select([*names, *when, *what]).sort_by(_ascending(when))
    # Only in one thread is the last row of a group the last one of the table.
    last = ordered.group_by([*names], use_threads=False).aggregate(
        [(name, "last") for name in what]
    )
    last = last.rename_columns([name.removesuffix("_last") for name in last.column_names])
    found = last.filter(pc.is_in(last["outcome"], pa.array(_UNFINISHED)))
    return tuple(Unfinished(**one) for one in found.sort_by([*_ascending(names)]).to_pylist())


def _ascending(names: Sequence[str]) -> list[tuple[str, str]]:
    return [(name, "ascending") for name in names]


def _saved_by_topic(runs: Sequence[RunSummary], rows: pa.Table) -> dict[str, int]:
    shrinking = pa.array([run.run for run in runs if run.command != VACUUM], pa.string())
    kept = rows.filter(pc.is_in(rows["run"], shrinking))
    moved = kept.filter(pc.is_in(kept["outcome"], pa.array(MOVED)))
    gone = pc.subtract(moved["bytes_in"], moved["bytes_out"])
    found = moved.append_column("gone", gone).group_by("topic").aggregate([("gone", "sum")])
    return {one["topic"]: one["gone_sum"] for one in found.to_pylist()}


def _usd_by_topic(runs: Sequence[RunSummary], rows: pa.Table) -> dict[str, float] | None:
    """Split the price of each run's requests among its topics."""
    costs = {run.run: run.cost_usd for run in runs if run.cost_usd is not None}
    if not costs:
        return None
    found = rows.group_by(["run", "topic"]).aggregate(
        [("bytes_read", "sum"), ("bytes_written", "sum"), ("chunk", "count")]
    )
    worked: dict[str, dict[str, Worked]] = defaultdict(dict)
    for one in found.to_pylist():
        size_bytes = (one["bytes_read_sum"] or 0) + (one["bytes_written_sum"] or 0)
        # Where nothing was read, a partition has one row.
        of_topic = Worked(size_bytes=size_bytes, partitions=one["chunk_count"])
        worked[one["run"]][one["topic"]] = of_topic
    by_topic: dict[str, float] = defaultdict(float)
    for run, cost in costs.items():
        for topic, usd in shared_out(cost, worked[run]).items():
            by_topic[topic] += usd
    return by_topic

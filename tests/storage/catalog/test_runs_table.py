"""The runs table returns every appended row, oldest first, also after a vacuum."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.storage.aged_tables import cut_soon, superseded
from tests.storage.catalog_contract import A_RUN
from tierfold.compaction.model.errors import CorruptLog
from tierfold.storage.catalog import delta_tables, runs_table
from tierfold.storage.catalog.delta_tables import (
    CHECKPOINT_INTERVAL,
    MEMORY_HOURS,
    DeltaFolder,
    TableLayout,
)
from tierfold.storage.catalog.runs_table import RunsTable, run_rows
from tierfold.storage.catalog.schema import RUNS, RunRow


def test_a_tier_without_runs_has_none_and_reading_makes_none(uri: str) -> None:
    assert RunsTable(uri).read() == ()
    RunsTable(uri).append([])
    assert not Path(uri).exists()


def test_rows_are_added_and_come_back_oldest_first(uri: str) -> None:
    later = replace(A_RUN, chunk=1, finished_at_ms=9, counts={})
    RunsTable(uri).append([later])
    RunsTable(uri).append([replace(A_RUN, chunk=1), A_RUN])
    assert RunsTable(uri).read() == (A_RUN, replace(A_RUN, chunk=1), later)


def test_another_table_in_its_place_is_corrupt(uri: str) -> None:
    RunsTable(uri).append([A_RUN])
    column = "tally"
    foreign = RUNS.empty_table().drop_columns([column])
    write_deltalake(f"{uri}/runs", foreign, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(CorruptLog, match=f"column {column} is missing"):
        RunsTable(uri).read()


SINCE: Final = {
    "verified": {},
    "requests": {},
    "cost_usd": None,
    "bytes_read": None,
    "bytes_written": None,
    "dirty_ratio": None,
    "delay_ms": None,
    "stage_seconds": {},
    "task_ms": None,
}
"""What a row holds in columns that older versions did not write."""


@pytest.mark.parametrize("known", range(len(SINCE)))
def test_a_table_of_an_older_version_is_read_and_added_to(uri: str, known: int) -> None:
    new = [*SINCE][known:]
    RunsTable(f"{uri}/new").append([A_RUN])
    old = pa.table(DeltaTable(f"{uri}/new/runs").scan()).drop_columns(new)
    write_deltalake(f"{uri}/runs", old)
    before = replace(A_RUN, **{name: SINCE[name] for name in new})
    assert RunsTable(uri).read() == (before,)
    later = replace(A_RUN, finished_at_ms=9)
    RunsTable(uri).append([later])
    assert RunsTable(uri).read() == (before, later)


def test_every_column_that_an_older_version_lacks_may_be_null() -> None:
    assert [field.name for field in RUNS if field.nullable] == [*SINCE]


def test_old_log_files_are_deleted_and_rows_stay(uri: str) -> None:
    runs = [replace(A_RUN, run=f"run-{number:02}") for number in range(CHECKPOINT_INTERVAL + 2)]
    for run in runs:
        RunsTable(uri).append([run])
    log = Path(uri) / "runs" / "_delta_log"
    newest = cut_soon(log.parent, hours=MEMORY_HOURS + 1)
    assert RunsTable(uri).clean_up(is_dry_run=True) == RunsTable(uri).clean_up() == newest
    assert min(int(path.stem) for path in log.glob("*.json")) == newest
    assert RunsTable(uri).read() == tuple(runs)


def nights(uri: str, count: int) -> list[RunRow]:
    """A run a night, each in a file of its own; return their rows."""
    rows = [replace(A_RUN, run=f"202601{day:02}T010000-AbCdEf_h") for day in range(1, count + 1)]
    for row in rows:
        RunsTable(uri).append([row])
    return rows


def runs_of(table: pa.Table) -> list[str]:
    return sorted(set(table["run"].to_pylist()))


def data_files(uri: str) -> set[str]:
    return {Path(path).name for path in DeltaTable(f"{uri}/runs").file_uris()}


def test_the_last_runs_are_read_from_their_files_alone(uri: str) -> None:
    rows = nights(uri, 6)
    needed = data_files(uri)
    nights_before = [row.run for row in rows]
    older = replace(A_RUN, run="20250101T000000-x", chunk=1)
    RunsTable(uri).append([older, replace(older, run=rows[0].run)])
    # Files whose runs are not asked for may be broken: they are not even looked at.
    for name in data_files(uri) - needed:
        (Path(uri) / "runs" / name).write_bytes(b"no parquet")
    columns = ("run", "chunk", "task_ms")
    last = RunsTable(uri).last(3, columns)
    assert runs_of(last) == nights_before[3:]
    assert last.column_names == [*columns]
    assert runs_of(RunsTable(uri).of_run(nights_before[4][:12])) == [nights_before[4]]
    with pytest.raises(CorruptLog, match="is cut short"):
        RunsTable(uri).last(6, columns)


def test_there_may_be_fewer_runs_and_columns_than_asked_for(uri: str) -> None:
    assert len(RunsTable(uri).last(3, ["run"])) == len(RunsTable(uri).of_run("2026")) == 0
    RunsTable(f"{uri}/new").append([A_RUN])
    old = pa.table(DeltaTable(f"{uri}/new/runs").scan()).drop_columns(["task_ms"])
    write_deltalake(f"{uri}/runs", old)
    last = RunsTable(uri).last(3, ["run", "task_ms"])
    assert last.to_pylist() == [{"run": A_RUN.run, "task_ms": None}]
    assert run_rows(RunsTable(uri).of_run(A_RUN.run)) == (replace(A_RUN, task_ms=None),)


def test_many_small_files_are_merged_in_their_order(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs_table, "FILES_MAX", 3)
    RunsTable(f"{uri}/new").append([A_RUN])
    old = pa.table(DeltaTable(f"{uri}/new/runs").scan()).drop_columns(["task_ms"])
    write_deltalake(f"{uri}/runs", old)
    rows = [replace(A_RUN, task_ms=None), *nights(uri, 2)]
    before = data_files(uri)
    assert RunsTable(uri).clean_up() == 0
    assert data_files(uri) == before
    rows += [replace(A_RUN, run="20260301T010000-z", reason="it's “odd”")]
    RunsTable(uri).append(rows[-1:])
    RunsTable(uri).clean_up(is_dry_run=True)
    assert len(data_files(uri)) == 4
    RunsTable(uri).clean_up()
    (merged,) = data_files(uri)
    assert RunsTable(uri).read() == tuple(rows)
    assert runs_of(RunsTable(uri).last(2, ["run"])) == [row.run for row in rows[-2:]]
    # What was merged stays for a month, and then goes.
    assert before < {path.name for path in (Path(uri) / "runs").glob("*.parquet")}
    later = RunsTable(uri)
    later.append([replace(A_RUN, run="20260302T010000-z")])
    superseded(Path(uri) / "runs", hours=MEMORY_HOURS + 1)
    assert RunsTable(uri).clean_up() >= 4
    assert not before & {path.name for path in (Path(uri) / "runs").glob("*.parquet")}
    assert {path.name for path in (Path(uri) / "runs").glob("*.parquet")} >= {merged}
    assert len(RunsTable(uri).read()) == len(rows) + 1


def test_rows_that_are_added_while_files_are_merged_stay(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = nights(uri, 3)
    table = DeltaFolder(f"{uri}/runs", TableLayout(schema=RUNS))
    late = replace(A_RUN, run="20260301T010000-z")
    found = delta_tables.mergeable

    def and_meanwhile(*given: Any, **named: Any) -> Any:
        RunsTable(uri).append([late])
        return found(*given, **named)

    monkeypatch.setattr(delta_tables, "mergeable", and_meanwhile)
    table.merge_files(file_bytes=2**20, file_rows=1000, files_max=2)
    assert len(data_files(uri)) == 2
    assert RunsTable(uri).read() == (*rows, late)


def test_a_file_with_enough_rows_is_not_merged_again(uri: str) -> None:
    RunsTable(uri).append([replace(A_RUN, chunk=chunk) for chunk in range(40)])
    (large,) = data_files(uri)
    nights(uri, 4)
    table = DeltaFolder(f"{uri}/runs", TableLayout(schema=RUNS))
    table.merge_files(file_bytes=2**20, file_rows=20, files_max=2)
    assert len(data_files(uri)) > 1
    assert large in data_files(uri)
    assert len(RunsTable(uri).read()) == 44

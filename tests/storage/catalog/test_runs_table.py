"""The runs table returns every appended row, oldest first, also after a vacuum."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.storage.aged_tables import cut_soon
from tests.storage.catalog_contract import A_RUN
from tierfold.compaction.model.errors import CorruptLog
from tierfold.storage.catalog.delta_tables import MEMORY_HOURS
from tierfold.storage.catalog.folder_files import CHECKPOINT_INTERVAL
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.catalog.schema import RUNS


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

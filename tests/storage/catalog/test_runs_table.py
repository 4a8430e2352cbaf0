"""The runs table returns every appended row, oldest first, also after a vacuum."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import write_deltalake

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


def test_old_log_files_are_deleted_and_rows_stay(uri: str) -> None:
    runs = [replace(A_RUN, run=f"run-{number:02}") for number in range(CHECKPOINT_INTERVAL + 2)]
    for run in runs:
        RunsTable(uri).append([run])
    log = Path(uri) / "runs" / "_delta_log"
    newest = cut_soon(log.parent, hours=MEMORY_HOURS + 1)
    assert RunsTable(uri).clean_up(is_dry_run=True) == RunsTable(uri).clean_up() == newest
    assert min(int(path.stem) for path in log.glob("*.json")) == newest
    assert RunsTable(uri).read() == tuple(runs)

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from deltalake import write_deltalake

from compaction.errors import CorruptLog
from storage.catalog_schema import RUNS
from storage.runs_table import RunRow, RunsTable

ROW: Final = RunRow(
    run="20260101T000000-1",
    topic="orders",
    partition=3,
    topic_id="T" * 22,
    chunk=0,
    command="compact",
    outcome="committed",
    reason="",
    epoch=4,
    first_dirty=10,
    end_offset=30,
    started_at_ms=1,
    finished_at_ms=2,
    bytes_in=3000,
    bytes_out=1000,
    segments_in=3,
    segments_out=1,
    tally={"records_kept": 7, "records_superseded": 2**40},
    now_ms=1,
    tierfold_version="0.1.0",
)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "catalog")


def test_a_tier_without_runs_has_none_and_reading_makes_none(uri: str) -> None:
    assert RunsTable(uri).read() == ()
    RunsTable(uri).append([])
    assert not Path(uri).exists()


def test_rows_are_added_and_come_back_oldest_first(uri: str) -> None:
    later = replace(ROW, chunk=1, finished_at_ms=9, tally={})
    RunsTable(uri).append([later])
    RunsTable(uri).append([replace(ROW, chunk=1), ROW])
    assert RunsTable(uri).read() == (ROW, replace(ROW, chunk=1), later)


def test_another_table_in_its_place_is_corrupt(uri: str) -> None:
    RunsTable(uri).append([ROW])
    foreign = RUNS.empty_table().drop_columns(["tally"])
    write_deltalake(f"{uri}/runs", foreign, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(CorruptLog, match="column tally is missing"):
        RunsTable(uri).read()

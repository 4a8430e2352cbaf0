"""What the catalog forgets, and what it must not: rows superseded for thirty days, no others."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

import pytest

from compaction.segments import PartitionState
from storage.catalog import Catalog
from storage.delta_tables import CHECKPOINT_INTERVAL, MEMORY_HOURS
from tests.compaction.builders import KEY
from tests.jobs.tiers import files_below
from tests.storage.catalog_contract import claim, fresh

HOUR_MS: Final = 3_600_000


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "catalog" / "partitions"


@pytest.fixture
def catalog(table: Path) -> Catalog:
    return Catalog(str(table.parent))


def claims(catalog: Catalog, count: int) -> list[PartitionState]:
    """So many rows, each in the place of the one before; oldest first."""
    rows: list[PartitionState] = []
    for number in range(count):
        row = catalog.read().get(KEY) or fresh()
        rows.append(claim(catalog, row, f"run-{number}").state)
    return rows


def superseded(table: Path, *, hours: int) -> None:
    """All that is superseded by now was so that long ago; each file is two months old."""
    for commit in sorted((table / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in actions:
            if "remove" in action:
                action["remove"]["deletionTimestamp"] -= hours * HOUR_MS
        commit.write_text("\n".join(map(json.dumps, actions)))
    for file in table.rglob("*.parquet"):
        backdated(file, hours=60 * 24)


def backdated(file: Path, *, hours: int) -> None:
    at_s = file.stat().st_mtime - hours * 3600
    os.utime(file, (at_s, at_s))


def test_what_was_superseded_long_ago_goes_and_the_history_ends_there(
    catalog: Catalog, table: Path
) -> None:
    claims(catalog, 4)
    superseded(table, hours=MEMORY_HOURS + 1)
    rows = [catalog.read()[KEY], *claims(catalog, 2)]
    before = files_below(table)
    assert catalog.vacuum(is_dry_run=True) == 3
    assert files_below(table) == before
    assert catalog.vacuum() == 3
    gone = before.keys() - files_below(table).keys()
    assert (len(gone), {Path(each).suffix for each in gone}) == (3, {".parquet"})
    assert catalog.read() == {KEY: rows[-1]}
    assert list(catalog.history(KEY)) == rows[::-1]
    assert catalog.vacuum() == 0
    later = claim(catalog, rows[-1], "later").state
    assert list(catalog.history(KEY)) == [later, *rows[::-1]]


def test_what_was_superseded_of_late_stays_however_old_its_file(
    catalog: Catalog, table: Path
) -> None:
    rows = claims(catalog, 4)
    superseded(table, hours=MEMORY_HOURS - 1)
    assert catalog.vacuum() == 0
    assert list(catalog.history(KEY)) == rows[::-1]


def test_a_checkpoint_forgets_nothing_sooner(catalog: Catalog, table: Path) -> None:
    rows = claims(catalog, 4)
    superseded(table, hours=MEMORY_HOURS - 1)
    rows += claims(catalog, CHECKPOINT_INTERVAL)
    assert list((table / "_delta_log").glob("*.checkpoint.parquet"))
    assert catalog.vacuum() == 0
    assert list(catalog.history(KEY)) == rows[::-1]


def test_what_a_dead_writer_left_goes_and_a_living_ones_stays(
    catalog: Catalog, table: Path
) -> None:
    (row,) = claims(catalog, 1)
    young, old = (table / "bucket=0" / f"{name}.parquet" for name in ("young", "old"))
    young.parent.mkdir(exist_ok=True)
    for file in (young, old):
        file.write_bytes(b"half")
    backdated(old, hours=MEMORY_HOURS + 1)
    backdated(young, hours=MEMORY_HOURS - 1)
    assert catalog.vacuum() == 1
    assert (young.exists(), old.exists()) == (True, False)
    assert catalog.read() == {KEY: row}


def test_where_there_is_no_catalog_none_is_made(catalog: Catalog, table: Path) -> None:
    assert catalog.vacuum() == 0
    assert not table.parent.exists()

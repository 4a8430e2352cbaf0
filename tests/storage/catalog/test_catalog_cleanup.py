"""The catalog deletes rows superseded for thirty days, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compaction.builders import KEY
from tests.jobs.tiers import files_below
from tests.storage.aged_tables import backdated, superseded
from tests.storage.call_scripts import Script, at
from tests.storage.catalog_contract import claim, claims
from tests.storage.scripted_table import scripted_steps
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.catalog.delta_tables import CHECKPOINT_INTERVAL, MEMORY_HOURS


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "a catalog" / "partitions"


@pytest.fixture(params=["path", "URI"])
def catalog(table: Path, request: pytest.FixtureRequest) -> Catalog:
    folder = table.parent
    return Catalog(folder.as_uri() if request.param == "URI" else str(folder))


def test_files_superseded_long_ago_go_and_the_history_ends_there(
    catalog: Catalog, table: Path
) -> None:
    claims(catalog, 4)
    superseded(table, hours=MEMORY_HOURS + 1)
    rows = [catalog.read()[KEY], *claims(catalog, 2)]
    before = files_below(table)
    assert catalog.clean_up(is_dry_run=True) == 3
    assert files_below(table) == before
    assert catalog.clean_up() == 3
    gone = before.keys() - files_below(table).keys()
    assert (len(gone), {Path(key).suffix for key in gone}) == (3, {".parquet"})
    assert catalog.read() == {KEY: rows[-1]}
    assert list(catalog.history(KEY)) == rows[::-1]
    assert catalog.clean_up() == 0
    later = claim(catalog, rows[-1], "later").row
    assert list(catalog.history(KEY)) == [later, *rows[::-1]]


@pytest.mark.parametrize(
    ("hours", "gone", "later"),
    [
        (MEMORY_HOURS + 1, 3, CHECKPOINT_INTERVAL),
        (MEMORY_HOURS - 1, 0, 0),
        (MEMORY_HOURS + 1, 3, 0),
        pytest.param(MEMORY_HOURS - 1, 0, CHECKPOINT_INTERVAL, marks=pytest.mark.soak),
    ],
)
def test_files_are_deleted_by_when_they_were_superseded_with_and_without_a_checkpoint(
    catalog: Catalog, table: Path, hours: int, gone: int, later: int
) -> None:
    rows = claims(catalog, 4)
    superseded(table, hours=hours)
    rows += claims(catalog, later)
    assert bool(list((table / "_delta_log").glob("*.checkpoint.parquet"))) is (later > 0)
    assert catalog.clean_up() == gone
    assert gone or list(catalog.history(KEY)) == rows[::-1]


def test_an_old_file_that_no_version_names_stays(catalog: Catalog, table: Path) -> None:
    claims(catalog, 2)
    superseded(table, hours=MEMORY_HOURS + 1)
    stalled = table / "bucket=0" / "stalled.parquet"
    stalled.parent.mkdir(exist_ok=True)
    stalled.write_bytes(b"to be committed")
    backdated(stalled, hours=10 * MEMORY_HOURS)
    assert catalog.clean_up() == 1
    assert stalled.exists()


def test_a_concurrent_commit_loses_nothing(catalog: Catalog, table: Path) -> None:
    claims(catalog, 4)
    superseded(table, hours=MEMORY_HOURS + 1)
    commits = Script(at("superseded 1", lambda: claims(catalog, 1), is_done=True))
    with scripted_steps(commits):
        assert catalog.clean_up() == 3
    assert catalog.clean_up() == 0
    assert catalog.read()[KEY].epoch == 5


def test_clean_up_creates_no_catalog(catalog: Catalog, table: Path) -> None:
    assert catalog.clean_up() == 0
    assert not table.parent.exists()

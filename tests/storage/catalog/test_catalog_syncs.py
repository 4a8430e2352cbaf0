"""What is reported as committed survives a power cut at any later step."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.compaction.builders import KEY
from tests.storage.aged_tables import backdated, cut_soon, superseded
from tests.storage.catalog_contract import A_RUN, claim, claims, swap
from tests.storage.power_cuts import Disk, watched
from tierfold.compaction.model.errors import CorruptLog, UnreadableObject
from tierfold.compaction.model.outcomes import Committed, Unknown
from tierfold.compaction.model.segments import PartitionState
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.catalog.delta_log import DeltaLog
from tierfold.storage.catalog.delta_tables import CHECKPOINT_INTERVAL, MEMORY_HOURS
from tierfold.storage.catalog.file_sync import sync, sync_all
from tierfold.storage.catalog.folder_files import FolderFiles
from tierfold.storage.catalog.runs_table import RunsTable


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    folder = tmp_path / "tier"
    folder.mkdir()
    return folder


@pytest.fixture
def uri(tier: Path) -> str:
    return str(tier / "deep" / "catalog")


@pytest.fixture
def disk(tier: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    """The tier's disk, to which all syncs of the test go."""
    disk = Disk(tier)
    watched(monkeypatch, disk)
    return disk


def log_at(table: Path) -> DeltaLog:
    return DeltaLog(FolderFiles(table, str(table)))


def unsynced(patch: pytest.MonkeyPatch, write: Callable[[], object]) -> None:
    """What a run wrote that died before it synced anything."""
    with patch.context() as dead:
        dead.setattr(os, "fsync", lambda _: None)
        write()


def rows_in(image: Path) -> PartitionState | None:
    return Catalog(str(image / "deep" / "catalog")).read().get(KEY)


def test_a_reported_commit_survives_the_loss_of_everything_unsynced(
    disk: Disk, uri: str, tmp_path: Path
) -> None:
    for number in range(CHECKPOINT_INTERVAL + 5):
        row = claims(Catalog(uri), 1)[-1]
        if number % 4 == 0:
            assert rows_in(disk.left(tmp_path / f"image-{number}")) == row
    proposal = swap(row, "merged")
    assert isinstance(Catalog(uri).commit([proposal])[KEY], Committed)
    image = disk.left(tmp_path / "last")
    assert rows_in(image) == Catalog(uri).read()[KEY]
    log = image / "deep" / "catalog" / "partitions" / "_delta_log"
    assert (log / "_last_checkpoint").stat().st_size > 0
    assert len(list(log.glob("*.checkpoint.parquet"))) == 1


def test_the_runs_table_is_synced_as_well(disk: Disk, uri: str, tmp_path: Path) -> None:
    RunsTable(uri).append([A_RUN])
    RunsTable(uri).append([replace(A_RUN, chunk=1)])
    left = RunsTable(str(disk.left(tmp_path / "image") / "deep" / "catalog")).read()
    assert [row.chunk for row in left] == [0, 1]


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_the_next_run_syncs_the_commits_of_dead_runs(
    disk: Disk, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_checkpoint: bool
) -> None:
    Path(uri).mkdir(parents=True)
    sync_all((disk.root, disk.root / "deep"))
    unsynced(monkeypatch, lambda: claims(Catalog(uri), 3))
    if has_checkpoint:
        DeltaTable(f"{uri}/partitions").create_checkpoint()
        unsynced(monkeypatch, lambda: claims(Catalog(uri), 2))
    row = claims(Catalog(uri), 1)[-1]
    sync(Path(uri))
    assert rows_in(disk.left(tmp_path / "image")) == row


def test_a_commit_that_is_read_back_is_made_durable(
    tier: Path, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = claims(Catalog(uri), 1)[-1]
    proposal = swap(row, "merged")
    disk = Disk(tier)
    unsynced(monkeypatch, lambda: Catalog(uri).commit([proposal]))
    watched(monkeypatch, disk)
    assert isinstance(Catalog(uri).resolve([proposal])[KEY], Committed)
    log = Path(uri) / "partitions" / "_delta_log"
    assert {path.name for path in log.iterdir()} == disk.names[log].keys()
    assert all(disk.contents[name] for name in disk.names[log].values())


def failing_once(patch: pytest.MonkeyPatch, ends: str) -> list[str]:
    """The first sync of a path with that ending fails, and only the first, as in the kernel."""
    failed: list[str] = []

    def fsync(descriptor: int) -> None:
        path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        if path.endswith(ends) and not failed:
            failed.append(path)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    patch.setattr(os, "fsync", fsync)
    return failed


@pytest.mark.parametrize("ends", ["2.json", ".parquet", "_delta_log", "partitions"])
def test_a_sync_that_failed_leaves_the_outcome_unknown(
    uri: str, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    row = claims(Catalog(uri), 1)[-1]
    proposal = swap(row, "merged")
    failed = failing_once(monkeypatch, ends)
    outcome = Catalog(uri).commit([proposal])[KEY]
    assert len(failed) == 1
    assert isinstance(outcome, Unknown)
    assert not outcome.is_untraced
    assert "Input/output error" in outcome.cause
    assert Catalog(uri).read()[KEY].commit_id == proposal.commit_id
    assert isinstance(Catalog(uri).resolve([proposal])[KEY], Unknown)
    assert isinstance(Catalog(uri).commit([proposal])[KEY], Unknown)


def test_a_runs_record_that_cannot_be_synced_is_an_error(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_once(monkeypatch, "runs/_delta_log")
    with pytest.raises(UnreadableObject, match="Input/output error"):
        RunsTable(uri).append([A_RUN])


def test_a_power_cut_while_a_checkpoint_is_written_changes_nothing(
    tier: Path, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tier)
    looks = count()
    with monkeypatch.context() as patch:
        watched(patch, disk)
        row = claims(Catalog(uri), 3)[-1]
        log = log_at(Path(uri) / "partitions")
        tail = log.sync()

    def look() -> None:
        for image in disk.may_be_left(tmp_path / f"images-{next(looks)}"):
            assert rows_in(image) == row

    watched(monkeypatch, disk, look)
    log.checkpoint(tail)
    look()
    assert next(looks) > 4
    assert rows_in(disk.left(tmp_path / "last")) == row
    left = tmp_path / "last" / "deep" / "catalog" / "partitions" / "_delta_log"
    assert DeltaTable(str(left.parent)).version() == 3
    assert [int(path.name[:20]) for path in left.glob("*.checkpoint.parquet")] == [3]
    assert (left / "_last_checkpoint").read_bytes()
    assert not list((Path(uri) / "partitions").glob("_tierfold_checkpoint-*"))


def test_the_boundary_is_durable_before_a_commit_is_deleted(
    tier: Path, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tier)
    looks = count()
    with monkeypatch.context() as patch:
        watched(patch, disk)
        row = claims(Catalog(uri), CHECKPOINT_INTERVAL + 2)[-1]
    table = Path(uri) / "partitions"
    kept = cut_soon(table, hours=MEMORY_HOURS + 1)
    every = {path.name for path in (table / "_delta_log").glob("*.json")}
    for name in every:  # A file whose time was set was not written again.
        path = table / "_delta_log" / name
        disk.contents[path.stat().st_ino, path.stat().st_mtime_ns] = path.read_bytes()
    checkpoint = table / "_delta_log" / f"{kept:020d}.checkpoint.parquet"

    def look() -> None:
        for image in disk.may_be_left(tmp_path / f"images-{next(looks)}"):
            left = image / "deep" / "catalog" / "partitions"
            assert rows_in(image) == row
            gone = every - {path.name for path in (left / "_delta_log").glob("*.json")}
            assert not gone or log_at(left).boundary.read() == kept

    watched(monkeypatch, disk, look)
    assert Catalog(uri).clean_up() == kept
    look()
    assert next(looks) > 3
    assert checkpoint.exists()


def test_an_unsynced_checkpoint_is_synced_before_older_commits_are_deleted(
    disk: Disk, uri: str, tmp_path: Path
) -> None:
    """delta-rs wrote it, in an older tierfold."""
    row = claims(Catalog(uri), 3)[-1]
    table = Path(uri) / "partitions"
    DeltaTable(str(table)).create_checkpoint()
    for path in (table / "_delta_log").glob("*.json"):
        backdated(path, hours=MEMORY_HOURS + 1)
        disk.contents[path.stat().st_ino, path.stat().st_mtime_ns] = path.read_bytes()
    assert Catalog(uri).clean_up() == 3
    images = list(disk.may_be_left(tmp_path / "images"))
    assert len(images) > 2
    assert [rows_in(image) for image in images] == [row] * len(images)


def test_deleted_files_were_durably_superseded(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    claims(Catalog(uri), 4)
    superseded(Path(uri) / "partitions", hours=MEMORY_HOURS + 1)
    failed = failing_once(monkeypatch, "4.json")
    before = set(Path(uri).rglob("*.parquet"))
    with pytest.raises(UnreadableObject, match="Input/output error"):
        Catalog(uri).clean_up()
    assert failed
    assert set(Path(uri).rglob("*.parquet")) == before


def test_a_commit_is_not_written_after_an_empty_one(uri: str) -> None:
    row = claims(Catalog(uri), 3)[-1]
    empty = Path(uri) / "partitions" / "_delta_log" / f"{3:020d}.json"
    empty.write_bytes(b"")
    with pytest.raises(CorruptLog, match="the commit file is empty") as caught:
        claim(Catalog(uri), row, "late")
    assert caught.value.where == str(empty)
    assert "After a power cut" in caught.value.remedy

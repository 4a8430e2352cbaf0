"""A writer that stalls between conflict check and put while the log is cut is refused."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.compaction.builders import KEY
from tests.storage.aged_tables import backdated, cut_soon
from tests.storage.call_scripts import Call, Event, Script, at, instead
from tests.storage.catalog_contract import A_RUN, claim, claims, swap, topics
from tests.storage.scripted_table import ScriptedTable, scripted_steps
from tierfold.compaction.model.errors import CorruptLog, UnreadableObject
from tierfold.compaction.model.outcomes import Committed, Unknown
from tierfold.compaction.model.segments import PartitionKey
from tierfold.storage.catalog import log_boundary
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.catalog.delta_log import DeltaLog, commit_name
from tierfold.storage.catalog.delta_tables import CHECKPOINT_INTERVAL, MEMORY_HOURS
from tierfold.storage.catalog.folder_files import FolderFiles
from tierfold.storage.catalog.log_boundary import BOUNDARY_FOLDER
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.catalog.schema import PARTITION_COLUMNS, PARTITIONS
from tierfold.storage.clock import pause


def table_of(uri: str) -> Path:
    return Path(uri) / "partitions"


def log_folder(uri: str) -> Path:
    return table_of(uri) / "_delta_log"


def log_at(table: Path) -> DeltaLog:
    return DeltaLog(FolderFiles(table, str(table)))


def log_of(uri: str) -> DeltaLog:
    return log_at(table_of(uri))


def commit_of(uri: str, version: int) -> Path:
    return table_of(uri) / commit_name(version)


def cut(uri: str, key: PartitionKey) -> int:
    """Claim `key` until there is a new checkpoint; then cut the log, as if a month later."""
    claims(Catalog(uri), CHECKPOINT_INTERVAL + 1, key)
    kept = cut_soon(table_of(uri), hours=MEMORY_HOURS + 1)
    assert Catalog(uri).clean_up() > 0
    assert log_of(uri).boundary.read() == kept
    return kept


@dataclass(slots=True)
class Held:
    """Holds up processes that open a file, by a lease on it: the kernel asks us first."""

    path: Path
    descriptor: int = -1
    data: bytes = b""

    def __post_init__(self) -> None:
        self.descriptor = os.open(self.path, os.O_RDONLY)
        fcntl.fcntl(self.descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)

    def wait_for_a_process(self) -> None:
        """Wait until a process is held; others then find a copy in the file's place."""
        while fcntl.fcntl(self.descriptor, fcntl.F_GETLEASE) == fcntl.F_WRLCK:
            pause(5)
        self.data = os.pread(self.descriptor, 1 << 24, 0)
        self.put_copy()

    def put_copy(self) -> None:
        copy = self.path.with_name("copy")
        copy.write_bytes(self.data)
        copy.replace(self.path)

    def let_in(self) -> None:
        """Let the process open the file again and again, as if the log were not cut yet."""
        self.put_copy()
        fcntl.fcntl(self.descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        os.close(self.descriptor)


@pytest.fixture
def _lease_breaks_are_polled() -> Iterator[None]:
    """Poll for lease breaks: the kernel's signal for them would end the process."""
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGIO, before)


def held_between_check_and_put(uri: str, meanwhile: Event) -> Catalog:
    """A catalog whose next write runs `meanwhile` between its conflict check and its put."""
    held: list[Held] = []

    def others() -> None:
        held[0].wait_for_a_process()
        meanwhile()
        held[0].let_in()

    thread = threading.Thread(target=others)

    def held_up() -> None:
        claims(Catalog(uri), 1, topics(2)[1])
        log = log_of(uri)
        log.checkpoint(log.sync())
        # The last file that delta-rs opens before its put, once others have committed.
        held.append(Held(max(log_folder(uri).glob("*.checkpoint.parquet"))))
        thread.start()

    script = Script(at("replace 1", held_up), at("replace 1", thread.join, is_done=True))
    return Catalog(uri, open_table=partial(ScriptedTable, script))


@pytest.fixture
def steps() -> Iterator[Script]:
    """The steps of every table."""
    script = Script()
    with scripted_steps(script):
        yield script


def strays(steps: Script) -> list[int]:
    """The versions that were created below the boundary."""
    return [call.arguments[0] for call in steps.of("is_kept") if call.result is False]


def versions(uri: str) -> list[int]:
    return sorted(int(path.stem) for path in log_folder(uri).glob("*.json"))


@pytest.mark.usefixtures("_lease_breaks_are_polled")
def test_a_stalled_commit_that_was_fenced_meanwhile_is_not_reported_as_committed(
    uri: str, steps: Script
) -> None:
    mine, other = topics(2)
    state = claims(Catalog(uri), 1, mine)[-1]
    kept: list[int] = []

    def meanwhile() -> None:
        claims(Catalog(uri), 1, mine)
        kept.append(cut(uri, other))

    catalog = held_between_check_and_put(uri, meanwhile)
    proposal = swap(state, "late")
    outcome = catalog.commit([proposal])[mine]
    # The version in its place is gone, and with it the answer whether it was its own.
    assert isinstance(outcome, Unknown)
    assert "is based on is gone" in outcome.cause
    assert not outcome.is_untraced
    assert Catalog(uri).resolve([proposal]) == {mine: outcome}
    (stray,) = strays(steps)
    assert min(versions(uri)) == kept[0] > stray
    assert Catalog(uri).read([mine])[mine].epoch == 2


@pytest.mark.usefixtures("_lease_breaks_are_polled")
def test_a_stalled_commit_whose_row_is_unchanged_is_written_again(uri: str, steps: Script) -> None:
    mine, other = topics(2)
    state = claims(Catalog(uri), 1, mine)[-1]
    kept: list[int] = []
    catalog = held_between_check_and_put(uri, lambda: kept.append(cut(uri, other)))
    proposal = swap(state, "late")
    outcome = catalog.commit([proposal])[mine]
    assert outcome == Committed(epoch=1, commit_id=proposal.commit_id)
    (stray,) = strays(steps)
    assert min(versions(uri)) == kept[0] > stray
    assert Catalog(uri).read([mine])[mine].commit_id == proposal.commit_id


def test_a_late_row_of_a_run_is_refused(uri: str) -> None:
    runs = RunsTable(uri)
    runs.append([A_RUN])
    log_at(Path(uri) / "runs").boundary.raise_to(10)
    with pytest.raises(UnreadableObject, match="stalled for so long"):
        runs.append([A_RUN])
    assert not (Path(uri) / "runs" / "_delta_log" / f"{2:020d}.json").exists()


def test_a_late_first_version_makes_no_table(uri: str) -> None:
    """A writer that found no table and creates version 0 after it was cut uses the table."""
    claims(Catalog(uri), 1)
    kept = cut(uri, KEY)
    row = Catalog(uri).read()[KEY]

    def unchecked(call: Call) -> DeltaTable:
        table = Path(call.arguments[0])
        scratch = str(table.with_name("elsewhere"))
        made = create(scratch, **call.named)
        shutil.copy(Path(scratch) / commit_name(0), table / "_delta_log")
        return made

    create = DeltaTable.create
    script = Script(instead("open 1", lambda _: None), instead("create", unchecked))
    with scripted_steps(script):
        assert claim(Catalog(uri), row, "late").outcome == Committed(
            epoch=row.epoch + 1, commit_id=Catalog(uri).read()[KEY].commit_id
        )
    assert strays(script) == [0]
    assert min(versions(uri)) == kept


class TestTheBoundary:
    def test_it_only_rises(self, tmp_path: Path) -> None:
        boundary = log_at(tmp_path).boundary
        assert boundary.read() == 0
        for version, highest in ((20, 20), (40, 40), (30, 40)):
            boundary.raise_to(version)
            assert boundary.read() == highest

    def test_a_stalled_deleter_does_not_lower_it(self, tmp_path: Path) -> None:
        log_at(tmp_path).boundary.raise_to(40)
        log_at(tmp_path).boundary.raise_to(20)
        log_at(tmp_path).boundary.raise_to(41)
        left = (tmp_path / BOUNDARY_FOLDER).iterdir()
        assert [path.name for path in left] == [f"{41:020d}"]

    @pytest.mark.parametrize(("version", "is_kept"), [(19, False), (20, True), (21, True)])
    def test_a_commit_below_it_does_not_count(self, version: int, is_kept: bool) -> None:
        assert log_boundary.is_kept(version, 20) is is_kept


class TestCutting:
    def test_versions_of_the_last_month_stay(self, uri: str) -> None:
        claims(Catalog(uri), 2 * CHECKPOINT_INTERVAL)
        log = log_folder(uri)
        found = log.glob("*.checkpoint.parquet")
        checkpoints = sorted(int(path.name[:20]) for path in found)
        assert len(checkpoints) == 2
        rows = tuple(Catalog(uri).history(KEY))
        for commit in log.glob("*.json"):
            if int(commit.stem) < checkpoints[1]:
                backdated(commit, hours=MEMORY_HOURS + 1)
        assert Catalog(uri).clean_up(is_dry_run=True) == checkpoints[0]
        assert min(versions(uri)) == 0
        assert Catalog(uri).clean_up() == checkpoints[0]
        assert min(versions(uri)) == checkpoints[0]
        past = tuple(Catalog(uri).history(KEY))
        assert past == rows[: len(past)]
        assert len(past) == versions(uri)[-1] - checkpoints[0] + 1
        assert Catalog(uri).clean_up() == 0

    def test_a_commit_that_came_too_late_is_deleted_the_next_time(self, uri: str) -> None:
        kept = cut(uri, KEY)
        stray = commit_of(uri, 3)
        shutil.copy(commit_of(uri, kept), stray)
        row = Catalog(uri).read()[KEY]
        assert Catalog(uri).clean_up() == 1
        assert not stray.exists()
        assert Catalog(uri).read()[KEY] == row

    def test_nothing_is_deleted_if_the_remaining_checkpoint_is_broken(self, uri: str) -> None:
        claims(Catalog(uri), 2 * CHECKPOINT_INTERVAL)
        log = log_folder(uri)
        oldest = min(log.glob("*.checkpoint.parquet"))
        for commit in log.glob("*.json"):
            if commit.name[:20] <= oldest.name[:20]:
                backdated(commit, hours=MEMORY_HOURS + 1)
        oldest.write_bytes(oldest.read_bytes()[:-100] + b"PAR1")
        with pytest.raises(CorruptLog, match="the checkpoint cannot be read"):
            Catalog(uri).clean_up()
        assert min(versions(uri)) == 0
        assert log_of(uri).boundary.read() == 0

    def test_the_scratch_folder_of_a_dead_run_is_deleted(self, uri: str) -> None:
        claims(Catalog(uri), 1)
        table = table_of(uri)
        for name, hours in (("old", MEMORY_HOURS + 1), ("new", 0)):
            scratch = table / f"_tierfold_checkpoint-{name}"
            scratch.mkdir()
            backdated(scratch, hours=hours)
        assert Catalog(uri).clean_up() == 0
        assert [path.name for path in table.glob("_tierfold_checkpoint-*")] == [
            "_tierfold_checkpoint-new"
        ]


class TestDeltaDeletesNothing:
    def test_a_catalog_of_an_older_tierfold_keeps_its_commits(self, uri: str) -> None:
        """There the log may be cleaned at once, by the checkpoint that each commit makes."""
        DeltaTable.create(
            f"{uri}/partitions",
            schema=PARTITIONS,
            partition_by=list(PARTITION_COLUMNS),
            configuration={
                "delta.checkpointInterval": "1",
                "delta.logRetentionDuration": "interval 0 seconds",
                "delta.enableExpiredLogCleanup": "true",
            },
        )
        backdated(commit_of(uri, 0), hours=48)
        claims(Catalog(uri), 3)
        assert versions(uri) == [0, 1, 2, 3, 4]
        found = DeltaTable(f"{uri}/partitions").metadata().configuration
        assert found["delta.enableExpiredLogCleanup"] == "false"
        assert not list(log_folder(uri).glob("*.checkpoint.parquet"))

    def test_a_new_catalog_forbids_cleanup(self, uri: str) -> None:
        claims(Catalog(uri), 1)
        assert versions(uri) == [0, 1]
        found = DeltaTable(f"{uri}/partitions").metadata().configuration
        assert found["delta.enableExpiredLogCleanup"] == "false"

"""After a power cut the catalog is refused with one sentence, or has its last state."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.compaction.builders import KEY
from tests.spread import spread
from tests.storage.aged_tables import cut_soon, superseded
from tests.storage.catalog_contract import A_RUN, BUCKET, claim, fresh, partitions_table, swap
from tierfold.compaction.commits.commit import FinishDeletion, ReleaseClaim, StartDeletion, proposed
from tierfold.compaction.model.errors import CorruptLog, TierfoldError
from tierfold.compaction.model.outcomes import Committed
from tierfold.compaction.model.segments import PartitionState
from tierfold.storage.catalog.catalog import Catalog, new_commit_id
from tierfold.storage.catalog.delta_commits import read_commit
from tierfold.storage.catalog.delta_tables import (
    CHECKPOINT_INTERVAL,
    MEMORY_HOURS,
)
from tierfold.storage.catalog.folder_files import FolderFiles
from tierfold.storage.catalog.runs_table import RunsTable

STAGES = ("claim", "commit", "deletion", "checkpoint", "vacuum")


@dataclass(frozen=True, slots=True)
class Stage:
    """A catalog, with its rows now and after earlier commits."""

    uri: Path
    rows: tuple[PartitionState, ...]
    """All states of the partition's row, newest first."""
    runs: int

    @property
    def log(self) -> Path:
        return self.uri / "partitions" / "_delta_log"

    @property
    def newest_commit(self) -> Path:
        return max(self.log.glob("*.json"))


def deleted(catalog: Catalog, state: PartitionState) -> PartitionState:
    """The row after its retired segments were deleted, as `vacuum` does it."""
    state = claim(catalog, state, "vacuum").row
    ids = tuple(entry.segment.segment_id for entry in state.retired)
    for updates in (
        (StartDeletion(ids=ids, at_ms=9),),
        (FinishDeletion(ids=ids), ReleaseClaim(run="vacuum")),
    ):
        change = proposed(state, *updates, commit_id=new_commit_id(), at_ms=9)
        assert isinstance(catalog.commit([change])[KEY], Committed)
        state = catalog.read()[KEY]
    return state


def reach(uri: Path, stage: str) -> None:
    """Write the catalog up to a stage."""
    catalog = Catalog(str(uri))
    state = claim(catalog, fresh(), "a").row
    RunsTable(str(uri)).append([A_RUN])
    if stage == "claim":
        return
    assert isinstance(catalog.commit([swap(state, "merged")])[KEY], Committed)
    RunsTable(str(uri)).append([replace(A_RUN, chunk=1)])
    if stage == "commit":
        return
    row = deleted(catalog, catalog.read()[KEY])
    if stage == "deletion":
        return
    for number in range(CHECKPOINT_INTERVAL):
        row = claim(catalog, row, f"run-{number}").row


@pytest.fixture(scope="module", params=STAGES)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    uri = tmp_path_factory.mktemp("tier") / "_tierfold"
    reach(uri, request.param)
    catalog = Catalog(str(uri))
    if request.param == "vacuum":
        superseded(uri / "partitions", hours=MEMORY_HOURS + 1)
        cut_soon(uri / "partitions", hours=MEMORY_HOURS + 1)
        assert catalog.clean_up() > CHECKPOINT_INTERVAL
        for run in ("b", "c"):
            claim(catalog, catalog.read()[KEY], run)
    return Stage(uri, tuple(catalog.history(KEY)), len(RunsTable(str(uri)).read()))


def files_of(stage: Stage) -> Iterator[Path]:
    """The catalog's files; only some of the many commits below a checkpoint, and of their data."""
    files = [path for path in sorted(stage.uri.rglob("*")) if path.is_file()]
    needed = {stage.newest_commit.name, f"{int(stage.newest_commit.stem) - 1:020d}.json"}
    for number, file in enumerate(files):
        is_one_of_many = file.suffix == ".json" or "-c000" in file.name
        if len(files) < 30 or not is_one_of_many or file.name in needed or number % 7 == 0:
            yield file


def corruptions(file: Path) -> Iterator[bytes | None]:
    """What a power cut may leave of a file; None: nothing, not even its name."""
    data = file.read_bytes()
    lines = data.splitlines(keepends=True)
    whole = [b"".join(lines[:count]) for count in range(1, len(lines))]
    cuts = whole if file.suffix == ".json" else []
    yield from (cut for cut in (b"", data[: len(data) // 2], data[:-1], *cuts) if cut != data)
    yield None


def expected_rows(
    stage: Stage, file: Path, corrupt: bytes | None
) -> tuple[PartitionState | None, ...]:
    """What the row may be if it is not refused; None: never claimed."""
    if corrupt is None and file == stage.newest_commit:
        return (*stage.rows, None)[:2]
    return stage.rows[:1]


@pytest.mark.parametrize("count", [4, pytest.param(1000, id="all", marks=pytest.mark.soak)])
def test_a_cut_file_never_returns_an_older_state(stage: Stage, tmp_path: Path, count: int) -> None:
    files = list(files_of(stage))
    assert len(files) > 5
    refused = 0
    cut_files = [(file, corrupt) for file in files for corrupt in corruptions(file)]
    chosen = spread(cut_files, count)
    for number, (file, corrupt) in enumerate(chosen):
        uri = tmp_path / str(number)
        shutil.copytree(stage.uri, uri, copy_function=os.link)
        hit = uri / file.relative_to(stage.uri)
        hit.unlink()
        if corrupt is not None:
            hit.write_bytes(corrupt)
        refused += is_refused(stage, uri, file, corrupt)
        shutil.rmtree(uri)
    assert refused >= len(chosen) // 4


def is_refused(stage: Stage, uri: Path, file: Path, corrupt: bytes | None) -> bool:
    """Whether the catalog is refused; if not, asserts that its content is right."""
    log = uri / "partitions" / "_delta_log"
    before = {path.name for path in log.iterdir()}
    error = refusal(stage, uri, expected_rows(stage, file, corrupt), is_gone=corrupt is None)
    if error is None:
        return False
    assert "\n" not in str(error)
    assert str(uri) in error.where
    assert error.remedy
    if "runs" not in file.parts:
        with pytest.raises(TierfoldError):
            claim(Catalog(str(uri)), stage.rows[0], "late")
        assert {path.name for path in log.iterdir()} == before
    return True


def refusal(
    stage: Stage, uri: Path, possible: tuple[PartitionState | None, ...], *, is_gone: bool
) -> TierfoldError | None:
    """Read the whole catalog; the error that refuses it, if any."""
    try:
        row = Catalog(str(uri)).read().get(KEY)
        past = tuple(Catalog(str(uri)).history(KEY))
        runs = len(RunsTable(str(uri)).read())
    except TierfoldError as error:
        return error
    assert row in possible
    assert past in {stage.rows[at : at + len(past)] for at in range(2)}
    assert runs in {stage.runs, stage.runs - is_gone}
    return None


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_missing_log_is_no_new_catalog(stage: Stage, tmp_path: Path, *, is_empty: bool) -> None:
    uri = tmp_path / "catalog"
    shutil.copytree(stage.uri, uri)
    log = uri / "partitions" / "_delta_log"
    shutil.rmtree(log)
    if is_empty:
        log.mkdir()
    for look in (Catalog(str(uri)).read, lambda: list(Catalog(str(uri)).history(KEY))):
        with pytest.raises(CorruptLog, match="it has no commit") as caught:
            look()
        assert caught.value.where == str(log)
    with pytest.raises(CorruptLog):
        claim(Catalog(str(uri)), stage.rows[0], "late")
    assert not list(log.glob("*"))


def test_the_past_ends_at_an_empty_commit_below_a_checkpoint(tmp_path: Path) -> None:
    """Reading on would return each row twice: before and after that commit."""
    uri = tmp_path / "catalog"
    reach(uri, "checkpoint")
    rows = tuple(Catalog(str(uri)).history(KEY))
    (uri / "partitions" / "_delta_log" / f"{CHECKPOINT_INTERVAL - 2:020d}.json").write_bytes(b"")
    past = list(partitions_table(uri).past(BUCKET))
    assert [version.num_rows for version in past] == [1] * len(past)
    commit_ids = [version["commit_id"][0].as_py() for version in past]
    assert commit_ids == [row.commit_id for row in rows[: len(past)]]
    assert 0 < len(past) < len(rows)


class TestRepair:
    """As described in docs/operations.md, under `After a power cut`."""

    def test_a_newest_commit_that_is_cut_short_is_removed(
        self, stage: Stage, tmp_path: Path
    ) -> None:
        uri = tmp_path / "catalog"
        shutil.copytree(stage.uri, uri)
        newest = uri / stage.newest_commit.relative_to(stage.uri)
        newest.write_bytes(newest.read_bytes()[:-10])
        with pytest.raises(CorruptLog, match="cut short") as caught:
            Catalog(str(uri)).read()
        Path(caught.value.where).unlink()
        before = Catalog(str(uri)).read().get(KEY)
        assert before == (*stage.rows, None)[1]
        assert isinstance(claim(Catalog(str(uri)), before or fresh(), "b").outcome, Committed)

    def test_so_is_a_newest_commit_with_cut_data(self, stage: Stage, tmp_path: Path) -> None:
        uri = tmp_path / "catalog"
        shutil.copytree(stage.uri, uri)
        newest = uri / stage.newest_commit.relative_to(stage.uri)
        table = uri / "partitions"
        log = FolderFiles(table, str(table))
        (added,) = read_commit(log, str(newest.relative_to(table))).added
        (table / added).write_bytes(b"")
        with pytest.raises(TierfoldError, match="part-"):
            Catalog(str(uri)).read()
        newest.unlink()
        assert Catalog(str(uri)).read().get(KEY) == (*stage.rows, None)[1]

    def test_a_checkpoint_is_removed_with_its_pointer(self, tmp_path: Path) -> None:
        uri = tmp_path / "catalog"
        reach(uri, "checkpoint")
        row = Catalog(str(uri)).read()[KEY]
        log = uri / "partitions" / "_delta_log"
        for left in (b"", b"PAR1 and no more"):
            checkpoint = max(log.glob("*.checkpoint.parquet"))
            checkpoint.write_bytes(left)
            with pytest.raises(CorruptLog, match="the checkpoint is cut short") as caught:
                Catalog(str(uri)).read()
            Path(caught.value.where).unlink()
            (log / "_last_checkpoint").unlink()
            assert Catalog(str(uri)).read()[KEY] == row
            row = claim(Catalog(str(uri)), row, "b").row
            assert max(log.glob("*.checkpoint.parquet"))

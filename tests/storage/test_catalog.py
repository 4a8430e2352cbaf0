from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from catalog_contract import CatalogContract, claim, committed, fresh, swap
from deltalake import DeltaTable, write_deltalake

from compaction.errors import BadSettings, CorruptLog, UnreadableObject
from compaction.outcomes import Committed, Fenced, LostRace, Unknown
from compaction.segments import PartitionKey, PartitionState
from storage.catalog import Catalog
from storage.catalog_rows import table_of
from storage.catalog_schema import FORMAT_VERSION, PARTITION_COLUMNS
from storage.delta_tables import CHECKPOINT_INTERVAL, Condition, DeltaFolder
from tests.compaction.builders import KEY


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "catalog")


class TestFolderCatalog(CatalogContract):
    @pytest.fixture
    def catalog(self, uri: str) -> Catalog:
        return Catalog(uri)


class TestFileUriCatalog(CatalogContract):
    @pytest.fixture
    def catalog(self, uri: str) -> Catalog:
        return Catalog(f"file://{uri}/")


def keys(count: int) -> list[PartitionKey]:
    return [replace(KEY, partition=partition) for partition in range(count)]


class TestRaces:
    def test_contended_claims_lose_no_epoch(self, uri: str) -> None:
        claim(Catalog(uri), fresh(), "first")

        def win_six_times(run: str) -> int:
            catalog, wins = Catalog(uri), 0
            while wins < 6:
                state = catalog.read([KEY])[KEY]
                wins += isinstance(claim(catalog, state, run).outcome, Committed)
            return wins

        with ThreadPoolExecutor(4) as threads:
            assert sum(threads.map(win_six_times, "abcd")) == 24
        assert Catalog(uri).read()[KEY].epoch == 25

    def test_commits_on_different_partitions_all_succeed(self, uri: str) -> None:
        states = Catalog(uri).claim([fresh(key) for key in keys(20)], "a", at_ms=1)

        def commit(key: PartitionKey) -> object:
            return Catalog(uri).commit([swap(states[key].state, "merged")])[key]

        with ThreadPoolExecutor(8) as threads:
            outcomes = list(threads.map(commit, keys(20)))
        assert all(isinstance(outcome, Committed) for outcome in outcomes)
        assert all(len(row.segments) == 1 for row in Catalog(uri).read().values())

    def test_commits_on_different_partitions_do_not_conflict(self, uri: str) -> None:
        mine, other = keys(2)
        Catalog(uri).claim([fresh(mine), fresh(other)], "a", at_ms=1)
        table = opened_too_early(lambda: committed(Catalog(uri), other, "b", "by-b"))
        state = Catalog(uri).read()[mine]
        assert isinstance(Catalog(uri, table).commit([swap(state, "mine")])[mine], Committed)
        assert table.answers == [1]
        assert Catalog(uri).read()[other].epoch == 2

    def test_a_conflict_is_no_error_but_a_look_at_who_won(self, uri: str) -> None:
        mine, other = keys(2)
        claims = Catalog(uri).claim([fresh(mine), fresh(other)], "a", at_ms=1)
        table = opened_too_early(lambda: committed(Catalog(uri), other, "b", "by-b"))
        outcomes = Catalog(uri, table).commit(
            [swap(claims[key].state, "by-a") for key in (mine, other)]
        )
        assert isinstance(outcomes[mine], Committed)
        assert outcomes[other] == Fenced(epoch=1, by_epoch=2, by_run="")
        assert table.answers == [None, 1]

    def test_first_claims_of_one_partition_conflict(self, uri: str) -> None:
        claim(Catalog(uri), fresh(keys(2)[1]), "a")
        table = opened_too_early(lambda: claim(Catalog(uri), fresh(), "b"))
        outcome = claim(Catalog(uri, table), fresh(), "c").outcome
        assert outcome == LostRace(found_commit_id=Catalog(uri).read()[KEY].commit_id)
        assert table.answers == [None]

    def test_first_claims_at_the_same_time_make_one_table(self, uri: str) -> None:
        def first_claim(key: PartitionKey) -> object:
            return claim(Catalog(uri), fresh(key), "a").outcome

        with ThreadPoolExecutor(4) as threads:
            outcomes = list(threads.map(first_claim, keys(4)))
        assert all(isinstance(outcome, Committed) for outcome in outcomes)
        assert set(Catalog(uri).read()) == set(keys(4))


def during_swap(meanwhile: Callable[[], object]) -> type[DeltaFolder]:
    """A table whose first swap is preceded by somebody else's doing."""
    pending = [meanwhile]

    class Stalling(DeltaFolder):
        def swap(self, rows: pa.Table, condition: Condition) -> int | None:
            if pending:
                pending.pop()()
            return super().swap(rows, condition)

    return Stalling


def opened_too_early(meanwhile: Callable[[], object]) -> Any:
    """A table whose first swap sees a version that somebody's doing has made old."""
    pending = [meanwhile]

    class OpenedTooEarly(DeltaFolder):
        answers: ClassVar[list[int | None]] = []

        def _opened_or_made(self) -> DeltaTable:
            table = super()._opened_or_made()
            if pending:
                pending.pop()()
            return table

        def swap(self, rows: pa.Table, condition: Condition) -> int | None:
            answer = super().swap(rows, condition)
            self.answers.append(answer)
            return answer

    return OpenedTooEarly


def failing(*, written: bool, unreadable_after: bool = False) -> type[DeltaFolder]:
    """A table that loses the answer to a swap, before or after it wrote."""
    failed = []

    class LosingTheAnswer(DeltaFolder):
        def swap(self, rows: pa.Table, condition: Condition) -> int | None:
            if written:
                super().swap(rows, condition)
            failed.append(rows)
            raise UnreadableObject("the answer was lost", where=self.uri, remedy="Look again.")

        def read(self, predicate: str | None = None) -> pa.Table:
            if failed and unreadable_after:
                raise UnreadableObject("no answer", where=self.uri, remedy="Look again.")
            return super().read(predicate)

    return LosingTheAnswer


class TestTheRowsWritten:
    """An update whose condition fails writes no row and raises nothing."""

    def test_a_claim_in_between_fences_a_commit_on_its_way(self, uri: str) -> None:
        state = claim(Catalog(uri), fresh(), "a").state
        between = during_swap(lambda: claim(Catalog(uri), state, "b"))
        outcome = Catalog(uri, between).commit([swap(state, "late")])[KEY]
        assert outcome == Fenced(epoch=1, by_epoch=2, by_run="b")
        assert Catalog(uri).read()[KEY].segments == state.segments

    def test_a_commit_in_between_takes_the_row_from_a_claim_on_its_way(self, uri: str) -> None:
        state = claim(Catalog(uri), fresh(), "a").state
        proposal = swap(state, "first")
        between = during_swap(lambda: Catalog(uri).commit([proposal]))
        outcome = claim(Catalog(uri, between), state, "b").outcome
        assert outcome == LostRace(found_commit_id=proposal.commit_id)
        assert Catalog(uri).read()[KEY].epoch == 1

    def test_a_row_that_is_gone_is_a_lost_race(self, uri: str) -> None:
        state = claim(Catalog(uri), fresh(), "a").state
        DeltaTable(f"{uri}/partitions").delete()
        assert Catalog(uri).commit([swap(state, "x")]) == {KEY: LostRace(found_commit_id="")}
        assert claim(Catalog(uri), state, "b").outcome == LostRace(found_commit_id="")


class TestLostAnswers:
    def test_a_commit_that_was_written_is_found_by_reading_back(self, uri: str) -> None:
        state = claim(Catalog(uri), fresh(), "a").state
        proposal = swap(state, "merged")
        outcome = Catalog(uri, failing(written=True)).commit([proposal])[KEY]
        assert outcome == Committed(epoch=1, commit_id=proposal.commit_id)

    @pytest.mark.parametrize("written", [True, False])
    def test_what_cannot_be_read_back_is_unknown_until_resolved(
        self, uri: str, written: bool
    ) -> None:
        state = claim(Catalog(uri), fresh(), "a").state
        proposal = swap(state, "merged")
        lost = Catalog(uri, failing(written=written, unreadable_after=True)).commit([proposal])
        assert lost == {
            KEY: Unknown(
                commit_id=proposal.commit_id,
                cause=f"{uri}/partitions: the answer was lost. Look again.",
            )
        }
        resolved = Catalog(uri).resolve(proposal)
        assert resolved == (
            Committed(epoch=1, commit_id=proposal.commit_id)
            if written
            else LostRace(found_commit_id=state.commit_id)
        )

    def test_a_row_without_a_trace_stays_unknown_for_a_write_may_still_arrive(
        self, uri: str
    ) -> None:
        state = claim(Catalog(uri), fresh(), "a").state
        proposal = swap(state, "merged")
        outcome = Catalog(uri, failing(written=False)).commit([proposal])[KEY]
        assert isinstance(outcome, Unknown)
        assert isinstance(Catalog(uri).commit([proposal])[KEY], Committed)


@contextmanager
def a_full_disk() -> Iterator[None]:
    """No file may grow beyond a few bytes, as on a disk without space."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def an_ordinary_user() -> Iterator[None]:
    """Permissions bind everybody but root."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


class TestReading:
    def test_a_row_is_found_under_whatever_name_its_topic_has_now(self, uri: str) -> None:
        renamed = replace(KEY, topic="renamed")
        state = claim(Catalog(uri), fresh(), "a").state
        assert Catalog(uri).read([renamed]) == {KEY: state}

    def test_only_the_partitions_named_are_told(self, uri: str) -> None:
        # Two topics in one predicate: it must not be read as their partitions' product.
        mine, sibling = keys(2)
        other = replace(sibling, topic="other", topic_id="O" * 21 + "A")
        others_sibling = replace(other, partition=0)
        Catalog(uri).claim([fresh(k) for k in (mine, sibling, other, others_sibling)], "a", at_ms=1)
        assert set(Catalog(uri).read([mine, other])) == {mine, other}

    def test_the_predicate_does_not_nest_deeper_with_each_topic(self, uri: str) -> None:
        # delta-rs takes time beyond all measure over thousands of alternatives: a flat list, once.
        asked: list[str | None] = []

        class Asked(DeltaFolder):
            def read(self, predicate: str | None = None) -> pa.Table:
                asked.append(predicate)
                return super().read(predicate)

        topics = [
            replace(each, topic_id=f"{number:021d}A") for number in (2, 1) for each in keys(2)
        ]
        assert Catalog(uri, Asked).read(topics) == {}
        assert asked == [f"topic_id IN ('{1:021d}A', '{2:021d}A')"]


class TestTrouble:
    def test_reading_makes_nothing(self, uri: str) -> None:
        Catalog(uri).read()
        assert not Path(uri).exists()

    def test_a_full_disk_leaves_the_row_as_it_was(self, uri: str) -> None:
        state = claim(Catalog(uri), fresh(), "a").state
        with a_full_disk():
            outcome = Catalog(uri).commit([swap(state, "merged")])[KEY]
        assert isinstance(outcome, Unknown)
        assert "permissions, and the free space" in outcome.cause
        assert Catalog(uri).read() == {KEY: state}

    def test_a_forbidden_folder_is_told_plainly(self, uri: str) -> None:
        claim(Catalog(uri), fresh(), "a")
        Path(uri).chmod(0)
        try:
            with an_ordinary_user(), pytest.raises(UnreadableObject, match="ermission"):
                Catalog(uri).read()
        finally:
            Path(uri).chmod(0o755)

    @pytest.mark.parametrize("damage", ["torn", "garbage", "gap", "no log"])
    def test_a_damaged_log_is_told_plainly(self, uri: str, damage: str) -> None:
        for name in ("first", "second"):
            committed(Catalog(uri), KEY, name, name)
        log = sorted(Path(uri, "partitions", "_delta_log").glob("*.json"))
        match damage:
            case "torn":
                log[-1].write_bytes(log[-1].read_bytes()[:-40])
            case "garbage":
                log[-1].write_text("not json\n")
            case "gap":
                log[1].unlink()
            case "no log":
                for each in log[:-1]:
                    each.unlink()
        with pytest.raises(CorruptLog, match="Restore the folder") as told:
            Catalog(uri).read()
        assert "\n" not in str(told.value)
        assert told.value.where == f"{uri}/partitions"

    def test_missing_data_is_told_plainly(self, uri: str) -> None:
        claim(Catalog(uri), fresh(), "a")
        for file in Path(uri).rglob("*.parquet"):
            file.unlink()
        with pytest.raises(UnreadableObject, match="not found"):
            Catalog(uri).read()

    def test_a_newer_tierfold_made_it(self, uri: str) -> None:
        state: PartitionState = claim(Catalog(uri), fresh(), "a").state
        rows = table_of([replace(state, key=replace(KEY, partition=9))])
        at = rows.schema.get_field_index("format_version")
        version = pa.array([FORMAT_VERSION + 1], pa.int32())
        newer = rows.set_column(at, rows.schema.field(at), version)
        write_deltalake(f"{uri}/partitions", newer, mode="append")
        with pytest.raises(BadSettings, match="made by a newer tierfold"):
            Catalog(uri).read()

    def test_a_table_of_version_1_gets_the_column_that_it_lacks(self, uri: str) -> None:
        older = table_of([replace(fresh(), epoch=1, commit_id="old")])
        at = older.schema.get_field_index("format_version")
        older = older.set_column(at, older.schema.field(at), pa.array([1], pa.int32()))
        write_deltalake(
            f"{uri}/partitions",
            older.drop_columns(["strategies"]),
            partition_by=list(PARTITION_COLUMNS),
        )
        assert Catalog(uri).read()[KEY].strategies == ()
        claimed = claim(Catalog(uri), Catalog(uri).read()[KEY], "a")
        assert isinstance(claimed.outcome, Committed)
        assert Catalog(uri).read()[KEY] == claimed.state
        (row,) = pa.table(DeltaTable(f"{uri}/partitions").scan()).to_pylist()
        assert (row["strategies"], row["format_version"]) == ([], FORMAT_VERSION)

    def test_states_survive_checkpoints(self, uri: str) -> None:
        for count in range(CHECKPOINT_INTERVAL // 2 + 2):
            row = committed(Catalog(uri), KEY, f"run-{count}", f"merged-{count}")
        assert list(Path(uri, "partitions", "_delta_log").glob("*.checkpoint.parquet"))
        assert Catalog(uri).read() == {KEY: row}
        assert row.epoch == CHECKPOINT_INTERVAL // 2 + 2

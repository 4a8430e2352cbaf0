"""On a bucket, too, no commit is lost or reported wrongly: lost answers, held puts, old files."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import boto3
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.compaction.builders import KEY
from tests.storage.catalog_contract import (
    A_RUN,
    BUCKET,
    claim,
    claims,
    committed,
    fresh,
    keys,
    partitions_table,
    swap,
    topics,
)
from tests.storage.s3_proxy import RESET, Fault, Proxy
from tierfold.compaction.model.errors import BadSettings, CorruptLog
from tierfold.compaction.model.outcomes import Committed, LostRace, Unknown
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.catalog.delta_log import DeltaLog
from tierfold.storage.catalog.delta_tables import MEMORY_HOURS, DeltaFolder, TableLayout
from tierfold.storage.catalog.opened_files import table_files
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.catalog.schema import RUNS
from tierfold.storage.clock import now_ms
from tierfold.storage.tiers.store_options import StoreOptions

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Place:
    """A catalog in a bucket, and the way to it through a proxy."""

    uri: str
    proxied: StoreOptions
    proxy: Proxy

    @property
    def catalog(self) -> Catalog:
        return Catalog(self.uri)

    @property
    def through_proxy(self) -> Catalog:
        return Catalog(self.uri, self.proxied)

    @property
    def log(self) -> DeltaLog:
        return DeltaLog(table_files(f"{self.uri}/partitions", StoreOptions()))

    def lose_answer(self, name: str) -> Fault:
        """Break the connection once, after an object of this name was stored."""
        return self.proxy.add("puts", text=name, answer=RESET, is_forwarded=True)

    def names(self, folder: str = "_delta_log", suffix: str = "") -> list[str]:
        """The names of the files in a folder of the partitions table."""
        entries = self.log.files.entries(folder)
        return sorted(e.key.rpartition("/")[2] for e in entries if e.key.endswith(suffix))

    def versions(self) -> list[int]:
        return [int(name[:20]) for name in self.names(suffix=".json")]

    def checkpoints(self) -> list[int]:
        return [int(name[:20]) for name in self.names(suffix=".checkpoint.parquet")]


@pytest.fixture
def place(bucket_uri: str, proxy: tuple[Proxy, str]) -> Place:
    running, endpoint = proxy
    return Place(f"{bucket_uri}/tier/_tierfold", StoreOptions(endpoint=endpoint), running)


def an_object(place: Place, name: str) -> dict[str, Any]:
    bucket, _, prefix = place.uri.removeprefix("s3://").partition("/")
    return {"Bucket": bucket, "Key": f"{prefix}/partitions/{name}"}


class TestLostAnswers:
    """The proxy breaks the connection after the server stored the object; delta-rs puts again."""

    def test_an_own_commit_that_is_refused_the_second_time_is_recognised(
        self, place: Place
    ) -> None:
        state = claims(place.catalog, 1)[-1]
        lost = place.lose_answer(f"_delta_log/{2:020d}.json")
        proposal = swap(state, "merged")
        outcome = place.through_proxy.commit([proposal])[KEY]
        assert lost.seen
        assert outcome == Committed(epoch=1, commit_id=proposal.commit_id)
        row = place.catalog.read()[KEY]
        assert row.commit_id == proposal.commit_id
        assert [state.commit_id for state in place.catalog.history(KEY)] == [
            proposal.commit_id,
            state.commit_id,
        ]

    def test_so_is_a_claim(self, place: Place) -> None:
        state = claims(place.catalog, 1)[-1]
        lost = place.lose_answer(f"_delta_log/{2:020d}.json")
        found = claim(place.through_proxy, state, "b")
        assert lost.seen
        assert found.outcome == Committed(epoch=2, commit_id=found.row.commit_id)
        assert place.catalog.read() == {KEY: found.row}

    def test_a_first_claim_whose_table_is_made_twice(self, place: Place) -> None:
        lost = [
            place.lose_answer(f"_delta_log/{version:020d}.json")
            for version in (0, 1)
        ]
        found = claim(place.through_proxy, fresh(), "a")
        assert all(fault.seen for fault in lost)
        assert isinstance(found.outcome, Committed)
        assert place.catalog.read() == {KEY: found.row}

    def test_a_runs_record_is_there_once(self, place: Place) -> None:
        RunsTable(place.uri).append([A_RUN])
        lost = place.lose_answer(f"_delta_log/{2:020d}.json")
        RunsTable(place.uri, place.proxied).append([replace(A_RUN, chunk=1)])
        assert lost.seen
        assert RunsTable(place.uri).read() == (A_RUN, replace(A_RUN, chunk=1))

    def test_a_merge_of_the_runs_files_loses_no_row(self, place: Place) -> None:
        rows = [replace(A_RUN, chunk=chunk) for chunk in range(4)]
        for row in rows:
            RunsTable(place.uri).append([row])
        lost = place.lose_answer(f"_delta_log/{len(rows) + 1:020d}.json")
        merge_runs(place.uri, place.proxied)
        assert lost.seen
        assert RunsTable(place.uri).read() == tuple(rows)

    def test_a_checkpoint_and_a_boundary_are_there(self, place: Place) -> None:
        lost = [
            place.lose_answer(".checkpoint.parquet"),
            place.lose_answer("_last_checkpoint"),
            place.lose_answer("_tierfold_log_boundary"),
        ]
        claims(place.catalog, 3)
        log = DeltaLog(table_files(f"{place.uri}/partitions", place.proxied))
        log.checkpoint(log.sync())
        assert place.checkpoints() == [3]
        assert log.cut(older_than_ms=now_ms() + HOUR_MS) == 3
        assert all(fault.seen for fault in lost)
        assert log.boundary.read() == 3
        assert place.versions() == [3]


def merge_runs(uri: str, options: StoreOptions) -> None:
    """Merge all data files of the runs, and check that one is left."""
    table = DeltaFolder(f"{uri}/runs", TableLayout(schema=RUNS), options=options)
    table.merge_files(file_bytes=2**20, file_rows=1000, files_max=1)
    files = table_files(f"{uri}/runs", options)
    found = DeltaTable(f"{uri}/runs", storage_options=files.delta_options())
    assert len(found.file_uris()) == 1


def held_commit(
    place: Place, state: PartitionState, meanwhile: Any
) -> tuple[Any, Any]:
    """Commit, with the put of the commit file held until `meanwhile` is done."""
    version = place.log.read_tail().newest + 1
    has_come, may_go = threading.Event(), threading.Event()

    def wait() -> None:
        has_come.set()
        assert may_go.wait(timeout=100)

    place.proxy.add("puts", text=f"_delta_log/{version:020d}.json", before=wait)
    proposal = swap(state, "late")
    with ThreadPoolExecutor(1) as threads:
        late = threads.submit(place.through_proxy.commit, [proposal])
        assert has_come.wait(timeout=60)
        meanwhile()
        may_go.set()
        outcome = late.result()[state.key]
    return proposal, outcome


def cut(place: Place, key: PartitionKey) -> int:
    """Claim `key` until there is a checkpoint; then cut the log, as if a month later."""
    claims(place.catalog, 2, key)
    place.log.checkpoint(place.log.sync())
    assert place.log.cut(older_than_ms=now_ms() + HOUR_MS) > 0
    assert place.log.boundary.read() == min(place.versions())
    return place.log.boundary.read()


class TestHeldPuts:
    """A put is held on its way; others commit, and clean-up deletes the log below it."""

    def test_a_late_commit_that_was_fenced_is_not_reported_as_committed(
        self, place: Place
    ) -> None:
        mine, other = topics(2)
        state = claims(place.catalog, 1, mine)[-1]

        def meanwhile() -> None:
            claims(place.catalog, 1, mine)
            cut(place, other)

        proposal, outcome = held_commit(place, state, meanwhile)
        assert isinstance(outcome, Unknown)
        assert "is based on is gone" in outcome.cause
        assert place.catalog.resolve([proposal]) == {mine: outcome}
        assert min(place.versions()) == place.log.boundary.read()
        assert place.catalog.read([mine])[mine].epoch == 2

    def test_a_late_commit_whose_row_is_unchanged_is_written_again(
        self, place: Place
    ) -> None:
        mine, other = topics(2)
        state = claims(place.catalog, 1, mine)[-1]
        proposal, outcome = held_commit(place, state, lambda: cut(place, other))
        assert outcome == Committed(epoch=1, commit_id=proposal.commit_id)
        assert place.catalog.read([mine])[mine].commit_id == proposal.commit_id
        assert min(place.versions()) == place.log.boundary.read()

    def test_a_held_commit_loses_to_one_of_its_bucket(self, place: Place) -> None:
        state = claims(place.catalog, 1)[-1]
        rivals: list[str] = []
        _, outcome = held_commit(
            place,
            state,
            lambda: rivals.extend(place.catalog.commit([swap(state, "first")])[KEY].commit_id),
        )
        assert outcome == LostRace(found_commit_id="".join(rivals))


def test_a_store_that_ignores_conditions_gets_no_catalog(place: Place) -> None:
    place.proxy.dropped.add("if-none-match")
    with pytest.raises(BadSettings, match="ignores the condition of a put"):
        claim(place.through_proxy, fresh(), "a")
    assert not place.catalog.exists()
    assert place.names("") == []


class TestCleaningUp:
    @pytest.mark.soak
    def test_versions_of_the_last_month_stay_and_older_ones_go(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tierfold.storage.catalog.delta_tables.CHECKPOINT_INTERVAL", 4)
        claims(place.catalog, 5)
        (kept,) = place.checkpoints()
        assert place.names(suffix="_last_checkpoint")
        rows = tuple(place.catalog.history(KEY))
        assert place.catalog.clean_up() == 0
        after = now_ms() + HOUR_MS
        assert place.log.cut(older_than_ms=after, is_dry_run=True) == kept
        assert place.log.boundary.read() == min(place.versions()) == 0
        assert place.log.cut(older_than_ms=after) == kept
        assert place.log.boundary.read() == min(place.versions()) == kept
        past = tuple(place.catalog.history(KEY))
        assert past == rows[: len(past)]
        assert len(past) == place.versions()[-1] - kept + 1
        row = claims(place.catalog, 1)[-1]
        assert next(place.catalog.history(KEY)) == row

    def test_files_superseded_long_ago_are_deleted(self, place: Place) -> None:
        claims(place.catalog, 4)
        aged(place)
        files = data_files(place)
        assert place.catalog.clean_up(is_dry_run=True) == 3
        assert data_files(place) == files
        assert place.catalog.clean_up() == 3
        assert len(data_files(place)) == 1
        assert place.catalog.read()[KEY].epoch == 4
        assert place.catalog.clean_up() == 0

    def test_a_checkpoint_is_never_overwritten(self, place: Place) -> None:
        claims(place.catalog, 3)
        tail = place.log.sync()
        checkpoint = an_object(place, f"_delta_log/{3:020d}.checkpoint.parquet")
        made = []
        for _ in range(2):
            place.log.checkpoint(tail)
            found = boto3.client("s3").head_object(**checkpoint)
            made.append((found["ETag"], found["LastModified"]))
        assert made[0] == made[1]
        assert DeltaTable(
            f"{place.uri}/partitions", storage_options=place.log.files.delta_options()
        ).version() == 3

    @pytest.mark.parametrize("damage", ["empty", "gap", "no log"])
    def test_a_damaged_log_is_reported(self, place: Place, damage: str) -> None:
        committed(place.catalog, KEY, "a", "first")
        s3 = boto3.client("s3")
        log = [an_object(place, f"_delta_log/{version:020d}.json") for version in range(3)]
        match damage:
            case "empty":
                s3.put_object(**log[-1], Body=b"")
            case "gap":
                s3.delete_object(**log[1])
            case "no log":
                for commit in log:
                    s3.delete_object(**commit)
        for use in (place.catalog.read, lambda: claim(place.catalog, fresh(), "b")):
            with pytest.raises(CorruptLog) as caught:
                use()
            assert caught.value.where.startswith(f"{place.uri}/partitions/_delta_log")


def data_files(place: Place) -> list[str]:
    return [
        name
        for folder in place.log.files.store.list_folders("")
        for name in place.names(folder, ".parquet")
        if folder.startswith("bucket=")
    ]


def aged(place: Place) -> None:
    """Backdate the removal of superseded files by more than a month."""
    s3 = boto3.client("s3")
    for version in place.versions():
        commit = an_object(place, f"_delta_log/{version:020d}.json")
        text = s3.get_object(**commit)["Body"].read().decode()
        old = re.sub(
            r'"deletionTimestamp":(\d+)',
            lambda found: f'"deletionTimestamp":{int(found[1]) - (MEMORY_HOURS + 1) * HOUR_MS}',
            text,
        )
        s3.put_object(**commit, Body=old.encode())


def contended(uri: str, run: str, partitions: int, count: int) -> tuple[int, int, int]:
    """Claim `count` times what others claim, too, and commit; returns claims, commits and losses.

    All partitions are claimed at once, so each call conflicts with those of the others.
    """
    catalog, claims, commits, lost = Catalog(uri), 0, 0, 0
    while claims < count:
        rows = list(catalog.read(keys(partitions)).values())
        found = catalog.claim(rows, run, at_ms=1).values()
        won = [one.row for one in found if isinstance(one.outcome, Committed)]
        proposals = [swap(state, f"{run}-{claims}") for state in won]
        ended = catalog.commit(proposals).values()
        claims += len(won)
        committed = [outcome for outcome in ended if isinstance(outcome, Committed)]
        commits += len(committed)
        lost += len(rows) - len(committed)
    return claims, commits, lost


def contention(uri: str, pool: Executor, runs: str, count: int) -> tuple[int, int, int]:
    """Let runs claim and commit at once; check that nothing is lost or doubled."""
    every = keys(20)
    Catalog(uri).claim([fresh(key) for key in every], "first", at_ms=1)
    running = [pool.submit(contended, uri, run, len(every), count) for run in runs]
    results = [run.result() for run in running]
    claims, commits, lost = (sum(numbers) for numbers in zip(*results, strict=True))
    assert sum(row.epoch for row in Catalog(uri).read().values()) == len(every) + claims
    past = partitions_table(uri).past(BUCKET)
    states = {state for version in past for state in ids_of(version)}
    assert len(states) == len(every) + claims + commits
    return claims, commits, lost


def ids_of(rows: pa.Table) -> Iterator[tuple[int, str]]:
    """The partition and commit id of each row."""
    return zip(rows["partition"].to_pylist(), rows["commit_id"].to_pylist(), strict=True)


def test_contended_claims_and_commits_are_neither_lost_nor_doubled(place: Place) -> None:
    with ThreadPoolExecutor(2) as threads:
        claims, commits, lost = contention(place.uri, threads, "ab", 50)
    assert claims + commits > 100
    assert claims + commits + lost >= 200

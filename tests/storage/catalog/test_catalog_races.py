"""Two runs at once, or a lost answer: no commit is lost, and none is reported wrongly."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context

import pytest
from deltalake import DeltaTable

from tests.compaction.builders import KEY, segment_id
from tests.storage.call_scripts import Event, Script, at, fails
from tests.storage.catalog_contract import claim, committed, fresh, keys, swap, topics
from tests.storage.scripted_table import ScriptedTable
from tierfold.compaction.commits.row_changes import applied
from tierfold.compaction.model.outcomes import Committed, Fenced, LostRace, Unknown
from tierfold.compaction.model.segments import PartitionKey
from tierfold.storage.catalog.catalog import Catalog


def overtaken(*meanwhile: Event) -> Script:
    """The first calls see versions made stale by what happens meanwhile."""
    numbered = enumerate(meanwhile, start=1)
    return Script(*(at(f"newest {number}", event, is_done=True) for number, event in numbered))


def under(script: Script, uri: str) -> Catalog:
    return Catalog(uri, open_table=partial(ScriptedTable, script))


def claims_of(uri: str, run: str, partitions: Sequence[PartitionKey], count: int) -> int:
    """Claim the partitions in turn, each `count` times; returns the number of claims."""
    catalog, claims = Catalog(uri), 0
    for key in [key for _ in range(count) for key in partitions]:
        while True:
            state = catalog.read([key])[key]
            if isinstance(claim(catalog, state, run).outcome, Committed):
                break
        claims += 1
    return claims


class TestRaces:
    def test_contended_claims_lose_no_epoch(self, uri: str) -> None:
        claim(Catalog(uri), fresh(), "first")
        with ThreadPoolExecutor(4) as threads:
            claims = threads.map(lambda run: claims_of(uri, run, [KEY], 3), "abcd")
            assert sum(claims) == 12
        assert Catalog(uri).read()[KEY].epoch == 13

    def test_two_processes_that_write_one_bucket_lose_no_update(self, uri: str) -> None:
        # One file holds all three rows: a writer that wrote back what it had read before the
        # other's commit would undo an epoch.
        own_a, own_b, shared = keys(3)
        Catalog(uri).claim([fresh(key) for key in (own_a, own_b, shared)], "first", at_ms=1)
        with ProcessPoolExecutor(2, get_context("spawn")) as processes:
            a = processes.submit(claims_of, uri, "a", [own_a, shared], 3)
            b = processes.submit(claims_of, uri, "b", [own_b, shared], 3)
            assert (a.result(), b.result()) == (6, 6)
        epochs = {key: row.epoch for key, row in Catalog(uri).read().items()}
        assert epochs == {own_a: 4, own_b: 4, shared: 7}

    def test_commits_on_different_partitions_all_succeed(self, uri: str) -> None:
        states = Catalog(uri).claim([fresh(key) for key in keys(8)], "a", at_ms=1)

        def commit(key: PartitionKey) -> object:
            return Catalog(uri).commit([swap(states[key].row, "merged")])[key]

        with ThreadPoolExecutor(8) as threads:
            outcomes = list(threads.map(commit, keys(8)))
        assert all(isinstance(outcome, Committed) for outcome in outcomes)
        assert all(len(row.segments) == 1 for row in Catalog(uri).read().values())

    @pytest.mark.parametrize(
        ("partitions", "writes"), [(topics(2), [True]), (keys(2), [False, True])]
    )
    def test_a_commit_on_another_row_fails_no_commit_and_conflicts_only_in_its_bucket(
        self, uri: str, partitions: list[PartitionKey], writes: list[bool]
    ) -> None:
        mine, other = partitions
        Catalog(uri).claim([fresh(mine), fresh(other)], "a", at_ms=1)
        state = Catalog(uri).read()[mine]
        script = overtaken(lambda: committed(Catalog(uri), other, "b", "by-b"))
        proposal = swap(state, "mine")
        assert isinstance(under(script, uri).commit([proposal])[mine], Committed)
        assert script.results("replace") == writes
        rows = Catalog(uri).read()
        assert rows[mine] == applied(proposal, state)
        assert rows[other].epoch == 2
        assert [segment.segment_id for segment in rows[other].segments] == [segment_id("by-b")]

    def test_after_a_conflict_the_row_is_read_again(self, uri: str) -> None:
        mine, other = keys(2)
        claims = Catalog(uri).claim([fresh(mine), fresh(other)], "a", at_ms=1)
        script = overtaken(lambda: committed(Catalog(uri), other, "b", "by-b"))
        outcomes = under(script, uri).commit(
            [swap(claims[key].row, "by-a") for key in (mine, other)]
        )
        assert isinstance(outcomes[mine], Committed)
        assert outcomes[other] == Fenced(epoch=1, by_epoch=2, by_run="")
        assert script.results("replace") == [False, True]

    def test_first_claims_of_one_partition_conflict(self, uri: str) -> None:
        mine, other = topics(2)
        claim(Catalog(uri), fresh(other), "a")
        script = overtaken(lambda: claim(Catalog(uri), fresh(mine), "b"))
        outcome = claim(under(script, uri), fresh(mine), "c").outcome
        assert outcome == LostRace(found_commit_id=Catalog(uri).read()[mine].commit_id)
        assert script.results("replace") == [False]

    def test_first_claims_in_an_empty_bucket_are_both_kept(self, uri: str) -> None:
        mine, other = keys(2)
        script = overtaken(lambda: claim(Catalog(uri), fresh(other), "b"))
        assert isinstance(claim(under(script, uri), fresh(mine), "c").outcome, Committed)
        assert script.results("replace") == [False, True]
        owners = {key: row.owner_run for key, row in Catalog(uri).read().items()}
        assert owners == {mine: "c", other: "b"}

    def test_first_claims_at_the_same_time_make_one_table(self, uri: str) -> None:
        def first_claim(key: PartitionKey) -> object:
            return claim(Catalog(uri), fresh(key), "a").outcome

        with ThreadPoolExecutor(4) as threads:
            outcomes = list(threads.map(first_claim, keys(4)))
        assert all(isinstance(outcome, Committed) for outcome in outcomes)
        assert set(Catalog(uri).read()) == set(keys(4))

    def test_a_run_gives_up_after_too_many_conflicts(
        self, uri: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tierfold.storage.catalog.catalog.ATTEMPTS", 3)
        mine, other = keys(2)
        Catalog(uri).claim([fresh(mine), fresh(other)], "a", at_ms=1)
        rows = Catalog(uri).read()
        names = iter("123")
        script = overtaken(*[lambda: committed(Catalog(uri), other, "b", next(names))] * 3)
        outcomes = under(script, uri).commit([swap(rows[mine], "mine")])
        assert outcomes == {mine: LostRace(found_commit_id=rows[mine].commit_id)}
        assert script.results("replace") == [False] * 3
        assert Catalog(uri).read()[mine] == rows[mine]


class TestRowsThatChangedOnTheWay:
    """A write based on rows that have changed since is refused."""

    def test_a_commit_in_between_takes_the_row_from_a_claim_on_its_way(self, uri: str) -> None:
        state = claim(Catalog(uri), fresh(), "a").row
        proposal = swap(state, "first")
        script = overtaken(lambda: Catalog(uri).commit([proposal]))
        outcome = claim(under(script, uri), state, "b").outcome
        assert outcome == LostRace(found_commit_id=proposal.commit_id)
        assert script.results("replace") == [False]
        assert Catalog(uri).read()[KEY].epoch == 1

    def test_a_row_that_is_gone_is_a_lost_race(self, uri: str) -> None:
        state = claim(Catalog(uri), fresh(), "a").row
        DeltaTable(f"{uri}/partitions").delete()
        assert Catalog(uri).commit([swap(state, "x")]) == {KEY: LostRace(found_commit_id="")}
        assert claim(Catalog(uri), state, "b").outcome == LostRace(found_commit_id="")

    def test_a_row_under_another_name_of_the_topic_is_not_replaced(self, uri: str) -> None:
        row = claim(Catalog(uri), fresh(), "a").row
        outcome = claim(Catalog(uri), fresh(replace(KEY, topic="renamed")), "b").outcome
        assert outcome == LostRace(found_commit_id=row.commit_id)
        assert Catalog(uri).read() == {KEY: row}


class TestLostAnswers:
    def test_a_commit_that_was_written_is_found_by_reading_back(self, uri: str) -> None:
        state = claim(Catalog(uri), fresh(), "a").row
        proposal = swap(state, "merged")
        script = Script(fails("replace", is_done=True))
        outcome = under(script, uri).commit([proposal])[KEY]
        assert outcome == Committed(epoch=1, commit_id=proposal.commit_id)
        assert len(script.of("read")) == 1

    @pytest.mark.parametrize("written", [True, False])
    def test_a_commit_that_cannot_be_read_back_is_unknown_until_resolved(
        self, uri: str, written: bool
    ) -> None:
        state = claim(Catalog(uri), fresh(), "a").row
        proposal = swap(state, "merged")
        script = Script(fails("replace", is_done=written), fails("read"))
        lost = under(script, uri).commit([proposal])
        cause = "the store: no answer. Look again."
        assert lost == {KEY: Unknown(commit_id=proposal.commit_id, cause=cause)}
        found = Committed(epoch=1, commit_id=proposal.commit_id) if written else None
        assert Catalog(uri).resolve([proposal]) == {KEY: found}

    def test_a_commit_without_a_trace_stays_unknown(self, uri: str) -> None:
        state = claim(Catalog(uri), fresh(), "a").row
        proposal = swap(state, "merged")
        outcome = under(Script(fails("replace")), uri).commit([proposal])[KEY]
        assert isinstance(outcome, Unknown)
        assert outcome.is_untraced
        assert isinstance(Catalog(uri).commit([proposal])[KEY], Committed)

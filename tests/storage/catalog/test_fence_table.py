"""The table of SEMANTICS 8, in every order of arrival, on the real catalog.

A publishes Seg-0 {1:100} and goes on; B takes over and publishes Seg-2 {…, 2:155}; A's Seg-1
{1:123} arrives at any time. (KIP-1272 counts epochs from 0, the catalog's first claim opens 1.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations, pairwise
from typing import Final

import pytest

from tests.compaction.builders import KEY, a_chain, a_segment, a_state, segment_id
from tests.spread import most_in_soak
from tests.storage.call_scripts import Event, Script, at
from tests.storage.catalog_contract import claim, fresh
from tests.storage.scripted_table import ScriptedTable
from tierfold.compaction.commits.commit import (
    AddSegments,
    AdvanceCleanerOffset,
    CommitProposal,
    ReleaseClaim,
    RetireSegments,
    SegmentsAreLive,
    Update,
    proposed,
)
from tierfold.compaction.commits.held_partition import HeldPartition
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.outcomes import Committed, Fenced, LostRace, Outcome
from tierfold.compaction.model.segments import CleanerOffset, PartitionState
from tierfold.storage.catalog.catalog import Catalog, new_commit_id

OF_A: Final = ("A reads", "A writes", "A asks")
"""A's commit of Seg-1: A judges the row, its write reaches the store, A asks for the outcome."""
OF_B: Final = ("B reads", "B claims", "B publishes")
ENDS: Final = (50, 100, 123, 155, 200)
"""Beyond the last offset of each segment that a broker uploaded."""


def orders() -> Iterator[tuple[str, ...]]:
    """Every merge of the two actors' steps that keeps each actor's own order."""
    count = len(OF_A) + len(OF_B)
    for places in combinations(range(count), len(OF_A)):
        of_a, of_b = iter(OF_A), iter(OF_B)
        yield tuple(next(of_a) if at in places else next(of_b) for at in range(count))


def late(uri: str, meanwhile: Event) -> Catalog:
    """A catalog whose first write reaches the store only after something else has happened."""
    return Catalog(uri, open_table=partial(ScriptedTable, Script(at("replace 1", meanwhile))))


def publishing(state: PartitionState, name: str, offset: int, *more: Update) -> CommitProposal:
    """Merge the live segments below `offset` into one and advance the cleaner offset to it."""
    ids = tuple(segment.segment_id for segment in state.segments if segment.start_offset < offset)
    origin = Compacted(state.owner_run)
    merged = a_segment(0, offset - 1, segment_id=segment_id(name), origin=origin)
    return proposed(
        state,
        RetireSegments(ids=ids, at_ms=2, run=state.owner_run),
        AddSegments(segments=(merged,)),
        AdvanceCleanerOffset(epoch=state.epoch, offset=offset),
        *more,
        commit_id=new_commit_id(),
        at_ms=2,
        requires=(SegmentsAreLive(ids=ids),),
    )


def releasing(state: PartitionState) -> CommitProposal:
    """Release the claim, and nothing else."""
    release = ReleaseClaim(run=state.owner_run)
    return proposed(state, release, commit_id=new_commit_id(), at_ms=3)


def row_of(uri: str) -> PartitionState:
    return Catalog(uri).read()[KEY]


def uploaded() -> PartitionState:
    return a_state(a_chain(*[end - start for start, end in pairwise((0, *ENDS))]))


def vector(*entries: tuple[int, int]) -> tuple[CleanerOffset, ...]:
    return tuple(CleanerOffset(epoch=epoch, offset=offset) for epoch, offset in entries)


def take_over(uri: str, run: str) -> None:
    assert isinstance(claim(Catalog(uri), row_of(uri), run).outcome, Committed)


@dataclass(slots=True)
class Table:
    """The two runs on one catalog; A has published Seg-0 and is about to commit Seg-1."""

    uri: str
    seg_1: CommitProposal
    seen_by_b: PartitionState | None = None
    claims_of_b: list[HeldPartition] = field(default_factory=list)
    seg_2: list[Outcome] = field(default_factory=list)
    answers_to_a: list[Outcome | None] = field(default_factory=list)
    live_sets: list[tuple[str, ...]] = field(default_factory=list)

    def play(self, order: Sequence[str]) -> None:
        """Run the steps; those between A's judging and its write happen within its commit."""
        begins, lands = order.index("A reads"), order.index("A writes")
        for step in order[:begins]:
            self.take(step)
        meanwhile = list(order[begins + 1 : lands])

        def others() -> None:
            while meanwhile:
                self.take(meanwhile.pop(0))

        outcomes = late(self.uri, others).commit([self.seg_1])
        self.answers_to_a.append(outcomes[KEY])
        self.look()
        others()  # Where A saw from the row that it is fenced, it wrote nothing.
        for step in order[lands + 1 :]:
            self.take(step)

    def take(self, step: str) -> None:
        catalog = Catalog(self.uri)
        match step:
            case "A asks":
                self.answers_to_a.append(catalog.resolve([self.seg_1])[KEY])
            case "B reads":
                self.seen_by_b = row_of(self.uri)
            case "B claims":
                assert self.seen_by_b is not None
                self.claims_of_b.append(claim(catalog, self.seen_by_b, "b"))
                if isinstance(self.claims_of_b[-1].outcome, LostRace):  # Retry, as a run does.
                    self.claims_of_b.append(claim(catalog, row_of(self.uri), "b"))
            case "B publishes":
                state = self.claims_of_b[-1].row
                proposal = publishing(state, "seg-2", 155, ReleaseClaim(run="b"))
                self.seg_2.append(catalog.commit([proposal])[KEY])
        self.look()

    def look(self) -> None:
        """Record what a reader sees now."""
        row = row_of(self.uri)
        assert row.segments[0].start_offset == 0
        assert row.next_offset == ENDS[-1]
        for left, right in pairwise(row.segments):
            assert left.next_offset == right.start_offset
        self.live_sets.append(tuple(segment.segment_id.rstrip("_A") for segment in row.segments))


@pytest.fixture
def table(uri: str) -> Table:
    claimed = claim(Catalog(uri), uploaded(), "a").row
    seg_0 = publishing(claimed, "seg-0", 100)
    assert isinstance(Catalog(uri).commit([seg_0])[KEY], Committed)
    return Table(uri=uri, seg_1=publishing(row_of(uri), "seg-1", 123))


SEG_0, SEG_1, SEG_2 = (
    ("seg-0", "100", "123", "155"),
    ("seg-1", "123", "155"),
    ("seg-2", "155"),
)


@pytest.mark.parametrize("order", most_in_soak([*orders()], 10), ids=", ".join)
def test_in_any_order_readers_end_with_seg_2(table: Table, order: tuple[str, ...]) -> None:
    table.play(order)
    is_in_time = order.index("A writes") < order.index("B claims")
    row = row_of(table.uri)
    for answer in table.answers_to_a:
        if is_in_time:
            assert answer == Committed(epoch=1, commit_id=table.seg_1.commit_id)
        else:
            assert isinstance(answer, Fenced)
            assert (answer.epoch, answer.by_epoch) == (1, 2)
            assert answer.by_run in {"b", ""}
    # If A's write came between, B's first view is stale and B reads again.
    is_stale = is_in_time and order.index("B reads") < order.index("A writes")
    assert [type(attempt.outcome) for attempt in table.claims_of_b] == (
        [LostRace, Committed] if is_stale else [Committed]
    )
    assert [type(outcome) for outcome in table.seg_2] == [Committed]
    assert set(table.live_sets) <= ({SEG_0, SEG_1, SEG_2} if is_in_time else {SEG_0, SEG_2})
    assert table.live_sets[-1] == SEG_2
    assert (row.epoch, row.owner_run) == (2, "")

    # Every entry carries the vector that its commit left, and a refused one has none.
    of_a = (1, 123) if is_in_time else (1, 100)
    assert row.cleaner_offsets == vector(of_a, (2, 155))
    vectors = {
        segment.segment_id.rstrip("_A"): segment.cleaner_offsets for segment in row.named_segments
    }
    expected = {
        **dict.fromkeys(("0", "50", "100", "123", "155"), ()),
        "seg-0": vector((1, 100)),
        "seg-2": vector(of_a, (2, 155)),
    }
    assert vectors == expected | ({"seg-1": vector((1, 123))} if is_in_time else {})


def test_every_order_is_played() -> None:
    assert len(set(orders())) == 20
    for order in orders():
        assert tuple(step for step in order if step in OF_A) == OF_A
        assert tuple(step for step in order if step in OF_B) == OF_B


class TestAZombie:
    """All its claims and commits are refused with the newest epoch."""

    @pytest.mark.parametrize("rivals", [("b",), ("b", "c"), ("b", "c", "d")])
    @pytest.mark.parametrize("sent", ["seg-1", "release"])
    def test_it_is_fenced_by_the_newest_epoch(
        self, table: Table, rivals: tuple[str, ...], sent: str
    ) -> None:
        state = row_of(table.uri)
        for rival in rivals:
            take_over(table.uri, rival)
        before = row_of(table.uri)
        proposal = table.seg_1 if sent == "seg-1" else releasing(state)
        fenced = Fenced(epoch=1, by_epoch=1 + len(rivals), by_run=rivals[-1])
        assert Catalog(table.uri).commit([proposal]) == {KEY: fenced}
        assert Catalog(table.uri).resolve([proposal]) == {KEY: fenced}
        assert row_of(table.uri) == before

    @pytest.mark.parametrize("sent", ["seg-1", "release"])
    def test_a_commit_it_sent_before_it_was_fenced_fails(self, table: Table, sent: str) -> None:
        state = row_of(table.uri)
        proposal = table.seg_1 if sent == "seg-1" else releasing(state)
        catalog = late(table.uri, lambda: take_over(table.uri, "b"))
        outcome = catalog.commit([proposal])[KEY]
        assert outcome == Fenced(epoch=1, by_epoch=2, by_run="b")
        assert row_of(table.uri).owner_run == "b"
        assert row_of(table.uri).segments == state.segments


class TestADeadOwner:
    """The claim of a dead run blocks no other: the next run takes over at once."""

    @pytest.mark.parametrize("done", [0, 1, 2])
    def test_its_claim_is_taken_over_without_waiting(self, uri: str, done: int) -> None:
        claim(Catalog(uri), uploaded(), "dead")
        for name, offset in (("seg-0", 100), ("seg-1", 123))[:done]:
            Catalog(uri).commit([publishing(row_of(uri), name, offset)])
        left = row_of(uri)
        assert left.owner_run == "dead"
        taken = claim(Catalog(uri), left, "b")
        assert taken.outcome == Committed(epoch=2, commit_id=taken.row.commit_id)
        assert (taken.row.owner_run, taken.row.segments) == ("b", left.segments)
        outcome = Catalog(uri).commit([publishing(taken.row, "seg-2", 155)])[KEY]
        assert isinstance(outcome, Committed)
        expected = {0: (), 1: ((1, 100),), 2: ((1, 123),)}[done]
        assert row_of(uri).cleaner_offsets == vector(*expected, (2, 155))

    def test_one_of_two_successors_gets_the_claim(self, uri: str) -> None:
        left = claim(Catalog(uri), fresh(), "dead").row
        first, second = (claim(Catalog(uri), left, run) for run in ("b", "c"))
        assert isinstance(first.outcome, Committed)
        assert second.outcome == LostRace(found_commit_id=first.row.commit_id)
        outcome = Catalog(uri).commit([releasing(second.row)])[KEY]
        assert outcome == LostRace(found_commit_id=first.row.commit_id)
        assert row_of(uri) == first.row

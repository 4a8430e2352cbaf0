"""The contract of every catalog (SEMANTICS 8), and builders for its tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.compaction.builders import KEY, LINEAGE, a_chain, a_segment, a_state, segment_id
from tierfold.compaction.commits.commit import (
    AddSegments,
    AdvanceCleanerOffset,
    CommitProposal,
    ReleaseClaim,
    RetireSegments,
    SegmentsAreLive,
    proposed,
)
from tierfold.compaction.commits.held_partition import HeldPartition
from tierfold.compaction.commits.row_changes import applied
from tierfold.compaction.model.errors import InvariantBroken
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.outcomes import Committed, Fenced, LostRace
from tierfold.compaction.model.segments import CleanerOffset, PartitionKey, PartitionState
from tierfold.storage.catalog.catalog import Catalog, new_commit_id
from tierfold.storage.catalog.delta_tables import DeltaFolder, TableLayout
from tierfold.storage.catalog.schema import PARTITION_COLUMNS, PARTITIONS, RunRow, bucket_of

OTHER_KEY: Final = PartitionKey(topic="-.-", partition=0, topic_id="--________dashed____-A")
BUCKET: Final = f"bucket IN ({bucket_of(KEY.topic_id)})"
"""The rows beside that of `KEY`."""
A_RUN: Final = RunRow(
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
    next_offset=30,
    started_at_ms=1,
    finished_at_ms=2,
    bytes_in=3000,
    bytes_out=1000,
    segments_in=3,
    segments_out=1,
    counts={"records_kept": 7, "records_superseded": 2**40},
    now_ms=1,
    tierfold_version="0.1.0",
    verified={"by_checksum": 1, "by_reading_back": 4},
    requests={"gets": 12, "puts": 6},
    cost_usd=0.000035,
    bytes_read=6000,
    bytes_written=1200,
    dirty_ratio=0.75,
    delay_ms=2**40,
    stage_seconds={"scan": 1.5, "rewrite": 0.25},
    task_ms=1700,
)


def fresh(key: PartitionKey = KEY, segments: int = 3) -> PartitionState:
    """A partition never claimed, with segments of ten offsets each."""
    return a_state(a_chain(*[10] * segments), key=key)


def keys(count: int) -> list[PartitionKey]:
    """Partitions of one topic, which share a bucket."""
    return [replace(KEY, partition=partition) for partition in range(count)]


def topics(count: int) -> list[PartitionKey]:
    """Partitions 0 of topics in `count` different buckets."""
    ids = (f"{number:021d}A" for number in range(1000))
    by_bucket = {bucket_of(topic_id): topic_id for topic_id in ids}
    return [
        PartitionKey(topic=f"t{bucket}", partition=0, topic_id=by_bucket[bucket])
        for bucket in range(count)
    ]


def claim(catalog: Catalog, state: PartitionState, run: str) -> HeldPartition:
    """Claim one partition at time 1."""
    return catalog.claim([state], run, at_ms=1)[state.key]


def claims(catalog: Catalog, count: int, key: PartitionKey = KEY) -> list[PartitionState]:
    """The rows of `count` claims of a partition, each of which supersedes the one before."""
    rows: list[PartitionState] = []
    for number in range(count):
        found = claim(catalog, catalog.read([key]).get(key) or fresh(key), f"run-{number}")
        assert isinstance(found.outcome, Committed)
        rows.append(found.row)
    return rows


def swap(state: PartitionState, name: str, **fields: Any) -> CommitProposal:
    """A proposal that makes one segment, called `name`, of all live ones."""
    ids = tuple(segment.segment_id for segment in state.segments)
    end_offset = state.next_offset - 1
    origin = Compacted(state.owner_run)
    merged = a_segment(0, end_offset, segment_id=segment_id(name), origin=origin)
    proposal = proposed(
        state,
        RetireSegments(ids=ids, at_ms=2, run=state.owner_run),
        AddSegments(segments=(merged,)),
        AdvanceCleanerOffset(epoch=state.epoch, offset=state.next_offset),
        ReleaseClaim(run=state.owner_run),
        commit_id=new_commit_id(),
        at_ms=2,
        requires=(SegmentsAreLive(ids=ids),),
    )
    return replace(proposal, **fields)


def committed(catalog: Catalog, key: PartitionKey, run: str, name: str) -> PartitionState:
    """The row after `run` claims the partition and merges it into segment `name`."""
    claimed = claim(catalog, catalog.read([key]).get(key, fresh(key)), run).row
    proposal = swap(claimed, name)
    assert catalog.commit([proposal]) == {
        key: Committed(epoch=claimed.epoch, commit_id=proposal.commit_id)
    }
    return catalog.read([key])[key]


def partitions_table(uri: object) -> DeltaFolder:
    """The table of a catalog's rows, which it neither reads nor checks."""
    layout = TableLayout(schema=PARTITIONS, partition_by=PARTITION_COLUMNS)
    return DeltaFolder(f"{uri}/partitions", layout)


class CatalogContract:
    """A subclass gives the fixture `catalog`: an empty one."""

    def test_a_catalog_never_written_has_no_rows(self, catalog: Catalog) -> None:
        assert catalog.read() == {}
        assert catalog.read([KEY]) == {}

    def test_a_claim_of_new_partitions_is_one_commit(self, catalog: Catalog) -> None:
        states = [fresh(KEY), fresh(OTHER_KEY)]
        claims = catalog.claim(states, "a", at_ms=5)
        ids = {claim.row.commit_id for claim in claims.values()}
        assert len(ids) == 1
        assert {key: claim.row for key, claim in claims.items()} == {
            state.key: replace(state, epoch=1, owner_run="a", commit_id=min(ids), committed_at_ms=5)
            for state in states
        }
        assert all(
            claim.outcome == Committed(epoch=1, commit_id=min(ids)) for claim in claims.values()
        )
        assert catalog.read() == {key: claim.row for key, claim in claims.items()}

    def test_reading_by_key_leaves_the_others_out(self, catalog: Catalog) -> None:
        catalog.claim([fresh(KEY), fresh(OTHER_KEY)], "a", at_ms=5)
        assert set(catalog.read([OTHER_KEY])) == {OTHER_KEY}
        assert catalog.read([]) == {}

    def test_a_commit_leaves_what_it_proposes(self, catalog: Catalog) -> None:
        state = claim(catalog, fresh(), "a").row
        proposal = swap(state, "merged")
        assert catalog.commit([proposal]) == {KEY: Committed(epoch=1, commit_id=proposal.commit_id)}
        assert catalog.read() == {KEY: applied(proposal, state)}

    def test_a_claim_adopts_new_segments(self, catalog: Catalog) -> None:
        row = committed(catalog, KEY, "a", "merged")
        grown = replace(row, segments=(*row.segments, a_segment(30, 39)))
        assert claim(catalog, grown, "b").outcome == Committed(
            epoch=2, commit_id=catalog.read()[KEY].commit_id
        )
        assert catalog.read()[KEY].segments == grown.segments

    def test_of_two_claims_of_one_row_one_is_committed(self, catalog: Catalog) -> None:
        row = committed(catalog, KEY, "a", "merged")
        for seen, epoch in ((row, 2), (fresh(OTHER_KEY), 1)):
            first = claim(catalog, seen, "b")
            second = claim(catalog, seen, "c")
            assert isinstance(first.outcome, Committed)
            assert second.outcome == LostRace(found_commit_id=first.row.commit_id)
            assert catalog.read()[seen.key].owner_run == "b"
            assert catalog.read()[seen.key].epoch == epoch

    def test_a_claim_from_an_older_epoch_is_fenced(self, catalog: Catalog) -> None:
        old = committed(catalog, KEY, "a", "first")
        committed(catalog, KEY, "b", "second")
        now = claim(catalog, catalog.read()[KEY], "c").row
        assert claim(catalog, old, "z").outcome == Fenced(epoch=2, by_epoch=3, by_run="c")
        assert catalog.read()[KEY] == now

    def test_one_partitions_lost_race_does_not_stop_the_others(self, catalog: Catalog) -> None:
        catalog.claim([fresh(KEY), fresh(OTHER_KEY)], "a", at_ms=1)
        seen = catalog.read()
        moved = claim(catalog, seen[KEY], "b").row
        outcomes = catalog.claim(list(seen.values()), "c", at_ms=1)
        assert outcomes[KEY].outcome == LostRace(found_commit_id=moved.commit_id)
        assert isinstance(outcomes[OTHER_KEY].outcome, Committed)
        assert {key: row.owner_run for key, row in catalog.read().items()} == {
            KEY: "b",
            OTHER_KEY: "c",
        }

    def test_a_zombie_is_fenced(self, catalog: Catalog) -> None:
        """SEMANTICS 8: A publishes Seg-0 and stalls, B publishes Seg-2, A wakes with Seg-1."""
        published, zombie = self._a_stalls(catalog)
        by_b = committed(catalog, KEY, "b", "seg-2")
        assert catalog.commit([zombie]) == {KEY: Fenced(epoch=1, by_epoch=2, by_run="")}
        assert catalog.read() == {KEY: by_b}
        assert [segment.segment_id for segment in by_b.segments] == [segment_id("seg-2")]
        assert by_b.cleaner_offsets == (
            *published.cleaner_offsets,
            CleanerOffset(epoch=2, offset=30),
        )

    def test_a_zombie_that_arrives_between_claim_and_commit_is_fenced(
        self, catalog: Catalog
    ) -> None:
        """SEMANTICS 8: Seg-1 arrives first, but B had already claimed."""
        published, zombie = self._a_stalls(catalog)
        claimed = claim(catalog, catalog.read()[KEY], "b").row
        assert catalog.commit([zombie]) == {KEY: Fenced(epoch=1, by_epoch=2, by_run="b")}
        assert catalog.read() == {KEY: claimed}
        assert claimed.segments == published.segments
        proposal = swap(claimed, "seg-2")
        assert isinstance(catalog.commit([proposal])[KEY], Committed)
        assert catalog.read() == {KEY: applied(proposal, claimed)}

    @staticmethod
    def _a_stalls(catalog: Catalog) -> tuple[PartitionState, CommitProposal]:
        """A has published Seg-0 under epoch 1, goes on, and stalls before it publishes Seg-1."""
        claimed = claim(catalog, fresh(), "a").row
        proposal = swap(claimed, "seg-0")
        still_ours = tuple(
            update for update in proposal.updates if not isinstance(update, ReleaseClaim)
        )
        catalog.commit([replace(proposal, updates=still_ours)])
        published = catalog.read()[KEY]
        assert published.cleaner_offsets == (CleanerOffset(epoch=1, offset=30),)
        return published, swap(published, "seg-1")

    def test_a_stale_commit_id_loses_the_race(self, catalog: Catalog) -> None:
        state = claim(catalog, fresh(), "a").row
        stale = swap(state, "stale")
        proposal = swap(state, "first", updates=(AdvanceCleanerOffset(epoch=1, offset=10),))
        catalog.commit([proposal])
        row = catalog.read()[KEY]
        assert catalog.commit([stale]) == {KEY: LostRace(found_commit_id=proposal.commit_id)}
        assert catalog.read() == {KEY: row}

    def test_a_partition_never_claimed_cannot_be_committed(self, catalog: Catalog) -> None:
        assert catalog.commit([swap(fresh(), "x")]) == {KEY: LostRace(found_commit_id="")}
        assert catalog.read() == {}

    def test_a_commit_tried_again_is_recognised(self, catalog: Catalog) -> None:
        state = claim(catalog, fresh(), "a").row
        proposal = swap(state, "merged")
        outcomes = catalog.commit([proposal])
        row = catalog.read()
        assert catalog.commit([proposal]) == outcomes
        assert catalog.read() == row
        claim(catalog, row[KEY], "b")
        assert catalog.commit([proposal]) == outcomes

    def test_a_commit_is_resolved_by_reading_back(self, catalog: Catalog) -> None:
        state = claim(catalog, fresh(), "a").row
        proposal = swap(state, "merged")
        never_claimed = swap(fresh(OTHER_KEY), "x")
        # Undecided: the commit may still arrive.
        assert catalog.resolve([proposal, never_claimed]) == {
            KEY: None,
            OTHER_KEY: LostRace(found_commit_id=""),
        }
        catalog.commit([proposal])
        committed = Committed(epoch=1, commit_id=proposal.commit_id)
        assert catalog.resolve([proposal]) == {KEY: committed}
        later = swap(state, "other")
        assert catalog.resolve([later]) == {KEY: LostRace(found_commit_id=proposal.commit_id)}
        claim(catalog, catalog.read()[KEY], "b")
        assert catalog.resolve([later]) == {KEY: Fenced(epoch=1, by_epoch=2, by_run="b")}
        assert catalog.resolve([proposal]) == {KEY: committed}
        assert catalog.resolve([]) == {}

    def test_a_commit_that_violates_an_invariant_is_refused(self, catalog: Catalog) -> None:
        state = claim(catalog, fresh(), "a").row
        ids = tuple(segment.segment_id for segment in state.segments)
        hole = (RetireSegments(ids=ids[1:2], at_ms=2, run="a"),)
        with pytest.raises(InvariantBroken, match="segments_are_contiguous"):
            catalog.commit([swap(state, "hole", updates=hole)])
        assert catalog.read() == {KEY: state}

    def test_a_claim_that_violates_an_invariant_is_refused(self, catalog: Catalog) -> None:
        holed = replace(fresh(), segments=(a_segment(0, 9), a_segment(20, 29)), lineage=LINEAGE)
        with pytest.raises(InvariantBroken, match="segments_are_contiguous"):
            claim(catalog, holed, "a")
        assert catalog.read() == {}

    def test_a_claim_brings_nothing_back_that_was_retired(self, catalog: Catalog) -> None:
        row = committed(catalog, KEY, "a", "A")
        back = tuple(entry.segment for entry in row.retired)
        with pytest.raises(InvariantBroken, match="retired_never_return"):
            claim(catalog, replace(row, segments=back, retired=()), "b")
        assert catalog.read([KEY])[KEY] == row

    def test_a_row_that_reading_would_refuse_is_not_written(self, catalog: Catalog) -> None:
        with pytest.raises(InvariantBroken, match="strategies is 'Offset'"):
            claim(catalog, replace(fresh(), strategies=("Offset",)), "a")
        assert catalog.read([KEY]) == {}

    def test_one_call_writes_a_partition_once(self, catalog: Catalog) -> None:
        state = claim(catalog, fresh(), "a").row
        twice: Sequence[CommitProposal] = (swap(state, "x"), swap(state, "y"))
        with pytest.raises(ValueError, match="once"):
            catalog.commit(twice)

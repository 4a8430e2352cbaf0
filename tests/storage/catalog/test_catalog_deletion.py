"""Segments are retired, deleted and restored on the real catalog (SEMANTICS 8, 9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from deltalake import DeltaTable

from tests.compaction.builders import KEY, a_chain
from tests.storage.catalog_contract import (
    BUCKET,
    claim,
    committed,
    fresh,
    keys,
    partitions_table,
)
from tierfold.compaction.commits.commit import (
    CommitProposal,
    FinishDeletion,
    ForgetPartition,
    MoveLogStart,
    ReleaseClaim,
    RestoreState,
    RetireSegments,
    SegmentsAreLive,
    SegmentsAreRetired,
    StartDeletion,
    Update,
    proposed,
)
from tierfold.compaction.model.errors import CorruptLog, InvariantBroken
from tierfold.compaction.model.outcomes import Committed, Fenced, LostRace
from tierfold.compaction.model.segments import CleanerOffset, PartitionState
from tierfold.storage.catalog.catalog import Catalog, new_commit_id
from tierfold.storage.catalog.rows import table_of

FIRST, SECOND, THIRD = a_chain(10, 10, 10)
ORIGINALS: Final = tuple(segment.segment_id for segment in (FIRST, SECOND, THIRD))


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(str(tmp_path / "catalog"))


def proposal(state: PartitionState, *updates: Update, live: Sequence[str] = ()) -> CommitProposal:
    return proposed(
        state,
        *updates,
        commit_id=new_commit_id(),
        at_ms=9,
        requires=(SegmentsAreLive(ids=tuple(live)),),
    )


def done(catalog: Catalog, state: PartitionState, *updates: Update) -> PartitionState:
    change = proposal(state, *updates)
    took_place = Committed(epoch=state.epoch, commit_id=change.commit_id)
    assert catalog.commit([change]) == {KEY: took_place}
    return catalog.read()[KEY]


def expire(state: PartitionState) -> tuple[Update, ...]:
    return (
        RetireSegments(ids=(FIRST.segment_id,), at_ms=9, run=state.owner_run),
        MoveLogStart(offset=10),
    )


def restore(*ids: str) -> RestoreState:
    return RestoreState(
        ids=ids,
        cleaner_offset=0,
        log_start_offset=0,
        strategies=(),
        spared=(),
        at_ms=9,
        run="undo",
    )


def test_an_expired_first_segment_is_retired_and_the_log_starts_after_it(catalog: Catalog) -> None:
    state = claim(catalog, fresh(), "a").row
    row = done(catalog, state, *expire(state))
    assert (row.log_start_offset, row.segments) == (10, (SECOND, THIRD))
    assert [entry.segment for entry in row.retired] == [FIRST]
    assert row.retired[0].deletion_started_at_ms is None


def test_if_all_segments_expire_the_next_one_is_adopted(catalog: Catalog) -> None:
    state = claim(catalog, fresh(), "a").row
    everything = RetireSegments(ids=ORIGINALS, at_ms=9, run="a")
    row = done(catalog, state, everything, MoveLogStart(offset=30))
    assert (row.segments, row.next_offset) == ((), 30)
    (later,) = a_chain(5, start_offset=30)
    assert claim(catalog, replace(row, segments=(later,)), "b").row.segments == (later,)


def test_a_deletion_is_recorded_before_it_is_forgotten(catalog: Catalog) -> None:
    row = committed(catalog, KEY, "a", "merged")
    state = claim(catalog, row, "b").row
    with pytest.raises(InvariantBroken, match="nothing_is_forgotten"):
        catalog.commit([proposal(state, FinishDeletion(ids=ORIGINALS[:1]))])
    started = done(catalog, state, StartDeletion(ids=ORIGINALS[:1], at_ms=7))
    assert [entry.deletion_started_at_ms for entry in started.retired] == [7, None, None]
    assert [entry.segment for entry in started.whole_retired] == [SECOND, THIRD]
    gone = done(catalog, started, FinishDeletion(ids=ORIGINALS[:1]), ReleaseClaim(run="b"))
    assert [entry.segment for entry in gone.retired] == [SECOND, THIRD]


def test_a_restore_makes_an_earlier_state_live_with_its_cleaner_offset(catalog: Catalog) -> None:
    row = committed(catalog, KEY, "a", "merged")
    assert row.cleaner_offset == 30
    state = claim(catalog, row, "undo").row
    back = done(catalog, state, restore(*ORIGINALS))
    assert back.segments == (FIRST, SECOND, THIRD)
    assert [entry.segment for entry in back.retired] == [row.segments[0]]
    assert back.cleaner_offsets[-1] == CleanerOffset(epoch=2, offset=0)
    assert back.cleaner_offset == 0


def test_a_segment_that_is_being_deleted_cannot_be_restored(catalog: Catalog) -> None:
    state = claim(catalog, committed(catalog, KEY, "a", "merged"), "b").row
    started = done(catalog, state, StartDeletion(ids=ORIGINALS[1:2], at_ms=7))
    back = proposal(started, restore(*ORIGINALS))
    refused = replace(back, requires=(*back.requires, SegmentsAreRetired(ids=ORIGINALS)))
    assert catalog.commit([refused]) == {KEY: LostRace(found_commit_id=started.commit_id)}
    # Without the requirement the invariants would still stop it.
    with pytest.raises(InvariantBroken, match="what_is_being_deleted_never_returns"):
        catalog.commit([back])
    assert catalog.read()[KEY] == started


@pytest.mark.parametrize("is_late", [False, True], ids=["b has claimed", "b has committed"])
def test_a_zombies_retire_delete_and_restore_are_fenced(catalog: Catalog, is_late: bool) -> None:
    row = committed(catalog, KEY, "a", "merged")
    zombie = claim(catalog, row, "zombie").row
    newer = claim(catalog, zombie, "b").row
    if is_late:
        newer = done(catalog, newer, StartDeletion(ids=ORIGINALS, at_ms=7), ReleaseClaim(run="b"))
    merged = row.segments[0].segment_id
    for update in (
        RetireSegments(ids=(merged,), at_ms=9, run="zombie"),
        MoveLogStart(offset=30),
        StartDeletion(ids=ORIGINALS, at_ms=9),
        FinishDeletion(ids=ORIGINALS),
        restore(*ORIGINALS),
        ReleaseClaim(run="zombie"),
    ):
        fenced = Fenced(epoch=2, by_epoch=3, by_run=newer.owner_run)
        assert catalog.commit([proposal(zombie, update)]) == {KEY: fenced}
        assert catalog.read()[KEY] == newer


def test_the_history_has_each_row_once_newest_first(catalog: Catalog) -> None:
    other = keys(2)[1]
    assert list(catalog.history(KEY)) == []
    first = claim(catalog, fresh(), "a").row
    committed(catalog, other, "x", "neighbour")
    second = done(catalog, first, ReleaseClaim(run="a"))
    third = claim(catalog, second, "b").row
    committed(catalog, other, "y", "neighbour-again")
    assert list(catalog.history(KEY)) == [third, second, first]
    assert len(list(catalog.history(other))) == 4


def test_the_history_begins_again_after_a_person_removed_the_row(
    catalog: Catalog, tmp_path: Path
) -> None:
    row = committed(catalog, KEY, "a", "merged")
    DeltaTable(str(tmp_path / "catalog" / "partitions")).delete(f"topic_id = '{KEY.topic_id}'")
    assert list(catalog.history(KEY)) == []
    again = claim(catalog, fresh(segments=2), "b").row
    assert list(catalog.history(KEY)) == [again]
    assert row.epoch == again.epoch == 1


def test_the_history_ends_where_the_log_was_cut(catalog: Catalog, tmp_path: Path) -> None:
    first = claim(catalog, fresh(), "a").row
    rows = [done(catalog, first, ReleaseClaim(run="a"))]
    for number in range(25):
        rows.append(claim(catalog, rows[-1], f"run-{number}").row)
    log = tmp_path / "catalog" / "partitions" / "_delta_log"
    for version in range(10):
        (log / f"{version:020d}.json").unlink()
    found = list(catalog.history(KEY))
    assert found == rows[::-1][: len(found)]
    assert 5 < len(found) < len(rows)


def test_the_history_ends_at_an_impossible_row(catalog: Catalog, tmp_path: Path) -> None:
    first = claim(catalog, fresh(), "a").row
    table = partitions_table(tmp_path / "catalog")
    assert table.newest().replace(BUCKET, table_of([replace(first, owner_run="../x")]))
    with pytest.raises(CorruptLog, match="owner_run"):
        list(catalog.history(KEY))
    assert table.newest().replace(BUCKET, table_of([first]))
    later = claim(catalog, first, "b").row
    assert list(catalog.history(KEY)) == [later, first]


def test_a_forgotten_row_is_empty_and_fences(catalog: Catalog) -> None:
    row = committed(catalog, KEY, "a", "merged")
    zombie = claim(catalog, row, "zombie").row
    state = claim(catalog, zombie, "b").row
    forget = ForgetPartition(consent=ORIGINALS[:1])
    with pytest.raises(InvariantBroken, match="all_is_forgotten"):
        catalog.commit([proposal(state, forget, MoveLogStart(offset=5))])
    forgetting = proposal(state, forget, ReleaseClaim(run="b"))
    success = Committed(epoch=state.epoch, commit_id=forgetting.commit_id)
    assert catalog.commit([forgetting]) == {KEY: success}
    after = catalog.read()[KEY]
    assert (after.is_forgotten, after.forgotten, after.epoch) == (True, ORIGINALS[:1], state.epoch)
    # A repeated commit is recognised, even below a later row.
    assert catalog.commit([forgetting]) == catalog.resolve([forgetting]) == {KEY: success}
    claim(catalog, after, "next")
    assert catalog.resolve([forgetting]) == {KEY: success}
    late = proposal(zombie, ReleaseClaim(run="zombie"))
    assert isinstance(catalog.commit([late])[KEY], Fenced)

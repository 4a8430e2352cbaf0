"""Obstacles to forgetting a row, what a dead run may have written, and the remedy."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tests.compaction.builders import (
    a_chain,
    a_segment,
    epochs,
    facts,
    retired,
    segment_id,
    unknown,
)
from tests.compaction.elected import new, old, row
from tests.storage.new_ids import foreign_id
from tierfold.compaction.commits.forget import NAMED, comparisons_with_live, in_the_way
from tierfold.compaction.discovery.candidates import Candidate
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.segments import PartitionState, Segment


def test_uploads_alone_are_no_obstacle() -> None:
    assert in_the_way(facts(row(old(0, 99)), [new(60, 79)])) is None
    assert in_the_way(facts(None, [new(60, 79)])) is None


def test_our_segments_retired_ones_and_orphans_are_obstacles_while_listed() -> None:
    ours = old(0, 49, segment_id=segment_id("ours"), origin=Compacted("a run"))
    before = old(0, 49, segment_id=segment_id("before"), origin=Compacted("a run"))
    state = row(ours, old(50, 99), retired=(retired(old(0, 49)), retired(before)))
    dead = unknown(replace(old(50, 99), segment_id=segment_id("dead")))
    half = unknown(a_segment(0, 9, segment_id=segment_id("half")), lacking=["log"])
    found = in_the_way(facts(state, [dead, half, new(60, 79)]))
    assert found is not None
    assert found.written == (ours.segment_id,)
    assert found.retired == (before.segment_id,)
    assert set(found.orphans) == {segment_id("dead"), segment_id("half")}
    moved = facts(state, [new(60, 79)])
    moved = replace(moved, classified=replace(moved.classified, known=(), retired=()))
    assert in_the_way(moved) is None


def test_what_another_catalog_wrote_is_an_obstacle_that_vacuum_keeps() -> None:
    theirs = unknown(replace(old(50, 99), segment_id=foreign_id()))
    found = in_the_way(facts(row(old(0, 49), old(50, 99)), [theirs, new(60, 79)]))
    assert found is not None
    assert (found.foreign, found.orphans, found.doubtful) == ((theirs.segment_id,), (), ())
    refusal = found.refusal("")
    assert f"another catalog's: {theirs.segment_id}" in refusal.detail
    assert "Move the segments of another catalog out of the tier" in refusal.remedy
    assert "vacuum" not in refusal.remedy


def test_our_retired_segments_are_obstacles_even_if_the_live_ones_are_moved_away() -> None:
    ours = old(0, 99, segment_id=segment_id("ours"), origin=Compacted("a run"))
    before = old(0, 99, segment_id=segment_id("before"), origin=Compacted("a run"))
    state = row(ours, retired=(retired(old(0, 99)), retired(before)))
    there = facts(state, [new(60, 79)])
    found = in_the_way(replace(there, classified=replace(there.classified, known=())))
    assert found is not None
    assert found.retired == (before.segment_id,)


def test_a_second_upload_by_the_new_leader_is_no_obstacle() -> None:
    again = old(40, 59, segment_id=segment_id("again"))
    strays = [unknown(again), new(60, 79)]
    assert in_the_way(facts(row(old(0, 39), old(40, 99)), strays)) is None
    # A run may have ended a group there: only the restored originals would show it.
    ours = old(40, 99, segment_id=segment_id("ours"), origin=Compacted("a run"))
    found = in_the_way(facts(row(old(0, 39), ours), strays))
    assert found is not None
    assert found.doubtful == (again.segment_id,)
    # `vacuum` deletes orphans, except one that may be the only source of the new log's offsets.
    assert found.orphans == ()
    moved = facts(row(old(0, 39), ours), strays)
    found = in_the_way(replace(moved, classified=replace(moved.classified, known=())))
    assert found is not None
    assert found.written == ()


def test_a_segment_that_starts_inside_a_live_upload_is_a_brokers() -> None:
    ours = old(0, 39, segment_id=segment_id("ours"), origin=Compacted("a run"))

    def doubtful(state: PartitionState, start: int, end: int) -> bool:
        again = old(start, end, segment_id=segment_id("again"))
        found = in_the_way(facts(state, [unknown(again), new(60, 79)]))
        assert found is not None
        assert found.orphans == ()
        return found.doubtful == (again.segment_id,)

    beside_upload = row(ours, old(40, 69), old(70, 99))
    assert not doubtful(beside_upload, 41, 59)
    # A run's segment may start there, and end early, because the run removed its last batches.
    assert doubtful(beside_upload, 40, 50)
    assert doubtful(row(old(0, 39), replace(ours, start_offset=40, end_offset=99)), 41, 59)


def test_segments_of_a_dead_run_are_compared_with_live_uploads() -> None:
    ours = old(0, 29, segment_id=segment_id("ours"), origin=Compacted("a run"))
    uploads = (old(30, 39), old(40, 49), old(50, 99))
    again = unknown(old(0, 55, segment_id=segment_id("again")))
    half = unknown(old(40, 55, segment_id=segment_id("half")), lacking=["snapshot"])
    found = facts(row(ours, *uploads), [again, half, new(60, 79)])

    def compared() -> list[tuple[Segment, str, int, int]]:
        return [
            (pair.first, pair.second.segment_id, pair.start_offset, pair.end_offset)
            for pair in comparisons_with_live(found)
        ]

    name = again.listed.segment_id
    pairs = [(uploads[0], name, 30, 39), (uploads[1], name, 40, 49), (uploads[2], name, 50, 55)]
    assert compared() == pairs
    known = [s for s in found.classified.known if s.segment_id != segment_id(40)]
    found = replace(found, classified=replace(found.classified, known=tuple(known)))
    assert compared() == [pairs[0], pairs[2]]
    found = facts(row(*uploads), [unknown(old(50, 55, segment_id=name)), new(60, 79)])
    assert compared() == [pairs[2]]
    assert list(comparisons_with_live(facts(None, [again]))) == []
    assert in_the_way(found) is None
    obstacles = in_the_way(found, [name])
    assert obstacles is not None
    assert obstacles.doubtful == (name,)


FORGET_AGAIN: Final = "Then run `tierfold forget` again."


def sentence(state: PartitionState, *strays: Candidate, uploads_at: str = "") -> str:
    found = in_the_way(facts(state, strays))
    assert found is not None
    return found.refusal(uploads_at).sentence


def test_each_kind_of_obstacle_has_its_remedy() -> None:
    ours = old(0, 99, segment_id=segment_id("ours"), origin=Compacted("a run"))
    dead = unknown(replace(old(0, 69), segment_id=segment_id("dead")))
    said = sentence(row(ours), uploads_at="2026-11-21")
    assert "`tierfold restore TIER PARTITION --to 2026-11-21`" in said
    # The segments that the restore retires must be deleted as well.
    assert said.index("restore") < said.index("tierfold vacuum") < said.index(FORGET_AGAIN)
    assert "orphans" not in said
    said = sentence(row(ours))
    assert "tierfold restore" not in said
    assert "out of the tier" in said
    assert "vacuum" not in said
    said = sentence(row(ours, retired=(retired(replace(ours, segment_id=segment_id("before"))),)))
    # If the segments were moved away first, `vacuum` would refuse the partition for missing data.
    assert said.index("First run `tierfold vacuum`") < said.index("out of the tier")
    said = sentence(row(old(0, 99), retired=(retired(ours),)))
    assert "grace period" in said
    assert "restore" not in said
    said = sentence(row(old(0, 99)), dead, new(60, 79))
    assert "deletes orphans" in said
    assert "grace period" not in said
    # No state can be restored, and `vacuum` keeps what the new log may need.
    again = unknown(old(40, 59, segment_id=segment_id("again")))
    said = sentence(row(ours), again, new(60, 79))
    assert "deletes orphans" not in said
    assert f"the new log may need them: {again.listed.segment_id}" in said
    moved = said.index("live segments out of the tier")
    assert moved < said.index(FORGET_AGAIN) < said.index("bring back those")
    assert "bring back" not in sentence(row(ours), again, new(60, 79), uploads_at="2026-11-21")


def test_only_some_of_many_segments_are_named() -> None:
    chain = [
        replace(segment, leader_epochs=epochs((3, segment.start_offset)))
        for segment in a_chain(*[10] * (NAMED + 2), origin=Compacted("a run"))
    ]
    said = sentence(row(*chain))
    assert chain[NAMED - 1].segment_id in said
    assert chain[NAMED].segment_id not in said
    assert "and 2 more" in said

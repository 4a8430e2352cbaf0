"""Drawn logs: batches and bytes (SEMANTICS 6), groups and output segments (7) are right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.pictures.cleaning import APART, RULES, cleaned, passed
from tests.pictures.log_pictures import KEY, Log, drawn, picture
from tests.pictures.scenarios import check, scenarios
from tierfold.compaction.commits.receipts import GroupResult
from tierfold.compaction.model.segments import LeaderEpoch
from tierfold.storage.segments.segment_metadata import read_checkpoint, read_snapshot
from tierfold.storage.tiers.remote_tier import Part, address_of


def log_bytes(log: Log, number: int) -> bytes:
    segment = log.segments[number]
    return log.tier.read_part(address_of(KEY, segment), Part.LOG).tobytes()


def parts(log: Log) -> int:
    """How many objects the partition has."""
    return sum(len(listed_segment.parts) for listed_segment in log.tier.listing(KEY))


@scenarios("""
A rewritten batch keeps its offsets, producer, epochs and flags.
e5 P9.2([0:a=1 1:b=1 2:c=1]) 3:P9.2:C [4:a=2 5:c=2] 6:d=1
-> e5 P9.2(0-2:[1:b=1]) 3:P9.2:C [4:a=2 5:c=2] 6:d=1

A batch that was rewritten before keeps its span.
0-9:[3:a=1 7:b=1] 10:a=2
-> 0-9:[7:b=1] 10:a=2

A batch that loses all its records and need not stay is gone.
[0:a=1 1:b=1] 2:() 3:a=2 4:b=2
-> 0.. 3:a=2 4:b=2

The offsets of an empty group go to the group before it.
0:b=1 | 1:a=1 | 2:a=2
apart -> 0:b=1 ..1 | 2:a=2

Two empty groups in a row go to the group before them.
0:b=1 | 1:a=1 | 2:=1 | 3:a=2
apart -> 0:b=1 ..2 | 3:a=2

At the head of the log they go to the group after it.
0:a=1 | 1:a=2 2:b=1
apart -> 0.. 1:a=2 2:b=1

Two at the head of the log go to the group after them.
0:a=1 | 1:=1 | 2:a=2 | 3:b=1
apart -> 0.. 2:a=2 | 3:b=1

A group may take offsets on both sides.
0:=1 | 1:a=1 | 2:=1 | 3:b=1
apart -> 0.. 1:a=1 ..2 | 3:b=1

A hole grows.
0:b=1 ..3 | 4:=1 ..6 | 7:a=1
apart -> 0:b=1 ..6 | 7:a=1

A round of which nothing survives becomes one closing batch.
0:=1 | 1:=2 | e3 2:=3 ..7 | 8:a=1 >
apart -> 0.. e3 7:() | 8:a=1 >

A log of which nothing survives becomes one closing batch.
0:=1 ..2
-> 0.. 2:()

A segment keeps its last offset when the records there go, and in a further round, too.
0:a=1 1:b=1 2:c=1 | 3:c=2 4:b=2
apart -> 0:a=1 ..2 | 3:c=2 4:b=2
apart -> unchanged
""")
def test_batches_and_groups(scenario: list[str], tmp_path: Path) -> None:
    check(scenario, tmp_path)


def test_a_batch_that_loses_nothing_is_copied_byte_for_byte(tmp_path: Path) -> None:
    log = picture("[0:a=1 1:b=1] P1.4(2:c=1) 3:P1.4:C | e2 4:d=1", tmp_path)
    after = cleaned(log)
    assert len(after.segments) == 1
    assert log_bytes(after, 0) == log_bytes(log, 0) + log_bytes(log, 1)


def test_an_unchanged_single_segment_is_left_as_it_is(tmp_path: Path) -> None:
    log = picture("0:a=1 1:b=1 | 2:c=1", tmp_path)
    before = parts(log)
    done = passed(log, rules=APART)
    assert done.log.segments == log.segments
    assert parts(done.log) == before
    assert {receipt.result for receipt in done.receipts} == {GroupResult.NOT_READ}


def test_a_changed_segment_gets_a_new_id_and_its_source_stays_until_retired(
    tmp_path: Path,
) -> None:
    log = picture("0:a=1 1:a=2", tmp_path)
    after = cleaned(log)
    assert drawn(after) == "0.. 1:a=2"
    assert after.segments[0].segment_id != log.segments[0].segment_id
    assert drawn(log) == "0:a=1 1:a=2"


def test_neighbours_are_merged_up_to_segment_bytes(tmp_path: Path) -> None:
    log = picture("0:a=1 | 1:b=1 | 2:c=1 | 3:d=1 4:e=1 | 5:f=1", tmp_path)
    size = log.segments[0].size_bytes
    room_for_two = replace(RULES, segment_bytes=2 * size)
    one_byte_less = replace(RULES, segment_bytes=2 * size - 1)
    expected = "0:a=1 1:b=1 | 2:c=1 | 3:d=1 4:e=1 | 5:f=1"
    assert drawn(cleaned(log, rules=room_for_two)) == expected
    assert cleaned(log, rules=one_byte_less).segments == log.segments


def test_merging_alone_loses_nothing(tmp_path: Path) -> None:
    done = passed(picture("0:a=1 | 1:b=1 | 2:c=1", tmp_path))
    assert drawn(done.log) == "0:a=1 1:b=1 2:c=1"
    assert done.counts.removed == 0


def test_leader_epochs_are_the_union_each_with_its_lowest_offset(tmp_path: Path) -> None:
    log = picture("0:a=1 e2 1:b=1 | 2:a=2 e5 3:b=2 | 4:c=1", tmp_path)
    (segment,) = cleaned(log).segments
    assert segment.leader_epochs == (
        LeaderEpoch(epoch=0, start_offset=0),
        LeaderEpoch(epoch=2, start_offset=1),
        LeaderEpoch(epoch=5, start_offset=3),
    )
    assert read_checkpoint(log.tier, KEY, segment) == log.lineage


def test_the_snapshot_is_the_last_sources(tmp_path: Path) -> None:
    log = picture("p1(0:a=1) | p2(1:b=1) | p1(2:a=2) 3:c=1", tmp_path)
    (segment,) = cleaned(log).segments
    found = read_snapshot(log.tier, KEY, segment)
    assert found == read_snapshot(log.tier, KEY, log.segments[-1])
    assert {entry.producer_id for entry in found} == {1, 2}


def test_the_transaction_index_is_absent_when_empty(tmp_path: Path) -> None:
    log = picture("0:a=1 1:a=2 | P1(2:b=1) 3:P1:A", tmp_path)
    after = cleaned(log, rules=APART, now_ms=RULES.producer_id_expiration_ms)
    objects = {
        listed_segment.start_offset: set(dict(listed_segment.parts))
        for listed_segment in log.tier.listing(KEY)
        if listed_segment.segment_id in {segment.segment_id for segment in after.segments}
    }
    assert Part.TRANSACTION_INDEX not in objects[0]
    assert Part.TRANSACTION_INDEX in objects[2]
    assert [segment.has_transaction_index for segment in after.segments] == [False, True]


def test_a_new_segment_knows_its_earliest_horizon(tmp_path: Path) -> None:
    log = picture("0:a= 1:b=^300 2:c=^200 3:d=1 4:d=2", tmp_path)
    (segment,) = cleaned(log, now_ms=5).segments
    assert segment.earliest_due_ms == 200
    (later,) = cleaned(replace(log, segments=(segment,)), now_ms=250).segments
    assert later.earliest_due_ms == 300

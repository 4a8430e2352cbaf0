"""The drawing language: a drawn log is built exactly, and drawing it gives the same text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pictures.log_pictures import KEY, drawn, listed, picture
from tierfold.compaction.model.segments import LeaderEpoch
from tierfold.storage.segments.segment_metadata import (
    listed_checkpoint,
    read_segment_metadata,
    read_snapshot,
)
from tierfold.storage.tiers.local_tiered_storage import REQUIRED_PARTS

DRAWINGS = [
    "0:a=1",
    "0:a= 1:=5 2:=",
    "0:''=1 1:a='' [2:''='' 3:=]",
    "7:a=1 | 8:b=2 | 9:c=3 >",
    "[0:a=1 1:b=2] 4-9:[5:c=3 6:=] 10-12:[10:a=] 13-15:[15:a=]",
    "2:() 3-6:()",
    "0:a=^1000 [1:a= 2:b=3]^-5 4:P1:C^99",
    "P1(0:a=1) p2(1:a=) P1.3([2:a=1 3:b=2]^70) P4(5:()) p4(6-7:())",
    "0:P1:C 1:P1:A 2:P1:() 3:P1.4:A 4:P1.4:() 5:L",
    "0:a=1@7 1:a=@-1#5#-2 [2:b=1#null 3:b=@3#x]^9 4:''=''@1#0",
    "A7(0:a=1) A0([1:a=#1 2:b=2]) A-1(3:())",
    "e1 0:a=1 e3 1:b=2 | 2:c=3 e4 3:d=4",
]

WITH_HOLES = ["0.. 3:a=1 ..4 | 5:b=2 ..9", "0.. 3:a=1 | 4:b=2 >"]


@pytest.mark.parametrize("text", DRAWINGS + WITH_HOLES)
def test_a_built_log_has_the_same_drawing(text: str, tmp_path: Path) -> None:
    assert drawn(picture(text, tmp_path)) == text


@pytest.mark.parametrize(
    "text",
    [
        *("0", "a=1", "()", "[]", "P1()", "1:P1:X", "[0:a=1", "0:a=1 |"),
        *("0:a=1 > 1:b=2", "0:a^1=2", "0:a=1@x"),
    ],
)
def test_a_text_that_draws_nothing_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"draw|say"):
        picture(text, tmp_path)


@pytest.mark.parametrize("text", DRAWINGS)
def test_the_objects_are_those_that_discovery_reads(text: str, tmp_path: Path) -> None:
    log = picture(text, tmp_path)
    found = log.tier.listing(KEY)
    seen = [
        read_segment_metadata(
            log.tier, KEY, listed_segment, listed_checkpoint(log.tier, KEY, listed_segment)
        ).segment
        for listed_segment in found
    ]
    assert seen == list(log.segments)
    assert all(
        set(REQUIRED_PARTS) <= {part for part, _ in listed_segment.parts}
        for listed_segment in found
    )


def test_a_segment_holds_the_epochs_of_its_offsets(tmp_path: Path) -> None:
    first, second = picture("0:a=1 e2 1:b=2 | 2:c=3", tmp_path).segments
    zero, two = LeaderEpoch(epoch=0, start_offset=0), LeaderEpoch(epoch=2, start_offset=1)
    assert first.leader_epochs == (zero, two)
    assert second.leader_epochs == (LeaderEpoch(epoch=2, start_offset=2),)


def test_abort_markers_are_listed_unless_they_are_drawn_without_an_entry(tmp_path: Path) -> None:
    log = picture("P1(0:a=1) | P2(1:a=1) 2:P1:A P1(3:a=2) | 4:P1:A? 5:P2:A 6:P3:A", tmp_path)
    assert listed(log) == " | P1:0-2 | P2:1-5"


def test_snapshots_have_the_producers_so_far(tmp_path: Path) -> None:
    log = picture("P1(0:a=1) 1:P2.5:C | 2:P1:C p3([3:a=1 4:b=2])", tmp_path)
    known = [
        {
            entry.producer_id: (
                entry.epoch,
                entry.last_data_offset,
                entry.current_txn_first_offset,
            )
            for entry in read_snapshot(log.tier, KEY, segment)
        }
        for segment in log.segments
    ]
    assert known == [
        {1: (0, 0, 0), 2: (5, -1, None)},
        {1: (0, 0, None), 2: (5, -1, None), 3: (0, 4, None)},
    ]

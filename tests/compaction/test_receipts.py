"""Receipts: each thing that a worker may not say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compaction.grouping import SegmentGroup
from compaction.receipts import GroupReceipt, GroupResult, receipt_faults
from compaction.segments import Segment
from compaction.tally import Tally
from tests.compaction.builders import a_chain, a_segment

FIRST, SECOND, THIRD, FOURTH = a_chain(10, 10, 10, 10)
PAIR = SegmentGroup(segments=(FIRST, SECOND))
SINGLE = SegmentGroup(segments=(THIRD,))
LAST = SegmentGroup(segments=(FOURTH,))
GROUPS = (PAIR, SINGLE, LAST)

WRITTEN = GroupReceipt(
    group_index=0,
    result=GroupResult.WRITTEN,
    segment=a_segment(0, 19, segment_id="N" * 22, size_bytes=700),
    tally=Tally(
        records_in=20, kept=15, superseded=5, record_bytes_in=90, kept_bytes=60, superseded_bytes=30
    ),
    bytes_read=2000,
    bytes_written=700,
)
UNCHANGED = GroupReceipt(
    group_index=1,
    result=GroupResult.UNCHANGED,
    segment=None,
    tally=Tally(records_in=4, kept=4, record_bytes_in=40, kept_bytes=40),
    bytes_read=1000,
    bytes_written=0,
)
EMPTY = GroupReceipt(
    group_index=2,
    result=GroupResult.EMPTY,
    segment=None,
    tally=Tally(records_in=3, aborted=3, record_bytes_in=30, aborted_bytes=30),
    bytes_read=1000,
    bytes_written=0,
)
SOUND = (WRITTEN, UNCHANGED, EMPTY)
RECORDS = 27


def faults(*receipts: GroupReceipt, records: int = RECORDS) -> str:
    return "; ".join(receipt_faults(GROUPS, receipts, records))


def test_sound_receipts_have_no_fault() -> None:
    assert receipt_faults(GROUPS, SOUND, RECORDS) == ()


def test_no_groups_have_no_receipts() -> None:
    assert receipt_faults((), (), 0) == ()


@pytest.mark.parametrize("count", [0, 2])
def test_every_group_has_its_receipt(count: int) -> None:
    assert faults(*SOUND[:count]) == f"3 groups were planned, {count} receipts came back"


@pytest.mark.parametrize("records", [26, 28])
def test_the_rewrite_met_the_records_that_the_scan_counted(records: int) -> None:
    assert faults(*SOUND, records=records) == f"the scan counted {records} records, the rewrite 27"


@pytest.mark.parametrize(
    "change", [{"kept": 14}, {"superseded": 6}, {"record_bytes_in": 91}, {"aborted_bytes": 1}]
)
def test_a_tally_adds_up(change: dict[str, int]) -> None:
    wrong = replace(WRITTEN, tally=replace(WRITTEN.tally, **change))
    assert faults(wrong, UNCHANGED, EMPTY).startswith(
        "group [0, 19]: the tally does not add up: Tally("
    )


def test_what_is_unchanged_lost_nothing() -> None:
    tally = Tally(records_in=4, kept=3, aborted=1, record_bytes_in=40, kept_bytes=30)
    wrong = replace(UNCHANGED, tally=replace(tally, aborted_bytes=10))
    expected = "group [20, 29]: said to be unchanged, but something was to go"
    assert faults(WRITTEN, wrong, EMPTY) == expected


def test_what_is_unchanged_is_a_single_segment() -> None:
    tally = Tally(records_in=20, kept=20, record_bytes_in=90, kept_bytes=90)
    wrong = replace(WRITTEN, result=GroupResult.UNCHANGED, segment=None, tally=tally)
    expected = "group [0, 19]: said to be unchanged, but something was to go"
    assert faults(wrong, UNCHANGED, EMPTY) == expected


def test_what_is_empty_kept_nothing() -> None:
    tally = Tally(records_in=3, kept=1, aborted=2, record_bytes_in=30, kept_bytes=10)
    wrong = replace(EMPTY, tally=replace(tally, aborted_bytes=20))
    expected = "group [30, 39]: said to be empty, but records were kept"
    assert faults(WRITTEN, UNCHANGED, wrong) == expected


def test_what_is_written_names_its_segment() -> None:
    assert faults(replace(WRITTEN, segment=None), UNCHANGED, EMPTY) == (
        "group [0, 19]: written, but no segment is named"
    )


@pytest.mark.parametrize(("start", "end"), [(1, 19), (0, 18), (0, 20)])
def test_a_new_segment_covers_its_sources_from_the_first_to_the_last_offset(
    start: int, end: int
) -> None:
    segment = a_segment(start, end, segment_id="N" * 22, size_bytes=700)
    assert faults(replace(WRITTEN, segment=segment), UNCHANGED, EMPTY) == (
        f"group [0, 19]: the new segment covers [{start}, {end}]"
    )


@pytest.mark.parametrize(("written", "named"), [(0, 0), (700, 701), (700, 0)])
def test_a_new_segment_is_as_large_as_what_was_written(written: int, named: int) -> None:
    segment = a_segment(0, 19, segment_id="N" * 22, size_bytes=named)
    wrong = replace(WRITTEN, segment=segment, bytes_written=written)
    expected = f"group [0, 19]: {written} bytes written, {named} named"
    assert faults(wrong, UNCHANGED, EMPTY) == expected


@pytest.mark.parametrize("source", [FIRST, SECOND])
def test_a_new_segment_never_bears_the_id_of_a_source(source: Segment) -> None:
    segment = a_segment(0, 19, segment_id=source.segment_id, size_bytes=700)
    assert faults(replace(WRITTEN, segment=segment), UNCHANGED, EMPTY) == (
        "group [0, 19]: the new segment bears a source's id"
    )


def test_all_faults_are_told_at_once() -> None:
    tally = replace(UNCHANGED.tally, kept=3)
    found = faults(replace(WRITTEN, segment=None), replace(UNCHANGED, tally=tally), EMPTY)
    assert found.count("group [") == 3

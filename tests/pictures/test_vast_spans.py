"""Empty groups are merged correctly if the index of a neighbour has no space for their offsets."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.pictures.cleaning import APART, RULES, cleaned, passed, vacuumed
from tests.pictures.log_pictures import drawn, picture
from tests.pictures.scenarios import check, scenarios
from tierfold.compaction.commits.receipts import STAYING
from tierfold.compaction.model.units import BATCH_HEADER_BYTES

M: Final = 2**31
"""The most offsets that a segment can have."""

FULL: Final = f"0-{M - 1}:[0:b=1]"


CASES: Final = [
    # At the head; in the middle.
    (f"0-{M - 1}:[0:a=1] | {M}:a=2", f"0-{M - 1}:() | {M}:a=2"),
    (
        f"{FULL} | {M}-{2 * M - 1}:[{M}:a=1] | {2 * M}:a=2",
        f"{FULL} | {M}-{2 * M - 1}:() | {2 * M}:a=2",
    ),
    # No batch of the source ends where the segment does.
    (f"0:a=1 ..{M - 1} | {M}:a=2", f"0.. {M - 1}:() | {M}:a=2"),
    (f"e4 0:a=1 1:a=2 ..{M - 1} | e5 {M}:a=3", f"0.. e4 {M - 1}:() | e5 {M}:a=3"),
    # One offset decides.
    (f"0-{M - 2}:[0:a=1] | {M - 1}:a=2", f"0.. {M - 1}:a=2"),
    (f"0-{M - 2}:[0:a=1] | {M - 1}:a=2 {M}:b=1", f"0-{M - 2}:() | {M - 1}:a=2 {M}:b=1"),
    # The segment before has no space, the one after has.
    (f"{FULL} | {M}:a=1 | {M + 1}:a=2", f"{FULL} | {M}.. {M + 1}:a=2"),
    # Several in a row: as many together as fit.
    (
        f"0:b=1 | 1:a=1 | 2-{M}:[2:a=2] | {M + 1}:a=3 | {M + 2}:a=4",
        f"0:b=1 ..1 | 2.. {M + 1}:() | {M + 2}:a=4",
    ),
    (
        f"0:a=1 | 1-{M - 1}:[1:a=2] | {M}:=1 | {M + 1}-{2 * M - 1}:[{M + 1}:a=3] | {2 * M}:a=4",
        f"0.. 1-{M - 1}:() | {M}.. {M + 1}-{2 * M - 1}:() | {2 * M}:a=4",
    ),
    # Nothing of a whole round survives.
    (f"0-{M - 1}:[0:=1] | {M}:=1", f"0-{M - 1}:() | {M}:()"),
    (
        f"0-{M - 1}:[0:=1] | {M}:=1 ..{M + 3} | {M + 4}:a=1 >",
        f"0-{M - 1}:() | {M}.. {M + 3}:() | {M + 4}:a=1 >",
    ),
    # Far from 0.
    (
        f"{9 * M}-{10 * M - 1}:[{9 * M}:a=1] | {10 * M}:a=2",
        f"{9 * M}-{10 * M - 1}:() | {10 * M}:a=2",
    ),
]


@pytest.mark.parametrize(("before", "after"), CASES)
def test_offsets_that_no_neighbour_can_take_become_a_segment_of_one_empty_batch(
    before: str, after: str, tmp_path: Path
) -> None:
    log = cleaned(picture(before, tmp_path), rules=APART)
    assert drawn(log) == after
    # A further round writes nothing.
    again = passed(log, rules=APART)
    assert {receipt.result for receipt in again.receipts} <= STAYING
    assert again.log.segments == log.segments


def test_the_empty_segment_is_a_batch_header_and_no_index_entry(tmp_path: Path) -> None:
    log = cleaned(picture(f"0-{M - 1}:[0:a=1] | {M}:a=2", tmp_path))
    alone = log.segments[0]
    sizes = (alone.size_bytes, alone.offset_index_bytes)
    assert sizes == (BATCH_HEADER_BYTES, 0)
    assert (alone.start_offset, alone.end_offset) == (0, M - 1)
    # Its batch keeps the time of the source, as an emptied batch does.
    assert (alone.max_timestamp_ms, alone.time_index_bytes) == (0, 12)


def test_markers_and_aborted_data_leave_the_same_empty_batch(tmp_path: Path) -> None:
    text = f"0-{M - 2}:[0:=1] | {M - 1}:P1.4:A | {M}:a=2 {M + 1}:a=3"
    late = RULES.producer_id_expiration_ms
    log = cleaned(picture(text, tmp_path), rules=APART, now_ms=late)
    assert drawn(log).startswith(f"0.. {M - 1}:P1.4:A^")
    log = cleaned(log, rules=APART, now_ms=2 * late)
    assert drawn(log) == f"0.. {M - 1}:P1.4:() | {M}.. {M + 1}:a=3"
    assert cleaned(log, rules=APART, now_ms=3 * late).segments == log.segments


@scenarios(f"""
An empty segment joins a neighbour once there is one with space.
{FULL} | {M}:=1 ..{M + 5}
apart -> {FULL} | {M}.. {M + 5}:()
+ {M + 6}:c=1
apart -> {FULL} | {M}.. {M + 6}:c=1

A chunk of which nothing survives is cut like a round.
0-{M - 1}:[0:=1] | {M}:=1 ..{M + 3} | {M + 4}:a=1 >
apart chunk -> 0-{M - 1}:() | {M}.. {M + 3}:() | {M + 4}:a=1 >
apart whole -> 0-{M - 1}:() | {M}.. {M + 4}:a=1
""")
def test_an_empty_segment_and_later_ones(scenario: list[str], tmp_path: Path) -> None:
    check(scenario, tmp_path)


def test_a_round_for_passed_horizons_leaves_an_empty_segment_alone(tmp_path: Path) -> None:
    log = picture(f"0-{M - 1}:[0:a=1] | {M}:a= {M + 1}:b=1", tmp_path)
    log = cleaned(log, rules=APART, now_ms=5)
    assert drawn(log) == f"0-{M - 1}:() | {M}:a=^{RULES.delete_retention_ms + 5} {M + 1}:b=1"
    after = vacuumed(log, now_ms=RULES.delete_retention_ms + 5, rules=APART)
    assert drawn(after) == f"0-{M - 1}:() | {M}.. {M + 1}:b=1"
    assert after.segments[0] == log.segments[0]

"""The cleaner offset by leader epoch, and what a new leader takes over (KIP-1272)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.compaction.builders import a_chain, a_segment, a_state, cleaned_to, epochs, retired
from tierfold.compaction.model.cleaner_vectors import (
    CLEANER_OFFSETS_KEPT,
    leader_cleaner_offsets,
    resolved_cleaner_offset,
    with_vectors,
)
from tierfold.compaction.model.leader_epochs import epoch_ends
from tierfold.compaction.model.segments import CleanerOffset, LeaderEpoch, PartitionState


def vector(*pairs: tuple[int, int]) -> tuple[CleanerOffset, ...]:
    return tuple(CleanerOffset(epoch=epoch, offset=offset) for epoch, offset in pairs)


ELECTED: Final = epochs((0, 0), (1, 160))
ROW: Final = a_state(
    (a_segment(0, 199, leader_cleaner_offsets=vector((0, 100))),),
    lineage=ELECTED,
    cleaner_offsets=cleaned_to(155, epoch=2),
)
"""Seg-0 {0:100} of the KIP's table, and then epoch 1, in which the log is clean until 155."""


def test_the_present_offset_is_that_of_the_newest_leader_epoch() -> None:
    assert leader_cleaner_offsets(ROW) == vector((0, 100), (1, 155))
    first = replace(ROW, lineage=ELECTED[:1])
    assert leader_cleaner_offsets(first) == vector((0, 155))


def test_a_new_segment_gets_both_vectors() -> None:
    (added,) = with_vectors([a_segment(0, 9)], ROW)
    assert added.leader_cleaner_offsets == vector((0, 100), (1, 155))
    assert added.cleaner_offsets == ROW.cleaner_offsets


def test_before_the_first_round_there_is_none() -> None:
    row = a_state(a_chain(10))
    assert leader_cleaner_offsets(row) == ()
    assert resolved_cleaner_offset(row, epoch_ends(row.lineage)) is None
    assert leader_cleaner_offsets(replace(ROW, lineage=())) == ()


def test_the_entries_of_what_was_added_last_count_though_it_is_retired() -> None:
    older = a_segment(0, 199, leader_cleaner_offsets=vector((0, 50)))
    row = replace(ROW, segments=(older,), retired=(retired(ROW.segments[0]),))
    assert leader_cleaner_offsets(row) == vector((0, 100), (1, 155))


def test_after_a_restore_no_earlier_epoch_has_a_higher_offset() -> None:
    restored = replace(ROW, cleaner_offsets=cleaned_to(30, epoch=3))
    assert leader_cleaner_offsets(restored) == vector((0, 30), (1, 30))


def test_a_leader_epoch_that_the_log_lost_is_dropped() -> None:
    row = replace(ROW, lineage=epochs((0, 0), (4, 180)))
    row = replace(
        row, segments=(a_segment(0, 199, leader_cleaner_offsets=vector((0, 100), (1, 155))),)
    )
    assert leader_cleaner_offsets(row) == vector((0, 100), (4, 155))


def test_only_the_newest_entries_are_kept() -> None:
    count = CLEANER_OFFSETS_KEPT
    said = vector(*((epoch, epoch) for epoch in range(count)))
    row = replace(
        ROW,
        lineage=epochs(*((epoch, epoch) for epoch in range(count + 1))),
        segments=(a_segment(0, 199, leader_cleaner_offsets=said),),
    )
    assert leader_cleaner_offsets(row) == (*said[1:], CleanerOffset(epoch=count, offset=155))


@pytest.mark.parametrize(
    ("lineage", "expected"),
    [
        (ELECTED, (1, 155)),  # its own epoch has been cleaned already
        (epochs((0, 0), (1, 160), (2, 180)), (1, 155)),  # a new leader: the epoch before its own
        (epochs((0, 0)), (0, 100)),  # a deposed leader: what it knew itself
        (epochs((0, 0), (2, 90)), (0, 90)),  # cut off by an unclean election
        (epochs((0, 0), (1, 20), (2, 90)), (1, 90)),
        (epochs((2, 180)), None),  # it begins above
        ((), None),
    ],
)
def test_a_leader_takes_over_what_its_own_log_has(
    lineage: tuple[LeaderEpoch, ...], expected: tuple[int, int] | None
) -> None:
    found = resolved_cleaner_offset(ROW, epoch_ends(lineage))
    assert found == (None if expected is None else vector(expected)[0])


def test_of_the_table_in_the_kip_a_late_writer_changes_nothing() -> None:
    # A, of epoch 0, wakes and adds Seg-1 {0:123}; its entry is older than Seg-2's.
    seg_2 = a_segment(0, 154, leader_cleaner_offsets=vector((0, 100), (1, 155)))
    seg_1 = a_segment(155, 199, leader_cleaner_offsets=vector((0, 123)))
    rows: list[PartitionState] = [
        replace(ROW, segments=(seg_2, seg_1)),
        replace(ROW, segments=(seg_2,), retired=(retired(seg_1),)),
    ]
    for row in rows:
        assert leader_cleaner_offsets(row) == vector((0, 100), (1, 155))

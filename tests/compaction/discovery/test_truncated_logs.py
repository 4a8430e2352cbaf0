"""What becomes of uploads where a log was truncated: inside a segment, or below what the row has.

    row        0 ──────────── 10
    current              8 ────── 12     a newer epoch begins at 8
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.compaction.builders import a_segment, a_state, facts, new_ids, retired, segment_id
from tests.compaction.uploads import (
    LATE,
    a_row,
    cut_short,
    epochs,
    spans,
    starts,
    torn,
    upload,
    view,
)
from tierfold.compaction.discovery.candidates import Candidate
from tierfold.compaction.discovery.draft import drafted
from tierfold.compaction.discovery.drafted_view import row_view
from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason
from tierfold.compaction.model.segments import PartitionState

CUT_INSIDE: Final = upload(4, 10)
"""An upload of epoch 0, whose log was truncated at 8."""


def test_a_truncated_segment_with_offsets_of_its_own_is_not_set_apart() -> None:
    #   row        0 ─ 3
    #   cut inside      4 ── 7 ─ 10
    #   current               7 8 ── 12   epoch 4 from 8 on: 4 to 6 are nowhere else
    row, current = a_row((0, 3)), upload(7, 12, (0, 0), (4, 8))
    seen = view(row, CUT_INSIDE, current)
    assert (seen.needed, starts(seen.waiting)) == ((CUT_INSIDE.listed.segment_id,), [4, 7])
    assert starts(seen.set_apart) == [4]
    assert seen.stalled_since_ms is not None
    assert any("part of the log up to offset 7," in note for note in seen.notes)
    # Another upload has all of it: then nothing is lost with the truncated one.
    seen = view(row, CUT_INSIDE, current, upload(4, 7))
    assert (spans(seen), starts(seen.set_apart)) == (["0-3", "4-7", "8-12"], [4])
    assert (seen.waiting, seen.needed) == ((), ())


# A diverged partition.


@pytest.mark.parametrize(("again", "goes"), [((), False), ((upload(4, 7, (0, 0), (4, 6)),), True)])
def test_in_a_diverged_partition_the_head_of_a_truncated_segment_stays(
    again: tuple[Candidate, ...], goes: bool
) -> None:
    #   row        0 ─── 5 │ 6 ── 10
    #   epoch 4              6 ─ 9      from 6 on
    #   epoch 5                8 ── 12  from 8 on: of 6 and 7 only the second has the records
    twice = upload(8, 12, (0, 0), (4, 6), (5, 8))
    seen = rest_of(a_row((0, 5), (6, 10)), upload(6, 9, (0, 0), (4, 6)), twice, *again)
    assert seen is not None
    assert starts(seen.set_apart) == [6]
    assert (seen.needed == ()) is goes


def rest_of(row: PartitionState | None, *found: Candidate) -> PartitionView | None:
    known = facts(row, found)
    refused = drafted(known)
    assert isinstance(refused, Refusal)
    assert refused.reason is RefusalReason.LINEAGE_DIVERGED
    return row_view(known, refused)


def test_the_view_of_a_diverged_partition_is_its_row_and_the_segments_of_no_history() -> None:
    #   row        0 ──────── 10   epochs 0, 3 from 2 on
    #   current         6 ─ 9      epoch 4 from 6 on: kept
    #   of the row    3 ─ 5        of both: kept, as the new history's only source of these offsets
    #   deposed      2 ─── 8       epoch 1: of neither
    lineage = epochs((0, 0), (3, 2))
    live = a_segment(0, 10, segment_id=segment_id("live0"), leader_epochs=lineage)
    row = a_state([live], lineage=lineage)
    current = upload(6, 9, (0, 0), (3, 2), (4, 6))
    deposed = upload(2, 8, (0, 0), (1, 2))
    seen = rest_of(row, current, upload(3, 5, (0, 0), (3, 2)), deposed)
    assert seen is not None
    assert (spans(seen), new_ids(seen), seen.lineage) == (["0-10"], (), lineage)
    assert (starts(seen.orphans), starts(seen.set_apart)) == ([], [2])
    assert (seen.waiting, seen.stalled_since_ms, seen.log_start_offset) == ((), None, 0)
    assert "epoch 4, which starts at offset 6" in seen.notes[0]
    assert "tierfold forget" in seen.notes[0]


@pytest.mark.parametrize(
    ("start", "end", "goes"),
    [(1, 3, True), (1, 4, False), (4, 7, False), (4, 8, True), (4, 10, True)],
)
def test_the_only_source_of_an_offset_in_the_new_history_is_no_orphan(
    start: int, end: int, goes: bool
) -> None:
    #   row        0 ─ 3 │ 4 ──────── 10
    #   current               (7) 8 ──── 12   epoch 4 from 8 on: 4 to 10 is truncated, 0 to 3 is not
    row = a_row((0, 3), (4, 10))
    seen = rest_of(row, upload(start, end), upload(8, 12, (0, 0), (4, 8)))
    assert seen is not None
    assert starts(seen.orphans) == ([start] if goes else [])


def test_without_the_new_lineage_no_offset_of_the_row_is_given_up() -> None:
    #   current      6.log is torn, its checkpoint says that epoch 4 begins at 6
    row = a_row((2, 10), log_start_offset=2, retired=[retired(a_segment(0, 1))])
    current = replace(torn(6), checkpoint=epochs((0, 0), (4, 6)))
    seen = rest_of(row, upload(3, 5), upload(0, 1), current)
    assert seen is not None
    assert starts(seen.orphans) == [0]


@pytest.mark.parametrize("beside", [(), (torn(3),)], ids=["alone", "beside a torn log"])
def test_the_current_history_is_not_set_apart_for_lack_of_a_checkpoint(
    beside: tuple[Candidate, ...],
) -> None:
    row = a_row((0, 10))
    seen = rest_of(row, cut_short(6, 9, (4, 6, 9)), *beside)
    assert seen is not None
    assert (seen.orphans, seen.set_apart) == ((), ())


# An upload without its checkpoint: its batches still show a new leader.


def test_the_next_leaders_incomplete_first_upload_waits_and_is_not_set_apart() -> None:
    new = cut_short(11, 15, (4, 11, 15))
    seen = view(a_row((0, 10)), new)
    assert (starts(seen.waiting), starts(seen.set_apart)) == ([11], [])
    assert seen.stalled_since_ms == new.listed.modified_ms


def test_a_deposed_leaders_tail_is_not_taken_if_batches_show_the_next_leader() -> None:
    seen = view(a_row((0, 10)), upload(11, 12), cut_short(11, 15, (4, 11, 15)))
    assert (new_ids(seen), starts(seen.set_apart)) == ((), [11])


def test_without_a_row_nothing_of_a_diverged_partition_is_deleted() -> None:
    assert rest_of(None, LATE, upload(0, 10, (2, 0))) is None

"""Restore of any earlier row: its live segments and later uploads exactly, or a refusal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given

from tests.compaction.builders import (
    a_chain,
    a_segment,
    a_state,
    cleaned_to,
    epochs,
    retired,
    segment_id,
)
from tests.compaction.histories import STEPS, Life, Step, lived
from tierfold.compaction.commits.restore import RestorePlan, restore_plan_of
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.model.origins import UPLOADED, Compacted, Copied
from tierfold.compaction.model.segments import (
    PartitionState,
    RetiredSegment,
    Segment,
    SparedBytes,
)

FIRST, SECOND, THIRD = ORIGINALS = a_chain(10, 10, 10)
MERGED: Final = a_segment(0, 19, segment_id=segment_id("merged"), origin=Compacted("a run"))
FOUND: Final = a_state((FIRST, SECOND), epoch=1)
COMPACTED: Final = a_state(
    (MERGED,),
    epoch=1,
    cleaner_offsets=cleaned_to(20),
    retired=(retired(FIRST), retired(SECOND)),
    strategies=("timestamp",),
)


def planned(earlier: PartitionState, row: PartitionState) -> RestorePlan:
    found = restore_plan_of(earlier, row)
    assert isinstance(found, RestorePlan), found
    return found


def refused(earlier: PartitionState, row: PartitionState) -> str:
    found = restore_plan_of(earlier, row)
    assert isinstance(found, Refusal), found
    assert found.reason is RefusalReason.NOT_RESTORABLE
    return found.detail


def contents(segments: Iterable[Segment]) -> list[Segment]:
    """Each as it was first written, whatever copy of it is there."""
    return [replace(s, segment_id=s.first_id, origin=UPLOADED) for s in segments]


def wanted(life: Life, earlier: PartitionState) -> list[str] | None:
    """The model: what that row and every later upload were first called; None: not all is whole."""
    ids = [segment.first_id for segment in earlier.segments]
    ids += [
        upload.segment_id for upload in life.uploads if upload.start_offset >= earlier.next_offset
    ]
    return None if any(map(life.is_gone, ids)) else ids


def as_it_is(life: Life) -> Life:
    return replace(
        life,
        rows=list(life.rows),
        uploads=list(life.uploads),
        going=set(life.going),
        copies=dict(life.copies),
    )


@pytest.mark.parametrize("by_copy", [False, True])
@given(steps=STEPS)
def test_any_row_comes_back_whole_or_not_at_all(by_copy: bool, steps: list[Step]) -> None:
    life = lived(steps)
    for earlier in life.rows:
        ids = wanted(life, earlier)
        if ids is None:
            assert refused(earlier, life.now)
            continue
        found = planned(earlier, life.now)
        again = as_it_is(life)
        again.restore(found, by_copy=by_copy)
        row = again.now
        assert [segment.first_id for segment in row.segments] == ids
        assert contents(row.segments)[: len(earlier.segments)] == contents(earlier.segments)
        assert row.next_offset == life.now.next_offset
        offset = earlier.cleaner_offset
        assert row.cleaner_offset == (earlier.log_start_offset if offset is None else offset)
        assert row.log_start_offset == earlier.log_start_offset
        assert row.strategies == earlier.strategies


@given(STEPS)
def test_a_restore_by_copy_makes_no_retired_id_live_and_copies_nothing_that_is_live(
    steps: list[Step],
) -> None:
    life = lived(steps)
    for earlier in life.rows:
        found = restore_plan_of(earlier, life.now)
        if not isinstance(found, RestorePlan):
            continue
        again = as_it_is(life)
        again.restore(found, by_copy=True)
        row, before = again.now, life.now
        assert not row.live_ids & before.retired_ids
        assert before.retired_ids <= row.retired_ids
        copied = {s.first_id for s in row.segments if s.segment_id not in before.live_ids}
        assert not copied & {segment.first_id for segment in before.segments}
        assert copied == {segment.first_id for segment in found.back}


@pytest.mark.parametrize("by_copy", [False, True])
@given(steps=STEPS)
def test_a_restore_is_idempotent_and_can_be_undone(by_copy: bool, steps: list[Step]) -> None:
    life = lived(steps)
    before = life.now
    for earlier in list(life.rows):
        found = restore_plan_of(earlier, life.now)
        if not isinstance(found, RestorePlan):
            continue
        life.restore(found, by_copy=by_copy)
        assert planned(earlier, life.now).is_nothing
        life.restore(planned(before, life.now), by_copy=by_copy)
        assert contents(life.now.segments) == contents(before.segments)
        assert by_copy or life.copies or life.now.segments == before.segments
        assert life.now.log_start_offset == before.log_start_offset


def test_what_was_left_in_a_segment_is_noted_for_its_copy() -> None:
    left = SparedBytes(segment_id=FIRST.segment_id, superseded_bytes=5, since_offset=3)
    found = planned(replace(FOUND, spared=(left,)), COMPACTED)
    assert found.spared == (left,)
    copies = [one.copied(segment_id(f"copy of {one.segment_id}"), "undo") for one in found.back]
    update = found.update(at_ms=7, run="undo", copies=copies)
    assert update.spared == (replace(left, segment_id=copies[0].segment_id),)
    assert (update.ids, update.copies) == ((), tuple(copies))
    # The copies are live now, and the earlier row still names the originals.
    row = replace(
        COMPACTED, segments=tuple(copies), retired=(*COMPACTED.retired, retired(MERGED))
    )
    again = planned(replace(FOUND, spared=(left,)), row)
    assert again.is_nothing
    assert again.spared == update.spared


def test_of_the_same_bytes_the_live_ones_stay_and_then_the_earlier_rows_come_back() -> None:
    copy = FIRST.copied(segment_id("copy"), "undo")
    row = replace(COMPACTED, retired=(retired(copy), *COMPACTED.retired))
    assert planned(FOUND, row).back == (FIRST, SECOND)
    earlier = replace(FOUND, segments=(copy, SECOND))
    assert planned(earlier, row).back == (copy, SECOND)
    only_copy = replace(COMPACTED, retired=(retired(copy), retired(SECOND)))
    assert planned(FOUND, only_copy).back == (copy, SECOND)


def test_retired_segments_come_back_and_live_ones_are_retired() -> None:
    found = planned(FOUND, COMPACTED)
    assert found.segments == (FIRST, SECOND)
    assert found.back == (FIRST, SECOND)
    assert found.leaving == (MERGED,)
    assert found.cleaner_offset == 0
    update = found.update(at_ms=7, run="undo")
    assert update.strategies == ()
    assert (update.at_ms, update.run) == (7, "undo")


def test_later_uploads_stay_as_brokers_wrote_them() -> None:
    found = planned(FOUND, replace(COMPACTED, segments=(MERGED, THIRD)))
    assert found.segments == ORIGINALS
    assert found.back == (FIRST, SECOND)
    all_in_one = replace(MERGED, end_offset=29)
    row = replace(COMPACTED, segments=(all_in_one,), retired=tuple(map(retired, ORIGINALS)))
    assert planned(FOUND, row).segments == ORIGINALS


@pytest.mark.parametrize(
    "left",
    [(retired(SECOND),), (retired(FIRST, deletion_started_at_ms=5), retired(SECOND))],
    ids=["gone", "going"],
)
def test_deleted_and_marked_segments_refuse_a_restore(left: tuple[RetiredSegment, ...]) -> None:
    detail = refused(FOUND, replace(COMPACTED, retired=left))
    assert "being deleted or forgotten" in detail
    assert FIRST.segment_id in detail
    assert SECOND.segment_id not in detail


def test_a_removed_tombstone_refuses_a_restore_of_its_older_value() -> None:
    # Later uploads exist only in compacted form: a tombstone of theirs may have been removed.
    rest = a_segment(20, 29, segment_id=segment_id("rest"), origin=Compacted("a run"))
    row = replace(COMPACTED, segments=(MERGED, rest))
    assert "uploads from offset 20 on no longer exist" in refused(FOUND, row)


@pytest.mark.parametrize("is_live", [False, True])
def test_of_several_uploads_of_the_same_offsets_one_is_live(is_live: bool) -> None:
    """After a change of leader the next one uploads again what was uploaded."""
    twin = replace(THIRD, segment_id=segment_id("twin"))
    live = THIRD if is_live else replace(THIRD, segment_id=segment_id("w"), origin=Compacted("w"))
    gone = (twin,) if is_live else (THIRD, twin)
    row = replace(COMPACTED, segments=(MERGED, live))
    plan = planned(FOUND, replace(row, retired=(*map(retired, gone), *COMPACTED.retired)))
    assert plan.segments == ORIGINALS
    assert plan.back == ((FIRST, SECOND) if is_live else (THIRD, FIRST, SECOND))


def test_a_later_upload_stays_live_as_its_copy() -> None:
    origin = Copied(run="a run", copy_of=THIRD.segment_id, upload=THIRD.segment_id)
    copy = replace(THIRD, segment_id=segment_id("copy"), origin=origin)
    row = replace(COMPACTED, segments=(MERGED, copy))
    row = replace(row, retired=(*COMPACTED.retired, retired(THIRD)))
    plan = planned(FOUND, row)
    assert (plan.segments, plan.leaving) == ((FIRST, SECOND, copy), (MERGED,))


def test_a_gap_after_an_empty_log_refuses_a_restore() -> None:
    empty = a_state((), log_start_offset=20)
    fourth = a_segment(30, 39)
    row = a_state((THIRD, fourth), log_start_offset=20)
    assert planned(empty, row).segments == (THIRD, fourth)
    merged = replace(MERGED, start_offset=20, end_offset=29)
    assert "from offset 20 on" in refused(empty, replace(row, segments=(merged, fourth)))


def test_segments_that_an_unclean_election_cut_off_refuse_a_restore() -> None:
    detail = refused(FOUND, replace(COMPACTED, lineage=epochs((0, 0), (1, 5))))
    assert "are of a log that an unclean leader election truncated" in detail

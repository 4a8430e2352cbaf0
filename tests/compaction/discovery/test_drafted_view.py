"""Uploads that no row names are taken, wait, are set apart or orphans, or cause a refusal.

    row        0 ────────── 10
    upload              8 ──[11 ──── 15]       taken from 11 on, once 8 to 10 agree
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.compaction.builders import (
    KEY,
    LINEAGE,
    a_segment,
    a_state,
    facts,
    new_ids,
    retired,
    segment_id,
)
from tests.compaction.uploads import (
    ROW,
    a_row,
    cut_short,
    epochs,
    refusal,
    spans,
    starts,
    torn,
    upload,
    view,
)
from tierfold.compaction.discovery.candidates import Candidate, is_orphan
from tierfold.compaction.discovery.draft import PartitionDraft, drafted
from tierfold.compaction.discovery.drafted_view import view_of
from tierfold.compaction.discovery.facts import PartitionFacts
from tierfold.compaction.discovery.listing import classify
from tierfold.compaction.discovery.overlaps import OverlapProof
from tierfold.compaction.discovery.view import (
    CATALOG_FIRST,
    Refusal,
    RefusalReason,
    first_few,
    state_with_new,
)
from tierfold.compaction.model.errors import UNCHANGED
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.segments import PartitionState
from tierfold.storage.tiers.local_tiered_storage import REQUIRED_PARTS

LATER_MS: Final = 5_000_000


# Overlaps.


@pytest.mark.parametrize("row", [None, ROW])
def test_overlapping_uploads_are_taken_without_a_row_and_beside_one(
    row: PartitionState | None,
) -> None:
    found = [upload(8, 15), upload(16, 23), *([] if row else [upload(0, 10)])]
    for arrived in (found, found[::-1]):
        seen = view(row, *arrived)
        assert spans(seen) == ["0-10", "11-15", "16-23"]
        assert new_ids(seen)[-2:] == (segment_id("8-15"), segment_id("16-23"))
        assert (seen.notes, seen.orphans, seen.waiting, seen.set_apart) == ((), (), (), ())
        assert seen.log_start_offset == 0


@pytest.mark.parametrize("row", [None, ROW])
def test_overlaps_that_disagree_refuse_the_partition(row: PartitionState | None) -> None:
    found = [upload(8, 15), *([] if row else [upload(0, 10)])]
    draft = drafted(facts(row, found))
    assert isinstance(draft, PartitionDraft)
    seen = view_of(draft, OverlapProof(cuts={}, disagreements=("one", "other")))
    assert isinstance(seen, Refusal)
    assert (seen.reason, seen.detail) == (RefusalReason.OVERLAP, "one; other")
    assert (seen.remedy == CATALOG_FIRST) is (row is None)


def test_a_superseded_upload_is_an_orphan_once_the_row_names_the_other() -> None:
    found = [upload(8, 30), upload(12, 20)]
    seen = view(ROW, *found)
    assert (spans(seen), seen.orphans) == (["0-10", "11-30"], ())
    assert seen.notes == ()
    adopted = view(state_with_new(seen), found[1])
    assert starts(adopted.orphans) == [12]


# What waits.


def test_with_a_row_an_upload_after_a_gap_waits() -> None:
    late = upload(13, 20)
    seen = view(ROW, replace(late, listed=replace(late.listed, modified_ms=LATER_MS)))
    assert (spans(seen), starts(seen.waiting)) == (["0-10"], [13])
    assert seen.stalled_since_ms == LATER_MS
    assert seen.notes == (
        f"segment {segment_id('13-20')} (offsets 13 to 20) is not used yet: offset 11 is missing"
        " below it, unless a broker's cleaner left a hole there: --holes-are-holes orders-3",
    )


def test_the_missing_offset_is_counted_from_what_is_taken() -> None:
    seen = view(ROW, upload(11, 12), upload(14, 20))
    assert spans(seen) == ["0-10", "11-12"]
    assert "offset 13 is missing below it" in seen.notes[0]


@pytest.mark.parametrize("lacking", REQUIRED_PARTS[1:])
def test_an_incomplete_upload_beyond_the_live_end_waits(lacking: str) -> None:
    seen = view(ROW, upload(8, 15, lacking=lacking))
    assert (spans(seen), starts(seen.waiting), starts(seen.orphans)) == (["0-10"], [8], [])
    assert seen.stalled_since_ms == 1_000_000
    assert seen.notes == (
        f"segment {segment_id('8-15')} (offsets 8 to 15) lacks .{lacking}: not used until its"
        " upload is complete",
    )


def test_a_second_upload_covers_the_dead_first_one() -> None:
    dead = upload(11, 15, lacking="index")
    seen = view(ROW, dead, upload(11, 20))
    assert (spans(seen), seen.waiting, seen.notes) == (["0-10", "11-20"], (), ())
    assert seen.stalled_since_ms is None


def test_an_incomplete_upload_reaches_as_far_as_it_can_be_read() -> None:
    seen = view(ROW, upload(11, 21, lacking="index"), upload(11, 20))
    assert (starts(seen.waiting), seen.stalled_since_ms) == ([11], 1_000_000)


def test_an_unreadable_segment_in_the_live_range_is_kept_and_reported() -> None:
    assert view(ROW, torn(10)).stalled_since_ms is None
    seen = view(ROW, torn(10), upload(11, 20))
    assert (spans(seen), starts(seen.orphans)) == (["0-10", "11-20"], [])
    assert seen.notes == (
        f"segment {segment_id('10-19')} (start 10) is kept, not read: 10.log: torn",
    )
    assert seen.stalled_since_ms is None


def test_an_unreadable_segment_that_would_be_next_refuses_the_partition() -> None:
    for row, start in ((ROW, 11), (ROW, 40), (None, 0)):
        found = refusal(row, torn(start))
        assert (found.reason, found.detail) == (RefusalReason.CORRUPT, f"{start}.log: torn")


def test_what_to_do_is_said_once_for_all_segments_that_cannot_be_read() -> None:
    denied = [replace(torn(start), remedy=f"Allow it. {UNCHANGED}") for start in (11, 21)]
    found = refusal(ROW, *denied)
    assert (found.detail, found.remedy) == ("11.log, 21.log: torn", f"Allow it. {UNCHANGED}")
    kept = view(ROW, replace(torn(10), remedy="Allow it."), upload(11, 20)).notes
    assert kept[0].endswith("is kept, not read: 10.log: torn. Allow it.")


def test_many_unreadable_segments_are_counted_not_listed() -> None:
    found = refusal(None, torn(0), torn(10), torn(20), torn(30), torn(40))
    assert found.detail == "0.log, 10.log, 20.log and 2 more: torn"
    remarks = ["a: no key.", "b: no key.", "a: no key.", "c: no key."]
    assert first_few(remarks) == "a, b, c: no key"


def test_a_torn_incomplete_log_beyond_the_live_end_waits() -> None:
    seen = view(ROW, torn(11, lacking="index"))
    assert (starts(seen.waiting), seen.stalled_since_ms) == ([11], 1_000_000)


def test_what_keeps_several_uploads_from_being_read_is_said_once() -> None:
    seen = view(ROW, torn(11, lacking="index"), torn(14, lacking="index"))
    assert starts(seen.waiting) == [11, 14]
    (note,) = (note for note in seen.notes if "torn" in note)
    assert note.endswith(" and 1 more are kept, not read: 11.log: torn")


# A partition without a row.


def test_without_a_row_a_gap_is_refused_and_both_sides_are_named() -> None:
    found = refusal(None, upload(0, 10), upload(12, 20))
    assert found.reason is RefusalReason.GAP
    assert found.detail == (
        "offset 11: a hole, or a missing segment, between segments"
        f" {segment_id('0-10')} and {segment_id('12-20')}"
    )


@pytest.mark.parametrize("lacking", REQUIRED_PARTS)
def test_without_a_row_a_partial_segment_is_refused(lacking: str) -> None:
    found = refusal(None, upload(0, 10), upload(11, 20, lacking=lacking))
    assert found.reason is RefusalReason.PARTIAL_SEGMENT
    assert found.detail == f"segment {segment_id('11-20')} (start 11) lacks .{lacking}"


def test_without_a_row_the_log_starts_at_the_lineages_lowest_segment() -> None:
    assert view(None, upload(40, 50), upload(45, 60)).log_start_offset == 40


# Beside a row.


def test_missing_data_is_reported_before_anything_else() -> None:
    classified = classify([], ROW)
    known = PartitionFacts(key=KEY, state=ROW, classified=classified, candidates=(torn(40),))
    seen = drafted(known)
    assert isinstance(seen, Refusal)
    assert seen.reason is RefusalReason.DATA_GONE
    assert segment_id("live0") in seen.detail


def test_epochs_beyond_the_live_end_are_not_kept() -> None:
    # 13-20 waits, and may be truncated before it is taken: its epoch is not added to the row.
    seen = view(ROW, upload(13, 20, (0, 0), (5, 12)))
    assert (seen.lineage, starts(seen.waiting)) == (LINEAGE, [13])
    assert view(ROW, upload(11, 12), upload(13, 20, (0, 0), (5, 13))).lineage == epochs(
        (0, 0), (5, 13)
    )


def test_retired_segments_are_never_taken_again() -> None:
    gone = a_segment(11, 15)
    seen = view(replace(ROW, retired=(retired(gone),)), upload(16, 20))
    assert (spans(seen), starts(seen.retired), starts(seen.waiting)) == (["0-10"], [11], [16])


def test_the_cleaned_range_stays_clean_whatever_is_uploaded_below_it() -> None:
    merged = a_segment(0, 10, segment_id=segment_id("merged"), origin=Compacted("earlier"))
    row = a_state([merged])
    seen = view(row, upload(0, 5), upload(0, 15), upload(3, 12))
    assert spans(seen) == ["0-10", "11-15"]
    assert seen.segments[-1].agrees_with == (segment_id("3-12"),)
    assert starts(seen.orphans) == [0]


# Orphans.


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (upload(0, 10), True),
        (upload(3, 5, lacking="index"), True),
        (upload(3, 11), False),
        (upload(30, 35, lacking="log"), True),
        (upload(3, 5, (0, 0), (1, 3)), False),
        (torn(3), False),
        (torn(3, lacking="index"), False),
        (replace(upload(3, 5, lacking="index"), corruption="torn"), False),
    ],
)
def test_an_orphan_has_no_records_of_its_own(
    found: Candidate, expected: bool
) -> None:
    assert is_orphan(found, ROW) is expected
    assert not is_orphan(found, None)


def test_an_orphan_beyond_the_end_does_not_wait() -> None:
    seen = view(ROW, upload(30, 35, lacking="log"))
    assert (starts(seen.orphans), seen.waiting, seen.stalled_since_ms) == ([30], (), None)


@pytest.mark.parametrize(("seen_offset", "since_ms"), [(10, None), (11, 1_000_000)])
def test_a_torn_log_stalls_the_partition_if_a_batch_beyond_the_end_was_seen(
    seen_offset: int, since_ms: int | None
) -> None:
    seen = view(ROW, replace(torn(5), seen_offset=seen_offset))
    assert (starts(seen.waiting), seen.stalled_since_ms) == ([5], since_ms)


@pytest.mark.parametrize(("epoch", "expected"), [(0, True), (-1, True), (1, False)])
def test_without_a_checkpoint_an_orphans_batches_are_of_the_lineage(
    epoch: int, expected: bool
) -> None:
    lineage = epochs((0, 0), (2, 8))
    row = a_state([a_segment(0, 10, leader_epochs=lineage)], lineage=lineage)
    assert is_orphan(cut_short(3, 5, (epoch, 3, 5)), row) is expected


def test_a_taken_segment_that_starts_below_the_log_start_has_no_note() -> None:
    row = a_row((8, 15), log_start_offset=8)
    seen = view(row, upload(6, 20))
    assert (spans(seen), seen.notes) == (["8-15", "16-20"], ())


def test_a_late_head_is_kept_unless_a_segment_with_its_offsets_has_expired() -> None:
    # If a tier is copied with its head last, only the head has its records.
    row = a_row((5, 9), (10, 14))
    for head in (upload(0, 4), upload(0, 11)):
        seen = view(row, head)
        assert (spans(seen), seen.orphans) == (["5-9", "10-14"], ())
        assert "starts below the log start 5" in seen.notes[0]
    # A dead run's output at the offsets of an expired segment.
    expired = replace(row, retired=(retired(a_segment(0, 4)),))
    assert starts(view(expired, upload(0, 4)).orphans) == [0]


def test_the_proof_is_needed_for_every_cut() -> None:
    cut = view(ROW, upload(8, 15)).segments[-1]
    assert (cut.skipped_offsets, cut.skipped_bytes, cut.size_bytes) == (3, 3, 997)
    assert cut.agrees_with == (segment_id("live0"),)

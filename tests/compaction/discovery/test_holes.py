"""Gaps between segments: holes that a broker's cleaner left, or missing segments.

    0 ── 10        12 ── 20      offset 11: a hole, if a person says so
    0 ── 10  [11        19]      11: 0 bytes, up to the next segment's start
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.builders import KEY, a_segment, a_state, agreeing, epochs, facts, segment_id
from tests.compaction.uploads import a_row, spans, starts, upload
from tierfold.compaction.commits.invariants import CLAIM_INVARIANTS, violations
from tierfold.compaction.commits.restore import RestorePlan, restore_plan_of
from tierfold.compaction.commits.row_changes import claimed
from tierfold.compaction.discovery.candidates import Candidate, EndFrom
from tierfold.compaction.discovery.draft import drafted
from tierfold.compaction.discovery.drafted_view import view_of
from tierfold.compaction.discovery.view import (
    PartitionView,
    Refusal,
    RefusalReason,
    state_with_new,
)
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.segment_ids import Maker
from tierfold.compaction.model.segments import Hole, PartitionState
from tierfold.compaction.model.units import OFFSET_SPAN_MAX


def emptied(start: int) -> Candidate:
    """An upload of 0 bytes, whose end nothing says."""
    found = upload(start, start)
    assert found.segment is not None
    segment = replace(
        found.segment, segment_id=segment_id(f"{start}-"), end_offset=start - 1, size_bytes=0
    )
    listed = replace(found.listed, segment_id=segment.segment_id)
    return replace(found, listed=listed, segment=segment, end_offset=start - 1)


def exact(found: Candidate) -> Candidate:
    return replace(found, end_from=EndFrom.MANIFEST)


def decided(
    row: PartitionState | None,
    *found: Candidate,
    is_declared: bool = True,
    live_end: int | None = None,
) -> PartitionView | Refusal:
    known = replace(facts(row, found), are_holes_declared=is_declared, live_end=live_end)
    draft = drafted(known)
    return draft if isinstance(draft, Refusal) else view_of(draft, agreeing(draft))


def view(
    row: PartitionState | None, *found: Candidate, live_end: int | None = None
) -> PartitionView:
    seen = decided(row, *found, live_end=live_end)
    assert isinstance(seen, PartitionView), seen
    return seen


def adopted(seen: PartitionView) -> PartitionState:
    """The row once a claim has taken the view; it breaks no invariant."""
    before = seen.state or a_state((), epoch=0)
    claim = claimed(state_with_new(seen), run="run", commit_id="c", at_ms=1)
    assert violations(before, claim, CLAIM_INVARIANTS) == {}
    return claim


def holes(*found: tuple[int, int]) -> tuple[Hole, ...]:
    return tuple(Hole(start_offset=start, end_offset=end) for start, end in found)


# Without a row.


def test_a_declared_hole_belongs_to_the_segment_below_it() -> None:
    seen = view(None, upload(0, 10), upload(12, 20), upload(21, 25), upload(30, 39))
    assert spans(seen) == ["0-11", "12-20", "21-29", "30-39"]
    assert seen.holes == holes((11, 11), (26, 29))
    assert seen.notes == (
        "2 gaps between segments taken for holes, the largest at offsets 26 to 29",
    )
    assert adopted(seen).holes == seen.holes


def test_without_consent_both_explanations_are_given_and_how_to_decide() -> None:
    found = decided(None, upload(0, 10), upload(12, 20), is_declared=False)
    assert isinstance(found, Refusal)
    assert found.reason is RefusalReason.GAP
    assert "offset 11: a hole, or a missing segment" in found.detail
    first, _, second = found.remedy.partition(" 2. Otherwise ")
    assert first.startswith("1. If __remote_log_metadata has endOffset 11 for the first of the two")
    assert first.endswith(f"run again with --holes-are-holes {KEY}.")
    assert "bring the missing segment back" in second


@pytest.mark.parametrize("is_declared", [False, True])
def test_behind_a_known_end_a_segment_is_missing(is_declared: bool) -> None:
    found = decided(None, exact(upload(0, 10)), upload(12, 20), is_declared=is_declared)
    assert isinstance(found, Refusal)
    assert found.detail == (
        f"segment {segment_id('0-10')} ends at offset 10, segment {segment_id('12-20')} starts at"
        " 12"
    )
    assert "holes" not in found.remedy
    assert "Bring the missing segment back" in found.remedy
    # What the remedy says, one and the other way.
    assert spans(view(None, exact(upload(0, 10)), upload(11, 11), upload(12, 20)))[-1] == "12-20"
    assert spans(view(None, upload(12, 20))) == ["12-20"]


def test_an_epoch_that_begins_in_a_hole_is_the_segments_below() -> None:
    lineage = ((0, 0), (2, 11))
    seen = view(None, upload(0, 10, (0, 0)), upload(13, 20, *lineage))
    assert seen.segments[0].leader_epochs == epochs((0, 0), (2, 11))
    assert seen.lineage == epochs(*lineage)
    adopted(seen)


def test_no_hole_is_longer_than_an_index_can_tell() -> None:
    most = OFFSET_SPAN_MAX + 1
    assert spans(view(None, upload(0, 10), upload(most, most)))[0] == f"0-{most - 1}"
    assert isinstance(decided(None, upload(0, 10), upload(most + 1, most + 1)), Refusal)


# Segments of 0 bytes.


def test_an_emptied_segment_ends_where_the_next_one_starts() -> None:
    seen = view(None, emptied(0), emptied(5), upload(9, 12), emptied(15), upload(20, 29))
    assert spans(seen) == ["0-4", "5-8", "9-14", "15-19", "20-29"]
    assert seen.holes == holes((0, 4), (5, 8), (13, 14), (15, 19))
    row = adopted(seen)
    assert [s.size_bytes for s in row.segments] == [0, 0, 1000, 0, 1000]


def test_without_consent_an_emptied_segment_is_refused_by_name() -> None:
    found = decided(None, emptied(0), upload(9, 12), is_declared=False)
    assert isinstance(found, Refusal)
    assert found.detail == (
        "offsets 0 to 8: a hole, or a missing segment, between segments"
        f" {segment_id('0-')} (0 bytes) and {segment_id('9-12')}"
    )


@pytest.mark.parametrize("row", [None, a_row((0, 10))])
def test_the_newest_segment_waits_if_it_was_emptied(row: PartitionState | None) -> None:
    known = [] if row else [upload(0, 10)]
    seen = view(row, *known, emptied(11))
    assert (spans(seen), starts(seen.waiting), seen.orphans) == (["0-10"], [11], ())
    assert seen.notes == (
        f"segment {segment_id('11-')} (0 bytes, from offset 11 on) is not used yet: the next"
        " segment will show where it ends",
    )
    # What the note promises.
    assert spans(view(row, *known, emptied(11), upload(20, 29))) == ["0-10", "11-19", "20-29"]


def test_an_emptied_segment_within_the_live_range_is_an_orphan_and_one_above_is_not() -> None:
    row = a_row((0, 10))
    seen = view(row, emptied(5), emptied(11))
    assert (starts(seen.orphans), starts(seen.waiting)) == ([5], [11])


def test_beside_records_at_the_same_offsets_an_emptied_segment_is_not_used() -> None:
    seen = view(None, upload(0, 10), emptied(5), upload(11, 20), emptied(11))
    assert spans(seen) == ["0-10", "11-20"]
    twice = replace(emptied(11).listed, segment_id=segment_id("again"))
    again = replace(
        emptied(11),
        listed=twice,
        segment=a_segment(11, 10, segment_id=segment_id("again"), size_bytes=0),
    )
    seen = view(None, upload(0, 10), emptied(11), again, upload(15, 20))
    assert spans(seen) == ["0-10", "11-14", "15-20"]


# Behind what the row has.


def test_a_hole_behind_the_live_end_raises_it() -> None:
    row = a_row((0, 5), (6, 10))
    seen = view(row, upload(13, 20))
    assert spans(seen) == ["0-5", "6-12", "13-20"]
    assert adopted(seen).holes == holes((11, 12))
    kept = decided(row, upload(13, 20), is_declared=False)
    assert isinstance(kept, PartitionView)
    assert (spans(kept), starts(kept.waiting)) == (["0-5", "6-10"], [13])
    assert "--holes-are-holes orders-3" in kept.notes[0]


@pytest.mark.parametrize("span", [(11, 12), (11, 11), (8, 11), (12, 20)])
def test_an_upload_with_offsets_of_a_hole_is_kept(span: tuple[int, int]) -> None:
    row = adopted(view(a_row((0, 5), (6, 10)), upload(13, 20)))
    back = upload(*span)
    seen = view(row, back)
    assert seen.orphans == ()
    assert seen.notes == (f"{back} has offsets that were taken for a hole: kept, not read",)
    # What tierfold wrote has only records of its sources; and what was emptied has none.
    assert starts(view(row, replace(back, maker=Maker.THIS_CATALOG)).orphans) == [span[0]]
    assert starts(view(row, emptied(11)).orphans) == [11]
    assert starts(view(row, upload(3, 10)).orphans) == [3]


def test_the_manifest_may_say_that_the_live_range_ends_later() -> None:
    # The row of an older version has the end of the last batch.
    row = a_row((0, 5), (6, 10))
    for is_declared in (False, True):
        seen = decided(row, upload(13, 20), is_declared=is_declared, live_end=12)
        assert isinstance(seen, PartitionView)
        assert spans(seen) == ["0-5", "6-12", "13-20"]
        assert adopted(seen).holes == holes((11, 12))
    missing = decided(row, upload(13, 20), live_end=10)
    assert isinstance(missing, PartitionView)
    assert starts(missing.waiting) == [13]
    assert "holes-are-holes" not in missing.notes[0]


def test_a_restore_keeps_a_hole_that_the_row_has_taken_since() -> None:
    earlier = a_row((0, 5), (6, 10))
    row = adopted(view(earlier, upload(13, 20)))
    plan = restore_plan_of(earlier, row)
    assert isinstance(plan, RestorePlan)
    assert plan.segments == row.segments
    # The segments below were compacted into one that now ends behind the hole.
    merged = a_segment(0, 10, segment_id=segment_id("merged"), origin=Compacted("r"))
    compacted = adopted(view(a_state([merged]), upload(13, 20)))
    refused = restore_plan_of(replace(earlier, segments=(a_segment(0, 10),)), compacted)
    assert isinstance(refused, Refusal)


@st.composite
def log_with_holes(draw: st.DrawFn) -> list[Candidate]:
    """One log from 0 to 39, of which each segment may lack records at its end, or all of them."""
    borders = [0, *sorted(draw(st.sets(st.integers(1, 39), max_size=8))), 40]
    found = []
    for start, after in pairwise(borders):
        last = draw(st.integers(start - 1, after - 1)) if after < 40 else 39
        found.append(emptied(start) if last < start else upload(start, last))
    return draw(st.permutations(found))


@given(log_with_holes(), st.integers(0, 4))
def test_with_consent_a_log_with_holes_is_whole_in_one_step_or_in_two(
    found: Sequence[Candidate], first: int
) -> None:
    in_order = sorted(found, key=lambda one: one.listed.start_offset)
    expected = [one.listed.start_offset for one in in_order]
    seen = view(None, *found)
    assert [s.start_offset for s in seen.segments] == expected
    assert (seen.segments[0].start_offset, seen.segments[-1].end_offset) == (0, 39)
    adopted(seen)
    row = adopted(view(None, *in_order[:first])) if first else None
    if row is None or not row.segments:
        return
    rest = [one for one in in_order if one.listed.segment_id not in row.live_ids]
    again = view(row, *rest)
    assert [s.start_offset for s in again.segments] == expected
    assert again.segments[-1].end_offset == 39
    adopted(again)

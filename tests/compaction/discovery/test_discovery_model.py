"""Discovery compared with the shortest model: a dictionary of the offsets of all uploads.

One log of 30 offsets is uploaded by up to three leaders, each with other borders, whole or cut
short; some of it is claimed, perhaps compacted, and then all of it is listed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.builders import a_segment, a_state, discovered, new_ids, retired, segment_id
from tests.compaction.uploads import upload
from tierfold.compaction.commits.commit import claimed
from tierfold.compaction.commits.invariants import CLAIM_INVARIANTS, violations
from tierfold.compaction.discovery.histories import InspectedSegment
from tierfold.compaction.discovery.view import PartitionView, Refusal, state_with_new
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.segments import PartitionState


@st.composite
def uploads(draw: st.DrawFn) -> list[InspectedSegment]:
    """One log of 30 offsets, as several leaders of its lineage upload it, in any order."""
    found: dict[str, InspectedSegment] = {}
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, 12))
        for length in draw(st.lists(st.integers(1, 8), min_size=1, max_size=4)):
            end = min(at + length - 1, 29)
            lacking = draw(st.sampled_from(["", "", "", "index", "leader_epoch_checkpoint", "log"]))
            segment = upload(at, end, lacking=lacking)
            if lacking and draw(st.integers(0, 3)) == 0:
                segment = replace(segment, end_offset=None, corruption="torn")
            found.setdefault(segment.listed.segment_id, segment)
            at = end + 1
            if at > 29:
                break
    return draw(st.permutations(list(found.values())))


def offsets_of(segment: InspectedSegment) -> set[int]:
    """The offsets of a segment; none without its `.log`."""
    if not segment.listed.has_log:
        return set()
    start, end = segment.listed.segment_id.rstrip("A").rstrip("_").split("-")
    return set(range(int(start), int(end) + 1))


def is_whole(segment: InspectedSegment) -> bool:
    return segment.listed.is_complete


def checked(row: PartitionState | None, found: Sequence[InspectedSegment]) -> PartitionView | None:
    """The view, compared with a dictionary of offsets; None: refused."""
    seen = discovered(row, found)
    named = () if row is None else row.named_segments
    first = min((segment.start_offset for segment in named), default=0)
    live: set[int] = set() if row is None else set(range(first, row.next_offset))
    # A late head: not part of the log, and no other segment is known to hold it.
    late = set(range(first))
    no_offsets: set[int] = set()
    whole = no_offsets.union(*(offsets_of(other) for other in found if is_whole(other)))
    if isinstance(seen, Refusal):
        assert row is None
        lowest, highest = min(whole, default=0), max(whole, default=-1)
        is_cut_short = any(not is_whole(other) for other in found)
        assert is_cut_short or whole != set(range(lowest, highest + 1))
        return None
    # Effective ranges: in order, no overlap, no gap, and exactly those of a dictionary.
    given_by = [
        offset
        for segment in seen.segments
        for offset in range(segment.start_offset, segment.next_offset)
    ]
    start = seen.log_start_offset
    end = row.next_offset if row is not None else start
    while end in whole:
        end += 1
    assert given_by == list(range(start, end))
    ends = [segment.end_offset for segment in seen.segments]
    assert ends == sorted(set(ends))
    # Nothing unique is deleted: an orphan's offsets are all live in the committed row.
    for segment in found:
        name = segment.listed.segment_id
        held = offsets_of(segment)
        if name in {orphan.segment_id for orphan in seen.orphans}:
            assert held <= live
        elif segment.is_readable and held and held <= live:
            raise AssertionError(f"{name} is no orphan")
        others = no_offsets.union(*(offsets_of(other) for other in found if other is not segment))
        kept = set(new_ids(seen)) | {waits.segment_id for waits in seen.waiting}
        assert not held & late or name not in {orphan.segment_id for orphan in seen.orphans}
        if held - live - late - others:
            assert name in kept, f"{name} alone holds offsets"
    assert seen.set_apart == ()
    return seen


@given(uploads(), st.data())
def test_uploads_of_one_lineage_are_taken_as_a_dictionary_of_offsets_says(
    found: list[InspectedSegment], data: st.DataObject
) -> None:
    arrived = data.draw(st.integers(0, len(found)))
    row = None
    # Half of it is discovered, claimed and perhaps compacted; then all of it is listed.
    first = checked(None, found[:arrived])
    if first is not None and first.segments:
        row = claimed(state_with_new(first), run="r", commit_id="1", at_ms=1)
        assert not violations(replace(state_with_new(first), segments=()), row, CLAIM_INVARIANTS)
        if data.draw(st.booleans(), label="is compacted"):
            row = compacted(row)
    named = () if row is None else row.named_segments
    known = {segment.segment_id for segment in named}
    left = [segment for segment in found if segment.listed.segment_id not in known]
    second = checked(row, left)
    if row is not None and second is not None:
        grown = state_with_new(second)
        assert grown.segments[: len(row.segments)] == row.segments
        claim = claimed(grown, run="s", commit_id="2", at_ms=2)
        assert not violations(row, claim, CLAIM_INVARIANTS)


def compacted(row: PartitionState) -> PartitionState:
    """The row with all its segments in one."""
    merged = a_segment(
        row.segments[0].start_offset,
        row.segments[-1].end_offset,
        segment_id=segment_id("merged"),
        origin=Compacted("r"),
    )
    return replace(row, segments=(merged,), retired=tuple(map(retired, row.segments)))


@given(uploads(), st.data())
def test_the_order_of_arrival_in_one_listing_does_not_matter(
    found: list[InspectedSegment], data: st.DataObject
) -> None:
    row = a_state([a_segment(0, 10, segment_id=segment_id("live"))])
    one = discovered(row, found)
    other = discovered(row, data.draw(st.permutations(found)))
    assert isinstance(one, PartitionView)
    assert isinstance(other, PartitionView)
    assert (one.segments, new_ids(one)) == (other.segments, new_ids(other))
    for list_of in ("orphans", "waiting", "notes"):
        assert sorted(map(str, getattr(one, list_of))) == sorted(map(str, getattr(other, list_of)))

"""The receipts of a round become one commit."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.compaction.builders import cleaned_to
from tests.compaction.claimed import NOW_MS, RUN, THREE, a_claim, a_plan, a_round, apart, cleaned
from tierfold.compaction.cleaning.counts import Counts
from tierfold.compaction.cleaning.rounds import Round
from tierfold.compaction.commits.commit import (
    AddSegments,
    AdvanceCleanerOffset,
    NoteDropped,
    NoteSpared,
    NoteStrategy,
    RetireSegments,
    SegmentsAreLive,
)
from tierfold.compaction.commits.receipts import (
    GroupReceipt,
    GroupResult,
    VerifiedParts,
    WrittenSegment,
)
from tierfold.compaction.commits.round_commit import proposal_of
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.rules import CompactionStrategy
from tierfold.compaction.model.segments import Segment, SparedBytes
from tierfold.compaction.planning.plan import CompactReason

AT_MS: Final = NOW_MS + 5_000


def a_new(segment: Segment) -> WrittenSegment:
    return WrittenSegment(segment=segment, staged=(), verified=VerifiedParts(), stored=())


def receipt(number: int, result: GroupResult, work: Round) -> GroupReceipt:
    source = work.groups[number].segments[0]
    written = replace(source, segment_id="w" * 22, origin=Compacted("run"))
    return GroupReceipt(
        group_index=number,
        result=result,
        written=(a_new(written),) if result is GroupResult.WRITTEN else (),
        counts=Counts(),
        bytes_read=1,
        bytes_written=1,
    )


def unchanged(work: Round) -> list[GroupReceipt]:
    return [receipt(number, GroupResult.UNCHANGED, work) for number in range(len(work.groups))]


def test_only_written_groups_are_swapped() -> None:
    work = a_round()
    written = receipt(0, GroupResult.WRITTEN, work)
    receipts = [written, receipt(1, GroupResult.UNCHANGED, work)]
    proposal = proposal_of(work, receipts, "commit", AT_MS, {})
    retire, add, advance = proposal.updates
    ids = tuple(segment.segment_id for segment in THREE[:2])
    assert retire == RetireSegments(ids=ids, at_ms=AT_MS, run=RUN)
    assert isinstance(add, AddSegments)
    assert add.segments == (written.segment,)
    assert advance == AdvanceCleanerOffset(epoch=1, offset=33)
    assert (proposal.at_ms, proposal.commit_id) == (AT_MS, "commit")
    assert SegmentsAreLive(ids=ids) in proposal.requires


@pytest.mark.parametrize("counted", ["tombstones_expired", "markers_expired", "superseded"])
def test_a_removed_tombstone_or_marker_is_noted_once(counted: str) -> None:
    work = a_round()
    written = receipt(0, GroupResult.WRITTEN, work)
    written = replace(written, counts=Counts(records_in=1, **{counted: 1}))
    receipts = [written, receipt(1, GroupResult.UNCHANGED, work)]
    updates = proposal_of(work, receipts, "commit", AT_MS, {}).updates
    assert (NoteDropped() in updates) is (counted != "superseded")
    noted = replace(work, state=replace(work.state, has_dropped=True))
    assert NoteDropped() not in proposal_of(noted, receipts, "commit", AT_MS, {}).updates


def test_all_segments_of_a_group_become_live_and_may_hold_what_was_left() -> None:
    work = a_round(groups=apart(*THREE))
    source = work.groups[0].segments[0]
    whole = receipt(0, GroupResult.WRITTEN, work)
    first = a_new(
        replace(source, segment_id="f" * 22, end_offset=source.start_offset, size_bytes=50)
    )
    receipts = [replace(whole, written=(first, *whole.written)), *unchanged(work)[1:]]
    unread = {source.segment_id: 70}
    updates = proposal_of(work, receipts, "commit", AT_MS, unread).updates
    (add,) = (update for update in updates if isinstance(update, AddSegments))
    assert add.segments == (first.segment, whole.segment)
    (note,) = (update for update in updates if isinstance(update, NoteSpared))
    found = {entry.segment_id: entry.superseded_bytes for entry in note.entries}
    assert found == {"f" * 22: 50, "w" * 22: 70}


def test_what_was_left_in_a_segment_is_forgotten_only_if_its_keys_were_read() -> None:
    left = SparedBytes(segment_id=THREE[0].segment_id, superseded_bytes=70, since_offset=11)
    work = a_round(state=a_claim(spared=(left,)))
    for unread, expected in (({}, [NoteSpared(entries=())]), ({left.segment_id: 0}, [])):
        updates = proposal_of(work, unchanged(work), "commit", AT_MS, unread).updates
        assert [update for update in updates if isinstance(update, NoteSpared)] == expected


def test_a_round_that_changes_nothing_still_moves_the_cleaner_offset() -> None:
    work = a_round()
    proposal = proposal_of(work, unchanged(work), "commit", AT_MS, {})
    assert proposal.updates == (AdvanceCleanerOffset(epoch=1, offset=33),)


def test_the_cleaner_offset_never_moves_back() -> None:
    ahead = a_claim(cleaner_offsets=cleaned_to(33))
    work = a_round(state=ahead, next_offset=11, groups=apart(THREE[0]))
    proposal = proposal_of(work, unchanged(work), "commit", AT_MS, {})
    assert AdvanceCleanerOffset(epoch=1, offset=33) in proposal.updates


def test_a_partial_round_compares_nothing_and_so_notes_no_strategy() -> None:
    by_time = replace(a_plan().rules, compaction_strategy=CompactionStrategy.TIMESTAMP)
    noted = {}
    for reason in (CompactReason.HORIZON_PASSED, CompactReason.DIRTY):
        work = a_round(
            a_plan(rules=by_time),
            cleaned(33),
            groups=apart(*THREE[1:]),
            first_dirty=33,
            next_offset=33,
            reason=reason,
        )
        updates = proposal_of(work, unchanged(work), "commit", AT_MS, {}).updates
        noted[reason] = [update for update in updates if isinstance(update, NoteStrategy)]
    assert noted == {
        CompactReason.HORIZON_PASSED: [],
        # Its earlier rounds were by offset: keys cannot be compared with the originals by time.
        CompactReason.DIRTY: [NoteStrategy(name="offset"), NoteStrategy(name="timestamp")],
    }


def test_the_first_round_notes_its_own_strategy_alone() -> None:
    by_time = replace(a_plan().rules, compaction_strategy=CompactionStrategy.TIMESTAMP)
    work = a_round(a_plan(rules=by_time), a_claim())
    updates = proposal_of(work, unchanged(work), "commit", AT_MS, {}).updates
    noted = [update for update in updates if isinstance(update, NoteStrategy)]
    assert noted == [NoteStrategy(name="timestamp")]


def test_a_strategy_that_the_row_names_is_not_noted_again() -> None:
    by_time = replace(a_plan().rules, compaction_strategy=CompactionStrategy.TIMESTAMP)
    work = a_round(a_plan(rules=by_time), a_claim(strategies=("timestamp",)))
    updates = proposal_of(work, unchanged(work), "commit", AT_MS, {}).updates
    assert not any(isinstance(update, NoteStrategy) for update in updates)

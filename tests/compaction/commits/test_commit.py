"""A commit changes a partition's row only if its requirements hold, and in one step."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.compaction.builders import (
    KEY,
    a_chain,
    a_segment,
    a_state,
    cleaned_to,
    retired,
    segment_id,
)
from tierfold.compaction.commits.commit import (
    AddSegments,
    AdvanceCleanerOffset,
    CommitIs,
    CommitProposal,
    EpochIs,
    ReleaseClaim,
    Requirement,
    RestoreState,
    RetireSegments,
    SegmentsAreLive,
    SegmentsAreRetired,
    failed_requirements,
    lost,
    outcome_of,
    proposed,
)
from tierfold.compaction.commits.row_changes import applied, claimed
from tierfold.compaction.model.cleaner_vectors import CLEANER_OFFSETS_KEPT
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.outcomes import Committed, Fenced, LostRace
from tierfold.compaction.model.segments import CleanerOffset, PartitionState, RetiredSegment

FIRST, SECOND, THIRD = SOURCES = a_chain(10, 10, 10)
MERGED: Final = a_segment(0, 19, segment_id=segment_id("merged"), origin=Compacted("mine"))
RETIRED, MARKED = a_chain(10, 10, start_offset=90)
CLAIMED: Final = a_state(
    SOURCES, epoch=2, owner_run="mine", commit_id="claim", cleaner_offsets=cleaned_to(10)
)
PROPOSAL: Final = CommitProposal(
    key=KEY,
    commit_id="swap",
    requires=(
        EpochIs(epoch=2, owner_run="mine"),
        CommitIs(commit_id="claim"),
        SegmentsAreLive(ids=(FIRST.segment_id, SECOND.segment_id)),
    ),
    updates=(
        RetireSegments(ids=(FIRST.segment_id, SECOND.segment_id), at_ms=77, run="mine"),
        AddSegments(segments=(MERGED,)),
        AdvanceCleanerOffset(epoch=2, offset=20),
        ReleaseClaim(run="mine"),
    ),
    at_ms=78,
)


def test_a_change_of_a_claimed_row_requires_its_epoch_its_run_and_the_row_itself() -> None:
    live, *updates = PROPOSAL.requires[2], *PROPOSAL.updates
    assert proposed(CLAIMED, *updates, commit_id="swap", at_ms=78, requires=(live,)) == PROPOSAL


def test_a_claim_opens_the_next_epoch_and_keeps_the_earlier_entries() -> None:
    fresh = a_state(SOURCES, cleaner_offsets=cleaned_to(10, epoch=0))
    assert claimed(fresh, run="mine", commit_id="claim", at_ms=5) == replace(
        fresh, epoch=1, owner_run="mine", commit_id="claim", committed_at_ms=5
    )


def test_a_commit_swaps_retires_advances_and_releases_at_once() -> None:
    vector = (CleanerOffset(epoch=1, offset=10), CleanerOffset(epoch=2, offset=20))
    assert applied(PROPOSAL, CLAIMED) == replace(
        CLAIMED,
        owner_run="",
        cleaner_offsets=vector,
        segments=(
            replace(MERGED, cleaner_offsets=vector, leader_cleaner_offsets=cleaned_to(20, epoch=0)),
            THIRD,
        ),
        retired=tuple(
            RetiredSegment(
                segment=segment, retired_at_ms=77, retired_by_epoch=2, retired_by_run="mine"
            )
            for segment in (FIRST, SECOND)
        ),
        commit_id="swap",
        committed_at_ms=78,
    )


def test_the_order_of_the_updates_does_not_matter() -> None:
    backwards = replace(PROPOSAL, updates=tuple(reversed(PROPOSAL.updates)))
    assert applied(backwards, CLAIMED) == applied(PROPOSAL, CLAIMED)


def test_a_later_chunk_replaces_its_epochs_entry_instead_of_adding_one() -> None:
    once = applied(PROPOSAL, CLAIMED)
    chunk = replace(
        PROPOSAL, commit_id="chunk 2", updates=(AdvanceCleanerOffset(epoch=2, offset=30),)
    )
    assert applied(chunk, once).cleaner_offsets == (
        CleanerOffset(epoch=1, offset=10),
        CleanerOffset(epoch=2, offset=30),
    )


def test_the_vector_keeps_only_the_newest_entries() -> None:
    said = tuple(CleanerOffset(epoch=epoch, offset=10) for epoch in range(CLEANER_OFFSETS_KEPT))
    later = replace(
        PROPOSAL, updates=(AdvanceCleanerOffset(epoch=CLEANER_OFFSETS_KEPT, offset=20),)
    )
    kept = applied(later, replace(CLAIMED, cleaner_offsets=said)).cleaner_offsets
    assert kept == (*said[1:], CleanerOffset(epoch=CLEANER_OFFSETS_KEPT, offset=20))


def test_a_run_releases_only_its_own_claim() -> None:
    other = replace(PROPOSAL, updates=(ReleaseClaim(run="other"),))
    assert applied(other, CLAIMED).owner_run == "mine"


@pytest.mark.parametrize(
    ("need", "is_met"),
    [
        (EpochIs(epoch=2, owner_run="mine"), True),
        (EpochIs(epoch=1, owner_run="mine"), False),
        (EpochIs(epoch=2, owner_run="other"), False),
        (CommitIs(commit_id="claim"), True),
        (CommitIs(commit_id="older"), False),
        (SegmentsAreLive(ids=(FIRST.segment_id,)), True),
        (SegmentsAreLive(ids=(FIRST.segment_id, "gone")), False),
        (SegmentsAreRetired(ids=(RETIRED.segment_id,)), True),
        (SegmentsAreRetired(ids=(RETIRED.segment_id, FIRST.segment_id)), False),
        (SegmentsAreRetired(ids=(MARKED.segment_id,)), False),
    ],
)
def test_a_requirement_is_met_only_by_what_it_names(need: Requirement, *, is_met: bool) -> None:
    gone = (retired(RETIRED), retired(MARKED, deletion_started_at_ms=5))
    failed = failed_requirements((need,), replace(CLAIMED, retired=gone))
    assert failed == (() if is_met else (need,))


ROWS: Final[dict[str, tuple[PartitionState | None, object]]] = {
    "as planned on: free to write": (CLAIMED, None),
    "already written": (
        applied(PROPOSAL, CLAIMED),
        Committed(epoch=2, commit_id="swap"),
    ),
    "written, and claimed by another run since": (
        claimed(applied(PROPOSAL, CLAIMED), run="other", commit_id="c", at_ms=9),
        Committed(epoch=2, commit_id="swap"),
    ),
    "claimed by another run before": (
        claimed(CLAIMED, run="other", commit_id="c", at_ms=9),
        Fenced(epoch=2, by_epoch=3, by_run="other"),
    ),
    "changed under the same epoch": (
        replace(CLAIMED, commit_id="else"),
        LostRace(found_commit_id="else"),
    ),
    "restored to an older epoch": (
        replace(CLAIMED, epoch=1, commit_id="old"),
        LostRace(found_commit_id="old"),
    ),
    "the row is gone": (None, LostRace(found_commit_id="")),
    "a source is gone": (
        replace(CLAIMED, segments=(SECOND, THIRD)),
        LostRace(found_commit_id="claim"),
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_the_row_decides_how_a_proposal_ended(row: str) -> None:
    state, outcome = ROWS[row]
    assert outcome_of(PROPOSAL, state) == outcome


def test_a_restore_is_recognised_after_a_later_claim_by_its_epochs_entry() -> None:
    update = RestoreState(
        ids=(FIRST.segment_id,),
        cleaner_offset=0,
        log_start_offset=0,
        strategies=(),
        spared=(),
        at_ms=77,
        run="mine",
    )
    restore = replace(PROPOSAL, updates=(update, ReleaseClaim(run="mine")))
    later = claimed(applied(restore, CLAIMED), run="next", commit_id="next", at_ms=80)
    assert outcome_of(restore, later) == Committed(epoch=2, commit_id="swap")
    overtaken = claimed(CLAIMED, run="next", commit_id="next", at_ms=80)
    assert outcome_of(restore, overtaken) == Fenced(epoch=2, by_epoch=3, by_run="next")
    assert outcome_of(restore, CLAIMED) is None


def test_only_a_newer_epoch_fences() -> None:
    assert lost(2, CLAIMED) == LostRace(found_commit_id="claim")
    assert lost(1, CLAIMED) == Fenced(epoch=1, by_epoch=2, by_run="mine")


def test_a_proposal_is_written_under_the_epoch_that_it_requires() -> None:
    assert PROPOSAL.epoch == 2
    assert replace(PROPOSAL, requires=()).epoch == 0

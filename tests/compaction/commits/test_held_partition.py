"""A held partition knows what its run may still write, whatever answers get lost."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.builders import a_chain, a_segment, a_state, segment_id
from tierfold.compaction.commits.commit import (
    AddSegments,
    AdvanceCleanerOffset,
    CommitIs,
    CommitProposal,
    EpochIs,
    ReleaseClaim,
    RetireSegments,
    applied,
    claimed,
    outcome_of,
    proposed,
)
from tierfold.compaction.commits.held_partition import HeldPartition
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.outcomes import Committed, Fenced, LostRace, Outcome, Unknown
from tierfold.compaction.model.segments import PartitionState

SOURCES: Final = a_chain(10, 10)
READ: Final = a_state(SOURCES, epoch=2, commit_id="read")
CLAIMED: Final = claimed(READ, run="we", commit_id="claim", at_ms=5)
HELD: Final = HeldPartition(row=CLAIMED, outcome=Committed(epoch=3, commit_id="claim"))
MERGED: Final = a_segment(0, 19, segment_id=segment_id("merged"), origin=Compacted("we"))
IDS: Final = tuple(segment.segment_id for segment in SOURCES)


def swap(row: PartitionState) -> CommitProposal:
    return proposed(
        row,
        RetireSegments(ids=IDS, at_ms=6, run="we"),
        AddSegments(segments=(MERGED,)),
        commit_id="swap",
        at_ms=6,
    )


SWAP: Final = swap(CLAIMED)
SWAPPED: Final = applied(SWAP, CLAIMED)
DONE: Final = Committed(epoch=3, commit_id="swap")
NO_ANSWER: Final = Unknown(commit_id="swap", cause="no answer")
FENCED: Final = Fenced(epoch=3, by_epoch=4, by_run="they")
OVERTAKEN: Final = LostRace(found_commit_id="else")


def taken_over(row: PartitionState) -> PartitionState:
    return claimed(row, run="they", commit_id="theirs", at_ms=9)


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (DONE, HeldPartition(row=SWAPPED, outcome=DONE)),
        (NO_ANSWER, HeldPartition(row=CLAIMED, outcome=NO_ANSWER, unanswered=SWAP)),
        (FENCED, HeldPartition(row=CLAIMED, outcome=FENCED)),
        (OVERTAKEN, HeldPartition(row=CLAIMED, outcome=OVERTAKEN)),
    ],
)
def test_a_commit_changes_the_row_loses_the_claim_or_has_no_answer(
    outcome: Outcome, expected: HeldPartition
) -> None:
    assert HELD.after(SWAP, outcome) == expected


LOST_ANSWER: Final = HELD.after(SWAP, NO_ANSWER)


@pytest.mark.parametrize(
    ("found", "outcome", "row"),
    [
        (DONE, DONE, SWAPPED),
        (FENCED, FENCED, CLAIMED),
        (OVERTAKEN, OVERTAKEN, CLAIMED),
        # An unchanged row proves nothing.
        (None, replace(NO_ANSWER, is_untraced=True), CLAIMED),
        (replace(NO_ANSWER, cause="not durable"), replace(NO_ANSWER, cause="not durable"), CLAIMED),
    ],
)
def test_a_look_resolves_a_commit_without_an_answer(
    found: Outcome | None, outcome: Outcome, row: PartitionState
) -> None:
    after = LOST_ANSWER.resolved(found)
    assert (after.outcome, after.row) == (outcome, row)
    assert after.unanswered == (SWAP if isinstance(outcome, Unknown) else None)


def test_without_an_unanswered_commit_there_is_nothing_to_resolve() -> None:
    for held in (HELD, HELD.after(SWAP, FENCED)):
        assert held.resolved(OVERTAKEN) == held


UNTRACED: Final = replace(NO_ANSWER, is_untraced=True)


@pytest.mark.parametrize(
    ("row", "if_committed", "if_unanswered"),
    [
        # The row, and the outcome if the commit succeeded, or got no answer.
        (SWAPPED, DONE, DONE),
        (CLAIMED, LostRace(found_commit_id="claim"), UNTRACED),
        (None, *[LostRace(found_commit_id="")] * 2),
        (taken_over(SWAPPED), *[FENCED] * 2),
        (taken_over(CLAIMED), *[FENCED] * 2),
        (replace(taken_over(CLAIMED), owner_run="we"), *[replace(FENCED, by_run="we")] * 2),
        (replace(SWAPPED, owner_run="they"), *[LostRace(found_commit_id="swap")] * 2),
        (replace(CLAIMED, owner_run="they"), *[LostRace(found_commit_id="claim")] * 2),
        (READ, *[LostRace(found_commit_id="read")] * 2),
        (replace(CLAIMED, commit_id="else"), *[OVERTAKEN] * 2),
    ],
)
def test_only_its_own_row_is_still_held(
    row: PartitionState | None, if_committed: Outcome, if_unanswered: Outcome
) -> None:
    assert HELD.after(SWAP, DONE).seen(row).outcome == if_committed
    seen = LOST_ANSWER.seen(row)
    assert seen.outcome == if_unanswered
    assert (seen.unanswered is not None) == isinstance(if_unanswered, Unknown)


def test_the_row_that_was_seen_is_the_one_to_decide_by() -> None:
    impossible = replace(SWAPPED, segments=SOURCES)
    assert HELD.after(SWAP, DONE).seen(impossible).row == impossible


def test_a_release_changes_nothing_else() -> None:
    release = HELD.release("release", 8)
    assert release is not None
    assert release.updates == (ReleaseClaim(run="we"),)
    assert release.requires == (EpochIs(epoch=3, owner_run="we"), CommitIs(commit_id="claim"))
    assert applied(release, CLAIMED) == replace(
        CLAIMED, owner_run="", commit_id="release", committed_at_ms=8
    )


def test_what_is_lost_given_up_or_unanswered_is_not_released() -> None:
    release = HELD.release("release", 8)
    assert release is not None
    done = Committed(epoch=3, commit_id="release")
    for held in (LOST_ANSWER, HELD.after(SWAP, FENCED), HELD.after(release, done)):
        assert held.release("again", 9) is None


@dataclass(slots=True)
class Model:
    """The model: the true row, which writes took place, and writes that are still on their way."""

    row: PartitionState | None = CLAIMED
    took_place: set[str] = field(default_factory=lambda: {"claim"})
    late: list[CommitProposal] = field(default_factory=list)

    def write(self, proposal: CommitProposal) -> Outcome:
        """The catalog's rule: compare, then swap."""
        found = outcome_of(proposal, self.row)
        if found is not None or self.row is None:
            return found or LostRace(found_commit_id="")
        self.row = applied(proposal, self.row)
        self.took_place.add(proposal.commit_id)
        return Committed(epoch=proposal.epoch, commit_id=proposal.commit_id)

    def look_for(self, proposal: CommitProposal) -> Outcome | None:
        """What the catalog knows of a write, with its older versions."""
        if proposal.commit_id in self.took_place:
            return Committed(epoch=proposal.epoch, commit_id=proposal.commit_id)
        return outcome_of(proposal, self.row)

    def still(self, held: HeldPartition) -> str:
        """What is true of the claim, without any of the types under test."""
        ours = {held.row.commit_id} & self.took_place
        unanswered = held.unanswered.commit_id if held.unanswered is not None else ""
        if self.row is None or self.row.epoch != CLAIMED.epoch:
            return "lost"
        if self.row.commit_id == unanswered:
            return "held"
        if self.row.commit_id in ours:
            return "open" if unanswered else "held"
        return "lost"


NAMES: Final[dict[type, str]] = {
    Committed: "held",
    Unknown: "open",
    Fenced: "lost",
    LostRace: "lost",
}
STEPS: Final = st.lists(
    st.sampled_from(
        ("commit", "unanswered", "delayed", "arrives", "rival", "gone", "resolve", "see", "release")
    ),
    max_size=12,
)


@given(STEPS)
def test_it_never_claims_to_hold_what_it_has_lost(steps: list[str]) -> None:
    model, held = Model(), HELD
    for number, step in enumerate(steps):
        before = held
        held = taken(step, model, held, f"commit {number}")
        assert (held.unanswered is not None) == isinstance(held.outcome, Unknown)
        if step == "see" and NAMES[type(before.outcome)] != "lost":
            assert NAMES[type(held.outcome)] == model.still(before)
        if step == "see" and isinstance(held.outcome, Committed):
            assert held.row == model.row
        if NAMES[type(before.outcome)] == "lost":
            assert held == before
        # Whatever is proposed now, is written only onto the row that it is meant for.
        release = held.release("probe", 9)
        assert (release is not None) == may_write(held)
        if release is not None and model.row != held.row:
            assert not isinstance(replace(model).write(release), Committed)


def may_write(held: HeldPartition) -> bool:
    return isinstance(held.outcome, Committed) and held.row.owner_run == "we"


def taken(step: str, model: Model, held: HeldPartition, name: str) -> HeldPartition:
    """The partition after one step of its run, or of the catalog around it."""
    match step:
        case "rival" if model.row is not None:
            model.row = claimed(model.row, run="they", commit_id=name, at_ms=9)
        case "gone":
            model.row = None
        case "arrives" if model.late:
            model.write(model.late.pop())
        case "resolve" if held.unanswered is not None:
            return held.resolved(model.look_for(held.unanswered))
        case "see":
            return held.seen(model.row)
        case "release" if (release := held.release(name, 9)) is not None:
            return held.after(release, model.write(release))
        case "commit" | "unanswered" | "delayed" if may_write(held):
            offset = AdvanceCleanerOffset(epoch=held.row.epoch, offset=9)
            proposal = proposed(held.row, offset, commit_id=name, at_ms=9)
            if step == "delayed":
                model.late.append(proposal)
                return held.after(proposal, Unknown(commit_id=name, cause="no answer"))
            outcome = model.write(proposal)
            lost = Unknown(commit_id=name, cause="no answer")
            return held.after(proposal, lost if step == "unanswered" else outcome)
    return held

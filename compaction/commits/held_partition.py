"""A partition that a run has claimed: its row, its unanswered commit, what the present row says.

A release is never required for correctness: the next run's claim opens a newer epoch, whether this
one was released or not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tierfold.compaction.commits.commit import (
    CommitProposal,
    ReleaseClaim,
    lost,
    outcome_of,
    proposed,
)
from tierfold.compaction.commits.row_changes import applied
from tierfold.compaction.model.outcomes import Committed, Outcome, Unknown
from tierfold.compaction.model.segments import PartitionState


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPartition:
    """A claimed partition; each step returns the next one. Once lost, it stays lost."""

    row: PartitionState
    """The row as the claim writes it, or the last commit that is known to have taken place."""
    outcome: Outcome
    """How the claim ended, or the last commit after it; `Fenced`, `LostRace`: the claim is lost."""
    unanswered: CommitProposal | None = None
    """The last commit, as long as `outcome` is `Unknown`: the row may already be another one."""

    def after(self, proposal: CommitProposal, outcome: Outcome) -> HeldPartition:
        """Return it once `proposal`, a change of its row, has ended with `outcome`."""
        match outcome:
            case Committed():
                return HeldPartition(row=applied(proposal, self.row), outcome=outcome)
            case Unknown():
                return replace(self, outcome=outcome, unanswered=proposal)
            case _:
                return replace(self, outcome=outcome, unanswered=None)

    def resolved(self, found: Outcome | None) -> HeldPartition:
        """Return it once someone has looked for its unanswered commit.

        `found` is the outcome as the catalog shows it. None: the row is unchanged, so nothing is
        proved, because the write may still arrive.
        """
        if self.unanswered is None or not isinstance(self.outcome, Unknown):
            return self
        return self.after(self.unanswered, found or replace(self.outcome, is_untraced=True))

    def seen(self, row: PartitionState | None) -> HeldPartition:
        """Return it as its present row shows it; None: the row is gone."""
        answer = None if self.unanswered is None else outcome_of(self.unanswered, row)
        now = self.resolved(answer)
        if not isinstance(now.outcome, Committed):
            return now
        if row is None or _written_by(row) != _written_by(now.row):
            return replace(now, outcome=lost(now.row.epoch, row))
        return replace(now, row=row)

    def release(self, commit_id: str, at_ms: int) -> CommitProposal | None:
        """Return the commit that gives up the claim alone; `at_ms`: the time, epoch milliseconds.

        None: the claim is lost or given up, or a commit has no answer. Nothing is written after
        such a commit: the row is left as it is until the next claim.
        """
        if not isinstance(self.outcome, Committed) or not self.row.owner_run:
            return None
        release = ReleaseClaim(run=self.row.owner_run)
        return proposed(self.row, release, commit_id=commit_id, at_ms=at_ms)


def _written_by(row: PartitionState) -> tuple[int, str, str]:
    return row.epoch, row.owner_run, row.commit_id

"""What wants to replace a row of the catalog, a claim or a commit, and how it ends by the row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from tierfold.compaction.commits.commit import (
    CommitIs,
    CommitProposal,
    ForgetPartition,
    applied,
    lost,
    outcome_of,
)
from tierfold.compaction.commits.invariants import (
    CLAIM_INVARIANTS,
    COMMIT_INVARIANTS,
    FORGET_INVARIANTS,
    RESTORE_INVARIANTS,
    Invariant,
    ensure,
)
from tierfold.compaction.model.outcomes import Committed, Fenced, LostRace, Outcome
from tierfold.compaction.model.segments import PartitionKey, PartitionState

RowId: TypeAlias = tuple[str, int]
"""Topic id and partition: which row, whatever the topic's name."""


class Attempt(Protocol):
    """Something that wants to replace one row."""

    @property
    def key(self) -> PartitionKey:
        """Whose row."""

    @property
    def success(self) -> Committed:
        """How it ends where it took place."""

    @property
    def made_on(self) -> str:
        """The commit id of the row that it was made on; empty: on none, or on any."""

    def outcome_of(self, row: PartitionState | None) -> Outcome | None:
        """How it has ended, judged by the row; None: it may be written."""

    def next_row(self, row: PartitionState | None) -> PartitionState:
        """What it writes; raises InvariantBroken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimAttempt:
    """A run opens the partition's next epoch."""

    read: PartitionState
    after: PartitionState

    @property
    def key(self) -> PartitionKey:
        """See `Attempt.key`."""
        return self.read.key

    @property
    def success(self) -> Committed:
        """See `Attempt.success`."""
        return Committed(epoch=self.after.epoch, commit_id=self.after.commit_id)

    @property
    def made_on(self) -> str:
        """See `Attempt.made_on`."""
        return self.read.commit_id

    def outcome_of(self, row: PartitionState | None) -> Outcome | None:
        """See `Attempt.outcome_of`."""
        found = "" if row is None else row.commit_id
        if found == self.after.commit_id:
            return self.success
        if found == self.read.commit_id:
            return None
        return LostRace(found_commit_id="") if row is None else lost(self.after.epoch, row)

    def next_row(self, row: PartitionState | None) -> PartitionState:
        """See `Attempt.next_row`."""
        # Where there is no row, all that is claimed is adopted by it.
        before = replace(self.read, segments=()) if row is None else row
        ensure(before, self.after, CLAIM_INVARIANTS)
        return self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAttempt:
    """A run changes what it has claimed."""

    proposal: CommitProposal

    @property
    def key(self) -> PartitionKey:
        """See `Attempt.key`."""
        return self.proposal.key

    @property
    def success(self) -> Committed:
        """See `Attempt.success`."""
        return Committed(epoch=self.proposal.epoch, commit_id=self.proposal.commit_id)

    @property
    def made_on(self) -> str:
        """See `Attempt.made_on`."""
        needs = (require for require in self.proposal.requires if isinstance(require, CommitIs))
        return next((need.commit_id for need in needs), "")

    def outcome_of(self, row: PartitionState | None) -> Outcome | None:
        """See `Attempt.outcome_of`."""
        if row is None:
            return LostRace(found_commit_id="")
        return outcome_of(self.proposal, row)

    def next_row(self, row: PartitionState | None) -> PartitionState:
        """See `Attempt.next_row`."""
        if row is None:
            raise ValueError(f"{self.key} was never claimed")
        after = applied(self.proposal, row)
        ensure(row, after, _invariants_of(self.proposal))
        return after


def _invariants_of(proposal: CommitProposal) -> tuple[Invariant, ...]:
    """What must hold between the row and what the proposal makes of it."""
    if any(isinstance(update, ForgetPartition) for update in proposal.updates):
        return FORGET_INVARIANTS
    return RESTORE_INVARIANTS if proposal.is_restore else COMMIT_INVARIANTS


def row_id_of(key: PartitionKey) -> RowId:
    """The partition's row."""
    return key.topic_id, key.partition


def by_row_id(states: Iterable[PartitionState]) -> dict[RowId, PartitionState]:
    """The states by their rows."""
    return {row_id_of(state.key): state for state in states}


def outcomes_of(
    attempts: Mapping[RowId, Attempt], rows: Mapping[RowId, PartitionState]
) -> dict[PartitionKey, Outcome]:
    """How those have ended that the rows end; the others may be written."""
    outcomes = {each.key: each.outcome_of(rows.get(row_id)) for row_id, each in attempts.items()}
    return {key: outcome for key, outcome in outcomes.items() if outcome is not None}


def overlaid(
    attempts: Mapping[RowId, Attempt], outcomes: Mapping[PartitionKey, Outcome]
) -> dict[RowId, Attempt]:
    """The attempts that seem lost: a later row may lie over theirs, and hide it."""
    return {
        row_id: each
        for row_id, each in attempts.items()
        if isinstance(outcomes.get(each.key), Fenced | LostRace)
    }

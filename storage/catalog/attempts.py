"""Claims and commits: what each writes to its catalog row, and its outcome by the row."""

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
"""Topic id and partition; they identify a row, whatever the topic's name."""


class Attempt(Protocol):
    """An attempt to replace one row."""

    @property
    def key(self) -> PartitionKey:
        """The row's partition."""

    @property
    def success(self) -> Committed:
        """The outcome if it took place."""

    @property
    def made_on(self) -> str:
        """The commit id of the row it is based on; empty: no row, or any row."""

    def outcome_of(self, row: PartitionState | None) -> Outcome | None:
        """The outcome, judged by the row; None: the attempt may be written."""

    def next_row(self, row: PartitionState | None) -> PartitionState:
        """The row it writes; raises InvariantBroken."""


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
        # Without a row, the claim adopts all segments.
        before = replace(self.read, segments=()) if row is None else row
        ensure(before, self.after, CLAIM_INVARIANTS)
        return self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAttempt:
    """A run changes a partition that it has claimed."""

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
    """The invariants between the row before and after the proposal."""
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
    """The outcomes that the rows decide; attempts without one may be written."""
    outcomes = {
        attempt.key: attempt.outcome_of(rows.get(row_id)) for row_id, attempt in attempts.items()
    }
    return {key: outcome for key, outcome in outcomes.items() if outcome is not None}


def overlaid(
    attempts: Mapping[RowId, Attempt], outcomes: Mapping[PartitionKey, Outcome]
) -> dict[RowId, Attempt]:
    """The attempts that seem lost; a later row may hide that they took place."""
    return {
        row_id: attempt
        for row_id, attempt in attempts.items()
        if isinstance(outcomes.get(attempt.key), Fenced | LostRace)
    }

"""Claims and commits: the row that each writes, and its outcome as the row decides it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from tierfold.compaction.commits.commit import (
    AdoptSegments,
    CommitIs,
    CommitProposal,
    ForgetPartition,
    lost,
    outcome_of,
)
from tierfold.compaction.commits.invariants import (
    ADOPT_INVARIANTS,
    CLAIM_INVARIANTS,
    COMMIT_INVARIANTS,
    FORGET_INVARIANTS,
    RESTORE_INVARIANTS,
    Invariant,
    ensure,
)
from tierfold.compaction.commits.row_changes import applied
from tierfold.compaction.commits.served_rows import SERVED_INVARIANTS, deletion_invariants
from tierfold.compaction.model.outcomes import Committed, Fenced, LostRace, Outcome
from tierfold.compaction.model.segments import PartitionKey, PartitionState

RowId: TypeAlias = tuple[str, int]
"""Topic id and partition; the topic's name does not identify a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt to replace one row."""

    key: PartitionKey
    """The row's partition."""
    success: Committed
    """The outcome if it took place."""
    made_on: str
    """The commit id of the row it is based on; empty: no row, or any row."""
    outcome_of: Callable[[PartitionState | None], Outcome | None]
    """(row) → the outcome that the row decides; None: the attempt may be written."""
    next_row: Callable[[PartitionState | None], PartitionState]
    """(row) → the row that the attempt writes; raises InvariantBroken."""


def claim_attempt(read: PartitionState, after: PartitionState) -> Attempt:
    """The attempt of a run to open the partition's next compaction epoch."""
    success = Committed(epoch=after.epoch, commit_id=after.commit_id)

    def outcome(row: PartitionState | None) -> Outcome | None:
        found = "" if row is None else row.commit_id
        if found == after.commit_id:
            return success
        if found == read.commit_id:
            return None
        return lost(after.epoch, row)

    def next_row(row: PartitionState | None) -> PartitionState:
        # Without a row, the claim adopts all segments.
        before = replace(read, segments=()) if row is None else row
        ensure(before, after, (*CLAIM_INVARIANTS, *SERVED_INVARIANTS))
        return after

    return Attempt(
        key=read.key,
        success=success,
        made_on=read.commit_id,
        outcome_of=outcome,
        next_row=next_row,
    )


def commit_attempt(proposal: CommitProposal) -> Attempt:
    """The attempt of a run to change a partition that it has claimed."""

    def next_row(row: PartitionState | None) -> PartitionState:
        if row is None:
            raise ValueError(f"{proposal.key} was never claimed")
        after = applied(proposal, row)
        served = (*SERVED_INVARIANTS, *deletion_invariants(proposal))
        ensure(row, after, (*_invariants_of(proposal), *served))
        return after

    needs = (require for require in proposal.requires if isinstance(require, CommitIs))
    return Attempt(
        key=proposal.key,
        success=Committed(epoch=proposal.epoch, commit_id=proposal.commit_id),
        made_on=next((need.commit_id for need in needs), ""),
        outcome_of=partial(outcome_of, proposal),
        next_row=next_row,
    )


def _invariants_of(proposal: CommitProposal) -> tuple[Invariant, ...]:
    if any(isinstance(update, ForgetPartition) for update in proposal.updates):
        return FORGET_INVARIANTS
    if any(isinstance(update, AdoptSegments) for update in proposal.updates):
        return ADOPT_INVARIANTS
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
    """The outcomes that the rows decide; an attempt without one may be written."""
    outcomes = {
        attempt.key: attempt.outcome_of(rows.get(row_id)) for row_id, attempt in attempts.items()
    }
    return {key: outcome for key, outcome in outcomes.items() if outcome is not None}


def overlaid(
    attempts: Mapping[RowId, Attempt], outcomes: Mapping[PartitionKey, Outcome]
) -> dict[RowId, Attempt]:
    """The attempts that seem lost, but may have taken place: a later row hides earlier ones."""
    return {
        row_id: attempt
        for row_id, attempt in attempts.items()
        if isinstance(outcomes.get(attempt.key), Fenced | LostRace)
    }

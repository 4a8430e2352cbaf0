"""The row of a partition that brokers serve, as its runs claim and change it.

The catalog's own attempts decide each write, invariants included; the Delta table below them is
simulated elsewhere (`environment_table`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.faults.simulation.simulation_scheduler import READ_FAULTS, WRITE_FAULTS, Actor, Call
from tierfold.compaction.commits.commit import CommitProposal
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.outcomes import Committed, Outcome
from tierfold.compaction.model.segments import PartitionState
from tierfold.storage.catalog.attempts import Attempt, claim_attempt, commit_attempt

COMMIT_WEIGHT: Final = 5


class Stopped(Exception):
    """A run ends: it was fenced, a call failed, or nothing can be done now."""


@dataclass(slots=True, kw_only=True)
class ServedTable:
    """One row; each change is one atomic step."""

    row: PartitionState
    changed: Callable[[PartitionState], None]
    """Called with each new row."""

    def read(self, actor: Actor) -> PartitionState:
        """Read the row; raises UnreadableObject."""
        row: PartitionState = actor.do(
            Call(what="read the row", effect=lambda: self.row, faults=READ_FAULTS, error=failure)
        )
        return row

    def claim(self, actor: Actor, read: PartitionState, after: PartitionState) -> None:
        """Claim the partition; raises Stopped if another run was faster."""
        self._write(actor, f"claim epoch {after.epoch}", claim_attempt(read, after))

    def commit(self, actor: Actor, proposal: CommitProposal) -> None:
        """Commit a change; raises Stopped if the run was fenced."""
        names = "+".join(type(update).__name__ for update in proposal.updates)
        self._write(actor, f"commit {names}", commit_attempt(proposal))

    def _write(self, actor: Actor, what: str, attempt: Attempt) -> None:
        outcome: Outcome = actor.do(
            Call(
                what=what,
                effect=lambda: self._attempted(attempt),
                faults=WRITE_FAULTS,
                error=failure,
                is_commit=True,
                weight=COMMIT_WEIGHT,
            )
        )
        if not isinstance(outcome, Committed):
            raise Stopped(f"{what}: {outcome}")

    def _attempted(self, attempt: Attempt) -> Outcome:
        found = attempt.outcome_of(self.row)
        if found is not None:
            return found
        self.row = attempt.next_row(self.row)
        self.changed(self.row)
        return attempt.success


def failure(cause: str) -> UnreadableObject:
    """The error of a call that fails."""
    return UnreadableObject(cause, where="virtual", remedy="Run again.")

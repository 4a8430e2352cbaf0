"""One partition in a run of `vacuum`, from its survey to its outcome."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from tierfold.compaction.commits.holders import Holder
from tierfold.compaction.deletion.deletion_plan import DeletionPlan
from tierfold.compaction.deletion.expiry import Expired
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.discovery.view import Refusal
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.outcomes import Committed, Fenced, LostRace, Outcome, Unknown
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.jobs.pipeline.partition_report import (
    FAILED,
    FENCED,
    LEFT,
    LOST_RACE,
    PLANNED,
    REFUSED,
    UNKNOWN,
    VACUUMED,
    PartitionReport,
    fenced_by,
)

NOTHING_DELETED: Final = "nothing was deleted"
GOES_ON: Final = "the catalog lists what is being deleted, and the next run continues"


_RULES: Final = Rules()


class Kind(StrEnum):
    """Why the objects can be deleted."""

    RETIRED = "retired"
    ORPHAN = "orphan"
    SET_APART = "set apart"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionCandidate:
    """A segment whose objects are deleted, or an incomplete upload."""

    kind: Kind
    why: str
    segment_id: str = ""
    """Empty: an incomplete upload."""
    objects: tuple[tuple[str, int], ...]
    """Key and bytes of each object in the listing, in the order of their deletion; none: they were
    already gone."""
    is_gone: bool = False
    """The listing after the deletion lacks it."""

    @property
    def names(self) -> frozenset[str]:
        """Its name in a listing: the segment's id, or its objects' keys."""
        return frozenset([self.segment_id] if self.segment_id else [key for key, _ in self.objects])

    @property
    def size_bytes(self) -> int:
        """Bytes of its objects."""
        return sum(size for _, size in self.objects)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionVacuum:
    """One partition, what is deleted of it, and how far the deletion is."""

    deletion: DeletionPlan
    """Empty if the partition is refused; it is then left unchanged."""
    row: PartitionState
    """The row to claim; once claimed, the row as the claim or a later commit wrote it."""
    outcome: str = PLANNED
    """One of the constants of `jobs.pipeline.partition_report`; `PLANNED` until it ends."""
    reason: str = ""
    """Why, as a sentence; empty if the outcome needs no reason."""
    refusals: tuple[RefusalPart, ...] = ()
    """Why it is refused, each reason by itself; none: it is not."""
    waits: tuple[str, ...] = ()
    """What is deleted later although it is refused, and when, a clause each."""
    candidates: tuple[DeletionCandidate, ...] = ()
    held_by: Holder | None = None
    """The other run that has the partition, or was faster; None: there is none."""
    rules: Rules = _RULES
    """Of its topic."""
    events_sent: int = 0
    """How many events the run sent to brokers."""
    log_start_moved: int | None = None
    """To where brokers moved the log start when they were asked; None: they did not."""

    @property
    def key(self) -> PartitionKey:
        """The partition's key."""
        return self.deletion.key

    @property
    def expiring(self) -> tuple[Expired, ...]:
        """The live segments that expire, here or with brokers."""
        move = self.deletion.log_start_move
        return self.deletion.expired if move is None else move.expired

    @property
    def is_open(self) -> bool:
        """Whether the partition has not ended yet."""
        return self.outcome == PLANNED

    @property
    def log_start_offset(self) -> int | None:
        """The log start afterwards; None: unknown."""
        if self.outcome == REFUSED:
            return None
        move = self.deletion.log_start_move
        planned = move.offset if move is not None and self.outcome == PLANNED else None
        return max(self.deletion.log_start_offset, self.log_start_moved or 0, planned or 0)

    @property
    def notes(self) -> tuple[str, ...]:
        """What stays and why, where the log start moves, and what is still listed; sentences."""
        late = sum(not candidate.is_gone for candidate in self.candidates)
        notes, move = self.deletion.notes, self.deletion.log_start_move
        if move is not None and self.outcome == PLANNED:
            notes = (*notes, move.note)
        if self.log_start_moved is not None:
            offset = self.log_start_moved
            notes = (*notes, f"brokers moved the log start to {offset}, and delete what is below")
        if self.outcome != VACUUMED or not late:
            return notes
        return (*notes, f"{late} deleted ones are still listed; the next run lists them again")

    @property
    def events_planned(self) -> int:
        """How many events brokers are to be sent, by the survey."""
        return self.deletion.events if self.outcome == PLANNED else 0

    @property
    def objects(self) -> int:
        """The number of objects to delete."""
        return sum(len(candidate.objects) for candidate in self.candidates)

    @property
    def size_bytes(self) -> int:
        """Their bytes."""
        return sum(candidate.size_bytes for candidate in self.candidates)

    @property
    def gone_ids(self) -> frozenset[str]:
        """Ids of the segments that a listing no longer shows."""
        gone = (one.segment_id for one in self.candidates if one.is_gone)
        return frozenset(segment_id for segment_id in gone if segment_id)

    def failed(self, what: str, *, so_far: str = NOTHING_DELETED) -> PartitionVacuum:
        """Return it as failed; `so_far` as in `after`."""
        return replace(self, outcome=FAILED, reason=f"{what.rstrip('.')}; {so_far}")

    def refused(self, refusal: Refusal) -> PartitionVacuum:
        """Return it as refused after it was planned."""
        return replace(self, outcome=REFUSED, reason=refusal.sentence)

    def left(self, why: str, *, so_far: str = NOTHING_DELETED) -> PartitionVacuum:
        """Return it as left for the next run; `why`: a clause, `so_far` as in `after`."""
        return replace(self, outcome=LEFT, reason=f"{why}; {so_far}")

    def allowing(self, deletion: DeletionPlan) -> PartitionVacuum:
        """Return it with a plan that has less to delete."""
        kept = {*deletion.marked_ids, *_ids(deletion.orphans), *_ids(deletion.set_apart)}
        stay = tuple(one for one in self.candidates if not one.segment_id or one.segment_id in kept)
        return replace(self, deletion=deletion, candidates=stay)

    def left_to(self, holder: Holder) -> PartitionVacuum:
        """Return it as left to another run."""
        return replace(self.left(holder.why_left), held_by=holder)

    def after(
        self, outcome: Outcome | TierfoldError, so_far: str = NOTHING_DELETED
    ) -> PartitionVacuum:
        """Return it after a claim, a commit or a recheck.

        Unless that went well, the partition has ended. `so_far`: a clause on what is deleted.
        """
        match outcome:
            case Committed():
                return self
            case TierfoldError():
                return self.failed(str(outcome), so_far=so_far)
            case Fenced():
                reason = f"{fenced_by(outcome)}; {so_far}; run again"
                holder = Holder(run=outcome.by_run)
                return replace(self, outcome=FENCED, reason=reason, held_by=holder)
            case LostRace():
                reason = f"another run changed the partition first; {so_far}; run again"
                return replace(self, outcome=LOST_RACE, reason=reason)
            case Unknown(commit_id=commit_id, cause=cause):
                reason = f"commit {commit_id} got no answer ({cause}); {so_far}"
                return replace(self, outcome=UNKNOWN, reason=reason)

    def as_run(self) -> PartitionReport:
        """Return the report for the `runs` table: segments in, none out."""
        return PartitionReport(
            key=self.key,
            outcome=self.outcome,
            reason=self.reason,
            epoch=self.row.epoch,
            segments_in=len(self.gone_ids),
            bytes_in=sum(one.size_bytes for one in self.candidates if one.is_gone),
            events_sent=self.events_sent,
        )


def _ids(found: Iterable[ListedSegment]) -> Iterator[str]:
    return (one.segment_id for one in found)

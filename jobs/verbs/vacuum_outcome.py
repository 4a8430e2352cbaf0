"""The outcome of `vacuum` for each partition as one value, for tables and for JSON."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from tierfold.compaction.deletion.expiry import Expired
from tierfold.compaction.model.outcomes import Committed, Fenced, LostRace, Outcome, Unknown
from tierfold.compaction.model.segments import PartitionKey
from tierfold.jobs.pipeline.partition_report import (
    FENCED,
    LOST_RACE,
    UNKNOWN,
    VACUUMED,
    PartitionReport,
    fenced_by,
)


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
    start_offset: int = 0
    objects: tuple[tuple[str, int], ...]
    """Key in the store and bytes of each, as listed before; none: they were already gone."""
    is_gone: bool = False
    """A listing after the deletion no longer shows it."""

    @property
    def names(self) -> frozenset[str]:
        """Its name in a listing: the segment's id, or its objects' keys."""
        return frozenset([self.segment_id] if self.segment_id else [key for key, _ in self.objects])

    @property
    def size_bytes(self) -> int:
        """Bytes of its objects."""
        return sum(size for _, size in self.objects)


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumReport:
    """One partition's outcome."""

    key: PartitionKey
    outcome: str
    """One of the constants of `jobs.pipeline.partition_report`."""
    reason: str = ""
    """Why, as a sentence; empty if the outcome needs no reason."""
    epoch: int = 0
    """See `PartitionReport.epoch`."""
    expired: tuple[Expired, ...] = ()
    """Live segments that are retired now; their objects stay for the grace period."""
    log_start_offset: int | None = None
    """The log start afterwards; None: unknown."""
    candidates: tuple[DeletionCandidate, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences about what stays, and why."""

    @property
    def objects(self) -> int:
        """The number of objects to delete."""
        return sum(len(candidate.objects) for candidate in self.candidates)

    @property
    def size_bytes(self) -> int:
        """Their bytes."""
        return sum(candidate.size_bytes for candidate in self.candidates)

    def as_json(self) -> dict[str, Any]:
        """The partition's entry in the `--json` document."""
        return {
            "topic": self.key.topic,
            "partition": self.key.partition,
            "topic_id": self.key.topic_id,
            "outcome": self.outcome,
            "reason": self.reason,
            "epoch": self.epoch,
            "log_start_offset": self.log_start_offset,
            "expired": [_expired_json(expired_segment) for expired_segment in self.expired],
            "objects": [
                entry for candidate in self.candidates for entry in _object_entries(candidate)
            ],
            "object_bytes": self.size_bytes,
            "notes": list(self.notes),
        }

    def as_run(self) -> PartitionReport:
        """Return the report for the `runs` table: segments in, none out."""
        gone = [candidate for candidate in self.candidates if candidate.is_gone]
        return PartitionReport(
            key=self.key,
            outcome=self.outcome,
            reason=self.reason,
            epoch=self.epoch,
            segments_in=len({candidate.segment_id for candidate in gone if candidate.segment_id}),
            bytes_in=sum(candidate.size_bytes for candidate in gone),
        )

    def ended(self, outcome: Outcome, *, so_far: str) -> VacuumReport:
        """Return it after a claim or a commit; `so_far`: a clause on what was deleted before."""
        match outcome:
            case Committed():
                return self.vacuumed()
            case Fenced():
                reason = f"{fenced_by(outcome)}; {so_far}; run again"
                return replace(self, outcome=FENCED, reason=reason)
            case LostRace():
                reason = f"another run changed the partition first; {so_far}; run again"
                return replace(self, outcome=LOST_RACE, reason=reason)
            case Unknown(commit_id=commit_id, cause=cause):
                reason = f"commit {commit_id} got no answer ({cause}); {so_far}"
                return replace(self, outcome=UNKNOWN, reason=reason)

    def vacuumed(self) -> VacuumReport:
        """Return it as done; it lists candidates that are still there."""
        late = sum(not candidate.is_gone for candidate in self.candidates)
        note = f"{late} are listed still, though deleted: the next run looks again"
        notes = (*self.notes, note) if late else self.notes
        return replace(self, outcome=VACUUMED, reason="", notes=notes)


def _expired_json(expired: Expired) -> dict[str, Any]:
    return {
        "id": expired.segment.segment_id,
        "start_offset": expired.segment.start_offset,
        "end_offset": expired.segment.end_offset,
        "size_bytes": expired.segment.size_bytes,
        "max_timestamp_ms": expired.segment.max_timestamp_ms,
        "reason": expired.reason.value,
    }


def _object_entries(candidate: DeletionCandidate) -> list[dict[str, Any]]:
    return [
        {
            "object": key,
            "size_bytes": size_bytes,
            "kind": candidate.kind.value,
            "why": candidate.why,
            "segment_id": candidate.segment_id,
            "is_gone": candidate.is_gone,
        }
        for key, size_bytes in candidate.objects
    ]

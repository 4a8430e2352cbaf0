"""What `retain` tells of each partition: one value, whatever happened, for people and machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from rich.console import Console
from rich.filesize import decimal
from rich.text import Text

from compaction.outcomes import Committed, Fenced, LostRace, Outcome, Unknown
from compaction.retention import Expired
from compaction.segments import PartitionKey
from compaction.shown import printable
from compaction.wording import counted, spaced
from jobs.outcome_reports import (
    FENCED,
    LOST_RACE,
    PLANNED,
    SWEPT,
    UNKNOWN,
    PartitionReport,
    fenced_by,
)
from jobs.tables import (
    NO_PARTITIONS,
    URGENCY,
    Columns,
    outcomes_line,
    print_beyond,
    print_cut,
    sentences,
    styled,
)

_COLUMNS: Final[Columns] = (
    ("partition", "left"),
    ("outcome", "left"),
    ("expire", "right"),
    ("go", "right"),
    ("objects", "right"),
    ("bytes", "right"),
    ("log start", "right"),
    ("why", "left"),
)

LINES_MAX: Final = 100
"""Objects that a dry run lists before the list is cut."""


class Kind(StrEnum):
    """Why nobody needs the objects any more."""

    RETIRED = "retired"
    ORPHAN = "orphan"
    SET_APART = "set apart"
    LEFTOVER = "leftover"


@dataclass(frozen=True, slots=True, kw_only=True)
class Doomed:
    """A segment whose objects go, or what a write that never ended left."""

    kind: Kind
    why: str
    segment_id: str = ""
    """Empty: of no segment."""
    start_offset: int = 0
    objects: tuple[tuple[str, int], ...]
    """Key in the store and bytes of each, as listed before; none: they were gone already."""
    is_gone: bool = False
    """A listing afterwards shows nothing of it."""

    @property
    def names(self) -> frozenset[str]:
        """What a listing calls it: the segment's id, or its objects' keys."""
        return frozenset([self.segment_id] if self.segment_id else [key for key, _ in self.objects])

    @property
    def size_bytes(self) -> int:
        """Bytes of its objects."""
        return sum(size for _, size in self.objects)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainReport:
    """One partition's outcome."""

    key: PartitionKey
    outcome: str
    """One of the constants of `jobs.outcome_reports`."""
    reason: str = ""
    """Why, as a sentence; empty where the outcome says it all."""
    epoch: int = 0
    """See `PartitionReport.epoch`."""
    expired: tuple[Expired, ...] = ()
    """Live segments that are retired now; their objects stay for the grace period."""
    log_start_offset: int | None = None
    """After it; None: nobody knows."""
    doomed: tuple[Doomed, ...] = ()
    notes: tuple[str, ...] = ()
    """What stays and why, a sentence each."""

    @property
    def objects(self) -> int:
        """How many objects there were to delete."""
        return sum(len(each.objects) for each in self.doomed)

    @property
    def size_bytes(self) -> int:
        """Their bytes."""
        return sum(each.size_bytes for each in self.doomed)

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
            "expired": [_expired_json(each) for each in self.expired],
            "objects": [entry for each in self.doomed for entry in _object_entries(each)],
            "object_bytes": self.size_bytes,
            "notes": list(self.notes),
        }

    def as_run(self) -> PartitionReport:
        """As the `runs` table keeps it: what went in, and nothing came out."""
        gone = [each for each in self.doomed if each.is_gone]
        return PartitionReport(
            key=self.key,
            outcome=self.outcome,
            reason=self.reason,
            epoch=self.epoch,
            segments_in=len({each.segment_id for each in gone if each.segment_id}),
            bytes_in=sum(each.size_bytes for each in gone),
        )

    def ended(self, outcome: Outcome, *, so_far: str) -> RetainReport:
        """The same, after a claim or a commit; `so_far`: what was deleted before, a clause."""
        match outcome:
            case Committed():
                return self.swept()
            case Fenced():
                reason = f"{fenced_by(outcome)}; {so_far}; run again"
                return replace(self, outcome=FENCED, reason=reason)
            case LostRace():
                reason = f"another run changed the partition first; {so_far}; run again"
                return replace(self, outcome=LOST_RACE, reason=reason)
            case Unknown(commit_id=commit_id, cause=cause):
                reason = f"commit {commit_id} got no answer ({cause}); {so_far}"
                return replace(self, outcome=UNKNOWN, reason=reason)

    def swept(self) -> RetainReport:
        """The same, done; what is listed all the same is told."""
        late = sum(not each.is_gone for each in self.doomed)
        note = f"{late} are listed still, though deleted: the next run looks again"
        notes = (*self.notes, note) if late else self.notes
        return replace(self, outcome=SWEPT, reason="", notes=notes)


def _expired_json(each: Expired) -> dict[str, Any]:
    return {
        "id": each.segment.segment_id,
        "start_offset": each.segment.start_offset,
        "end_offset": each.segment.end_offset,
        "size_bytes": each.segment.size_bytes,
        "max_timestamp_ms": each.segment.max_timestamp_ms,
        "reason": each.reason.value,
    }


def _object_entries(each: Doomed) -> list[dict[str, Any]]:
    return [
        {
            "object": key,
            "size_bytes": size_bytes,
            "kind": each.kind.value,
            "why": each.why,
            "segment_id": each.segment_id,
            "is_gone": each.is_gone,
        }
        for key, size_bytes in each.objects
    ]


def print_retained(console: Console, reports: Sequence[RetainReport], title: str) -> None:
    """The summary of `retain`; of a dry run every object, too."""
    if not reports:
        console.print(NO_PARTITIONS)
        return
    ordered = sorted(reports, key=lambda each: (URGENCY.index(each.outcome), each.key))
    print_cut(console, title, _COLUMNS, [_row(each) for each in ordered])
    planned = [each for each in ordered if each.outcome == PLANNED]
    lines = [line for each in planned for line in _lines(each)]
    for line in lines[:LINES_MAX]:
        console.print(Text(printable(line)), soft_wrap=True)
    print_beyond(console, len(lines) - LINES_MAX)
    console.print(_sum(reports))


def _row(each: RetainReport) -> tuple[str | Text, ...]:
    counts = [(sum(one.kind is kind for one in each.doomed), kind) for kind in Kind]
    return (
        str(each.key),
        styled(each.outcome),
        spaced(len(each.expired)) if each.expired else "",
        "\n".join(f"{spaced(count)} {kind}" for count, kind in counts if count),
        spaced(each.objects) if each.objects else "",
        decimal(each.size_bytes) if each.doomed else "",
        "" if each.log_start_offset is None else str(each.log_start_offset),
        sentences(each.reason, each.notes),
    )


def _lines(each: RetainReport) -> Iterator[str]:
    """What a dry run lists of a partition: what would be retired, and what deleted."""
    for gone in each.expired:
        segment = gone.segment
        yield (
            f"expires   {segment.size_bytes:>12}  {each.key} segment {segment.segment_id}, offsets"
            f" {segment.start_offset} to {segment.end_offset}: {gone.reason}"
        )
    for doomed in each.doomed:
        for key, size_bytes in doomed.objects:
            yield f"{doomed.kind:<9} {size_bytes:>12}  {key}: {doomed.why}"


def _sum(reports: Sequence[RetainReport]) -> str:
    gone = [one for each in reports for one in each.doomed if one.is_gone]
    to_go = [one for each in reports if each.outcome == PLANNED for one in each.doomed]
    said = outcomes_line([each.outcome for each in reports], URGENCY)
    for verb, doomed in (("Deleted", gone), ("To delete", to_go)):
        if doomed:
            size_bytes = sum(one.size_bytes for one in doomed)
            count = sum(len(one.objects) for one in doomed)
            said += (
                f" {verb}: {counted(count, 'object')}, {decimal(size_bytes)}"
                f" ({spaced(size_bytes)} bytes)."
            )
    return said


def print_vacuumed(console: Console, count: int, *, is_dry_run: bool) -> None:
    """What goes of the catalog's own past; nothing where nothing does."""
    if count:
        done = "to delete" if is_dry_run else "deleted"
        files = counted(count, "file")
        console.print(f"{files} of the catalog, superseded for thirty days: {done}.")

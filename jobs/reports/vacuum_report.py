"""The result of `vacuum`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console
from rich.filesize import decimal
from rich.text import Text

from tierfold.compaction.model.redaction import printable
from tierfold.compaction.model.wording import counted, spaced
from tierfold.jobs.context.publishing_settings import Publishing
from tierfold.jobs.pipeline.partition_report import PLANNED
from tierfold.jobs.reports.holders_report import print_holders, shown_reason
from tierfold.jobs.reports.refusals_report import print_refusals, see_below
from tierfold.jobs.reports.result import Result, concluded, fields, named_segment
from tierfold.jobs.reports.tables import (
    DRY_RUN,
    NO_PARTITIONS,
    URGENCY,
    Column,
    by_urgency,
    exact_bytes,
    outcomes_line,
    print_omitted,
    print_rows,
    rows_shown,
    sentences,
    styled,
)
from tierfold.jobs.reports.views import ALL, Columns, View
from tierfold.jobs.verbs.vacuum_outcome import DeletionCandidate, Kind, PartitionVacuum

_OF_BROKERS: Final = ("events_planned", "events_sent", "log_start_moved")
"""The fields that a document has only beside brokers."""

LINES_MAX: Final = 100
"""Maximum number of objects that a dry run lists."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class VacuumResult(Result[PartitionVacuum]):
    """What `vacuum` retired and deleted, or would."""

    verb = "vacuum"
    catalog_files: int = 0
    """Superseded files of the catalog that were deleted, or would be."""
    publishing: Publishing = Publishing.NOT_NAMED
    """What brokers learn of the run."""

    def entry(self, partition: PartitionVacuum) -> dict[str, Any]:
        """See `Result`."""
        beside = _OF_BROKERS if self.publishing in {Publishing.ON, Publishing.OFF} else ()
        return _entry(partition) | fields(partition, *beside)

    def stored_bytes_added(self, partition: PartitionVacuum) -> int:
        """See `Result`: of a segment, what the last listing lacks."""
        gone = (one for one in partition.candidates if one.is_gone and one.segment_id)
        return -sum(one.size_bytes for one in gone)

    def details(self) -> dict[str, Any]:
        """See `Result`."""
        return {"catalog_files": self.catalog_files}

    def columns(self) -> Columns:
        """See `Result`."""
        return FIELDS

    def print_tables(self, console: Console, view: View = ALL) -> None:
        """See `Result`: a dry run also lists the objects."""
        if self.partitions:
            rows, rows_max = self.shown(view), view.rows_max
            if not view.sort:
                rows.sort(key=by_urgency)
                rows_max = rows_shown([report.outcome for report in rows], rows_max)
            columns = _WITH_EVENTS if any(map(_events, self.partitions)) else _COLUMNS
            title = f"run {self.run_id}" if self.run_id else DRY_RUN
            print_rows(console, title, columns, rows, rows_max=rows_max)
            print_refusals(console, rows, of_all=len(self.partitions))
            _print_objects(console, rows)
            console.print(_totals(self.partitions))
            print_holders(console, rows)
        else:
            console.print(NO_PARTITIONS)
        if self.catalog_files:
            files = counted(self.catalog_files, "file")
            done = "deleted" if self.run_id else "to delete"
            console.print(f"{files} of the catalog, no longer needed: {done}.")


def _entry(report: PartitionVacuum) -> dict[str, Any]:
    holder = {"held_by": report.held_by.run} if report.held_by and report.held_by.run else {}
    return {
        **concluded(report, report.notes, report.refusals),
        "epoch": report.row.epoch,
        **holder,
        "log_start_offset": report.log_start_offset,
        "expired": [
            named_segment(expired.segment, "max_timestamp_ms") | {"reason": expired.reason}
            for expired in report.expiring
        ],
        "expired_segments": len(report.deletion.expired),
        "objects": [entry for one in report.candidates for entry in _objects(one)],
        "object_count": report.objects,
        "object_bytes": report.size_bytes,
    }


def _objects(candidate: DeletionCandidate) -> Iterator[dict[str, Any]]:
    for key, size_bytes in candidate.objects:
        found = fields(candidate, "kind", "why", "segment_id", "is_gone")
        yield {"object": key, "size_bytes": size_bytes, **found}


def _print_objects(console: Console, reports: Sequence[PartitionVacuum]) -> None:
    planned = [report for report in reports if report.outcome == PLANNED]
    lines = [line for report in planned for line in _lines(report)]
    for line in lines[:LINES_MAX]:
        console.print(Text(printable(line)), soft_wrap=True)
    print_omitted(console, len(lines) - LINES_MAX)


def _kinds(report: PartitionVacuum) -> str:
    counts = [(sum(one.kind is kind for one in report.candidates), kind) for kind in Kind]
    return "\n".join(f"{spaced(count)} {kind}" for count, kind in counts if count)


def _shown(report: PartitionVacuum) -> str:
    return "; ".join((*report.waits, see_below(report, shown_reason(report))))


def _log_start(report: PartitionVacuum) -> str:
    return "" if report.log_start_offset is None else str(report.log_start_offset)


def _unless_zero(count: int) -> str:
    return spaced(count) if count else ""


_COLUMNS: Final[Sequence[Column[PartitionVacuum]]] = (
    ("partition", "left", lambda report: str(report.key)),
    ("outcome", "left", lambda report: styled(report.outcome)),
    ("expiring", "right", lambda report: _unless_zero(len(report.expiring))),
    ("deleting", "right", _kinds),
    ("objects", "right", lambda report: _unless_zero(report.objects)),
    ("bytes", "right", lambda report: decimal(report.size_bytes) if report.candidates else ""),
    ("log start", "right", _log_start),
    ("why", "left", lambda report: sentences(_shown(report), report.notes)),
)


FIELDS: Final[Columns] = {
    "partition": ("topic", "partition"),
    "outcome": ("outcome",),
    "expiring": ("expired_segments",),
    "objects": ("object_count",),
    "bytes": ("object_bytes",),
    "log start": ("log_start_offset",),
    "why": ("reason", "notes"),
}
"""The fields of an entry that the columns show."""


def _events(report: PartitionVacuum) -> int:
    return report.events_sent or report.events_planned


_WITH_EVENTS: Final[Sequence[Column[PartitionVacuum]]] = (
    *_COLUMNS[:-2],
    ("events", "right", lambda report: _unless_zero(_events(report))),
    *_COLUMNS[-2:],
)


def _lines(report: PartitionVacuum) -> Iterator[str]:
    """The lines of a dry run: what would be retired and what would be deleted."""
    for expired in report.expiring:
        segment = expired.segment
        yield (
            f"expires   {segment.size_bytes:>12}  {report.key} segment {segment.segment_id},"
            f" offsets {segment.start_offset} to {segment.end_offset}: {expired.reason}"
        )
    for candidate in report.candidates:
        for key, size_bytes in candidate.objects:
            yield f"{candidate.kind:<9} {size_bytes:>12}  {key}: {candidate.why}"


def _totals(reports: Sequence[PartitionVacuum]) -> str:
    gone = [one for report in reports for one in report.candidates if one.is_gone]
    to_go = [one for report in reports if report.outcome == PLANNED for one in report.candidates]
    line = outcomes_line([report.outcome for report in reports], URGENCY)
    for verb, candidates in (("Deleted", gone), ("To delete", to_go)):
        if candidates:
            count = sum(len(one.objects) for one in candidates)
            size_bytes = sum(one.size_bytes for one in candidates)
            line += f" {verb}: {counted(count, 'object')}, {exact_bytes(size_bytes)}."
    for verb, events in (
        ("Sent", sum(report.events_sent for report in reports)),
        ("To send", sum(report.events_planned for report in reports)),
    ):
        if events:
            line += f" {verb}: {counted(events, 'event')} to brokers."
    return line

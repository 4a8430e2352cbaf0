"""The tables of `vacuum`. Nothing here decides or computes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.filesize import decimal
from rich.text import Text

from tierfold.compaction.model.redaction import printable
from tierfold.compaction.model.wording import counted, spaced
from tierfold.jobs.pipeline.partition_report import PLANNED
from tierfold.jobs.reports.tables import (
    NO_PARTITIONS,
    URGENCY,
    Columns,
    outcomes_line,
    print_beyond,
    print_cut,
    sentences,
    styled,
)
from tierfold.jobs.verbs.vacuum_outcome import Kind, PartitionVacuum

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
"""Maximum number of objects that a dry run lists."""


def print_vacuum(console: Console, reports: Sequence[PartitionVacuum], title: str) -> None:
    """Print the summary of `vacuum`; a dry run also lists the objects."""
    if not reports:
        console.print(NO_PARTITIONS)
        return
    ordered = sorted(reports, key=lambda report: (URGENCY.index(report.outcome), report.key))
    print_cut(console, title, _COLUMNS, [_row(report) for report in ordered])
    planned = [report for report in ordered if report.outcome == PLANNED]
    lines = [line for report in planned for line in _lines(report)]
    for line in lines[:LINES_MAX]:
        console.print(Text(printable(line)), soft_wrap=True)
    print_beyond(console, len(lines) - LINES_MAX)
    console.print(_sum(reports))


def _row(report: PartitionVacuum) -> tuple[str | Text, ...]:
    counts = [(sum(one.kind is kind for one in report.candidates), kind) for kind in Kind]
    return (
        str(report.key),
        styled(report.outcome),
        spaced(len(report.deletion.expired)) if report.deletion.expired else "",
        "\n".join(f"{spaced(count)} {kind}" for count, kind in counts if count),
        spaced(report.objects) if report.objects else "",
        decimal(report.size_bytes) if report.candidates else "",
        "" if report.log_start_offset is None else str(report.log_start_offset),
        sentences(report.reason, report.notes),
    )


def _lines(report: PartitionVacuum) -> Iterator[str]:
    """The lines of a dry run: what would be retired and what would be deleted."""
    for gone in report.deletion.expired:
        segment = gone.segment
        yield (
            f"expires   {segment.size_bytes:>12}  {report.key} segment {segment.segment_id},"
            f" offsets {segment.start_offset} to {segment.end_offset}: {gone.reason}"
        )
    for candidates in report.candidates:
        for key, size_bytes in candidates.objects:
            yield f"{candidates.kind:<9} {size_bytes:>12}  {key}: {candidates.why}"


def _sum(reports: Sequence[PartitionVacuum]) -> str:
    gone = [one for report in reports for one in report.candidates if one.is_gone]
    to_go = [one for report in reports if report.outcome == PLANNED for one in report.candidates]
    said = outcomes_line([report.outcome for report in reports], URGENCY)
    for verb, candidates in (("Deleted", gone), ("To delete", to_go)):
        if candidates:
            size_bytes = sum(one.size_bytes for one in candidates)
            count = sum(len(one.objects) for one in candidates)
            said += (
                f" {verb}: {counted(count, 'object')}, {decimal(size_bytes)}"
                f" ({spaced(size_bytes)} bytes)."
            )
    return said


def print_catalog_cleaned(console: Console, count: int, *, is_dry_run: bool) -> None:
    """Print how many old catalog files are deleted, if any."""
    if count:
        done = "to delete" if is_dry_run else "deleted"
        files = counted(count, "file")
        console.print(f"{files} of the catalog, superseded for thirty days: {done}.")

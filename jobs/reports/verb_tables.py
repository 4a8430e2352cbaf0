"""Tables for people, one JSON document for machines. Nothing here decides or computes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, Final

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from tierfold.compaction.cleaning.counts import RECORD_OUTCOMES, total
from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.redaction import printable
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.wording import counted, spaced
from tierfold.jobs.context.timestamps import timestamp_text
from tierfold.jobs.pipeline.partition_report import (
    COMPACTED,
    FAILED,
    FENCED,
    LEFT,
    LOST_RACE,
    NOTHING_TO_DO,
    PLANNED,
    REFUSED,
    UNKNOWN,
    PartitionReport,
    max_compaction_delay_secs,
)
from tierfold.jobs.reports.tables import (
    NO_PARTITIONS,
    ROWS_MAX,
    URGENCY,
    Columns,
    of_markers,
    offsets,
    outcomes_line,
    print_cut,
    sentences,
    styled,
)
from tierfold.jobs.settings.resolution import EffectiveSetting
from tierfold.jobs.verbs.status import PartitionStatus

_AS_DONE: Final = (
    COMPACTED,
    PLANNED,
    LEFT,
    NOTHING_TO_DO,
    REFUSED,
    FAILED,
    FENCED,
    LOST_RACE,
    UNKNOWN,
)
"""The order of the counts below the table: successes first."""

_KEYLESS_UNKNOWN: Final = (
    "Records without a key are dropped. How many is unknown until scanned; compact.keyless.max"
    " limits them."
)

_REPORT_COLUMNS: Final[Columns] = (
    ("partition", "left"),
    ("outcome", "left"),
    ("offsets", "right"),
    ("segments", "right"),
    ("bytes", "right"),
    ("why", "left"),
)
_STATUS_COLUMNS: Final[Columns] = (
    ("partition", "left"),
    ("segments", "right"),
    ("bytes", "right"),
    ("offsets", "right"),
    ("dirty", "right"),
    ("clean below", "right"),
    ("epoch", "right"),
    ("retired", "right"),
    ("remarks", "left"),
)
LATE_MAX: Final = 5
"""Maximum number of partitions with a late active segment in a message; the JSON has all."""


def document(partitions: Iterable[dict[str, Any]], **of_all: int | str | list[str]) -> str:
    """Return the document that `--json` prints; `of_all`: entries about all partitions together."""
    return json.dumps({"partitions": list(partitions), **of_all}, indent=2)


def print_reports(console: Console, reports: Sequence[PartitionReport], title: str) -> None:
    """Print the summary of `plan` or `compact`; outcomes that need a person come first.

    Within an outcome, the order is that of the work.
    """
    if not reports:
        console.print(NO_PARTITIONS)
        return
    by_work = sorted(sorted(reports, key=lambda report: report.key), key=_precedence, reverse=True)
    ordered = sorted(by_work, key=lambda report: URGENCY.index(report.outcome))
    print_cut(console, title, _REPORT_COLUMNS, [_report_row(report) for report in ordered])
    _print_sums(console, reports)
    _print_waiting(console, reports)


def _report_row(report: PartitionReport) -> tuple[str | Text, ...]:
    return (
        str(report.key),
        styled(report.outcome),
        "" if report.next_offset is None else offsets(report.first_dirty or 0, report.next_offset),
        _segments_column(report),
        _bytes_column(report),
        sentences(report.reason, report.notes),
    )


def _precedence(report: PartitionReport) -> tuple[Fraction, Fraction]:
    return report.ratio.precedence if report.ratio is not None else (Fraction(0), Fraction(0))


def _print_waiting(console: Console, reports: Sequence[PartitionReport]) -> None:
    """Print what is late: data to clean, and active segments that brokers should roll."""
    delay_secs = max_compaction_delay_secs(reports)
    if delay_secs:
        console.print(f"max-compaction-delay-secs: {delay_secs}", style="yellow")
    late = sorted(report.key for report in reports if report.should_have_rolled_at_ms is not None)
    if late:
        named = ", ".join(map(str, late[:LATE_MAX])) + (", …" if len(late) > LATE_MAX else "")
        console.print(
            f"{counted(len(late), 'partition')} whose active segment should have rolled, if it"
            f" holds a record: {named}.",
            style="dim",
        )


def _came_to_something(report: PartitionReport) -> bool:
    """Whether there is a result to show; "→ 0 bytes" would look like one after a failure."""
    return bool(report.segments_in) and report.outcome in {COMPACTED, PLANNED, LEFT}


def _segments_column(report: PartitionReport) -> str:
    if not _came_to_something(report):
        return ""
    return f"{spaced(report.segments_in)} → {spaced(report.segments_out)}"


def _bytes_column(report: PartitionReport) -> str:
    if not _came_to_something(report):
        return ""
    bound = "≤ " if report.outcome == PLANNED else ""
    return f"{decimal(report.bytes_in)} → {bound}{decimal(report.bytes_out)}"


def _print_sums(console: Console, reports: Sequence[PartitionReport]) -> None:
    """Print one line on the run and one on its records."""
    outcomes = [report.outcome for report in reports]
    if PLANNED in outcomes:
        console.print(_KEYLESS_UNKNOWN, style="dim")
    console.print(outcomes_line(outcomes, _AS_DONE))
    done = [report for report in reports if report.outcome == COMPACTED]
    if not done:
        if set(outcomes) == {NOTHING_TO_DO}:
            console.print("Nothing to do: no segment was opened or written.")
        return
    sums = total(report.counts for report in done)
    bytes_in, bytes_out = (
        sum(report.bytes_in for report in done),
        sum(report.bytes_out for report in done),
    )
    exactly = f"{spaced(bytes_in)} → {spaced(bytes_out)} bytes"
    console.print(f"{decimal(bytes_in)} became {decimal(bytes_out)} ({exactly}).")
    others = ", ".join(
        f"{spaced(getattr(sums, name))} {name.replace('_', ' ')}" for name in RECORD_OUTCOMES[1:]
    )
    kept = f"{spaced(sums.kept)} kept{of_markers(sums.kept_markers)}"
    console.print(f"{spaced(sums.records_in)} records: {kept}, {others}.", soft_wrap=True)


def print_status(console: Console, partitions: Sequence[PartitionStatus]) -> None:
    """Print the table of `status`."""
    if not partitions:
        console.print(NO_PARTITIONS)
        return
    ordered = sorted(partitions, key=lambda status: (not status.refusal, status.key))
    print_cut(console, "status", _STATUS_COLUMNS, [_status_row(status) for status in ordered])
    for status in ordered[:ROWS_MAX]:
        if status.refusal:
            # Not folded, so that its commands can be pasted.
            said = Text(printable(f"{status.key}: {status.refusal}"), style="red")
            console.print(said, soft_wrap=True)


def print_settings(console: Console, topic: str, found: Sequence[EffectiveSetting]) -> None:
    """Print the table of `config`."""
    table = Table(title=f"settings of {topic}", title_justify="left")
    table.add_column("setting", no_wrap=True)
    table.add_column("value", justify="right", overflow="fold")
    table.add_column("unit", no_wrap=True)
    table.add_column("from", overflow="fold")
    for entry in found:
        said = (Text(printable(entry.text)), entry.setting.unit, Text(printable(entry.source)))
        table.add_row(entry.setting.name, *said)
    console.print(table)


def _status_row(status: PartitionStatus) -> tuple[str | Text, ...]:
    row, segments = status.row, status.segments
    remarks = ["refused, see below"] if status.refusal else []
    remarks += _remarks(row, status.view)
    remarks += status.view.notes if status.view is not None else ()
    start = status.log_start_offset
    return (
        str(status.key),
        spaced(len(segments)),
        decimal(sum(segment.size_bytes for segment in segments)),
        offsets(start, segments[-1].next_offset) if segments and start is not None else "none",
        status.ratio.percent if status.ratio is not None else "",
        "none" if status.cleaner_offset is None else str(status.cleaner_offset),
        str(status.epoch),
        spaced(len(row.retired)) if row is not None else "0",
        Text(printable("; ".join(remarks)), style="red" if status.refusal else ""),
    )


def _remarks(row: PartitionState | None, view: PartitionView | None) -> Iterator[str]:
    """What in the tier is not live, and which run holds the partition."""
    if row is not None and row.retired:
        since = min(entry.retired_at_ms for entry in row.retired)
        retired_bytes = sum(entry.segment.size_bytes for entry in row.retired)
        yield f"{len(row.retired)} retired since {timestamp_text(since)}: {decimal(retired_bytes)}"
        going = len(row.retired) - len(row.whole_retired)
        if going:
            yield f"{going} being deleted"
    if view is not None and view.orphans:
        orphan_bytes = sum(orphan.size_bytes for orphan in view.orphans)
        yield f"{counted(len(view.orphans), 'orphan')}: {decimal(orphan_bytes)}"
    if view is not None and view.set_apart:
        yield f"{len(view.set_apart)} outside the leader epoch lineage"
    if row is not None and row.owner_run:
        heard = timestamp_text(row.committed_at_ms)
        yield f"claimed by run {row.owner_run}, last heard of at {heard}"

"""The result of `history`."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from tierfold.compaction.commits.history import Event
from tierfold.jobs.context.timestamps import timestamp_text
from tierfold.jobs.reports.result import Result, concluded, fields
from tierfold.jobs.reports.tables import Cells, clean_below, width_of
from tierfold.jobs.reports.views import ALL, View
from tierfold.jobs.verbs.history import HistoryLine, PartitionHistory


class HistoryResult(Result[PartitionHistory]):
    """What happened to one partition, and what `restore` can bring back."""

    __slots__ = ()

    verb = "history"

    def entry(self, partition: PartitionHistory) -> dict[str, Any]:
        """See `Result`."""
        return {
            **concluded(partition),
            **fields(partition, "holder", "has_older"),
            "history": [_entry(line) for line in partition.lines],
        }

    def print_tables(self, console: Console, _view: View = ALL) -> None:
        """See `Result`."""
        for found in self.partitions:
            _print_history(console, found)


def _entry(line: HistoryLine) -> dict[str, Any]:
    entry, state = line.entry, line.entry.state
    return {
        "committed_at": timestamp_text(state.committed_at_ms),
        "committed_at_ms": state.committed_at_ms,
        **fields(entry, "run", "event"),
        **fields(state, "epoch", "commit_id"),
        **fields(entry, "segments_in", "segments_out"),
        "segments": [segment.segment_id for segment in state.segments],
        **fields(state, "live_bytes", "cleaner_offset", "log_start_offset", "next_offset"),
        **fields(line, "is_current", "is_same_as_current", "is_restorable", "why_not"),
    }


def _print_history(console: Console, found: PartitionHistory) -> None:
    """Print the table, newest first."""
    if not found.lines:
        console.print(
            f"{found.key}: no run has touched it by the catalog in {found.catalog}, so there is"
            " nothing to go back to."
        )
        return
    console.print(f"history of {found.key}")
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for column in ("at", "run", "event"):
        table.add_column(column, no_wrap=True)
    for column in ("epoch", "segments", "live", "bytes", "clean\nbelow", "log\nstart"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("restore?", no_wrap=True)
    for line in found.lines:
        table.add_row(*_cells(line))
    if width_of(console, table) <= console.width:
        console.print(table)
    else:
        for line in found.lines:
            _print_line(console, line)
    if found.has_older:
        console.print("… and older ones; without --limit all are shown.")
    for why in dict.fromkeys(line.why_not for line in found.lines if line.why_not):
        console.print(Text(f"no: {why}", style="dim"))
    if found.holder:
        console.print(Text(f"{found.holder}.", style="yellow"))


def _print_line(console: Console, line: HistoryLine) -> None:
    """Print an entry if the table is too wide: the argument of `restore --to` first, uncut."""
    at, run, event, epoch, segments, live, size, clean, start, can = map(str, _cells(line))
    console.print(f"{at}  {run}  {event}")
    moved = f", segments {segments}" if segments else ""
    console.print(
        f"  epoch {epoch}{moved}, {live} live, {size}, clean below {clean}, log start {start};"
        f" restore? {can}"
    )


def _cells(line: HistoryLine) -> Cells:
    entry, state = line.entry, line.entry.state
    is_moved = entry.event is not Event.FOUND and (entry.segments_in or entry.segments_out)
    return (
        timestamp_text(state.committed_at_ms),
        entry.run,
        entry.event,
        str(state.epoch),
        f"{entry.segments_in} → {entry.segments_out}" if is_moved else "",
        str(len(state.segments)),
        decimal(state.live_bytes),
        clean_below(state.cleaner_offset),
        str(state.log_start_offset),
        _can_restore(line),
    )


def _can_restore(line: HistoryLine) -> str | Text:
    """Whether `restore` can bring the state back."""
    if line.is_current:
        return "current"
    if not line.is_restorable:
        return Text("no", style="dim")
    return "as now" if line.is_same_as_current else "yes"

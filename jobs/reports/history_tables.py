"""The tables of `history`, `restore` and `forget`. Nothing here decides or computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from tierfold.compaction.model.segments import Segment
from tierfold.compaction.model.wording import counted, spaced
from tierfold.jobs.context.timestamps import timestamp_text
from tierfold.jobs.pipeline.partition_report import FORGOTTEN, PLANNED, RESTORED
from tierfold.jobs.reports.tables import width_of
from tierfold.jobs.verbs.forget import Forgot
from tierfold.jobs.verbs.history import HistoryLine, PartitionHistory
from tierfold.jobs.verbs.restore import Restored

SEGMENTS_SHOWN: Final = 10
"""Maximum restored, and retired, segments in a table; the JSON document has all."""


def print_history(console: Console, found: PartitionHistory) -> None:
    """Print the table of `history`, newest first."""
    if not found.lines:
        console.print(f"{found.key}: no run has touched it, so there is nothing to go back to.")
        return
    console.print(f"history of {found.key}")
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for column in ("at", "run", "what"):
        table.add_column(column, no_wrap=True)
    for column in ("epoch", "segments", "live", "bytes", "clean\nbelow", "log\nstart"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("back?", no_wrap=True)
    for line in found.lines:
        table.add_row(*_history_row(line))
    if width_of(console, table) <= console.width:
        console.print(table)
    else:
        for line in found.lines:
            _print_line(console, line)
    if found.has_older:
        console.print("… and older ones; without --limit all are shown.")
    for why in dict.fromkeys(line.why_not for line in found.lines if line.why_not):
        console.print(Text(f"no: {why}", style="dim"), soft_wrap=True)
    if found.holder:
        console.print(Text(f"{found.holder}.", style="yellow"))


def _print_line(console: Console, line: HistoryLine) -> None:
    """Print an entry if the table is too wide: the argument of `restore --to` first, uncut."""
    at, run, what, epoch, segments, live, size, clean, start, back = map(str, _history_row(line))
    console.print(f"{at}  {run}  {what}", soft_wrap=True)
    moved = f", segments {segments}" if segments else ""
    console.print(
        f"  epoch {epoch}{moved}, {live} live, {size}, clean below {clean}, log start {start};"
        f" back? {back}",
        soft_wrap=True,
    )


def _history_row(line: HistoryLine) -> tuple[str | Text, ...]:
    entry, state = line.entry, line.entry.state
    is_moved = entry.segments_in or entry.segments_out
    return (
        timestamp_text(state.committed_at_ms),
        entry.run,
        entry.event.value,
        str(state.epoch),
        f"{entry.segments_in} → {entry.segments_out}" if is_moved else "",
        str(len(state.segments)),
        decimal(state.live_bytes),
        "none" if state.cleaner_offset is None else str(state.cleaner_offset),
        str(state.log_start_offset),
        _is_back(line),
    )


def _is_back(line: HistoryLine) -> str | Text:
    """Whether `restore` can bring the state back."""
    if line.is_current:
        return "current"
    if not line.is_restorable:
        return Text("no", style="dim")
    return "same" if line.is_same_as_current else "yes"


def print_restored(console: Console, found: Restored) -> None:
    """Print what `restore` did, or would do."""
    report, restore_plan = found.report, found.restore_plan
    console.print(Text(f"{report.key}: {report.outcome}", style="bold"))
    if found.target is not None:
        state = found.target.state
        run = f" by run {found.target.run}" if found.target.run else ""
        console.print(
            f"to the row of {timestamp_text(state.committed_at_ms)}, {found.target.event}{run}"
        )
    for said in filter(None, (report.reason, *report.notes)):
        console.print(Text(said), soft_wrap=True)
    if restore_plan is None or report.outcome not in {PLANNED, RESTORED}:
        return
    would = "would " if report.outcome == PLANNED else ""
    _print_segments(console, f"{would}live again", restore_plan.back)
    _print_segments(console, f"{would}be retired" if would else "retired", restore_plan.leaving)
    stay = len(restore_plan.segments) - len(restore_plan.back)
    console.print(
        f"{stay} stay as they are; clean below offset {restore_plan.cleaner_offset},"
        f" log start {restore_plan.state.log_start_offset}"
    )
    if would:
        console.print("Nothing is changed. What comes back is read and checked when it is done.")


def _print_segments(console: Console, what: str, segments: tuple[Segment, ...]) -> None:
    size_bytes = sum(segment.size_bytes for segment in segments)
    console.print(f"{len(segments)} {what}, {decimal(size_bytes)} ({spaced(size_bytes)} bytes)")
    for segment in segments[:SEGMENTS_SHOWN]:
        by = segment.written_by_run or "a broker"
        console.print(
            f"  {segment.segment_id}  offsets {segment.start_offset}–{segment.end_offset}"
            f"  {decimal(segment.size_bytes)}  written by {by}"
        )
    _print_more(console, len(segments))


def print_forgot(console: Console, found: Forgot) -> None:
    """Print what `forget` did, or would do."""
    report, loss = found.report, found.loss
    console.print(Text(f"{report.key}: {report.outcome}", style="bold"))
    for said in filter(None, (report.reason, *report.notes)):
        console.print(Text(said), soft_wrap=True)
    if loss is None or report.outcome not in {PLANNED, FORGOTTEN}:
        return
    console.print(f"{counted(len(loss.forgotten), 'segment')} lived by the catalog's row")
    _print_ranges(
        console,
        "to be taken as the log by the next run",
        [
            (segment.segment_id, f"{segment.start_offset}–{segment.end_offset}")
            for segment in loss.taken
        ],
    )
    _print_ranges(
        console,
        "to be set apart: they stay in the tier, and nobody reads them",
        [
            (segment.listed.segment_id, f"{segment.listed.start_offset}–{segment.end_offset}")
            for segment in loss.set_apart
        ],
    )
    if loss.vanishing:
        ranges = ", ".join(map(str, loss.vanishing[:SEGMENTS_SHOWN]))
        more = len(loss.vanishing) - SEGMENTS_SHOWN
        and_more = f" and {spaced(more)} more ranges" if more > 0 else ""
        console.print(Text(f"Offsets that vanish: {ranges}{and_more}", style="yellow"))
    else:
        console.print("No offset vanishes.")
    if loss.set_apart:
        console.print("Where both have an offset, readers get the record of what is taken.")
    if report.outcome == PLANNED:
        console.print("Nothing is changed. Done without --dry-run, it cannot be undone.")


def _print_ranges(console: Console, what: str, found: Sequence[tuple[str, str]]) -> None:
    console.print(f"{counted(len(found), 'segment')} {what}")
    for segment_id, offsets in found[:SEGMENTS_SHOWN]:
        console.print(f"  {segment_id}  offsets {offsets}")
    _print_more(console, len(found))


def _print_more(console: Console, count: int) -> None:
    """Print how many segments were not shown."""
    if count > SEGMENTS_SHOWN:
        console.print(f"  … and {count - SEGMENTS_SHOWN} more; --json lists all.")

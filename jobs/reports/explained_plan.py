"""Draws one partition's plan: a bar of segments, a table with a row for each, and the reasons.

The bar and the table do not depend on colours: a block is filled with its region's letter, in upper
case if the segment is rewritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from tierfold.compaction.model.rules import LONG_MAX
from tierfold.compaction.model.wording import duration, spaced
from tierfold.compaction.planning.explanation import (
    ExplainedSegment,
    Region,
    SegmentAction,
    SegmentRun,
    decision,
    folded,
)
from tierfold.compaction.planning.regions import Regions
from tierfold.jobs.context.publishing_settings import Publishing
from tierfold.jobs.context.timestamps import timestamp_text
from tierfold.jobs.pipeline.partition_report import max_compaction_delay_secs
from tierfold.jobs.reports.plan_report import FIELDS
from tierfold.jobs.reports.result import Result, fields, named_segment
from tierfold.jobs.reports.views import ALL, Columns, View
from tierfold.jobs.verbs.plan import Explained

ROWS_MAX: Final = 40
"""Maximum rows of the table; beyond it, similar neighbours share a row. The JSON has all."""

WIDE: Final = 100
"""Minimum columns for reasons within the table; in a narrower terminal they follow it."""

_DRAWN: Final = {
    Region.CLEANED: ("c", "green"),
    Region.DIRTY: ("d", "yellow"),
    Region.UNCLEANABLE: ("y", "blue"),
    Region.HELD: ("h", "magenta"),
    Region.UNSTABLE: ("u", "red"),
}
"""Letter and colour."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExplainResult(Result[Explained]):
    """What `compact` would do to each segment of one partition, and why."""

    verb = "plan"
    publishing: Publishing = Publishing.NOT_NAMED
    """What brokers learn of the run."""

    def entry(self, partition: Explained) -> dict[str, Any]:
        """See `Result`."""
        return _entry(partition)

    def details(self) -> dict[str, Any]:
        """See `Result`."""
        reports = [partition.report for partition in self.partitions]
        return {
            "max_compaction_delay_secs": max_compaction_delay_secs(reports),
            "publishing": self.publishing.value,
        }

    def columns(self) -> Columns:
        """See `Result`."""
        return FIELDS

    def print_tables(self, console: Console, _view: View = ALL) -> None:
        """See `Result`."""
        for found in self.partitions:
            print_explained(console, found)


def _entry(found: Explained) -> dict[str, Any]:
    return {
        **found.report.as_json(),
        "decision": decision(found.plan.choice),
        "now_ms": found.now_ms,
        **fields(found.plan.rules, "min_compaction_lag_ms", "max_compaction_lag_ms"),
        "regions": None if found.regions is None else asdict(found.regions),
        "segments": list(map(_segment_entry, found.segments)),
    }


def _segment_entry(explained: ExplainedSegment) -> dict[str, Any]:
    timestamps = ("max_timestamp_ms", "first_timestamp_ms", "earliest_due_ms")
    ages = ("age_ms", "first_age_ms", "due_in_ms")
    return named_segment(explained.segment, *timestamps) | fields(
        explained, "regions", "action", "group", "group_segments", *ages, "why"
    )


def print_explained(console: Console, found: Explained) -> None:
    """Print the bar, the table and the reasons; as wide as the console, at least 60 columns."""
    runs = folded(found.segments, ROWS_MAX)
    console.print(Text(_headline(found), style="bold"))
    if found.regions is not None and runs:
        console.print(_bar(runs, found.regions.first_dirty, console.width))
        console.print(_legend(runs))
        _print_runs(console, runs)
    for line in _sentences(found):
        console.print(Text(line))


def _headline(found: Explained) -> str:
    key = found.plan.key
    if not found.segments:
        return str(key)
    first, last = found.segments[0].segment, found.segments[-1].segment
    size = decimal(sum(explained.segment.size_bytes for explained in found.segments))
    count = f"{len(found.segments)} segment{'s' if len(found.segments) > 1 else ''}"
    return f"{key}: {count}, offsets {first.start_offset}–{last.end_offset}, {size}"


def _bar(runs: Sequence[SegmentRun], first_dirty: int, width: int) -> Text:
    """Blocks by size, at least one column each if the width allows."""
    edge = "│" if 2 * len(runs) < width else ""
    bar = Text(edge, no_wrap=True, overflow="crop")
    room = width - len(edge) * (len(runs) + 1)
    for run, columns in zip(runs, _columns([run.size_bytes for run in runs], room), strict=True):
        first, last = run.segments[0], run.segments[-1]
        *below, above = first.regions
        start, end = first.segment.start_offset, last.segment.next_offset
        split = columns * max(first_dirty - start, 0) // (end - start) if below else 0
        for region, part in ((first.regions[0], split), (above, columns - split)):
            letter, style = _DRAWN[region]
            is_rewritten = first.action is SegmentAction.REWRITTEN
            bar.append((letter.upper() if is_rewritten else letter) * part, style=style)
        bar.append(edge)
    return bar


def _columns(sizes: Sequence[int], room: int) -> list[int]:
    """How many of `room` columns each size gets; they add up to `room`."""
    least = 1 if room >= len(sizes) else 0
    spare, total = room - least * len(sizes), max(sum(sizes), 1)
    ends = [spare * so_far // total for so_far in accumulate(sizes, initial=0)]
    return [least + end - start for start, end in pairwise(ends)]


def _legend(runs: Sequence[SegmentRun]) -> Text:
    """The letters in the bar, with their regions."""
    legend = Text()
    regions = {region for run in runs for region in run.segments[0].regions}
    for region in (region for region in Region if region in regions):
        letter, style = _DRAWN[region]
        legend.append(f"{letter} {region}", style=style)
        legend.append(" · ")
    return legend.append("upper case: rewritten")


def _print_runs(console: Console, runs: Sequence[SegmentRun]) -> None:
    """Print a row per run; in a narrow terminal the reasons follow, by the number of the row."""
    is_wide = console.width >= WIDE
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    has_horizon = any(segment.due_in_ms is not None for run in runs for segment in run.segments)
    columns = ["#", "region", "offsets", "size", "age"]
    columns += ["horizon"] * has_horizon + ["what happens"] + ["why"] * is_wide
    for name in columns:
        is_right = name in {"#", "size"}
        table.add_column(name, justify="right" if is_right else "left", no_wrap=is_right)
    for number, run in enumerate(runs[:ROWS_MAX], start=1):
        cells = [Text(str(number)), _region_cell(run), Text(_offsets(run))]
        cells += [Text(decimal(run.size_bytes)), Text(_age(run))]
        cells += [Text(_horizon(run))] * has_horizon + [Text(_what(run))]
        table.add_row(*cells, *[Text(_why(run))] * is_wide)
    console.print(table)
    if not is_wide:
        for number, run in enumerate(runs[:ROWS_MAX], start=1):
            console.print(Text(f"{number}: {_why(run)}"))
        console.print()
    if len(runs) > ROWS_MAX:
        console.print(f"… and {len(runs) - ROWS_MAX} more rows; --json lists all segments.")


def _region_cell(run: SegmentRun) -> Text:
    cell = Text()
    for region in run.segments[0].regions:
        cell.append(", " if cell else "").append(region, style=_DRAWN[region][1])
    return cell


def _offsets(run: SegmentRun) -> str:
    first, last = run.segments[0].segment, run.segments[-1].segment
    return f"{first.start_offset}–{last.end_offset}"


def _age(run: SegmentRun) -> str:
    ages = _span([segment.age_ms for segment in run.segments]) or "no timestamp"
    firsts = _span([segment.first_age_ms for segment in run.segments])
    return f"{ages}, first {firsts}" if firsts else ages


def _horizon(run: SegmentRun) -> str:
    dues = [segment.due_in_ms for segment in run.segments if segment.due_in_ms is not None]
    if not dues:
        return ""
    earliest_ms = min(dues)
    if earliest_ms > 0:
        return f"in {duration(earliest_ms)}"
    return f"passed {duration(-earliest_ms)} ago"


def _span(ages_ms: Sequence[int | None]) -> str:
    """From the youngest to the oldest; empty if none is known."""
    known = [age_ms for age_ms in ages_ms if age_ms is not None]
    ends = dict.fromkeys(map(_signed, (min(known), max(known)) if known else ()))
    return "–".join(ends)


def _signed(age_ms: int) -> str:
    return duration(age_ms) if age_ms >= 0 else f"{duration(-age_ms)} ahead"


def _what(run: SegmentRun) -> str:
    """What happens, to how many segments, and in which groups."""
    first, last = run.segments[0], run.segments[-1]
    many = f"{len(run.segments)} segments " if len(run.segments) > 1 else ""
    if first.group is None:
        return f"{many}{first.action}"
    if first.group != last.group:
        return f"{many}{first.action}, groups {first.group} to {last.group}"
    merged = f" ({first.group_segments} segments)" if first.group_segments > 1 else " alone"
    return f"{many}{first.action}, group {first.group}{merged}"


def _why(run: SegmentRun) -> str:
    whys = dict.fromkeys(segment.why for segment in run.segments)
    first = next(iter(whys))
    return first if len(whys) == 1 else f"the first of them: {first}"


def _sentences(found: Explained) -> list[str]:
    """The decision first, then its inputs."""
    lines = [f"Decision: {decision(found.plan.choice)}."]
    ratio, regions = found.report.ratio, found.regions
    if ratio is not None:
        lines.append(
            f"Dirty ratio: {ratio.percent}, {spaced(ratio.cleanable_bytes)} of"
            f" {ratio.total}."
        )
    if regions is not None:
        lines += _about_regions(regions)
        lines += _about_lags(found)
    held_back = getattr(found.plan.choice, "held_back", ())
    lines += [f"Note: {note}." for note in (*held_back, *found.report.notes)]
    lines += [f"Note: {sentence}." for sentence in _about_brokers(found)]
    rolled_at_ms = found.report.should_have_rolled_at_ms
    if rolled_at_ms is not None:
        late = duration(found.now_ms - rolled_at_ms)
        lines.append(
            f"Note: the active segment should have rolled {late} ago, if it holds a record."
        )
    return lines


def _about_brokers(found: Explained) -> tuple[str, ...]:
    """What the plan means for brokers; nothing if none were asked."""
    outlook = found.report.outlook
    if outlook is None:
        return ()
    until_ms = outlook.local_until_ms
    return outlook.sentences(found.now_ms, "" if until_ms is None else timestamp_text(until_ms))


def _about_regions(regions: Regions) -> list[str]:
    offsets = (
        f"Offsets: log start {regions.log_start}, first dirty {regions.first_dirty}, first"
        f" uncleanable {regions.first_uncleanable}, next offset {regions.next_offset}."
    )
    last_stable = regions.last_stable
    if last_stable is None:
        return [offsets, "Open transactions: none holds a live segment back."]
    known = last_stable.producer_id is not None
    producer = f"producer {last_stable.producer_id}" if known else "an unknown producer"
    return [
        offsets,
        f"Last stable offset: {last_stable.offset}, held back by {producer};"
        f" segments wait from offset {regions.unstable_from} on.",
    ]


def _about_lags(found: Explained) -> list[str]:
    rules, ratio = found.plan.rules, found.report.ratio
    least_ms, most_ms = rules.min_compaction_lag_ms, rules.max_compaction_lag_ms
    least = f"{least_ms} ({duration(least_ms)})" if least_ms else "0 (no lag)"
    most = f"{most_ms} ({duration(most_ms)})" if most_ms < LONG_MAX else "unlimited"
    over_ms = 0 if ratio is None else ratio.delay_ms
    over = f", passed {duration(over_ms)} ago" if over_ms else ""
    return [f"Lags: min.compaction.lag.ms {least}; max.compaction.lag.ms {most}{over}."]

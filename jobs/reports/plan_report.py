"""The result of `plan` and `compact`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from rich.console import Console
from rich.filesize import decimal

from tierfold.compaction.cleaning.counts import RECORD_OUTCOMES, total
from tierfold.compaction.commits.receipts import VerifiedParts
from tierfold.compaction.deletion.superseded import joined
from tierfold.compaction.estimation.estimate import Estimate
from tierfold.compaction.model.wording import counted, dollars, spaced
from tierfold.compaction.skipping.probe_counts import NO_PROBES
from tierfold.jobs.context.publishing_settings import Publishing
from tierfold.jobs.pipeline.partition_report import (
    COMPACTED,
    FAILED,
    FENCED,
    LEFT,
    LOST_RACE,
    NOTHING_TO_DO,
    OF_BROKERS,
    PLANNED,
    PUBLISHED,
    REFUSED,
    UNKNOWN,
    PartitionReport,
    max_compaction_delay_secs,
    superseded_sentence,
)
from tierfold.jobs.reports.estimate_report import FIELDS as ESTIMATE_FIELDS
from tierfold.jobs.reports.estimate_report import (
    Prices,
    estimate_entry,
    print_estimate,
    saves_cell,
    total_entry,
    why_not,
)
from tierfold.jobs.reports.holders_report import print_holders, shown_reason
from tierfold.jobs.reports.publishing_lines import print_publishing
from tierfold.jobs.reports.refusals_report import print_refusals, see_below
from tierfold.jobs.reports.result import Result, fields
from tierfold.jobs.reports.tables import (
    DRY_RUN,
    NO_PARTITIONS,
    NOT_PUBLISHED,
    URGENCY,
    Column,
    of_markers,
    offsets,
    outcomes_line,
    print_rows,
    rows_shown,
    sentences,
    styled,
)
from tierfold.jobs.reports.views import ALL, Columns, View

_AS_DONE: Final = (
    COMPACTED,
    PUBLISHED,
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

SHARE_SHOWN_BYTES: Final = 10**6
"""Below, the fixed size of a key index makes its share meaningless."""

LATE_MAX: Final = 5
"""Maximum number of partitions with a late active segment in a message; the JSON has all."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlanResult(Result[PartitionReport]):
    """What `compact` would do to each partition."""

    verb = "plan"
    publishing: Publishing = Publishing.NOT_NAMED
    """What brokers learn of the run."""
    prices: Prices | None = None
    """By which what would go is priced; None: no estimate was asked for."""
    plan_file: str = ""
    """The plan file that was written; empty: none was asked for."""

    def entry(self, partition: PartitionReport) -> dict[str, Any]:
        """See `Result`."""
        beside = OF_BROKERS if self.publishing in {Publishing.ON, Publishing.OFF} else ()
        found = partition.as_json() | fields(partition, *beside)
        if self.prices is not None:
            found["estimate"] = estimate_entry(partition, self.prices)
        return found

    def details(self) -> dict[str, Any]:
        """See `Result`."""
        found: dict[str, Any] = {
            "max_compaction_delay_secs": max_compaction_delay_secs(self.partitions),
            "publishing": self.publishing.value,
        }
        if self.prices is not None:
            found["estimate"] = total_entry(self.partitions, self.prices)
        return found

    def columns(self) -> Columns:
        """See `Result`."""
        if self.prices is None:
            return FIELDS
        return {**FIELDS, "saves": ESTIMATE_FIELDS}

    @property
    def title(self) -> str:
        """The title of the table."""
        return self.verb

    def print_tables(self, console: Console, view: View = ALL) -> None:
        """See `Result`.

        Outcomes that need a person come first; within an outcome, the order is that of the work.
        """
        if not self.partitions:
            console.print(NO_PARTITIONS)
            return
        rows, rows_max = self.shown(view), view.rows_max
        if not view.sort:
            rows.sort(key=_precedence, reverse=True)
            rows.sort(key=lambda report: URGENCY.index(report.outcome))
            rows_max = rows_shown([report.outcome for report in rows], rows_max)
        columns = _COLUMNS if self.prices is None else _WITH_ESTIMATES
        print_rows(console, self.title, columns, rows, rows_max=rows_max)
        print_refusals(console, rows, of_all=len(self.partitions))
        _print_totals(console, self.partitions)
        if self.prices is not None:
            print_estimate(console, self.partitions, self.prices)
        print_holders(console, rows)
        _print_local(console, self.partitions)
        _print_superseded(console, self.partitions)
        _print_fees(console, self.partitions)
        print_publishing(console, self.partitions, self.started_at_ms)
        _print_late(console, self.partitions)
        if self.plan_file:
            command = shlex.join(("tierfold", "compact", self.tier, "--plan", self.plan_file))
            console.print(f"To carry out exactly this: {command}", soft_wrap=True)


class CompactResult(PlanResult):
    """What `compact` did to each partition."""

    __slots__ = ()

    verb = "compact"

    def stored_bytes_added(self, partition: PartitionReport) -> int:
        """See `Result`: also what no commit has made live."""
        return partition.bytes_written

    @property
    def title(self) -> str:
        """See `PlanResult`."""
        if self.run_id:
            return f"run {self.run_id}"
        is_planned = any(one.outcome == PLANNED for one in self.partitions)
        return NOT_PUBLISHED if self.publishing is Publishing.OFF and not is_planned else DRY_RUN


def _precedence(report: PartitionReport) -> tuple[Fraction, Fraction]:
    return report.ratio.precedence if report.ratio is not None else (Fraction(0), Fraction(0))


def _range(report: PartitionReport) -> str:
    if report.next_offset is None:
        return ""
    return offsets(report.first_dirty or 0, report.next_offset)


def _if_any(cell: Callable[[PartitionReport], str]) -> Callable[[PartitionReport], str]:
    """Leave the cell empty without a result: after a failure, "→ 0 bytes" would look like one."""
    with_result = {COMPACTED, PLANNED, LEFT}
    return lambda report: (
        cell(report) if report.segments_in and report.outcome in with_result else ""
    )


def _segments(report: PartitionReport) -> str:
    return f"{spaced(report.segments_in)} → {spaced(report.segments_out)}"


def _bytes(report: PartitionReport) -> str:
    about, left_bytes = "~ " if report.outcome == PLANNED else "", report.bytes_out
    if isinstance(report.estimate, Estimate):
        left_bytes = report.bytes_in - report.estimate.likely_bytes
    return f"{decimal(report.bytes_in)} → {about}{decimal(left_bytes)}"


_COLUMNS: Final[Sequence[Column[PartitionReport]]] = (
    ("partition", "left", lambda report: str(report.key)),
    ("outcome", "left", lambda report: styled(report.outcome)),
    ("offsets", "right", _range),
    ("segments", "right", _if_any(_segments)),
    ("bytes", "right", _if_any(_bytes)),
    ("why", "left", lambda report: sentences(_shown(report), (*why_not(report), *report.notes))),
)
_WITH_ESTIMATES: Final = (*_COLUMNS[:-1], ("saves", "right", saves_cell), _COLUMNS[-1])


FIELDS: Final[Columns] = {
    "partition": ("topic", "partition"),
    "outcome": ("outcome",),
    "offsets": ("first_dirty", "next_offset"),
    "segments": ("segments_in", "segments_out"),
    "bytes": ("bytes_in", "bytes_out"),
    "why": ("reason", "notes"),
}
"""The fields of an entry that the columns show."""


def _shown(report: PartitionReport) -> str:
    return see_below(report, shown_reason(report))


def _print_totals(console: Console, reports: Sequence[PartitionReport]) -> None:
    """Print one line on the run and one on its records."""
    outcomes = [report.outcome for report in reports]
    if PLANNED in outcomes:
        console.print(
            "Any records without a key will be dropped; how many is unknown until the scan."
            " To refuse a partition with more than N of them, set compact.keyless.max=N.",
            style="dim",
        )
    console.print(outcomes_line(outcomes, _AS_DONE) + _planned(reports))
    done = [report for report in reports if report.outcome == COMPACTED]
    if not done:
        if set(outcomes) == {NOTHING_TO_DO}:
            console.print("Nothing to do: no segment was opened or written.")
        return
    counts = total(report.counts for report in done)
    bytes_in = sum(report.bytes_in for report in done)
    bytes_out = sum(report.bytes_out for report in done)
    exactly = f"{spaced(bytes_in)} → {spaced(bytes_out)} bytes"
    console.print(f"{decimal(bytes_in)} became {decimal(bytes_out)} ({exactly}).")
    removed = [
        f"{spaced(count)} {name.replace('_', ' ')}"
        for name in RECORD_OUTCOMES[1:]
        if (count := getattr(counts, name))
    ]
    kept = f"{spaced(counts.kept)} kept{of_markers(counts.kept_markers)}"
    line = f"{counted(counts.records_in, 'record')}: {', '.join([kept, *removed])}."
    console.print(line)
    _print_key_indexes(console, done)
    read_once = sum(report.segments_read_once for report in done)
    if read_once:
        bytes_read = sum(report.bytes_read for report in done)
        console.print(
            f"{counted(read_once, 'segment')} lost nothing, as the scan showed, and"
            f" {'was' if read_once == 1 else 'were'} read once; {decimal(bytes_read)} read in all."
        )
    print_parts_verified(console, sum((report.parts_verified for report in done), VerifiedParts()))


def _planned(reports: Sequence[PartitionReport]) -> str:
    """What all plans together replace, as a sentence; of one alone, its row says it."""
    planned = [report for report in reports if report.outcome == PLANNED]
    if len(planned) == 1 or not any(report.segments_in for report in planned):
        return ""
    names = ("segments_in", "segments_out", "bytes_in", "bytes_out")
    segments_in, segments_out, bytes_in, bytes_out = (
        sum(getattr(report, name) for report in planned) for name in names
    )
    segments = f"{counted(segments_in, 'segment')} → {spaced(segments_out)}"
    return f" Planned: {segments}, {decimal(bytes_in)} → ~ {decimal(bytes_out)}."


def print_parts_verified(console: Console, verified: VerifiedParts) -> None:
    """Print how many new objects were verified, and how."""
    by = (
        (verified.by_checksum, "by the store's checksum"),
        (verified.by_reading_back, "by reading them back"),
    )
    means = [f"{spaced(count)} {how}" for count, how in by if count]
    if len(means) == 1:
        means = [how for count, how in by if count]
    if means:
        separator = ": " if len(means) > 1 else " "
        new = counted(verified.total, "new object")
        console.print(f"{new} verified{separator}{', '.join(means)}.")


def _print_key_indexes(console: Console, done: Sequence[PartitionReport]) -> None:
    """Print how many clean segments were not read, and how good the filters and indexes are."""
    asked = sum((report.key_indexes for report in done), NO_PROBES)
    if asked.asked:
        by = ((asked.by_bloom_filter, "Bloom filter"), (asked.by_key_index, "key index"))
        means = [f"{spaced(count)} by {what}" for count, what in by if count]
        if asked.by_small_gain:
            means.append(f"{spaced(asked.by_small_gain)} because a rewrite saves too little")
        how = f" ({', '.join(means)})" if means else ""
        clean = counted(asked.asked, "clean segment")
        unread = f"The keys of {spaced(asked.skipped)} of {clean} were not read"
        none = f"Key indexes spared none of {clean}"
        console.print(
            f"{unread if asked.skipped else none}{how};"
            f" {decimal(asked.index_bytes_read)} of indexes read.",
        )
    if asked.keys_lacked:
        console.print(
            f"Bloom filters claimed {asked.keys_claimed / asked.keys_lacked:.2%} of"
            f" {counted(asked.keys_lacked, 'key')} that their segments lack; promised:"
            f" {asked.keys_claimed_promised / asked.keys_lacked:.2%}."
        )
    index_bytes = sum(report.index_bytes_written for report in done)
    bytes_written = sum(report.bytes_written for report in done)
    if index_bytes and bytes_written >= SHARE_SHOWN_BYTES:
        console.print(
            f"Key indexes of new segments take {decimal(index_bytes)},"
            f" {index_bytes / bytes_written:.1%} of what was written."
        )


def _print_local(console: Console, reports: Sequence[PartitionReport]) -> None:
    """Print the two parts of the dirty ratios' totals, if log directories tell the second one."""
    ratios = [report.ratio for report in reports if report.ratio and report.ratio.local_bytes]
    if ratios:
        local_bytes = sum(ratio.local_bytes for ratio in ratios)
        remote_bytes = sum(ratio.total_bytes for ratio in ratios) - local_bytes
        console.print(
            f"Dirty ratios of {counted(len(ratios), 'partition')} count {decimal(remote_bytes)} in"
            f" the tier and {decimal(local_bytes)} that only brokers have.",
            style="dim",
        )


def _print_superseded(console: Console, reports: Sequence[PartitionReport]) -> None:
    """Print when replaced segments will be gone, of all partitions together."""
    is_plan = any(report.outcome == PLANNED for report in reports)
    for part in joined(part for report in reports for part in report.superseded or ()):
        up_to = "Up to " if is_plan else ""
        console.print(f"{up_to}{superseded_sentence(part)}.", style="dim")


def _print_fees(console: Console, reports: Sequence[PartitionReport]) -> None:
    """Print what storage classes charge for what is replaced, beside storage and requests."""
    is_plan = any(report.outcome == PLANNED for report in reports)
    early, read = (
        Fraction(sum(getattr(report, name) for report in reports))
        for name in ("early_deletion_usd", "retrieval_usd")
    )
    if early:
        up_to = "up to " if is_plan else ""
        console.print(
            f"Deleting what is replaced costs {up_to}{dollars(early)} if it is done today: some of"
            " it is younger than the minimum duration of its storage class.",
            style="dim",
        )
    if read:
        console.print(
            f"Reading what is replaced costs {dollars(read)} of retrieval fees, or twice as much:"
            " a segment is read once or twice.",
            style="dim",
        )


def _print_late(console: Console, reports: Sequence[PartitionReport]) -> None:
    """Print what is late: data to clean, and active segments that brokers should roll."""
    delay_secs = max_compaction_delay_secs(reports)
    if delay_secs:
        console.print(f"max-compaction-delay-secs: {delay_secs}", style="yellow")
    late = sorted(report.key for report in reports if report.should_have_rolled_at_ms is not None)
    if late:
        names = ", ".join(map(str, late[:LATE_MAX])) + (", …" if len(late) > LATE_MAX else "")
        console.print(
            f"{counted(len(late), 'partition')} whose active segment should have rolled, if it"
            f" holds a record: {names}.",
            style="dim",
        )

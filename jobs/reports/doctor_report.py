"""The result of `doctor`: what needs a person first, then the rest, then each topic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from rich.console import Console
from rich.filesize import decimal
from rich.text import Text

from tierfold.compaction.brokers.cluster_view import ClusterView
from tierfold.compaction.brokers.events import METADATA_TOPIC
from tierfold.compaction.diagnosis.diagnosis import TopicSummary
from tierfold.compaction.diagnosis.findings import Finding, Severity
from tierfold.compaction.model.redaction import printable
from tierfold.compaction.model.wording import counted, dollars, spaced
from tierfold.jobs.context.request_prices import StoragePrice
from tierfold.jobs.context.timestamps import timestamp_text
from tierfold.jobs.pipeline.partition_report import FAILED, PartitionReport
from tierfold.jobs.reports.broker_report import cluster_entry
from tierfold.jobs.reports.estimate_report import Prices, print_estimate, total_entry
from tierfold.jobs.reports.refusals_report import NAMED_MAX, in_short
from tierfold.jobs.reports.result import Result, concluded, fields
from tierfold.jobs.reports.tables import ROWS_MAX, Column, print_omitted, print_rows
from tierfold.jobs.reports.views import ALL, View
from tierfold.jobs.verbs.doctor import Examination, PartitionHealth, sentence_of

_STYLES: Final = {
    Severity.LOSES_DATA: "red",
    Severity.LEAKS: "yellow",
    Severity.HINDERS: "cyan",
    Severity.NOTE: "dim",
}
_PAGE: Final = "docs/doctor.md"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DoctorResult(Result[PartitionHealth]):
    """What is wrong with a tier, its catalog and its cluster."""

    examination: Examination
    prices: Prices
    """What it costs to keep bytes."""
    cluster: ClusterView | None = None
    """The cluster whose brokers were asked; None: none was."""
    planned: Sequence[PartitionReport] | None = None
    """What compaction would do, with estimates; None: they were not asked for."""

    verb = "doctor"

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong, the worst first."""
        return self.examination.diagnosis.findings

    @property
    def outcome(self) -> str:
        """`failed` if something loses data or leaks, also of a topic or the cluster; or `ok`."""
        is_urgent = any(one.needs_a_person for one in self.findings)
        return FAILED if is_urgent else super(DoctorResult, self).outcome

    @property
    def reason(self) -> str:
        """The worst finding, as a sentence; empty if none needs a person."""
        urgent = [one for one in self.findings if one.needs_a_person]
        if not urgent:
            return ""
        more = f" (and {len(urgent) - 1} more)" if len(urgent) > 1 else ""
        return f"{_subject(urgent[0])}: {sentence_of(urgent[0])}{more}"

    def entry(self, partition: PartitionHealth) -> dict[str, Any]:
        """See `Result`."""
        codes = [one.code for one in partition.findings]
        return {**concluded(partition), "findings": codes}

    def details(self) -> dict[str, Any]:
        """See `Result`."""
        found: dict[str, Any] = {
            "findings": [self._finding(one) for one in self.findings],
            "topics": [
                {**asdict(one), "in_the_way": [*one.in_the_way]}
                for one in self.examination.diagnosis.topics
            ],
            "storage_price": {
                "usd_per_gib_month": float(self.price.usd_per_gib_month),
                "source": self.price.source,
            },
        }
        if self.cluster is not None:
            found["cluster"] = cluster_entry(self.cluster)
            found["metadata_size"] = {
                **asdict(self.cluster.metadata_size),
                "records_a_day": self.cluster.metadata_size.records_a_day,
            }
        if self.planned is not None:
            found["estimate"] = total_entry(self.planned, self.prices)
        return found

    @property
    def price(self) -> StoragePrice:
        """What it costs to keep bytes."""
        return self.prices.storage

    def print_tables(self, console: Console, _view: View = ALL) -> None:
        """See `Result`."""
        for line, style in self._head():
            console.print(Text(printable(line), style=style))
        for severity in Severity:
            groups = [*self._grouped(severity)]
            if groups:
                console.print(Text(severity.upper(), style=f"bold {_STYLES[severity]}"))
            for group in groups[:ROWS_MAX]:
                self._print_group(console, group)
            print_omitted(console, len(groups) - ROWS_MAX)
        if self.examination.diagnosis.topics:
            print_rows(console, "topics", _COLUMNS, self.examination.diagnosis.topics)
        if self.planned is not None:
            print_estimate(console, self.planned, self.prices)
        for line in self._foot():
            console.print(Text(line, style="dim"))

    def _finding(self, one: Finding) -> dict[str, Any]:
        size_bytes = one.size_bytes
        cost = None if size_bytes is None else float(self.price.a_month(size_bytes))
        return {
            **fields(one, "code", "detail", "remedy"),
            "severity": one.severity.replace(" ", "_"),
            "topic": one.topic or None,
            "partition": None if one.key is None else one.key.partition,
            "topic_id": None if one.key is None else one.key.topic_id,
            "size_bytes": size_bytes,
            "usd_per_month": cost,
        }

    def _grouped(self, severity: Severity) -> Iterator[list[Finding]]:
        """The findings of one code together, in their order."""
        groups: dict[str, list[Finding]] = defaultdict(list)
        for one in self.findings:
            if one.severity is severity:
                groups[one.code].append(one)
        yield from groups.values()

    def _head(self) -> Iterator[tuple[str, str]]:
        """What needs a person, and what to do first."""
        about = f"{counted(len(self.partitions), 'partition')} examined"
        urgent = [one for one in self.findings if one.needs_a_person]
        if not self.findings:
            yield f"{about}: nothing is wrong in what doctor reads.", "green"
        elif not urgent:
            yield f"{about}: nothing loses data or leaks.", "green"
        else:
            losing, leaking = (
                [one for one in urgent if one.severity is severity]
                for severity in (Severity.LOSES_DATA, Severity.LEAKS)
            )
            said = []
            if losing:
                said.append(f"data is lost or in danger ({counted(len(losing), 'finding')})")
            if leaking:
                about_leaks = ", ".join([counted(len(leaking), "finding"), *self._size(leaking)])
                said.append(f"storage leaks ({about_leaks})")
            yield f"{about}: {', '.join(said)}.", "bold red"
            yield f"First: {_subject(urgent[0])}: {sentence_of(urgent[0])}", "red"

    def _size(self, found: Sequence[Finding]) -> Iterator[str]:
        """What the objects of findings take and cost; nothing: they have none."""
        if size_bytes := sum(one.size_bytes or 0 for one in found):
            yield decimal(size_bytes)
            yield f"{dollars(self.price.a_month(size_bytes))} a month"

    def _print_group(self, console: Console, group: Sequence[Finding]) -> None:
        first = group[0]
        size = ", ".join(self._size(group))
        subjects = f"{_subjects(group, len(self.partitions))}{f' ({size})' if size else ''}"
        example = f"{_subject(first)}: " if len(group) > 1 else ""
        for line, style in (
            (f"  {first.code}: {subjects}", "bold"),
            (f"      {example}{first.detail}.", ""),
        ):
            console.print(Text(printable(line), style=style))
        about = {one.remedy: f"{_subject(one)}: " for one in reversed(group)}
        remedies = [*dict.fromkeys(one.remedy for one in group)]
        for remedy in remedies[:NAMED_MAX]:
            subject = about[remedy] if len(remedies) > 1 else ""
            console.print(Text(printable(f"      {subject}{remedy}"), style="dim"))
        print_omitted(console, len(remedies) - NAMED_MAX, indent="      ")

    def _foot(self) -> Iterator[str]:
        if self.cluster is not None:
            size = self.cluster.metadata_size
            since = f" since {timestamp_text(size.first_ms)[:10]}" if size.records else ""
            yield (
                f"{METADATA_TOPIC} has {counted(size.records, 'record')}"
                f" ({decimal(size.value_bytes)}), {spaced(size.records_a_day)} a day{since}."
            )
        if any(one.size_bytes for one in self.findings):
            price = dollars(self.price.usd_per_gib_month)
            yield (
                f"Storage at {price} per GiB and month ({self.price.source}); --storage-price"
                " sets another."
            )
        if self.tier:
            yield "Records were not read: `tierfold verify` finds corrupt ones."
        if self.findings:
            yield f"What each code means, and what leads out: {_PAGE}."


def _subject(one: Finding) -> str:
    """What a finding is about."""
    if one.key is not None:
        return str(one.key)
    return f"topic {one.topic}" if one.topic else "the cluster"


def _subjects(group: Sequence[Finding], of_all: int) -> str:
    keys = [one.key for one in group if one.key is not None]
    if keys:
        return in_short(keys, of_all)
    return ", ".join(_subject(one) for one in group[:3]) + (" …" if len(group) > 3 else "")


def _could_be(summary: TopicSummary) -> str:
    if summary.in_the_way:
        return f"no: {', '.join(summary.in_the_way)}"
    return "it is" if summary.is_compacted else "yes"


_COLUMNS: Final[Sequence[Column[TopicSummary]]] = (
    ("topic", "left", lambda one: one.topic),
    ("partitions", "right", lambda one: spaced(one.partitions)),
    ("segments", "right", lambda one: spaced(one.segments)),
    ("bytes", "right", lambda one: decimal(one.size_bytes)),
    ("could be compacted", "left", _could_be),
)

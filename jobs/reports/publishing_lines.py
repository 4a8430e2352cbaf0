"""Says what brokers were sent, what they are to be sent, and when consumers see it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console

from tierfold.compaction.model.wording import counted, spaced
from tierfold.jobs.context.timestamps import timestamp_text
from tierfold.jobs.pipeline.partition_report import LEFT, PLANNED, REFUSED, PartitionReport


def print_publishing(console: Console, reports: Sequence[PartitionReport], now_ms: int) -> None:
    """Print it, a line for what is planned and one for what is done; nothing without any."""
    planned = [report for report in reports if _is_planned(report)]
    rest = [report for report in reports if not _is_planned(report)]
    for line in (_planned(planned, now_ms), _done(rest, now_ms)):
        if line:
            console.print(line, style="dim")


def _is_planned(report: PartitionReport) -> bool:
    """Whether nothing was sent yet of what a round of this run would need."""
    return report.outlook is not None and report.outcome in {PLANNED, LEFT}


def _planned(reports: Sequence[PartitionReport], now_ms: int) -> str:
    if not reports:
        return ""
    events = sum(report.events_planned for report in reports)
    parts = (f"{counted(events, 'event')} to brokers", *_seen(reports, now_ms))
    return f"To be published: {'; '.join(parts)}."


def _done(reports: Sequence[PartitionReport], now_ms: int) -> str:
    """What was sent, what is left of that, and what partitions have open that were sent nothing."""
    published = [report for report in reports if report.events_sent]
    sent = sum(report.events_sent for report in published)
    waiting = [one for one in reports if not one.events_sent and one.outcome != REFUSED]
    is_open = _left(waiting)
    later = f"{counted(is_open, 'event')} to brokers {'are' if is_open > 1 else 'is'} open"
    if not sent:
        return f"{later}: the next `tierfold compact` goes on." if is_open else ""
    left = _left(published)
    more = f"{spaced(left)} more to come, with `tierfold vacuum`" if left else ""
    opened = f"of other partitions {later}" if is_open else ""
    parts = (f"{counted(sent, 'event')} to brokers", more, opened, *_seen(published, now_ms))
    return f"Published: {'; '.join(filter(None, parts))}."


def _left(reports: Sequence[PartitionReport]) -> int:
    """How many events these partitions still need."""
    return sum(max(report.events_planned - report.events_sent, 0) for report in reports)


def _seen(reports: Sequence[PartitionReport], now_ms: int) -> Iterator[str]:
    """When consumers see it, clauses."""
    outlooks = [report.outlook for report in reports if report.outlook is not None]
    known_ms = [one.local_until_ms for one in outlooks if one.local_until_ms is not None]
    last_ms = max(known_ms, default=None)
    if last_ms is not None and last_ms > now_ms:
        yield f"consumers see all of it after {timestamp_text(last_ms)}, as local copies go"
    elif last_ms is not None:
        yield "consumers see it at once, as no broker has local copies of it"
    if len(known_ms) < len(outlooks):
        unknown = counted(len(outlooks) - len(known_ms), "partition")
        yield f"of {unknown} it is not known when consumers see it"

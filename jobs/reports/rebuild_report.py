"""The result of `rebuild`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from tierfold.compaction.brokers.events import SegmentAdded
from tierfold.compaction.brokers.topic_retention import is_copying
from tierfold.compaction.model.redaction import printable
from tierfold.compaction.model.wording import counted
from tierfold.compaction.publishing.lost_metadata import (
    LostAlready,
    NameAgain,
    SafeOrder,
    StopCopying,
)
from tierfold.jobs.context.publishing_settings import Publishing
from tierfold.jobs.pipeline.partition_report import PLANNED, PUBLISHED
from tierfold.jobs.reports.result import Result, concluded, fields
from tierfold.jobs.reports.tables import NO_PARTITIONS, exact_bytes, in_words
from tierfold.jobs.reports.views import ALL, View
from tierfold.jobs.verbs.rebuild import Rebuilt

_CREATED_AGAIN: Final = (
    "Once every partition says that nothing is to be done, restart the brokers one after the"
    " other, before you run `compact`: the metadata topic was created again, and brokers that run"
    " skip what is written at offsets that they had read in the old one. Until they restart,"
    " consumers find neither what brokers upload nor what `compact` publishes."
)
_STOPPED: Final = (
    "Copying to the tier is stopped. Once every partition says that nothing is to be done, let it"
    " go on, with the local.retention.ms that the topic had."
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RebuildResult(Result[Rebuilt]):
    """What the metadata topic lost of each partition, and what was sent again."""

    verb = "rebuild"
    publishing: Publishing = Publishing.NOT_NAMED
    """What brokers learn of the run."""

    def entry(self, partition: Rebuilt) -> dict[str, Any]:
        """See `Result`."""
        report = partition.report
        return {
            **concluded(partition, report.notes, report.refusals),
            **fields(report, "epoch", "events_planned", "events_sent"),
            **_offsets_of(partition),
            **_loss_of(partition),
            "is_created_again": partition.is_created_again,
            "commands": [*partition.commands],
        }

    def details(self) -> dict[str, Any]:
        """See `Result`."""
        return {"publishing": self.publishing.value}

    def print_tables(self, console: Console, _view: View = ALL) -> None:
        """See `Result`."""
        if not self.partitions:
            console.print(NO_PARTITIONS)
        for partition in self.partitions:
            console.print(Text(f"{partition.key}: {in_words(partition.outcome)}", style="bold"))
            for sentence in _sentences(partition):
                console.print(Text(printable(sentence)))
        # Once for all partitions: what to run, and only then what comes after it.
        commands = dict.fromkeys(one for done in self.partitions for one in done.commands)
        if commands:
            console.print(Text("To run now, in this order:", style="bold"))
        for command in commands:
            console.print(Text(f"  {command}"), soft_wrap=True)
        for sentence in dict.fromkeys(one for done in self.partitions for one in _later(done)):
            console.print(Text(sentence))


def _offsets_of(partition: Rebuilt) -> dict[str, Any]:
    """What brokers say of the partition; nulls: it could not be looked at."""
    names = ("log_start_offset", "high_watermark", "is_copying", "is_served")
    if partition.seen is None:
        return dict.fromkeys(names)
    look, decision = partition.seen.look, partition.decision
    reading = None if decision is None else decision.reading
    return {
        "log_start_offset": look.log_start,
        "high_watermark": look.offsets.high_watermark,
        "is_copying": is_copying(partition.seen.configs),
        "is_served": None if reading is None else reading.is_served,
    }


def _loss_of(partition: Rebuilt) -> dict[str, Any]:
    """What the topic does not name, and what of it consumers can no longer read."""
    step = partition.step
    lost = step.segments if isinstance(step, NameAgain | StopCopying | LostAlready) else ()
    ranges = step.ranges if isinstance(step, LostAlready) else ()
    return {
        "order": step.order.name.lower() if isinstance(step, NameAgain) else None,
        "unnamed": [_segment(one) for one in lost],
        "unnamed_bytes": sum(one.size_bytes for one in lost),
        "lost_offsets": [
            {"start_offset": one.first, "end_offset": one.last} for one in ranges
        ],
    }


def _segment(added: SegmentAdded) -> dict[str, Any]:
    found = fields(added, "start_offset", "end_offset", "size_bytes")
    return {"id": added.segment_id, **found}


def _sentences(partition: Rebuilt) -> Iterator[str]:
    report, step, seen = partition.report, partition.step, partition.seen
    yield from filter(None, (report.reason, *report.notes))
    if seen is None or report.outcome not in {PLANNED, PUBLISHED}:
        return
    if report.outcome == PUBLISHED:
        yield f"Brokers know again what is in the tier: {counted(report.events_sent, 'event')}."
    elif isinstance(step, NameAgain):
        yield from _planned(partition, step)
    else:
        yield (
            "The metadata topic names all that consumers read from the tier; the catalog is yet to"
            " note it."
        )


def _later(partition: Rebuilt) -> Iterator[str]:
    """What to do once all is named."""
    if partition.seen is None or partition.outcome not in {PLANNED, PUBLISHED}:
        return
    if partition.is_created_again:
        yield _CREATED_AGAIN
    if not is_copying(partition.seen.configs):
        yield _STOPPED


def _planned(partition: Rebuilt, step: NameAgain) -> Iterator[str]:
    """What was found, and which order is safe."""
    lost = step.segments
    first, last = lost[0].start_offset, max(one.end_offset for one in lost)
    size = exact_bytes(sum(one.size_bytes for one in lost))
    yield (
        f"The metadata topic does not name {counted(len(lost), 'segment')} of the tier, offsets"
        f" {first} to {last}, {size}. All of their objects are there."
    )
    log_start = partition.seen.look.log_start if partition.seen is not None else 0
    if step.order is SafeOrder.FROM_MEMORY:
        yield (
            f"Consumers still read from the log start, {log_start}: brokers go on from memory."
            " Restart none of them before all is published."
        )
    else:
        yield (
            f"Consumers read nothing at the log start, {log_start}: a broker has restarted. Copying"
            " was stopped in time, so nothing is lost. Publish before it goes on."
        )

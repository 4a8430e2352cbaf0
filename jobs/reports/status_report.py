"""The result of `status`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from rich.console import Console
from rich.filesize import decimal
from rich.text import Text

from tierfold.compaction.brokers.cluster_view import ClusterView
from tierfold.compaction.model.redaction import printable
from tierfold.compaction.model.segments import RetiredSegment, Segment
from tierfold.compaction.model.spared_bytes import spared_sum
from tierfold.compaction.model.wording import counted, spaced
from tierfold.jobs.context.timestamps import timestamp_text
from tierfold.jobs.reports.broker_report import broker_entry, cluster_entry, print_brokers
from tierfold.jobs.reports.refusals_report import print_refusals
from tierfold.jobs.reports.result import Result, concluded, fields, named_segment
from tierfold.jobs.reports.tables import (
    NO_PARTITIONS,
    Column,
    clean_below,
    offsets,
    print_rows,
)
from tierfold.jobs.verbs.status import PartitionStatus

NO_PARTITIONS_TIERED: Final = "No partitions: these brokers have tiered nothing that matches."


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StatusResult(Result[PartitionStatus]):
    """Each partition's live segments, how dirty they are, and what was replaced."""

    cluster: ClusterView | None = None
    """The cluster whose brokers were asked; None: none was."""

    verb = "status"

    def entry(self, partition: PartitionStatus) -> dict[str, Any]:
        """See `Result`."""
        return _entry(partition)

    def details(self) -> dict[str, Any]:
        """See `Result`."""
        return {} if self.cluster is None else {"cluster": cluster_entry(self.cluster)}

    def print_tables(self, console: Console) -> None:
        """See `Result`."""
        if self.tier:
            _print_status(console, self.partitions)
        if self.cluster is not None and self.partitions:
            print_brokers(console, self.cluster, self.partitions)
        elif not self.tier:
            console.print(NO_PARTITIONS_TIERED)


def _entry(status: PartitionStatus) -> dict[str, Any]:
    entry = _own_entry(status)
    if status.brokers is not None:
        entry["brokers"] = broker_entry(status.brokers, status.beside, status.step)
    return entry


def _own_entry(status: PartitionStatus) -> dict[str, Any]:
    """What the tier and the catalog have."""
    view, row, ratio = status.view, status.row, status.ratio
    orphans, set_apart = ((), ()) if view is None else (view.orphans, view.set_apart)
    return {
        **concluded(status, () if view is None else view.notes, status.refusals),
        "epoch": status.epoch,
        "owner_run": "" if row is None else row.owner_run,
        "committed_at_ms": None if row is None else row.committed_at_ms,
        "cleaner_offset": status.cleaner_offset,
        "log_start_offset": status.log_start_offset,
        "spared_bytes": 0 if row is None else spared_sum(row.spared),
        "clean_bytes": None if ratio is None else ratio.clean_bytes,
        "cleanable_bytes": None if ratio is None else ratio.cleanable_bytes,
        "segments": list(map(_live, status.segments, status.logs)),
        "retired": [] if row is None else list(map(_retired, row.retired)),
        "orphans": [orphan.segment_id for orphan in orphans],
        "orphan_bytes": sum(orphan.size_bytes for orphan in orphans),
        "out_of_lineage": [segment.segment_id for segment in set_apart],
    }


def _live(segment: Segment, log: str) -> dict[str, Any]:
    names = ("start_offset", "end_offset", "own_start_offset", "size_bytes", "skipped_bytes")
    return {
        "id": segment.segment_id,
        **fields(segment, *names, "max_timestamp_ms"),
        "leader_epochs": [asdict(epoch) for epoch in segment.leader_epochs],
        "log": log,
        "written_by_run": segment.written_by_run,
    }


def _retired(retired: RetiredSegment) -> dict[str, Any]:
    names = ("retired_at_ms", "retired_by_epoch", "retired_by_run", "deletion_started_at_ms")
    return named_segment(retired.segment) | fields(retired, *names)


def _print_status(console: Console, partitions: Sequence[PartitionStatus]) -> None:
    if not partitions:
        console.print(NO_PARTITIONS)
        return
    ordered = sorted(partitions, key=lambda status: (not status.refusal, status.key))
    print_rows(console, "status", _COLUMNS, ordered)
    print_refusals(console, partitions)


def _range(status: PartitionStatus) -> str:
    segments, start = status.segments, status.log_start_offset
    return offsets(start, segments[-1].next_offset) if segments and start is not None else "none"


def _remarks(status: PartitionStatus) -> Text:
    view = status.view
    remarks = ["refused, see below"] if status.refusal else list(filter(None, [status.absence]))
    remarks += _beside_live(status)
    remarks += view.notes if view is not None else ()
    return Text(printable("; ".join(remarks)), style="red" if status.refusal else "")


def _beside_live(status: PartitionStatus) -> Iterator[str]:
    """What the tier has beside live segments, and which run holds the partition."""
    row, view = status.row, status.view
    if row is not None and row.retired:
        since = timestamp_text(min(retired.retired_at_ms for retired in row.retired))
        retired_bytes = sum(retired.segment.size_bytes for retired in row.retired)
        segments = counted(len(row.retired), "segment")
        yield f"{segments} retired since {since}: {decimal(retired_bytes)}"
        going = len(row.retired) - len(row.whole_retired)
        if going:
            yield f"{going} being deleted"
    if view is not None and view.orphans:
        orphan_bytes = sum(orphan.size_bytes for orphan in view.orphans)
        yield f"{counted(len(view.orphans), 'orphan')}: {decimal(orphan_bytes)}"
    if view is not None and view.set_apart:
        yield f"{len(view.set_apart)} outside the leader epoch lineage"
    if row is not None and row.spared:
        yield f"up to {decimal(spared_sum(row.spared))} superseded, left by min.rewrite.gain"
    if row is not None and row.holes:
        gaps = counted(len(row.holes), "gap")
        yield f"{gaps} between segments taken for holes, the first at {row.holes[0]}"
    if row is not None and row.owner_run:
        last = timestamp_text(row.committed_at_ms)
        yield f"claimed by run {row.owner_run}, last commit at {last}"


_COLUMNS: Final[Sequence[Column[PartitionStatus]]] = (
    ("partition", "left", lambda status: str(status.key)),
    ("segments", "right", lambda status: spaced(len(status.segments))),
    ("bytes", "right", lambda status: decimal(sum(one.size_bytes for one in status.segments))),
    ("offsets", "right", _range),
    ("dirty", "right", lambda status: "" if status.ratio is None else status.ratio.percent),
    ("clean below", "right", lambda status: clean_below(status.cleaner_offset)),
    ("epoch", "right", lambda status: str(status.epoch)),
    ("remarks", "left", _remarks),
)

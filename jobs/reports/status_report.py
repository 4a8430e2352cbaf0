"""The result of `status`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
from tierfold.compaction.planning.eligibility import DirtyRatio
from tierfold.jobs.context.timestamps import timestamp_text
from tierfold.jobs.pipeline.partition_report import OK, REFUSED
from tierfold.jobs.reports.broker_report import (
    broker_entry,
    cluster_entry,
    local_entry,
    print_brokers,
)
from tierfold.jobs.reports.refusals_report import print_refusals
from tierfold.jobs.reports.result import Result, concluded, fields, named_segment
from tierfold.jobs.reports.tables import (
    NO_PARTITIONS,
    Column,
    clean_below,
    offsets,
    outcomes_line,
    print_rows,
    rows_shown,
)
from tierfold.jobs.reports.views import ALL, Columns, View
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

    def without_segments(self, partition: PartitionStatus) -> dict[str, Any]:
        """See `Result`."""
        entry = self.entry(partition)
        for name in _LISTS:
            entry.pop(name, None)
        for name in _LISTS_OF_BROKERS if "brokers" in entry else ():
            del entry["brokers"][name]
        return entry

    def columns(self) -> Columns:
        """See `Result`."""
        if not self.tier:
            return OF_BROKERS
        return FIELDS if self.cluster is None else {**FIELDS, "brokers": _ALL_OF_BROKERS}

    def print_tables(self, console: Console, view: View = ALL) -> None:
        """See `Result`."""
        shown, of_all = self.shown(view), len(self.partitions)
        if not of_all:
            console.print(NO_PARTITIONS if self.tier else NO_PARTITIONS_TIERED)
            return
        if self.tier:
            rows, rows_max = shown, view.rows_max
            if not view.sort:
                rows = sorted(shown, key=lambda status: not status.refusal)
                rows_max = rows_shown([status.outcome for status in rows], rows_max)
            print_rows(console, "status", _COLUMNS, rows, rows_max=rows_max)
            print_refusals(console, shown, of_all=of_all)
            console.print(_total(self.partitions))
        if self.cluster is not None:
            print_brokers(console, self.cluster, shown, view.rows_max)


def _entry(status: PartitionStatus) -> dict[str, Any]:
    entry = _own_entry(status)
    if status.brokers is not None:
        entry["brokers"] = broker_entry(status.brokers, status.beside, status.step)
    if (local := status.local) is not None:
        cleaned = {*local.cleaned}
        entry["local"] = local_entry(local)
        entry["local_segments"] = [
            asdict(one) | {"is_cleaned": one in cleaned} for one in local.copies
        ]
    return entry


def _own_entry(status: PartitionStatus) -> dict[str, Any]:
    """What the tier and the catalog have."""
    view, row, ratio = status.view, status.row, status.ratio
    orphans, set_apart = ((), ()) if view is None else (view.orphans, view.set_apart)
    live, retired = status.segments, () if row is None else row.retired
    return {
        **concluded(status, () if view is None else view.notes, status.refusals),
        "epoch": status.epoch,
        "owner_run": "" if row is None else row.owner_run,
        "committed_at_ms": None if row is None else row.committed_at_ms,
        "cleaner_offset": status.cleaner_offset,
        "log_start_offset": status.log_start_offset,
        "next_offset": live[-1].next_offset if live else None,
        "live_segments": len(live),
        "live_bytes": sum(segment.size_bytes for segment in live),
        "spared_bytes": 0 if row is None else spared_sum(row.spared),
        "clean_bytes": None if ratio is None else ratio.clean_bytes,
        "cleanable_bytes": None if ratio is None else ratio.cleanable_bytes,
        "dirty_ratio": _dirty_ratio(ratio),
        "retired_segments": len(retired),
        "retired_bytes": sum(one.segment.size_bytes for one in retired),
        "orphan_segments": len(orphans),
        "orphan_bytes": sum(orphan.size_bytes for orphan in orphans),
        "out_of_lineage_segments": len(set_apart),
        "segments": list(map(_live, live, status.logs)),
        "retired": list(map(_retired, retired)),
        "orphans": [orphan.segment_id for orphan in orphans],
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


def _dirty_ratio(ratio: DirtyRatio | None) -> float | None:
    """None: the partition was not inspected, or is empty."""
    if ratio is None or not ratio.total_bytes:
        return None
    return ratio.cleanable_bytes / ratio.total_bytes


def _total(partitions: Sequence[PartitionStatus]) -> str:
    """All partitions together, in one line."""
    rows = [status.row for status in partitions if status.row is not None]
    live = [segment for status in partitions for segment in status.segments]
    retired = [one.segment for row in rows for one in row.retired]
    ratios = [status.ratio for status in partitions if status.ratio is not None]
    line = outcomes_line([status.outcome for status in partitions], (OK, REFUSED))
    line += f" {counted(len(live), 'live segment')}, {_size(live)}"
    if ratios:
        line += f"; {decimal(sum(ratio.cleanable_bytes for ratio in ratios))} dirty"
    if retired:
        line += f"; {counted(len(retired), 'retired segment')}, {_size(retired)}"
    return f"{line}."


def _size(segments: Iterable[Segment]) -> str:
    return decimal(sum(segment.size_bytes for segment in segments))


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


_LISTS: Final = ("segments", "retired", "orphans", "out_of_lineage", "local_segments")
"""The fields of an entry that list segments."""

_LISTS_OF_BROKERS: Final = ("segments", "beside_catalog")

_ALL_OF_BROKERS: Final = (
    "brokers.states.COPY_STARTED.segments",
    "brokers.states.COPY_FINISHED.segments",
    "brokers.states.COPY_FINISHED.bytes",
    "brokers.states.DELETE_STARTED.segments",
    "brokers.offsets.log_start",
    "brokers.offsets.high_watermark",
)

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

FIELDS: Final[Columns] = {
    "partition": ("topic", "partition"),
    "segments": ("live_segments",),
    "bytes": ("live_bytes",),
    "offsets": ("log_start_offset", "next_offset"),
    "dirty": ("dirty_ratio", "clean_bytes", "cleanable_bytes"),
    "clean below": ("cleaner_offset",),
    "epoch": ("epoch",),
    "remarks": (
        *("retired_segments", "retired_bytes", "orphan_segments", "orphan_bytes"),
        *("out_of_lineage_segments", "spared_bytes", "owner_run", "reason", "notes"),
    ),
}
"""The fields of an entry that the columns show."""

OF_BROKERS: Final[Columns] = {
    **dict.fromkeys(FIELDS, ()),
    "segments": ("brokers.states.COPY_FINISHED.segments",),
    "bytes": ("brokers.states.COPY_FINISHED.bytes",),
    "remarks": (*_ALL_OF_BROKERS, "reason", "notes"),
}
"""The same without a tier."""

"""What brokers have of each partition: the entry of a document, and a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any, Final

from rich.console import Console
from rich.filesize import decimal
from rich.text import Text

from tierfold.compaction.brokers.beside_catalog import BesideCatalog
from tierfold.compaction.brokers.broker_view import BrokerSegment, BrokerView
from tierfold.compaction.brokers.cluster_view import BrokerPartition, ClusterView
from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.model.redaction import printable
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.model.wording import counted, spaced
from tierfold.compaction.planning.local_segments import LocalCopy, LocalSegments
from tierfold.compaction.publishing.steps import Done, OpenStep, Send, Step
from tierfold.jobs.reports.refusals_report import in_short
from tierfold.jobs.reports.result import fields
from tierfold.jobs.reports.tables import ROWS_MAX, Column, offsets, print_omitted, print_rows
from tierfold.jobs.verbs.status import PartitionStatus

_DIFFERENCES: Final = {
    "not_served": ("live segment", "not served"),
    "retired_but_served": ("retired segment", "still served"),
    "not_in_catalog": ("served segment", "not in the catalog"),
    "not_listed": ("served segment", "without objects"),
    "never_named": ("segment", "that brokers never had"),
}


def cluster_entry(cluster: ClusterView) -> dict[str, Any]:
    """Return what a document says of the cluster."""
    return {
        "cluster_id": cluster.cluster_id,
        "metadata_topic_id": cluster.metadata_topic.topic_id,
        "metadata_partitions": cluster.metadata_topic.partitions,
        "records_read": cluster.records,
    }


def broker_entry(
    brokers: BrokerPartition, beside: BesideCatalog | None, step: Step | None = None
) -> dict[str, Any]:
    """Return what a document says of one partition's brokers; `step`: what publishing does next."""
    view, referenced = brokers.view, brokers.view.referenced_ids
    return {
        "offsets": None if brokers.known_offsets is None else asdict(brokers.known_offsets),
        "offsets_unknown": brokers.why_unknown,
        "states": {state.name: _sums(view.in_state(state)) for state in _STATES},
        "unreferenced": _sums(_unreferenced(view)),
        "segments": [
            _segment(segment, segment.added.segment_id in referenced)
            for state in _STATES
            for segment in view.in_state(state)
        ],
        "differences": None if beside is None else _differences(beside),
        "last_record_offset": view.last_offset,
        "last_record_timestamp_ms": view.last_timestamp_ms,
        "read_only": [
            {**fields(reason, "cause", "metadata_partition", "offset"), "reason": str(reason)}
            for reason in view.read_only
        ],
        "beside_catalog": None if beside is None else asdict(beside),
        "open_step": None if step is None or isinstance(step, Done) else _open_step(step),
    }


def local_entry(local: LocalSegments) -> dict[str, Any]:
    """Return what a document says of the local segments of one partition's brokers."""
    clean, cleaned = local.cleaner_offset, local.cleaned
    return {
        "cleaner_offset": None if clean is None else clean.offset,
        "cleaner_leader_epoch": None if clean is None else clean.epoch,
        "can_have": _local_sums(local.copies),
        "cleaned": _local_sums(cleaned),
        **fields(local, "others_below", "is_time_limited"),
    }


def _local_sums(copies: Sequence[LocalCopy]) -> dict[str, int | None]:
    return {
        "segments": len(copies),
        "bytes": sum(one.size_bytes for one in copies),
        "start_offset": copies[0].start_offset if copies else None,
        "end_offset": max(one.end_offset for one in copies) if copies else None,
    }


def _differences(beside: BesideCatalog) -> dict[str, int]:
    """How many segments differ in each way."""
    return {name: len(ids) for name, ids in asdict(beside).items()}


def _open_step(step: OpenStep) -> dict[str, Any]:
    """The step of publishing that is not done, with its reason."""
    purpose = step.purpose.value if isinstance(step, Send) else None
    return {"step": type(step).__name__.lower(), "purpose": purpose, "reason": step.why}


def print_brokers(
    console: Console, cluster: ClusterView, statuses: Sequence[PartitionStatus], rows_max: int
) -> None:
    """Print what brokers have of the partitions."""
    rows = [(status, status.brokers) for status in statuses if status.brokers is not None]
    title = f"brokers of cluster {cluster.cluster_id}"
    print_rows(console, title, _COLUMNS, rows, rows_max=rows_max)
    _print_sentences(console, rows)
    read = counted(cluster.records, "record")
    console.print(f"{read} of the brokers' metadata topic replayed; nothing was sent.", style="dim")


_Row = tuple[PartitionStatus, BrokerPartition]
_STATES: Final = (
    SegmentState.COPY_STARTED,
    SegmentState.COPY_FINISHED,
    SegmentState.DELETE_STARTED,
)
"""Those in which brokers still have a segment."""


def _print_sentences(console: Console, rows: Sequence[_Row]) -> None:
    """Print what remarks refer to, each sentence once; unfolded, so that commands can be pasted."""
    said: dict[str, list[PartitionKey]] = defaultdict(list)
    for status, brokers in rows:
        for sentence in (*map(str, brokers.view.read_only), brokers.why_unknown):
            if sentence:
                said[sentence].append(status.key)
    for sentence, keys in [*said.items()][:ROWS_MAX]:
        line = printable(f"{in_short(keys, len(rows))}: {sentence}")
        console.print(Text(line, style="red"))
    print_omitted(console, len(said) - ROWS_MAX)


def _sums(segments: Sequence[BrokerSegment]) -> dict[str, int]:
    return {
        "segments": len(segments),
        "bytes": sum(segment.added.size_bytes for segment in segments),
    }


def _segment(segment: BrokerSegment, is_referenced: bool) -> dict[str, Any]:  # noqa: FBT001
    added = segment.added
    return {
        "id": added.segment_id,
        "state": segment.state.name,
        "since_ms": segment.since_ms,
        "is_referenced": is_referenced,
        **fields(added, "start_offset", "end_offset", "size_bytes", "max_timestamp_ms"),
        **fields(added, "broker_id"),
        "leader_epochs": [asdict(epoch) for epoch in added.leader_epochs],
    }


def _finished(view: BrokerView) -> tuple[BrokerSegment, ...]:
    return view.in_state(SegmentState.COPY_FINISHED)


def _unreferenced(view: BrokerView) -> tuple[BrokerSegment, ...]:
    """The finished segments that no look-up finds."""
    referenced = view.referenced_ids
    return tuple(one for one in _finished(view) if one.added.segment_id not in referenced)


def _bytes(segments: Sequence[BrokerSegment]) -> str:
    return decimal(_sums(segments)["bytes"])


def _ranges(brokers: BrokerPartition) -> str:
    finished = _finished(brokers.view)
    if not finished:
        return "none"
    end = max(segment.added.end_offset for segment in finished)
    return offsets(finished[0].added.start_offset, end + 1)


def _of_offsets(brokers: BrokerPartition, name: str) -> str:
    return "" if brokers.why_unknown else spaced(getattr(brokers.offsets, name))


def _remarks(status: PartitionStatus, brokers: BrokerPartition) -> Text:
    said = chain(_said(status, brokers), _said_of_local(status.local))
    return Text(printable("; ".join(said)))


def _said(status: PartitionStatus, brokers: BrokerPartition) -> Iterator[str]:
    view, beside, step = brokers.view, status.beside, status.step
    if step is not None and not isinstance(step, Done):
        entry = _open_step(step)
        yield f"open: {entry['purpose'] or entry['step']}, as {entry['reason']}"
    if view.read_only or brokers.why_unknown:
        yield "see below"
    if view.last_offset is None:
        yield "their metadata topic names nothing of it"
        return
    for segments, what in (
        (view.in_state(SegmentState.COPY_STARTED), "pending"),
        (_unreferenced(view), "unreferenced"),
        (view.in_state(SegmentState.DELETE_STARTED), "being deleted"),
    ):
        if segments:
            yield f"{counted(len(segments), 'segment')} {what}: {_bytes(segments)}"
    if beside is None:
        return
    for name, (what, how) in _DIFFERENCES.items():
        ids = getattr(beside, name)
        if ids:
            yield f"{counted(len(ids), what)} {how}"


def _said_of_local(local: LocalSegments | None) -> Iterator[str]:
    """What a new leader takes over, and which local segments lie below it."""
    if local is None or local.cleaner_offset is None:
        return
    clean, cleaned = local.cleaner_offset, local.cleaned
    yield f"a new leader takes over cleaner offset {clean.offset} of leader epoch {clean.epoch}"
    if cleaned:
        size = decimal(sum(one.size_bytes for one in cleaned))
        end = max(one.end_offset for one in cleaned)
        yield (
            f"{len(cleaned)} of {counted(len(local.copies), 'local segment')} below it: {size},"
            f" offsets {offsets(cleaned[0].start_offset, end + 1)}"
        )
    elif local.others_below is None:
        yield "no local segment below it"
    if local.others_below is not None:
        yield f"below offset {local.others_below} there can be others, whose uploads are deleted"
    if not local.is_time_limited:
        yield "no known time limit of local segments"


_COLUMNS: Final[Sequence[Column[_Row]]] = (
    ("partition", "left", lambda row: str(row[0].key)),
    ("segments", "right", lambda row: spaced(len(_finished(row[1].view)))),
    ("bytes", "right", lambda row: _bytes(_finished(row[1].view))),
    ("offsets", "right", lambda row: _ranges(row[1])),
    ("log start", "right", lambda row: _of_offsets(row[1], "log_start")),
    ("high watermark", "right", lambda row: _of_offsets(row[1], "high_watermark")),
    ("remarks", "left", lambda row: _remarks(*row)),
)

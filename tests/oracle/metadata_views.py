"""What brokers have by our fold, in the words of `MetadataMirror.java`, which has Kafka's cache."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from tierfold.compaction.brokers.broker_view import BrokerSegment, BrokerView
from tierfold.compaction.brokers.events import Event, SegmentAdded
from tierfold.compaction.brokers.metadata_fold import MetadataFold, MetadataRecord

Answer: TypeAlias = dict[str, Any]
"""As MetadataMirror.java writes it."""


def views(read: Iterable[MetadataRecord], partition_count: int = 1) -> Answer:
    """What brokers then have of each partition, by tierfold."""
    fold = MetadataFold(partition_count)
    fold.apply(read)
    seen = map(fold.view, fold.partitions())
    return {f"{view.key.topic_id}:{view.key}": view_answer(view) for view in seen}


def view_answer(view: BrokerView) -> Answer:
    """A view, with a look-up at every offset where the answer can change."""
    segments = [segment_answer(segment) for segment in view.segments.values()]
    offsets: set[int] = set()
    for segment in segments:
        offsets.update((segment["start"], segment["end"], segment["end"] + 1))
        offsets.update(offset for _, start in segment["epochs"] for offset in (start - 1, start))
    epochs = {
        str(epoch): {
            "referenced": [reference.segment_id for reference in references],
            "unreferenced": sorted(view.unreferenced[epoch]),
            "look_ups": [[offset, found_id(view, epoch, offset)] for offset in sorted(offsets)],
        }
        for epoch, references in view.references.items()
    }
    return {"segments": sorted(segments, key=lambda segment: segment["id"]), "epochs": epochs}


def found_id(view: BrokerView, epoch: int, offset: int) -> str | None:
    """The id of the segment that a look-up finds."""
    segment = view.find(epoch, offset)
    return segment and segment.added.segment_id


def segment_answer(segment: BrokerSegment) -> Answer:
    """A segment that brokers have."""
    custom = segment.custom_metadata
    return {
        **added_answer(segment.added),
        "custom": None if custom is None else custom.hex(),
        "state": segment.state,
    }


def added_answer(event: SegmentAdded) -> Answer:
    """The event that adds a segment, without what only events say."""
    return {
        **ids_answer(event),
        "start": event.start_offset,
        "end": event.end_offset,
        "max_ms": event.max_timestamp_ms,
        "size": event.size_bytes,
        "no_aborts": event.is_transaction_index_empty,
        "epochs": [[entry.epoch, entry.start_offset] for entry in event.leader_epochs],
    }


def ids_answer(event: Event) -> Answer:
    """The partition and the segment of an event."""
    key = event.key
    ids = {"topic": key.topic, "topic_id": key.topic_id, "partition": key.partition}
    return {**ids, "id": event.segment_id}


def kafkas_views(answer: Mapping[str, Any]) -> Answer:
    """The same by Kafka: its answer for all partitions, with its sets in order."""
    return {
        key: {
            "segments": sorted(view["segments"], key=lambda segment: segment["id"]),
            "epochs": {
                epoch: {**entry, "unreferenced": sorted(entry["unreferenced"])}
                for epoch, entry in view["epochs"].items()
            },
        }
        for key, view in answer["views"].items()
    }

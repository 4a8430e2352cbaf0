"""Publishes what a catalog has to the brokers, as a later tierfold will: the tests' own sends."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer

from tests.brokers.cluster import METADATA_PARTITIONS, KafkaCluster
from tests.brokers.topics import METADATA_TOPIC, Topic
from tierfold.compaction.brokers.event_bytes import encode
from tierfold.compaction.brokers.events import Event, SegmentAdded, SegmentState, SegmentUpdated
from tierfold.compaction.brokers.metadata_partitions import metadata_partition
from tierfold.compaction.model.segments import PartitionKey, PartitionState, Segment
from tierfold.storage.catalog.catalog import Catalog


def row_of(catalog: Path, topic: Topic) -> PartitionState:
    """The catalog's row of the topic's first partition."""
    key = PartitionKey(topic=topic.name, partition=0, topic_id=topic.id)
    return Catalog(str(catalog)).read([key])[key]


def added(key: PartitionKey, segment: Segment) -> SegmentAdded:
    """The event that adds a segment of the catalog."""
    return SegmentAdded(
        key=key,
        segment_id=segment.segment_id,
        start_offset=segment.own_start_offset,
        end_offset=segment.end_offset,
        broker_id=-1,
        max_timestamp_ms=segment.max_timestamp_ms,
        event_timestamp_ms=_now_ms(),
        leader_epochs=segment.leader_epochs,
        size_bytes=segment.log_bytes,
        custom_metadata=None,
        is_transaction_index_empty=not segment.has_transaction_index,
    )


def updated(key: PartitionKey, segment_id: str, state: SegmentState) -> SegmentUpdated:
    """The event that changes a segment's state."""
    return SegmentUpdated(key, segment_id, -1, _now_ms(), None, state)


def swaps_of(row: PartitionState) -> tuple[list[Event], list[Event]]:
    """The first and the second send of all that runs wrote: the sources are what is retired."""
    ours = [segment for segment in row.segments if not segment.is_upload]
    first: list[Event] = [added(row.key, segment) for segment in ours]
    second: list[Event] = []
    for segment in ours:
        second.append(updated(row.key, segment.segment_id, SegmentState.COPY_FINISHED))
        second += [
            updated(row.key, entry.segment.segment_id, SegmentState.DELETE_STARTED)
            for entry in sorted(row.retired, key=lambda entry: entry.segment.start_offset)
            if segment.start_offset <= entry.segment.start_offset <= segment.end_offset
        ]
    return first, second


def send(kafka: KafkaCluster, events: Sequence[Event], ahead_ms: int = 0) -> None:
    """Write events to the metadata topic, in this order, by a clock that is so far ahead."""
    producer = Producer(kafka.client_settings(enable_idempotence=True))
    for event in events:
        number = metadata_partition(event.key, METADATA_PARTITIONS)
        at_ms = _now_ms() + ahead_ms
        producer.produce(METADATA_TOPIC, encode(event), partition=number, timestamp=at_ms)
    assert producer.flush(30) == 0


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

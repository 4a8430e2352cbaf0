"""What brokers have, by tierfold and by Kafka, in the words of MetadataMirror.java."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from tests.compaction.broker_events import records
from tests.oracle.kafka_lab import KafkaLab
from tierfold.compaction.brokers.broker_view import BrokerSegment, BrokerView
from tierfold.compaction.brokers.event_bytes import decode, encode
from tierfold.compaction.brokers.events import Event, NoEvent, SegmentAdded, SegmentState
from tierfold.compaction.brokers.metadata_fold import MetadataFold
from tierfold.compaction.brokers.partition_fold import PartitionFold
from tierfold.compaction.model.segments import PartitionKey

Answer: TypeAlias = dict[str, Any]
"""As MetadataMirror.java writes it."""


def unequal_to_cache(lab: KafkaLab, topics: Sequence[Sequence[bytes]]) -> list[str]:
    """The differences between our fold and Kafka's cache; empty: none.

    Each topic is the values of records of one metadata partition, from its first record on.
    """
    found = []
    for number, (values, answer) in enumerate(
        zip(topics, lab.metadata_topics(topics), strict=True)
    ):
        ours, theirs = views(values), _ordered(answer["views"])
        found += [
            f"topic {number}, {key}:\nfound    {ours.get(key)}\nexpected {theirs.get(key)}"
            for key in sorted({*ours, *theirs})
            if ours.get(key) != theirs.get(key)
        ]
        effects = taken(values)
        if effects != answer["taken"]:
            found.append(f"topic {number}:\nfound    {effects}\nexpected {answer['taken']}")
    return found


def taken(values: Iterable[bytes]) -> list[str]:
    """What each value does to brokers, by tierfold."""
    folds: dict[PartitionKey, PartitionFold] = defaultdict(PartitionFold)
    found: list[str] = []
    for value in values:
        event = decode(value)
        if isinstance(event, NoEvent):
            found.append(event.effect)
        else:
            found.append(folds[event.key].apply(event, 0))
    return found


def views(values: Iterable[bytes]) -> Answer:
    """What brokers then have of each partition, by tierfold."""
    fold = MetadataFold(1)
    fold.apply(records(*values))
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


def event_answer(event: Event) -> Answer:
    """An event that has no unknown fields, and its bytes as Kafka writes them."""
    custom = event.custom_metadata
    is_added = isinstance(event, SegmentAdded)
    return {
        **(added_answer(event) if isinstance(event, SegmentAdded) else ids_answer(event)),
        "api": 0 if is_added else 1,
        "broker": event.broker_id,
        "event_ms": event.event_timestamp_ms,
        "custom": None if custom is None else custom.hex(),
        "state": SegmentState.COPY_STARTED if isinstance(event, SegmentAdded) else event.state,
        "written": encode(event._replace(has_unknown_fields=False)).hex(),
    }


def _ordered(answer: Mapping[str, Any]) -> Answer:
    """Kafka's answer for all partitions, with its sets in order."""
    return {
        key: {
            "segments": sorted(view["segments"], key=lambda segment: segment["id"]),
            "epochs": {
                epoch: {**entry, "unreferenced": sorted(entry["unreferenced"])}
                for epoch, entry in view["epochs"].items()
            },
        }
        for key, view in answer.items()
    }

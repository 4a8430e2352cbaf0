"""What tierfold takes brokers to have is what Kafka's own cache makes of the same topic.

The topic is a real cluster's, after all that happens to a tier, swaps by another program included.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import chain

import pytest
from confluent_kafka import Producer

from tests.brokers.cluster import METADATA_PARTITIONS, KafkaCluster
from tests.brokers.topics import METADATA_TOPIC, Topic
from tests.oracle.metadata_answers import unequal_to_cache
from tests.oracle.oracles import Oracles
from tierfold.compaction.brokers.broker_view import BrokerView
from tierfold.compaction.brokers.event_bytes import encode
from tierfold.compaction.brokers.events import Event, SegmentAdded, SegmentState, SegmentUpdated
from tierfold.compaction.brokers.metadata_fold import MetadataFold, MetadataRecord
from tierfold.compaction.brokers.metadata_partitions import metadata_partition
from tierfold.compaction.model.segments import PartitionKey
from tierfold.storage.brokers.client_settings import Given, client_settings
from tierfold.storage.brokers.connection import connected
from tierfold.storage.brokers.metadata_reader import read_metadata
from tierfold.storage.kafka.kafka_uuid import new_kafka_uuid

pytestmark = pytest.mark.soak

FINISHED, LISTED = SegmentState.COPY_FINISHED, SegmentState.DELETE_STARTED


def uploaded(kafka: KafkaCluster, name: str, **how: object) -> Topic:
    """A topic with three segments in the tier."""
    topic = kafka.create(name, **how)  # type: ignore[arg-type]
    more(topic)
    return topic


def more(topic: Topic) -> None:
    for _ in range(3):
        topic.append([(b"a", b"1"), (b"b", b"2")])
    topic.wait_until_tiered()


def read_all(kafka: KafkaCluster) -> list[MetadataRecord]:
    settings = client_settings((), {}, Given(text=kafka.servers, where="--bootstrap-server"))
    assert settings is not None
    with connected(settings) as connection:
        chunks = read_metadata(connection, dict.fromkeys(range(METADATA_PARTITIONS), 0))
        return [*chain.from_iterable(chunks)]


def view_of(kafka: KafkaCluster, topic: Topic) -> BrokerView:
    key = PartitionKey(topic=topic.name, partition=0, topic_id=topic.id)
    fold = MetadataFold(METADATA_PARTITIONS, [key])
    fold.apply(read_all(kafka))
    return fold.view(key)


def swap(kafka: KafkaCluster, topic: Topic) -> None:
    """Swap the first segment for a copy of it."""
    first = view_of(kafka, topic).in_state(FINISHED)[0].added
    new = first._replace(segment_id=new_kafka_uuid(), broker_id=-1)
    for path in topic.folder().glob(f"*{first.segment_id}*"):
        copy = path.with_name(path.name.replace(first.segment_id, new.segment_id))
        copy.write_bytes(path.read_bytes())
    send(kafka, [new, changed(new, FINISHED), changed(first, LISTED)])


def changed(added: SegmentAdded, state: SegmentState) -> SegmentUpdated:
    now_ms = time.time_ns() // 1_000_000
    return SegmentUpdated(added.key, added.segment_id, -1, now_ms, None, state)


def send(kafka: KafkaCluster, events: Sequence[Event]) -> None:
    producer = Producer(kafka.client_settings(enable_idempotence=True))
    for event in events:
        number = metadata_partition(event.key, METADATA_PARTITIONS)
        producer.produce(METADATA_TOPIC, encode(event), partition=number)
    assert producer.flush(30) == 0


@pytest.mark.soak
def test_after_all_that_happens_to_a_tier(kafka: KafkaCluster, oracles: Oracles) -> None:
    kafka.broker(2)
    led = uploaded(kafka, "view-led", replicas=[1, 2])
    led.move_leader(2)
    more(led)
    kept = uploaded(kafka, "view-kept")
    cut = uploaded(kafka, "view-cut")
    (first, *_) = cut.logs()
    cut.delete_records(3)
    kafka.wait(lambda: not first.exists(), "the first segment's deletion")
    uploaded(kafka, "view-deleted").delete()
    uploaded(kafka, "view-deleted")
    swap(kafka, kept)
    swap(kafka, led)
    kafka.restart(kafka.brokers[0])
    more(kept)

    records = read_all(kafka)
    assert {record.key for record in records} == {None}
    values: list[list[bytes]] = [[] for _ in range(METADATA_PARTITIONS)]
    for record in records:
        values[record.metadata_partition].append(record.value or b"")
    assert unequal_to_cache(oracles.labs[kafka.version], values) == []
    for topic in (led, kept):
        view = view_of(kafka, topic)
        assert {one.added.broker_id for one in view.segments.values()} >= {-1, 1}
        assert len(view.in_state(LISTED)) == 1
        assert view.read_only == ()
    assert len(view_of(kafka, led).references) > 1  # Leader epochs.

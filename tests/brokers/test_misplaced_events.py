"""An event in another metadata partition than Kafka would choose refuses its partition."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Producer

from tests.brokers.cluster import METADATA_PARTITIONS, KafkaCluster
from tests.brokers.published import updated
from tests.brokers.test_status_of_brokers import RECORDS, tierfold
from tests.brokers.topics import METADATA_TOPIC, Topic
from tests.jobs.commands import ALWAYS, Ran
from tierfold.compaction.brokers.event_bytes import encode
from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.brokers.metadata_partitions import metadata_partition
from tierfold.compaction.model.segments import PartitionKey

UNKNOWN_ID = "A" * 21 + "Q"
"""Brokers drop what is said of it."""


def place_of(topic: Topic) -> int:
    """The metadata partition of the topic's first partition."""
    key = PartitionKey(topic=topic.name, partition=0, topic_id=topic.id)
    return metadata_partition(key, METADATA_PARTITIONS)


def test_a_misplaced_event_refuses_the_partition_that_it_names(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    topics = [kafka.create("misplaced-0")]
    while len({place_of(topic) for topic in topics}) == 1:
        topics.append(kafka.create(f"misplaced-{len(topics)}"))
    named, *_, other = topics
    for topic in (named, other):
        for _ in range(3):
            topic.append(RECORDS)
        topic.wait_until_tiered()

    def planned(*scope: Topic) -> Ran:
        chosen = [part for topic in scope for part in ("--topic", topic.name)]
        catalog = ("--catalog", tmp_path / "catalog")
        return tierfold(kafka, "plan", kafka.tier, *ALWAYS, *catalog, *chosen, "--json")

    assert set(planned(named, other).outcomes.values()) == {"planned"}

    key = PartitionKey(topic=named.name, partition=0, topic_id=named.id)
    event = updated(key, UNKNOWN_ID, SegmentState.DELETE_STARTED)
    producer = Producer(kafka.client_settings())
    producer.produce(METADATA_TOPIC, encode(event), partition=place_of(other))
    assert producer.flush(30) == 0

    ran = planned(named, other)
    assert ran.outcomes == {(named.name, 0): "refused", (other.name, 0): "planned"}
    reason = ran.partitions[named.name, 0]["reason"]
    assert f"of {METADATA_TOPIC}-{place_of(other)} belongs to metadata partition" in reason
    # It is found as well if none of the other's events are wanted.
    assert planned(named).partitions[named.name, 0]["reason"] == reason

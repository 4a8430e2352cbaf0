"""A topic on a real broker that is compacted and published, round by round, and what must hold.

A round writes new values for all keys of all partitions and waits until brokers have uploaded them.
"""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from tests.brokers.cluster import METADATA_PARTITIONS, KafkaCluster
from tests.brokers.topics import CALL_S, Topic
from tests.jobs.commands import ALWAYS
from tierfold.compaction.brokers.broker_view import BrokerView
from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.model.passes import is_unpublished
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.jobs.context.cluster_look import LookRequest, cluster_view
from tierfold.jobs.context.metadata_replay import MetadataReplay
from tierfold.jobs.context.run_progress import RunProgress
from tierfold.jobs.settings.cluster_table import cluster_of
from tierfold.jobs.settings.resolution import resolve
from tierfold.storage.brokers.connection import connected
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.tiers.service_notes import FOLDER

KEYS: Final = 8
SEGMENTS: Final = 2
"""That a round adds to each partition."""

Latest: TypeAlias = "dict[tuple[int, bytes | None], bytes | None]"
"""By partition and key, the value that a reader from the start ends with."""


@dataclass(slots=True, kw_only=True)
class ServedTopic:
    """A topic, and a catalog of its own."""

    kafka: KafkaCluster
    topic: Topic
    catalog: Path
    servers: str
    """As runs are given them."""
    options: tuple[str, ...] = ()
    """More options of every run."""
    ends: Counter[int] = field(default_factory=Counter)
    """Where the log of each partition ends."""
    expected: Latest = field(default_factory=dict)
    _values: Iterator[int] = field(default_factory=itertools.count)

    @property
    def partitions(self) -> range:
        """The numbers of the partitions."""
        return range(self.topic.partitions)

    @property
    def compacting(self) -> tuple[str, ...]:
        """The arguments of a run that compacts and publishes."""
        return (
            *("compact", str(self.kafka.tier), *ALWAYS, "--set", "tail.margin.segments=0"),
            *("--catalog", str(self.catalog), "--topic", self.topic.name),
            *("--bootstrap-server", self.servers, "--publish", "--canary", "off"),
            *("--engine", "local", "--if-held", "take-over", "--json", *self.options),
        )

    def add_round(self) -> None:
        """Write `SEGMENTS` segments to each partition, and wait until they are uploaded."""
        for _, partition in itertools.product(range(SEGMENTS), self.partitions):
            self.append(partition)
        self.topic.wait_until_tiered()

    def append(self, partition: int) -> None:
        """Write a segment with new values for all keys."""
        records = [(b"key-%d" % key, b"value-%d" % next(self._values)) for key in range(KEYS)]
        self.topic.append(records, partition)
        self.ends[partition] += KEYS
        self.expected |= {(partition, key): value for key, value in records}

    def must_read_alike(self) -> None:
        """Assert that a consumer reads all from the start, and ends with the latest values."""
        assert latest_of(self.kafka, self.topic) == self.expected

    @property
    def rows(self) -> Mapping[int, PartitionState]:
        """The catalog's rows, by partition."""
        catalog = Catalog(str(self.catalog))
        states = catalog.read() if catalog.exists() else {}
        return {
            key.partition: row for key, row in states.items() if key.topic_id == self.topic.id
        }

    @property
    def done(self) -> dict[int, frozenset[str]]:
        """The live ids of partitions that are compacted to their end."""
        return {
            number: row.live_ids
            for number, row in self.rows.items()
            if row.cleaner_offset == self.ends[number]
        }

    def must_be_published(self) -> None:
        """Assert that brokers have exactly what the rows say, and that the rows know it."""
        views = views_of(self.kafka, self.topic)
        rows = self.rows
        assert rows.keys() == views.keys() == set(self.partitions)
        for number, view in views.items():
            row = rows[number]
            assert ids_in(view, SegmentState.COPY_STARTED) == set(), row.key
            assert ids_in(view, SegmentState.COPY_FINISHED) == row.live_ids, row.key
            # What later chunks of the same run replaced, brokers never learn of.
            own = {one.segment.segment_id for one in row.retired if not one.segment.is_upload}
            listed = ids_in(view, SegmentState.DELETE_STARTED)
            assert row.retired_ids - own <= listed <= row.retired_ids, row.key
            assert row.is_served, row.key
            assert not is_unpublished(row), row.key
            assert not view.read_only, row.key
        assert self.done.keys() == set(self.partitions)


def ids_in(view: BrokerView, state: SegmentState) -> set[str]:
    """The ids of the segments that brokers have in a state."""
    return {segment.added.segment_id for segment in view.in_state(state)}


@contextmanager
def served_topic(
    kafka: KafkaCluster,
    folder: Path,
    name: str,
    partitions: int,
    servers: str = "",
    options: tuple[str, ...] = (),
) -> Iterator[ServedTopic]:
    """A topic with one round; at the end the tier forgets which catalog publishes."""
    topic = kafka.create(name, partitions)
    served = ServedTopic(
        kafka=kafka,
        topic=topic,
        catalog=folder / "catalog",
        servers=servers or kafka.servers,
        options=options,
    )
    served.add_round()
    try:
        yield served
    finally:
        shutil.rmtree(kafka.tier / FOLDER, ignore_errors=True)


def views_of(kafka: KafkaCluster, topic: Topic) -> dict[int, BrokerView]:
    """What the metadata topic says of the topic's partitions; it may have lost older events."""
    keys = [
        PartitionKey(topic=topic.name, topic_id=topic.id, partition=number)
        for number in range(topic.partitions)
    ]
    replay = MetadataReplay(METADATA_PARTITIONS, dict.fromkeys(keys, ()))
    settings = cluster_of({"bootstrap_server": kafka.servers}, resolve([]).cluster, {})
    assert settings is not None
    with connected(settings) as connection:
        found, _ = cluster_view(connection, RunProgress(), LookRequest(), replay)
    return {key.partition: found.partitions[key].view for key in keys}


def latest_of(kafka: KafkaCluster, topic: Topic) -> Latest:
    """What a consumer ends with that reads all partitions from the start; raises its errors."""
    return {(one.partition(), one.key()): one.value() for one in messages_of(kafka, topic)}


def messages_of(kafka: KafkaCluster, topic: Topic) -> Iterator[Message]:
    """All records, as a consumer gets them that reads from the start; raises its errors."""
    consumer = Consumer(reading(kafka))
    left = set(range(topic.partitions))
    try:
        consumer.assign([TopicPartition(topic.name, one, OFFSET_BEGINNING) for one in left])
        while left:
            message = consumer.poll(CALL_S)
            assert message is not None, f"nothing to read of {topic.name} within {CALL_S:.0f} s"
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
            else:
                raise KafkaException(error)
    finally:
        consumer.close()


def reading(kafka: KafkaCluster) -> dict[str, Any]:
    """The settings of a consumer that gets the end of a log, too, and hides no error."""
    return kafka.client_settings() | {
        "group.id": "tests",
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 50,
    }

"""A tiered topic on a real cluster: records in, segments up, leaders moved, records deleted."""

from __future__ import annotations

import base64
import itertools
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ElectionType,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec

from tests.brokers.broker import BrokerFailed

if TYPE_CHECKING:
    from tests.brokers.cluster import KafkaCluster

METADATA_TOPIC: Final = "__remote_log_metadata"
ROLL_MS: Final = 60_000
"""A topic's `segment.ms`."""
CALL_S: Final = 30.0
"""Every call of a client ends within this."""

FIRST_MS: Final = 1_700_000_000_000
_APART_MS: Final = 3_600_000
_MOVE: Final = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
PASSING: Final = frozenset(
    {
        KafkaError.UNKNOWN,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._UNKNOWN_PARTITION,
    }
)
"""What a client sees for a while after a topic's creation, a start or a change of leader."""

KeyValue: TypeAlias = "tuple[bytes | None, bytes | None]"


class Record(NamedTuple):
    """A record as a consumer got it."""

    offset: int
    key: bytes | None
    value: bytes | None


class Topic:
    """A topic of a cluster."""

    def __init__(
        self, kafka: KafkaCluster, name: str, partitions: int = 1, *, first_ms: int = FIRST_MS
    ) -> None:
        """`first_ms`: the timestamp of the first records that `append` writes."""
        self.name = name
        self.partitions = partitions
        self._kafka = kafka
        self._first_ms = first_ms
        self._appended = itertools.count()
        found = self._described().topic_id
        bits = (found.get_most_significant_bits(), found.get_least_significant_bits())
        high, low = (number % 2**64 for number in bits)
        found_id = (high * 2**64 + low).to_bytes(16)
        self.id = base64.urlsafe_b64encode(found_id).decode().rstrip("=")
        """As Kafka prints a `Uuid`."""

    def append(self, records: Sequence[KeyValue], partition: int = 0, *, late: int = 0) -> int:
        """Write records as one segment, and return their timestamp.

        They are an hour later than those of the call before, and `segment.ms` is a minute, so the
        broker rolls. More than `segment.bytes` become several segments. `late`: how many calls
        earlier their timestamp is from; such records may share a segment with others.
        """
        timestamp_ms = self._first_ms + (next(self._appended) - late) * _APART_MS
        errors: list[KafkaError] = []
        for key, value in records:
            self._producer.produce(
                self.name,
                key=key,
                value=value,
                partition=partition,
                timestamp=timestamp_ms,
                on_delivery=lambda error, _: errors.append(error) if error else None,
            )
            self._producer.poll(0)
        # A leader may have to be elected on a busy machine first.
        if self._producer.flush(3 * CALL_S) or errors:
            raise BrokerFailed(f"{self.name}: not all records were written: {errors[:3]}")
        return timestamp_ms

    @cached_property
    def _producer(self) -> Producer:
        # In order; an idempotent producer would wait half a second for its id.
        settings = {"acks": "all", "max_in_flight": 1, "linger_ms": 1}
        return Producer(self._kafka.client_settings(**settings))

    def read(self, offset: int = OFFSET_BEGINNING, partition: int = 0) -> list[Record]:
        """The records from an offset to the end of the log, as a consumer gets them."""
        records = []
        for message in _answers(self._kafka, [TopicPartition(self.name, partition, offset)]):
            if message.error() is not None:
                break  # The end.
            records.append(Record(message.offset(), message.key(), message.value()))
        return records

    def offsets(self, partition: int = 0) -> tuple[int, int]:
        """The log start offset and the high watermark."""
        key = TopicPartition(self.name, partition)
        admin = self._kafka.admin()
        first, end = (
            admin.list_offsets({key: spec}, request_timeout=CALL_S)[key]
            for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
        )
        return first.result(CALL_S).offset, end.result(CALL_S).offset

    def folder(self, partition: int = 0) -> Path:
        """Where LocalTieredStorage keeps a partition's objects."""
        name = f"{self.name}-{partition}-{self.id}"
        return self._kafka.tier / "kafka-tiered-storage" / name

    def logs(self, partition: int = 0) -> list[Path]:
        """The `.log` objects in the tier, by start offset."""
        return sorted(self.folder(partition).glob("*.log"))

    def wait_until_tiered(self) -> None:
        """Wait until everything is uploaded: each partition's only local segment is empty.

        Brokers delete the others once the event that finishes their upload is written, and roll the
        newest one, since its records are older than the local retention.
        """
        running = [broker for broker in self._kafka.brokers if broker.pid]
        for number, broker in itertools.product(range(self.partitions), running):
            folder = broker.data / f"{self.name}-{number}"
            if folder.is_dir():
                broker.wait(lambda at=folder: _is_empty(at), f"the uploads of {folder}")

    def leader(self, partition: int = 0) -> int:
        """The node id of a partition's leader; −1: it has none."""
        leader = self._described().partitions[partition].leader
        return -1 if leader is None else leader.id

    def in_sync(self, partition: int = 0) -> set[int]:
        """The node ids of a partition's replicas in sync."""
        return {replica.id for replica in self._described().partitions[partition].isr}

    def move_leader(self, node: int) -> None:
        """Make another replica the leader of all partitions."""
        nodes = [replica.id for replica in self._described().partitions[0].replicas]
        order = sorted(nodes, key=lambda replica: replica != node)
        parts = range(self.partitions)
        moves = [{"topic": self.name, "partition": part, "replicas": order} for part in parts]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"version": 1, "partitions": moves}, file)
            file.flush()
            self._kafka.run_tool(_MOVE, "--reassignment-json-file", file.name, "--execute")
        wanted = [TopicPartition(self.name, part) for part in parts]
        admin = self._kafka.admin()
        admin.elect_leaders(ElectionType.PREFERRED, wanted).result(CALL_S)
        self._kafka.wait(lambda: {self.leader(part) for part in parts} == {node}, "the new leader")

    def delete_records(self, offset: int, partition: int = 0) -> None:
        """Move the log start, as `kafka-delete-records` does."""
        key = TopicPartition(self.name, partition, offset)
        admin = self._kafka.admin()
        admin.delete_records([key], request_timeout=CALL_S)[key].result(CALL_S)

    def delete(self) -> None:
        """Delete the topic, and wait until its objects are gone."""
        admin = self._kafka.admin()
        admin.delete_topics([self.name], request_timeout=CALL_S)[self.name].result(CALL_S)
        parts = range(self.partitions)
        self._kafka.wait(lambda: not any(map(self.logs, parts)), f"no objects of {self.name}")

    def _described(self) -> Any:
        deadline = time.monotonic() + CALL_S
        while True:
            admin = self._kafka.admin()  # A client that has asked a dead broker waits for it.
            asked = admin.describe_topics(TopicCollection([self.name]), request_timeout=2)
            try:
                return asked[self.name].result(CALL_S)
            except KafkaException as error:
                if error.args[0].code() not in PASSING or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)


def _is_empty(partition: Path) -> bool:
    logs = list(partition.glob("*.log"))
    return len(logs) == 1 and logs[0].stat().st_size == 0


def wait_until_readable(kafka: KafkaCluster, partitions: Sequence[tuple[str, int]]) -> None:
    """Wait until a consumer got the first record, or the end, of each partition."""
    waiting = set(partitions)
    asked = [TopicPartition(topic, number, OFFSET_BEGINNING) for topic, number in partitions]
    for message in _answers(kafka, asked) if asked else ():
        waiting.discard((message.topic(), message.partition()))
        if not waiting:
            break


def _answers(kafka: KafkaCluster, asked: list[TopicPartition]) -> Iterator[Message]:
    """Records and ends of partitions, as a consumer gets them."""
    settings = {
        "group.id": "tests",
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        # Its commit would wait for a broker that may have been stopped.
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 50,
    }
    consumer = Consumer(kafka.client_settings() | settings)
    try:
        consumer.assign(asked)
        deadline, last = time.monotonic() + CALL_S, ""
        while time.monotonic() < deadline:
            message = consumer.poll(0.5)
            error = message and message.error()
            if message is None:
                continue
            if error and error.code() in PASSING:
                last = f"; of {message.topic()}-{message.partition()} {error}"
                continue
            if error and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            deadline = time.monotonic() + CALL_S
            yield message
        raise BrokerFailed(f"{asked[0].topic}: nothing to read within {CALL_S:.0f} s{last}")
    finally:
        consumer.close()

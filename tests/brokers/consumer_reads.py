"""What consumers read of one partition, by librdkafka and by Java's client, in the same terms."""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.brokers.cluster import KafkaCluster
from tests.brokers.topics import CALL_S, PASSING, Topic
from tests.oracle.kafka_lab import KafkaLab, Record

STUCK_S: Final = 15.0
"""A consumer that gets nothing for so long has stopped."""


class Isolation(StrEnum):
    """Whether a consumer sees what was not committed."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class SeenRecord(NamedTuple):
    """A record as a consumer sees it, with a checksum in place of its value."""

    offset: int
    timestamp_ms: int
    key: str | None
    """In hex."""
    value_crc32: str | None
    """In hex; None: a tombstone."""
    headers: tuple[tuple[str, str | None], ...]
    """Names, and values in hex."""


class ReadBack(NamedTuple):
    """What a consumer got from one start."""

    records: tuple[SeenRecord, ...]
    stopped: str | None
    """Why it did not get to the end; None: it did."""


class Reader(Protocol):
    """A kind of consumer."""

    name: str

    def read(self, topic: Topic, starts: Sequence[int], isolation: Isolation) -> list[ReadBack]:
        """What it gets of partition 0 from each start to the end."""

    def offsets_for_times(self, topic: Topic, times_ms: Sequence[int]) -> list[int | None]:
        """The offset that it finds in partition 0 for each time; None: there is none."""


class LibrdkafkaReader:
    """The consumer of confluent-kafka, without a group."""

    name = "librdkafka"

    def __init__(self, kafka: KafkaCluster) -> None:
        self._kafka = kafka

    def read(self, topic: Topic, starts: Sequence[int], isolation: Isolation) -> list[ReadBack]:
        """See `Reader`."""
        consumer = self._consumer(isolation)
        try:
            return [_read_back(consumer, topic.name, start) for start in starts]
        finally:
            consumer.close()

    def offsets_for_times(self, topic: Topic, times_ms: Sequence[int]) -> list[int | None]:
        """See `Reader`."""
        consumer = self._consumer(Isolation.READ_UNCOMMITTED)
        try:
            return [offset_for_time(consumer, topic.name, at_ms) for at_ms in times_ms]
        finally:
            consumer.close()

    def _consumer(self, isolation: Isolation) -> Consumer:
        settings = {
            "group.id": "tests",
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
            "isolation.level": isolation.value,
        }
        return Consumer(self._kafka.client_settings() | settings)


class JavaReader:
    """Java's consumer, in the JVM of a lab."""

    name = "Java's consumer"

    def __init__(self, kafka: KafkaCluster, lab: KafkaLab) -> None:
        self._kafka, self._lab = kafka, lab

    def read(self, topic: Topic, starts: Sequence[int], isolation: Isolation) -> list[ReadBack]:
        """See `Reader`."""
        answers = self._lab.consume(self._where(topic), starts, isolation)
        return [
            ReadBack(tuple(map(_of_java, answer["records"])), answer["stopped"])
            for answer in answers
        ]

    def offsets_for_times(self, topic: Topic, times_ms: Sequence[int]) -> list[int | None]:
        """See `Reader`."""
        return self._lab.offsets_for_times(self._where(topic), times_ms)

    def _where(self, topic: Topic) -> Mapping[str, Any]:
        return {"servers": self._kafka.servers, "topic": topic.name, "partition": 0}


def offset_for_time(consumer: Consumer, topic: str, at_ms: int) -> int | None:
    """The offset that librdkafka's consumer finds in partition 0 for a time; None: there is none.

    With an error its answer has offset −1, too. Once in 10,000 times a broker with tiered storage
    says REQUEST_TIMED_OUT at once, although its search has just ended (Kafka 4.4
    `DelayedRemoteListOffsets.tryComplete`); Java's consumer then asks again by itself.
    """
    deadline = time.monotonic() + CALL_S
    while True:
        asked = TopicPartition(topic, 0, at_ms)
        (answer,) = consumer.offsets_for_times([asked], timeout=CALL_S)
        if answer.error is None:
            return None if answer.offset < 0 else int(answer.offset)
        is_passing = answer.error.code() == KafkaError.REQUEST_TIMED_OUT
        if not is_passing or time.monotonic() > deadline:
            raise KafkaException(answer.error)


def seen_of_log(record: Record) -> SeenRecord:
    """How a consumer sees a record that Kafka's classes found in a log (`KafkaLab.batches`)."""
    headers = tuple((name, value) for name, value in record["headers"])
    return SeenRecord(
        record["offset"], record["timestamp"], record["key"], record["valueCrc32"], headers
    )


def _of_java(fields: Sequence[Any]) -> SeenRecord:
    *others, headers = fields
    return SeenRecord(*others, tuple((name, value) for name, value in headers))


def _of_librdkafka(message: Message) -> SeenRecord:
    value = message.value()
    headers = message.headers() or []
    return SeenRecord(
        message.offset(),
        message.timestamp()[1],
        _hex(message.key()),
        None if value is None else f"{zlib.crc32(value):08x}",
        tuple((name, _hex(text)) for name, text in headers),
    )


def _hex(text: bytes | None) -> str | None:
    return None if text is None else text.hex()


def _read_back(consumer: Consumer, topic: str, start: int) -> ReadBack:
    records: list[SeenRecord] = []
    consumer.assign([TopicPartition(topic, 0, start)])
    passing = "nothing"
    deadline = time.monotonic() + STUCK_S
    while time.monotonic() < deadline:
        message = consumer.poll(0.5)
        error = message and message.error()
        if message is None:
            continue
        if not error:
            records.append(_of_librdkafka(message))
            deadline = time.monotonic() + STUCK_S
        elif error.code() == KafkaError._PARTITION_EOF:
            return ReadBack(tuple(records), None)
        elif error.code() in PASSING:
            passing = str(error)
        else:
            return ReadBack(tuple(records), str(error))
    at = records[-1].offset + 1 if records else start
    return ReadBack(tuple(records), f"stuck at {at}, after {passing}")

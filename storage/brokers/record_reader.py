"""Reads windows of a topic's partition as a consumer does, and keeps digests of what it gets.

Positions are assigned, so no group is joined and nothing is committed: Read on the topic is the
only right, which includes Describe. Values never leave this process.

It reads uncommitted. A broker then gives every data record of the segment that it serves, also
those of aborted transactions that are still in it, so what must come follows from the segment's log
alone. What a consumer of committed records gets depends also on the transaction index, and ends at
the last stable offset. Control records are never given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    Message,
    TopicPartition,
)
from numpy.typing import NDArray

from tierfold.compaction.model.rights import Resource, Right
from tierfold.compaction.model.units import NO_TIMESTAMP_MS, OffsetSpan
from tierfold.compaction.verification.canary import CanaryWindow
from tierfold.compaction.verification.canary_records import (
    Field,
    RecordDigests,
    digested,
    joined_records,
)
from tierfold.storage.brokers.connection import Connection
from tierfold.storage.clock import elapsed_s

CHUNK_RECORDS: Final = 50_000
"""Of a long window, so many records are given together, or fewer."""
CHUNK_BYTES: Final = 32 * 2**20
"""Or when their keys and values have so many bytes."""

_MESSAGES: Final = 1_000
_WAIT_S: Final = 0.005

_OPTIONS: Final[Mapping[str, Any]] = {
    "group.id": "tierfold",  # librdkafka wants one; it is not joined.
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",  # A hole must be seen, not skipped.
    "isolation.level": "read_uncommitted",
    "allow.auto.create.topics": False,
    "enable.partition.eof": True,
    # Every record is compared with the tier. Where a checksum is wrong, librdkafka 2.16 goes on at
    # a wrong position of the answer, and may end the process by an assertion.
    "check.crcs": False,
    "fetch.wait.max.ms": 10,
    # What is fetched beyond a window's end is thrown away.
    "queued.min.messages": 10 * _MESSAGES,
    "queued.max.messages.kbytes": 8 * 1024,
    "fetch.queue.backoff.ms": 5,
}
_IGNORED: Final = frozenset(
    # Without a right on the group; nothing needs it.
    {KafkaError.GROUP_AUTHORIZATION_FAILED}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenRecords:
    """What brokers gave of a span: these records, and none between or behind them."""

    span: OffsetSpan
    records: RecordDigests


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfRange:
    """Brokers say that they have no such offset; the window ends here."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unserved:
    """Brokers answered with errors for `request.timeout.ms`; the window ends here."""

    offset: int
    """The next one to read."""
    error: str
    """Kafka's name of the last one."""


WindowPart: TypeAlias = GivenRecords | OutOfRange | Unserved


@contextmanager
def record_reader(
    connection: Connection, topic: str, partition: int
) -> Iterator[RecordReader]:
    """A reader of the partition."""
    consumer = connection.consumer(_OPTIONS)
    try:
        yield RecordReader(connection, consumer, TopicPartition(topic, partition))
    finally:
        consumer.close()


class RecordReader:
    """Reads windows of one partition; `record_reader` makes it."""

    def __init__(
        self, connection: Connection, consumer: Consumer, partition: TopicPartition
    ) -> None:
        """`consumer`: assigned to nothing yet."""
        self._connection, self._consumer, self._partition = connection, consumer, partition

    def read(self, window: CanaryWindow) -> Iterator[WindowPart]:
        """What brokers give of the window, in chunks that follow each other without a gap.

        A window ends with its span, or behind its last record. Raises MissingRight, and
        UnreadableObject if nothing comes for `request.timeout.ms`, no error either.
        """
        first = window.span.start
        at = TopicPartition(self._partition.topic, self._partition.partition, first)
        self._consumer.assign([at])
        reading = _Reading(self._connection, self._consumer, window)
        yield from reading.parts(self._partition.topic)


class _Reading:
    """One reading of one window."""

    def __init__(
        self, connection: Connection, consumer: Consumer, window: CanaryWindow
    ) -> None:
        self._connection, self._consumer = connection, consumer
        self._end = window.span.end
        self._left = window.records_max
        """How many records may still be read; None: any number."""
        self._next = window.span.start
        """What is below has been read."""
        self._is_over = False
        self._is_out_of_range = False
        self._grew_at_s = elapsed_s()
        self._last_error: KafkaError | None = None

    def parts(self, topic: str) -> Iterator[WindowPart]:
        """Yield until the window is over."""
        first, chunk, chunk_bytes = self._next, list[RecordDigests](), 0
        while not (self._is_over or self._is_out_of_range or self._is_stalled()):
            records, size_bytes = self._taken(self._consumer.consume(_MESSAGES, _WAIT_S), topic)
            chunk.append(records)
            chunk_bytes += size_bytes
            if sum(map(len, chunk)) >= CHUNK_RECORDS or chunk_bytes >= CHUNK_BYTES:
                yield self._given(first, chunk)
                first, chunk, chunk_bytes = self._next, [], 0
        if first < self._next:
            yield self._given(first, chunk)
        if self._is_out_of_range:
            yield OutOfRange(offset=self._next)
        elif not self._is_over:
            yield self._unserved()

    def _given(self, first: int, chunk: list[RecordDigests]) -> GivenRecords:
        return GivenRecords(
            span=OffsetSpan(start=first, end=self._next), records=joined_records(chunk)
        )

    def _is_stalled(self) -> bool:
        return elapsed_s() - self._grew_at_s > self._connection.timeout_s

    def _unserved(self) -> Unserved:
        if self._last_error is None:
            raise self._connection.silence()
        return Unserved(offset=self._next, error=self._last_error.name())

    def _taken(self, messages: list[Message], topic: str) -> tuple[RecordDigests, int]:
        """The records of the window, and the bytes of their keys and values."""
        records = [message for message in messages if message.error() is None]
        if records:
            self._grew_at_s, self._last_error = elapsed_s(), None
        offset = np.fromiter(map(Message.offset, records), np.int64, len(records))
        wanted = int(np.searchsorted(offset, self._end))
        if self._left is not None:
            wanted = min(wanted, self._left)
            self._left -= wanted
        if wanted:
            self._next = int(offset[wanted - 1]) + 1
        if self._left == 0:
            self._is_over = True
        elif wanted < len(records):  # One is beyond the end.
            self._is_over, self._next = True, self._end
        for message in messages:
            if (error := message.error()) is not None and not self._is_over:
                self._note(error, message, topic)
        return _digests(records[:wanted], offset[:wanted])

    def _note(self, error: KafkaError, message: Message, topic: str) -> None:
        """What an event that is no record means."""
        code, offset = error.code(), message.offset()
        if code == KafkaError._PARTITION_EOF and (offset or 0) >= self._end:  # noqa: SLF001
            # Markers at the end are not given, so records alone would not show it.
            self._is_over, self._next = True, self._end
        elif code == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
            self._is_out_of_range = True
        elif code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            right = Right(operation="Read", resource=Resource.TOPIC, name=topic)
            raise self._connection.refusal(error, right)
        elif code not in _IGNORED:
            # Also an end of the log below that of its remote part: of a broker that just began to
            # lead.
            self._last_error = error


def _digests(messages: list[Message], offset: NDArray[np.int64]) -> tuple[RecordDigests, int]:
    """The digests of these records, and the bytes of their keys and values."""
    keys, values = list(map(Message.key, messages)), list(map(Message.value, messages))
    times = np.array(list(map(Message.timestamp, messages)), np.int64).reshape(-1, 2)
    is_known = times[:, 0] != TIMESTAMP_NOT_AVAILABLE
    body = np.frombuffer(b"".join(field or b"" for field in (*keys, *values)), np.uint8)
    sizes = np.array([-1 if field is None else len(field) for field in (*keys, *values)], np.int32)
    ends = np.cumsum(np.maximum(sizes, 0), dtype=np.int64)
    starts = ends - np.maximum(sizes, 0)
    count = len(messages)
    records = digested(
        body,
        offset,
        np.where(is_known, times[:, 1], NO_TIMESTAMP_MS),
        Field(starts[:count], sizes[:count]),
        Field(starts[count:], sizes[count:]),
    )
    return records, len(body)

"""Reads the metadata topic to its end, as brokers read it.

The end offsets are asked for first, and are read up to exactly: what is written meanwhile is for
the next reading. Records of aborted transactions are read as well (`read_uncommitted`), because
brokers read them and believe them. No group is joined and nothing is committed, so Read on the
topic is the only right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import compress
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from numpy.typing import NDArray

from tierfold.compaction.brokers.cluster_facts import PartitionOffsets
from tierfold.compaction.brokers.events import METADATA_TOPIC
from tierfold.compaction.brokers.metadata_fold import MetadataRecord
from tierfold.compaction.model.errors import CorruptLog, UnreadableObject
from tierfold.compaction.model.rights import Resource, Right
from tierfold.storage.brokers.connection import Connection
from tierfold.storage.brokers.facts import partition_offsets
from tierfold.storage.clock import elapsed_s

CHUNK_RECORDS: Final = 20_000
_WAIT_S: Final = 0.005

_OPTIONS: Final[Mapping[str, Any]] = {
    "group.id": "tierfold",  # librdkafka wants one; it is not joined.
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_uncommitted",
    "allow.auto.create.topics": False,
    "enable.partition.eof": True,
    "check.crcs": True,
    "fetch.wait.max.ms": 10,  # So long a broker waits before it says that a log ends here.
    "queued.max.messages.kbytes": 8 * 1024,
    # By default it waits a second once these are full.
    "fetch.queue.backoff.ms": 5,
}
_IGNORED: Final = frozenset(
    # Without a right on the group; nothing needs it.
    {KafkaError.GROUP_AUTHORIZATION_FAILED}
)
_READ: Final = Right(operation="Read", resource=Resource.TOPIC, name=METADATA_TOPIC)

Listener: TypeAlias = Callable[[int, int], None]
"""Called with the records that were read, and all that will be, control records included."""


def metadata_starts(connection: Connection, numbers: Iterable[int]) -> dict[int, int]:
    """Where these metadata partitions begin: above 0, earlier records are lost.

    Raises UnreadableObject if one does not say it.
    """
    return {number: one.log_start for number, one in _offsets(connection, numbers).items()}


def read_metadata(
    connection: Connection,
    first_offsets: Mapping[int, int],
    listener: Listener | None = None,
    *,
    starts: Mapping[int, int] = MappingProxyType({}),
    chunk_records: int = CHUNK_RECORDS,
) -> Iterator[list[MetadataRecord]]:
    """Yield all records from these offsets, by metadata partition, to the ends as of now.

    In chunks of up to `chunk_records`; those of one metadata partition in offset order. Raises
    CorruptLog if a partition does not begin where `starts` says, or else at 0, ends before its
    first offset or has a damaged batch; UnreadableObject if a right is missing, or nothing arrives
    for `request.timeout.ms`.
    """
    ends = _ends(connection, first_offsets, starts)
    if not ends:
        return
    consumer = connection.consumer(_OPTIONS)
    try:
        consumer.assign(
            [TopicPartition(METADATA_TOPIC, number, first_offsets[number]) for number in ends]
        )
        total = sum(end - first_offsets[number] for number, end in ends.items())
        reading = _Reading(connection, consumer, ends, chunk_records)
        yield from reading.chunks(listener, total)
    finally:
        consumer.close()


def _ends(
    connection: Connection, first_offsets: Mapping[int, int], starts: Mapping[int, int]
) -> dict[int, int]:
    """By metadata partition with something to read its end.

    Raises CorruptLog if one does not begin where it should, or is cut.
    """
    ends = {}
    for number, offsets in _offsets(connection, first_offsets).items():
        if offsets.log_start != starts.get(number, 0):
            what = f"begins at offset {offsets.log_start}: earlier records are lost"
            raise _damaged(number, what)
        if offsets.high_watermark < first_offsets[number]:
            raise _damaged(
                number,
                f"ends at offset {offsets.high_watermark}, but was read to {first_offsets[number]}",
            )
        if offsets.high_watermark > first_offsets[number]:
            ends[number] = offsets.high_watermark
    return ends


def _offsets(connection: Connection, numbers: Iterable[int]) -> dict[int, PartitionOffsets]:
    """By metadata partition its offsets; raises UnreadableObject if one does not say them."""
    found = partition_offsets(connection, ((METADATA_TOPIC, number) for number in numbers))
    known = {}
    for (_, number), offsets in found.items():
        if isinstance(offsets, UnreadableObject):
            raise offsets
        known[number] = offsets
    return known


def _damaged(number: int, what: str) -> CorruptLog:
    return CorruptLog(
        f"it {what}",
        where=f"{METADATA_TOPIC}-{number}",
        remedy="tierfold cannot know what brokers have. Do not restart a broker before you know"
        " why: brokers would not know it either.",
    )


class _Reading:
    """One reading: which metadata partitions are not yet at their ends."""

    def __init__(
        self, connection: Connection, consumer: Consumer, ends: Mapping[int, int], chunk: int
    ) -> None:
        """`consumer`: assigned to the partitions of `ends`; `chunk`: records at most."""
        self._chunk = chunk
        self._connection, self._consumer = connection, consumer
        self._open = set(ends)
        self._ends: NDArray[np.int64] = np.zeros(max(ends) + 1, np.int64)
        self._ends[list(ends)] = list(ends.values())
        self._read = 0
        self._grew_at_s = elapsed_s()
        self._last_error: KafkaError | None = None

    def chunks(self, listener: Listener | None, total: int) -> Iterator[list[MetadataRecord]]:
        """Yield until each partition is at its end."""
        while self._open:
            messages = self._consumer.consume(self._chunk, _WAIT_S)
            records = self._records(messages)
            if records:
                self._grew_at_s, self._read = elapsed_s(), self._read + len(records)
                yield records
            elif elapsed_s() - self._grew_at_s > self._connection.timeout_s:
                raise self._stalled()
            if listener is not None:
                listener(self._read if self._open else total, total)

    def _records(self, messages: list[Message]) -> list[MetadataRecord]:
        """The records below the ends; notes which partitions are done."""
        errors = list(map(Message.error, messages))
        if any(errors):
            for message, error in zip(messages, errors, strict=True):
                if error is not None:
                    self._take(error, message)
            messages = [one for one, error in zip(messages, errors, strict=True) if error is None]
        if not messages:
            return []
        count = len(messages)
        partitions = np.fromiter(map(Message.partition, messages), np.int64, count)
        offsets = np.fromiter(map(Message.offset, messages), np.int64, count)
        rows = zip(
            partitions.tolist(),
            offsets.tolist(),
            map(itemgetter(1), map(Message.timestamp, messages)),
            map(Message.value, messages),
            map(Message.key, messages),
            strict=True,
        )
        is_wanted = offsets < self._ends[partitions]
        if not is_wanted.all():
            return list(map(MetadataRecord._make, compress(rows, is_wanted)))
        return list(map(MetadataRecord._make, rows))

    def _take(self, error: KafkaError, message: Message) -> None:
        """What an event that is no record means."""
        code, number = error.code(), message.partition()
        if code == KafkaError._PARTITION_EOF:  # noqa: SLF001
            # At the end or beyond. The last record may be a transaction marker, which no consumer
            # gets, so the offsets of records would not show it.
            self._open.discard(-1 if number is None else number)
        elif code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise self._connection.refusal(error, _READ)
        elif code in {KafkaError._BAD_MSG, KafkaError._AUTO_OFFSET_RESET}:  # noqa: SLF001
            what = "has a batch that is damaged"
            if code != KafkaError._BAD_MSG:  # noqa: SLF001
                what = f"lost records while it was read, at offset {message.offset()}"
            raise _damaged(-1 if number is None else number, what)
        elif code not in _IGNORED:
            self._last_error = error

    def _stalled(self) -> UnreadableObject:
        if self._last_error is not None and self._last_error.code() > 0:  # Of a broker.
            return self._connection.refusal(self._last_error)
        return self._connection.silence()

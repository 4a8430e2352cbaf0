"""What consumers must read of topics, whatever is done to their tier: a model of every record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from confluent_kafka import Message

from tests.brokers.topics import KeyValue, Topic

KEYS: Final = 6


class Violation(AssertionError):
    """A consumer read what it must not, or a verb did not do what it must."""


class Written(NamedTuple):
    """A record; they compare as by the strategy `timestamp`."""

    timestamp_ms: int
    offset: int
    key: bytes
    value: bytes | None
    """None: a tombstone."""


def _offset(record: Written) -> int:
    return record.offset


def _version(record: Written) -> tuple[int, int]:
    return record.timestamp_ms, record.offset


@dataclass(slots=True, kw_only=True)
class Model:
    """Every record of a topic, by partition and offset, and where logs start and end."""

    topic: Topic
    records: dict[tuple[int, int], Written] = field(default_factory=dict)
    newest: dict[tuple[int, bytes], Written] = field(default_factory=dict)
    """By partition and key, the record with the highest timestamp from the log start on."""
    disputed: set[tuple[int, bytes]] = field(default_factory=set)
    """Keys of which a later record has a lower timestamp: strategies differ on the newest one."""
    starts: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)

    def write(self, partition: int, records: list[KeyValue], late: int = 0) -> None:
        """Append records to the topic, as one segment; `late` as for `Topic.append`."""
        timestamp_ms = self.topic.append(records, partition, late=late)
        for key, value in records:
            assert key is not None
            offset = self.ends.get(partition, 0)
            record = Written(timestamp_ms, offset, key, value)
            self.records[partition, offset] = record
            self.ends[partition] = offset + 1
            known = self.newest.get((partition, key))
            if known is None or _version(known) < _version(record):
                self.newest[partition, key] = record
                self.disputed.discard((partition, key))
            else:
                self.disputed.add((partition, key))

    def delete_records(self, partition: int, offset: int) -> None:
        """Move the log start, and forget what lies below."""
        self.topic.delete_records(offset, partition)
        self.starts[partition] = offset
        self.newest = {
            one: record
            for one, record in self.newest.items()
            if one[0] != partition or record.offset >= offset
        }

    def check(self, messages: Iterable[Message]) -> None:
        """Raise Violation unless a reader from the start gets what was written, and ends with the
        newest values; a tombstone may be gone.
        """
        read = [(message.partition(), self.checked(message)) for message in messages]
        for order in (_version, _offset):
            self._compare(_latest(read, order), is_by_version=order is _version)

    def checked(self, message: Message) -> Written:
        """The record; raises Violation if another one, or none, was written at its offset."""
        place, timestamp_ms = (message.partition(), message.offset()), message.timestamp()[1]
        found = Written(timestamp_ms, message.offset(), message.key(), message.value())
        if found != (written := self.records.get(place)):
            raise Violation(f"{self.topic.name}: {found} was read of {place}, not {written}")
        return found

    def _compare(
        self, latest: dict[tuple[int, bytes], Written], *, is_by_version: bool
    ) -> None:
        for one, written in self.newest.items():
            if one in self.disputed and not is_by_version:
                continue
            read = latest.get(one)
            if (None if read is None else read.value) != written.value:
                raise Violation(f"{self.topic.name}: {one} is {read}, not {written}")
        for one, read in latest.items():
            if read.value is not None and one not in self.newest:
                raise Violation(f"{self.topic.name}: {one} is back: {read}")


def _latest(
    read: list[tuple[int, Written]], order: Callable[[Written], object]
) -> dict[tuple[int, bytes], Written]:
    """By partition and key, the last record in an order."""
    in_order = sorted(read, key=lambda one: order(one[1]))  # type: ignore[arg-type,return-value]
    return {(partition, record.key): record for partition, record in in_order}

"""What consumers must read of topics, whatever is done to their tier: a model of every record."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tests.brokers.topics import KeyValue, Topic
from tests.faults.publishing_kills.served_topic import Latest

KEYS: Final = 6


class Violation(AssertionError):
    """A consumer read what it must not."""


class Written(NamedTuple):
    """The newest record of a key."""

    offset: int
    value: bytes | None
    """None: a tombstone."""


@dataclass(slots=True, kw_only=True)
class Model:
    """The newest record of each key, by partition and key, and where logs start and end."""

    topic: Topic
    newest: dict[tuple[int, bytes], Written] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)

    def write(self, partition: int, records: list[KeyValue]) -> None:
        """Append records to the topic, as one segment."""
        self.topic.append(records, partition)
        for key, value in records:
            assert key is not None
            offset = self.ends.get(partition, 0)
            self.newest[partition, key] = Written(offset, value)
            self.ends[partition] = offset + 1

    def delete_records(self, partition: int, offset: int) -> None:
        """Move the log start, and forget what lies below."""
        self.topic.delete_records(offset, partition)
        self.starts[partition] = offset
        kept = {one: at for one, at in self.newest.items() if one[0] != partition}
        above = {
            one: at
            for one, at in self.newest.items()
            if one[0] == partition and at.offset >= offset
        }
        self.newest = kept | above

    def check(self, read: Latest) -> None:
        """Raise Violation unless a reader from the start ends with the newest values.

        `read`: by partition and key. A tombstone may be gone.
        """
        for one, (offset, value) in self.newest.items():
            if read.get(one) != value:
                raise Violation(f"{self.topic.name}: {one} is {read.get(one)!r}, not {value!r} of"
                                f" offset {offset}")
        for one, value in read.items():
            if value is not None and one not in self.newest:
                raise Violation(f"{self.topic.name}: {one} is back, with {value!r}")

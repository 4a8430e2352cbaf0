"""Logs for runs that are killed, and the expected result: the newest record of every key.

The expected result is recorded while the log is written, so nothing is decoded for it.
"""

from __future__ import annotations

import random
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.jobs.chunked_logs import PRODUCERS, Broker, put_uploads
from tests.jobs.tiers import key_of, live_values, made_tier, put_segment
from tests.storage.live_segments import data
from tierfold.compaction.model.segments import PartitionKey
from tierfold.storage.kafka.control_records import ControlType

LARGE: Final = key_of("large")
LARGE_RECORDS: Final = 16
"""Per segment."""

_LARGE_VALUE: Final = bytes(512 * 1024)
"""Large enough that a segment is memory-mapped and takes a while to write."""

_MULTIPART_VALUE_BYTES: Final = 640 * 1024
"""Large enough that every group exceeds the 5 MiB of an upload's part."""

PARTITIONS: Final = (("orders", 0), ("orders", 1), ("payments", 0))
KEYS: Final = 400
VALUE_BYTES_MOST: Final = 2000


class Newest(NamedTuple):
    """A key's newest committed record, with the fields that Kafka's tools print."""

    offset: int
    value_bytes: int
    """−1: a tombstone."""
    value_crc32: str | None
    """Hexadecimal; None: a tombstone."""


@dataclass(slots=True, kw_only=True)
class Author:
    """Appends to one partition and records what a consumer of committed records must find."""

    rnd: random.Random
    broker: Broker = field(default_factory=Broker)
    newest: dict[bytes, Newest] = field(default_factory=dict)
    undecided: dict[int, list[tuple[bytes, Newest]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def segment(self) -> None:
        """Write a segment of about a dozen appends."""
        self.broker.roll()
        for _ in range(self.rnd.randint(10, 20)):
            producer = self.rnd.choice((-1, -1, *PRODUCERS))
            self._append(producer)
            if producer >= 0 and self.rnd.random() < 0.3:
                self._end(producer)

    def closed(self) -> None:
        """End all transactions, and roll an empty active segment, which is not uploaded."""
        self.broker.roll()
        for producer in PRODUCERS:
            self._end(producer)
        self._append(-1)
        self.broker.roll()

    def _append(self, producer: int) -> None:
        pairs = [self._pair() for _ in range(self.rnd.randint(1, 12))]
        found = [
            (key, _newest(self.broker.next_offset + i, value))
            for i, (key, value) in enumerate(pairs)
        ]
        self.broker.append(pairs, producer)
        if producer < 0:
            self._decided(found)
        else:
            self.undecided[producer] += found

    def _end(self, producer: int) -> None:
        kind = self.rnd.choice((ControlType.COMMIT, ControlType.ABORT))
        self.broker.end(producer, kind, is_listed=True)
        found = self.undecided.pop(producer, [])
        if kind is ControlType.COMMIT:
            self._decided(found)

    def _decided(self, found: Sequence[tuple[bytes, Newest]]) -> None:
        for key, record in found:
            if key not in self.newest or self.newest[key].offset < record.offset:
                self.newest[key] = record

    def _pair(self) -> tuple[bytes, bytes | None]:
        key = f"key {self.rnd.randrange(KEYS)}".encode()
        if self.rnd.random() < 0.1:
            return key, None
        return key, self.rnd.randbytes(self.rnd.randrange(VALUE_BYTES_MOST))


def _newest(offset: int, value: bytes | None) -> Newest:
    if value is None:
        return Newest(offset, -1, None)
    return Newest(offset, len(value), f"{zlib.crc32(value):08x}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenTier:
    """A tier and its expected result."""

    path: Path
    truth: Mapping[PartitionKey, Mapping[bytes, Newest]]
    end_offsets: Mapping[PartitionKey, int]
    """The offset after the last record of each partition."""


def put_large(tier: Path, segments: int) -> dict[bytes, int]:
    """Write a partition in which the last segment supersedes half the records of the others.

    Returns the number of the segment with each key's newest record: the last byte of its value.
    """
    newest: dict[bytes, int] = {}
    for number in range(segments):
        start, value = number * LARGE_RECORDS, _LARGE_VALUE + bytes([number])
        owners = (number if i % 2 else "all" for i in range(LARGE_RECORDS))
        names = [f"{owner} {i}".encode() for i, owner in enumerate(owners)]
        batches = [data(start + i, (name, value)) for i, name in enumerate(names)]
        put_segment(tier, LARGE, batches, start_offset=start)
        newest |= dict.fromkeys(names, number)
    return newest


def put_uploaded_in_parts(tier: Path, segments: int) -> list[tuple[bytes, bytes]]:
    """Write a partition whose first segment is large; each later one supersedes a record of it.

    So every chunk rewrites the rest of the first segment and uploads it in several parts. Returns
    the key and the value of each offset.
    """
    large = [(b"%d" % i, bytes([i]) * _MULTIPART_VALUE_BYTES) for i in range(LARGE_RECORDS)]
    found = [*large, large[0], *((b"%d" % i, b"small") for i in range(1, segments))]
    starts = (0, *range(len(large) + 1, len(found)))
    for start, end in zip(starts, (*starts[1:], len(found)), strict=True):
        batches = [data(offset, found[offset]) for offset in range(start, end)]
        put_segment(tier, LARGE, batches, start_offset=start)
    return found


def large_newest(status_entry: dict[str, Any]) -> dict[bytes | None, int]:
    """Return what `put_large` returns, from the live records of an entry of `status --json`."""
    return {key: (value or b"")[-1] for key, value in live_values(status_entry).items()}


def written_tier(
    folder: Path, seed: int, segments: int, *, large_segments: int = 0
) -> WrittenTier:
    """Write a tier in the new `folder`; each partition has `segments` segments and a closing one.

    With `large_segments`, `put_uploaded_in_parts` writes one more partition.
    """
    rnd = random.Random(seed)
    made_tier(folder)
    truth: dict[PartitionKey, Mapping[bytes, Newest]] = {}
    ends: dict[PartitionKey, int] = {}
    if large_segments:
        pairs = put_uploaded_in_parts(folder, large_segments)
        truth[LARGE] = {key: _newest(offset, value) for offset, (key, value) in enumerate(pairs)}
        ends[LARGE] = len(pairs)
    for topic, number in PARTITIONS:
        key, author = key_of(topic, number), Author(rnd=rnd)
        for _ in range(segments):
            author.segment()
        author.closed()
        put_uploads(folder, key, author.broker.uploads[:-1])
        truth[key], ends[key] = author.newest, author.broker.next_offset
    return WrittenTier(path=folder, truth=truth, end_offsets=ends)

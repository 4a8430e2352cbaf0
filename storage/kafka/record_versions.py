"""Reads the versions that decide between the records of a key: timestamps, or header values.

Rule: KIP-280 `compaction.strategy`, which no broker has. The last header of a record that is named
by `compaction.strategy.header` counts. Its value is a version if it has exactly 8 bytes: a signed
big-endian integer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.key_columns import Versions
from tierfold.compaction.model.rules import CompactionStrategy
from tierfold.storage.kafka.records import Records
from tierfold.storage.kafka.wire import be_word, kernel, read_varint

VERSION_BYTES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionSource:
    """Where the versions of a topic's records are."""

    strategy: CompactionStrategy = CompactionStrategy.OFFSET
    header: str = ""
    """`compaction.strategy.header`; compared as UTF-8 bytes."""

    def versions_of(
        self, records: Records, rows: NDArray[np.integer]
    ) -> tuple[Versions | None, int]:
        """The versions of the records `rows` (shape (n,)), and how many are malformed.

        A value that is null or of another length is malformed, and no version. None: offsets
        decide.
        """
        match self.strategy:
            case CompactionStrategy.OFFSET:
                return None, 0
            case CompactionStrategy.TIMESTAMP:
                value = records.timestamp_ms[rows]
                return Versions(value=value, is_known=np.ones(len(rows), np.bool_)), 0
            case CompactionStrategy.HEADER:
                return _header_versions(records, rows, self.header)


OFFSETS_DECIDE: Final = VersionSource()
"""No versions: the record of a key with the highest offset is the latest."""


def _header_versions(
    records: Records, rows: NDArray[np.integer], header: str
) -> tuple[Versions, int]:
    value = np.zeros(len(rows), np.int64)
    is_known = np.zeros(len(rows), np.bool_)
    name = np.frombuffer(header.encode(), np.uint8)
    at, end = records.headers_at[rows], records.end[rows]
    count = records.headers_count[rows]
    malformed = _read_versions(records.body, (at, end, count), name, value, is_known)
    return Versions(value=value, is_known=is_known), malformed


@kernel
def _read_versions(
    body: NDArray[np.uint8],
    headers: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]],
    name: NDArray[np.uint8],
    value: NDArray[np.int64],
    is_known: NDArray[np.bool_],
) -> int:
    """Fill `value` and `is_known`; return how many versions are malformed.

    `headers`: where each record's headers begin and end, and their number, checked by `decode`.
    """
    headers_at, headers_end, headers_count = headers
    malformed = 0
    for i in range(headers_at.size):
        at, end = headers_at[i], headers_end[i]
        found_at, found_bytes = -1, 0
        for _ in range(headers_count[i]):
            name_bytes, name_at = read_varint(body, at, end)
            value_bytes, at = read_varint(body, name_at + name_bytes, end)
            if name_bytes == name.size and _is_name(body, name_at, name):
                found_at, found_bytes = at, value_bytes
            at += max(value_bytes, 0)
        if found_at >= 0:
            if found_bytes == VERSION_BYTES:
                value[i] = be_word(body, found_at, VERSION_BYTES)
                is_known[i] = True
            else:
                malformed += 1
    return malformed


@kernel
def _is_name(body: NDArray[np.uint8], at: int, name: NDArray[np.uint8]) -> bool:
    for i in range(name.size):
        if body[at + i] != name[i]:
            return False
    return True

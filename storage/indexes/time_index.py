"""The time index (`.timeindex`): offsets up to which no record is later than a timestamp.

Rule: Kafka `TimeIndex`. Entries of 12 bytes, big-endian: int64 timestamp in ms, int32 offset minus
the segment's start. Timestamps ascend, offsets never descend. The last entry has the segment's
largest timestamp; a segment without timestamps has no entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tierfold.storage.indexes.index_entries import (
    absolute,
    corrupt_index,
    entries_of,
    padding_entries,
    relative,
    usable,
)
from tierfold.storage.tiers.object_store import Bytes

_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimeIndex:
    """The entries of a time index, ascending; both arrays have the same length."""

    timestamps_ms: NDArray[np.int64]
    offsets: NDArray[np.int64]
    """Absolute offsets."""


def read_time_index(data: Bytes, start_offset: int, where: str) -> TimeIndex:
    """The entries of a whole index; the segment starts at `start_offset`. Raises CorruptLog."""
    entries = entries_of(data, _ENTRY, "time", where)
    timestamps_ms = entries["timestamp"].astype(np.int64)
    offsets = entries["offset"].astype(np.int64)
    padding = padding_entries(data, _ENTRY.itemsize)
    # One entry of zeros may be a real one: the segment starts with a batch of 1970.
    if padding and len(entries) > 1:
        raise corrupt_index(
            f"the time index ends in {padding} entries of zeros, so it was never trimmed", where
        )
    bad = (timestamps_ms < 0) | (offsets < 0)
    # Compared, not subtracted: the difference of two timestamps may exceed an int64.
    bad[1:] |= (timestamps_ms[1:] <= timestamps_ms[:-1]) | (offsets[1:] < offsets[:-1])
    if bad.any():
        entry = int(np.argmax(bad))
        raise corrupt_index(
            f"entry {entry} of the time index (timestamp {timestamps_ms[entry]}, offset"
            f" {start_offset} + {offsets[entry]}) is negative or not above the one before",
            where,
        )
    offsets = absolute(offsets, start_offset, "time", where)
    return TimeIndex(timestamps_ms=timestamps_ms, offsets=offsets)


def usable_time_index(data: Bytes, start_offset: int, where: str) -> tuple[TimeIndex, str]:
    """The entries that can be used of a whole index, and what is wrong with it, see `usable`."""
    read = partial(read_time_index, start_offset=start_offset, where=where)
    return usable(read, data, _ENTRY.itemsize)


def write_time_index(index: TimeIndex, start_offset: int) -> bytes:
    """The bytes of an index; raises ValueError if an offset does not fit."""
    entries = np.empty(len(index.offsets), _ENTRY)
    entries["timestamp"] = index.timestamps_ms
    entries["offset"] = relative(index.offsets, start_offset)
    return entries.tobytes()

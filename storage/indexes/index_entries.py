"""Reads and writes entries of the offset and the time index: fixed size, relative offsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.units import OFFSET_MAX, OFFSET_SPAN_MAX
from tierfold.storage.tiers.object_store import Bytes
from tierfold.storage.tiers.remote_tier import INDEX_REMEDY

_Index = TypeVar("_Index")
_Reader: TypeAlias = Callable[[Bytes], _Index]


def corrupt_index(what: str, where: str) -> CorruptLog:
    """The error for an offset or time index."""
    return CorruptLog(what, where=where, remedy=INDEX_REMEDY)


def entries_of(data: Bytes, entry: np.dtype[Any], name: str, where: str) -> NDArray[Any]:
    """The entries of a whole file; raises CorruptLog if the last one is torn.

    `entry` is the structure of one, `name` is "offset" or "time".
    """
    if len(data) % entry.itemsize:
        raise corrupt_index(
            f"the {name} index of {len(data)} bytes is torn: entries have {entry.itemsize}", where
        )
    return np.frombuffer(data, entry)


def padding_entries(data: Bytes, entry_bytes: int) -> int:
    """How many whole entries of zeros a file ends in.

    Brokers preallocate an index, and trim it before the upload; an index that was never trimmed
    keeps its zeros (KAFKA-10207).
    """
    used = np.flatnonzero(np.frombuffer(data, np.uint8))
    used_bytes = int(used[-1]) + 1 if used.size else 0
    return (len(data) - -(-used_bytes // entry_bytes) * entry_bytes) // entry_bytes


def usable(read: _Reader[_Index], data: Bytes, entry_bytes: int) -> tuple[_Index, str]:
    """What can be used of an index, and what is wrong with it, a phrase; empty: nothing is.

    `read` is the strict reader. An index only saves reading: the log tells all that it holds, so a
    corrupt one is no reason to refuse a segment. Padding is left out; of an index that is corrupt
    in another way no entry is used.
    """
    try:
        return read(data), ""
    except CorruptLog as error:
        corruption = error.what
    entries = len(data) // entry_bytes - padding_entries(data, entry_bytes)
    try:
        return read(data[: entries * entry_bytes]), corruption
    except CorruptLog:
        return read(data[:0]), corruption


def absolute(
    offsets: NDArray[np.int64], start_offset: int, name: str, where: str
) -> NDArray[np.int64]:
    """Turn relative offsets, ascending, into absolute ones; raises CorruptLog."""
    if len(offsets) and offsets[-1] > OFFSET_MAX - start_offset:
        raise corrupt_index(
            f"the {name} index ends at offset {start_offset} + {offsets[-1]}, beyond the last one"
            " that Kafka allows",
            where,
        )
    return offsets + start_offset


def relative(offsets: NDArray[np.int64], start_offset: int) -> NDArray[np.int64]:
    """Turn absolute offsets into relative ones; raises ValueError if one needs over 31 bits."""
    found = offsets - start_offset
    if len(found) and not (found.min() >= 0 and found.max() <= OFFSET_SPAN_MAX):
        raise ValueError(f"offsets {offsets[[0, -1]]} do not fit an index at {start_offset}")
    return found

"""Reads and writes entries of the offset and the time index: fixed size, relative offsets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.units import OFFSET_MAX, OFFSET_SPAN_MAX
from tierfold.storage.tiers.object_store import Bytes


def corrupt_index(what: str, where: str) -> CorruptLog:
    """The error for an offset or time index."""
    return CorruptLog(
        what,
        where=where,
        remedy="Restore the index from a copy; a broker rebuilds it from the .log.",
    )


def entries_of(data: Bytes, entry: np.dtype[Any], name: str, where: str) -> NDArray[Any]:
    """The entries of a whole file; raises CorruptLog if the last one is torn.

    `entry` is the structure of one, `name` is "offset" or "time".
    """
    if len(data) % entry.itemsize:
        raise corrupt_index(
            f"the {name} index of {len(data)} bytes is torn: entries have {entry.itemsize}", where
        )
    return np.frombuffer(data, entry)


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

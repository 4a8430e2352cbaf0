"""The offset index (`.index`): the positions of offsets in the log.

Rule: Kafka `OffsetIndex`. Entries of 8 bytes, big-endian: int32 offset minus the segment's start,
int32 position in the `.log`. They are a batch's last offset and its position; both ascend. A remote
index is trimmed: it lacks the zeros that a broker preallocates.
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

_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OffsetIndex:
    """The entries of an offset index, ascending; both arrays have the same length."""

    offsets: NDArray[np.int64]
    """Absolute offsets."""
    positions: NDArray[np.int32]
    """Bytes from the start of the `.log`."""


def read_offset_index(data: Bytes, start_offset: int, where: str) -> OffsetIndex:
    """The entries of a whole index; the segment starts at `start_offset`. Raises CorruptLog."""
    entries = entries_of(data, _ENTRY, "offset", where)
    offsets = entries["offset"].astype(np.int64)
    positions = entries["position"].astype(np.int32)
    padding = padding_entries(data, _ENTRY.itemsize)
    if padding:
        raise corrupt_index(
            f"the offset index ends in {padding} entries of zeros, so it was never trimmed", where
        )
    bad = (offsets < 0) | (positions < 0)
    bad[1:] |= (np.diff(offsets) <= 0) | (np.diff(positions) <= 0)
    if bad.any():
        entry = int(np.argmax(bad))
        raise corrupt_index(
            f"entry {entry} of the offset index (offset {start_offset} + {offsets[entry]}, position"
            f" {positions[entry]}) is negative or not above the one before",
            where,
        )
    offsets = absolute(offsets, start_offset, "offset", where)
    return OffsetIndex(offsets=offsets, positions=positions)


def usable_offset_index(data: Bytes, start_offset: int, where: str) -> tuple[OffsetIndex, str]:
    """The entries that can be used of a whole index, and what is wrong with it, see `usable`."""
    read = partial(read_offset_index, start_offset=start_offset, where=where)
    return usable(read, data, _ENTRY.itemsize)


def write_offset_index(index: OffsetIndex, start_offset: int) -> bytes:
    """The bytes of an index; raises ValueError if an offset does not fit."""
    entries = np.empty(len(index.offsets), _ENTRY)
    entries["offset"] = relative(index.offsets, start_offset)
    entries["position"] = index.positions
    return entries.tobytes()


def wrong_entries(
    index: OffsetIndex, position: NDArray[np.int64], last_offset: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The numbers of the entries that lead to no batch, or past their offset.

    `position` and `last_offset` have shape (batches,), at least one, of the whole log. Before Kafka
    4.0 a broker wrote the last offset of an append at the position of its first batch, and its
    cleaner the last offset that it had kept. So the offset may be in any batch from there to the
    next entry's.
    """
    batches = len(position)
    batch = np.searchsorted(position, index.positions)
    named = np.searchsorted(last_offset, index.offsets)
    starts = position[np.minimum(batch, batches - 1)] == index.positions
    beyond = np.append(batch[1:], batches)
    return np.flatnonzero(~(starts & (named >= batch) & (named < beyond)))

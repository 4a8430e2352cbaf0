"""Checks that a segment's two indexes lead readers to the right places.

Usually their bytes equal those built from the log. A broker, or another `index.interval.bytes`,
may have made other entries; then each entry must be right (Kafka `OffsetIndex`, `TimeIndex`, and
their use in `LogSegment`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.model.errors import CorruptLog
from tierfold.storage.indexes.index_builder import build_indexes
from tierfold.storage.indexes.offset_index import OffsetIndex, read_offset_index, wrong_entries
from tierfold.storage.indexes.time_index import TimeIndex, read_time_index
from tierfold.storage.kafka.batch_headers import BatchHeads
from tierfold.storage.tiers.object_store import Bytes

_Index = TypeVar("_Index", OffsetIndex, TimeIndex)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedIndexes:
    """The result for both indexes."""

    entries: int = 0
    is_as_built: bool = False
    """Equal to the indexes built from the log, under the given interval."""
    corruptions: tuple[str, ...] = ()


def check_indexes(
    offset_index: NDArray[np.uint8],
    time_index: NDArray[np.uint8],
    heads: BatchHeads,
    *,
    start_offset: int,
    index_interval_bytes: int,
    names: tuple[str, str],
) -> CheckedIndexes:
    """Compare both indexes (uint8, whole parts) with the log's batches, at least one.

    `start_offset` is the segment's; `names` are the full names of both indexes. A broken index is a
    corruption in the result, not an exception.
    """
    offset_name, time_name = names
    offsets = _read(read_offset_index, offset_index, start_offset, offset_name)
    times = _read(read_time_index, time_index, start_offset, time_name)
    if isinstance(offsets, str) or isinstance(times, str):
        malformed = tuple(found for found in (offsets, times) if isinstance(found, str))
        return CheckedIndexes(corruptions=malformed)
    try:
        built = build_indexes(
            heads, start_offset=start_offset, index_interval_bytes=index_interval_bytes
        )
    # Raised for batches with offsets outside the segment.
    except ValueError as error:
        return CheckedIndexes(corruptions=(f"{offset_name}: no index fits the log: {error}",))
    entries = len(offsets.offsets) + len(times.offsets)
    if built == (offset_index.tobytes(), time_index.tobytes()):
        return CheckedIndexes(entries=entries, is_as_built=True)
    corruptions = (
        *(f"{offset_name}: {corruption}" for corruption in _offset_corruptions(offsets, heads)),
        *(f"{time_name}: {corruption}" for corruption in _time_corruptions(times, heads)),
    )
    return CheckedIndexes(entries=entries, corruptions=corruptions)


def _read(
    read: Callable[[Bytes, int, str], _Index],
    index: NDArray[np.uint8],
    start_offset: int,
    name: str,
) -> _Index | str:
    """The index, or why it cannot be read, a sentence."""
    try:
        return read(index, start_offset, name)
    except CorruptLog as error:
        return str(error)


def _offset_corruptions(index: OffsetIndex, heads: BatchHeads) -> Iterator[str]:
    """Say how many entries are wrong, see `wrong_entries`, and what the first one is."""
    bad = wrong_entries(index, heads.position, heads.last_offset)
    if bad.size:
        entry = int(bad[0])
        batch = np.searchsorted(heads.position, index.positions)
        starts = heads.position[np.minimum(batch, len(heads) - 1)] == index.positions
        yield (
            f"{bad.size} of {len(index.offsets)} entries are wrong, the first of them number "
            f"{entry}: offset {index.offsets[entry]} at position {index.positions[entry]}, "
            f"where {_batch_there(heads, int(batch[entry]), is_start=bool(starts[entry]))}"
        )


def _batch_there(heads: BatchHeads, batch: int, *, is_start: bool) -> str:
    if not is_start:
        return "no batch begins"
    return f"the batch of offsets {heads.base_offset[batch]} to {heads.last_offset[batch]} begins"


def _time_corruptions(index: TimeIndex, heads: BatchHeads) -> Iterator[str]:
    """Check that each entry has the largest timestamp up to its offset, the last one that of all.

    Then a reader that looks for a later timestamp can start there.
    """
    batches = len(heads.position)
    largest_ms = np.maximum.accumulate(heads.max_timestamp_ms)
    named = np.searchsorted(heads.last_offset, index.offsets)
    there = np.minimum(named, batches - 1)
    is_inside = (named < batches) & (heads.base_offset[there] <= index.offsets)
    bad = np.flatnonzero(~(is_inside & (largest_ms[there] == index.timestamps_ms)))
    if bad.size:
        entry = int(bad[0])
        yield (
            f"{bad.size} of {len(index.offsets)} entries are wrong, the first of them number "
            f"{entry}: timestamp {index.timestamps_ms[entry]} up to offset {index.offsets[entry]}, "
            f"where the log has {largest_ms[there[entry]]}"
        )
    last_ms = int(index.timestamps_ms[-1]) if len(index.timestamps_ms) else -1
    if last_ms < int(largest_ms[-1]):
        yield f"it ends at timestamp {last_ms}, the log's largest is {largest_ms[-1]}"

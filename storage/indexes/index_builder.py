"""Builds both indexes of a new segment from its batches, entry for entry as a broker does.

Rule: Kafka 4.x `LogSegment.append`, batch by batch, and `onBecomeInactiveSegment`. A batch gets an
entry if more than `index.interval.bytes` were written since the last entry. Then the time index
gets the largest timestamp so far, if that has grown. Its last entry is the segment's largest.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.model.units import NO_TIMESTAMP_MS
from tierfold.storage.indexes.offset_index import OffsetIndex, write_offset_index
from tierfold.storage.indexes.time_index import TimeIndex, write_time_index
from tierfold.storage.kafka.batch_headers import BatchHeads


def build_indexes(
    heads: BatchHeads, *, start_offset: int, index_interval_bytes: int
) -> tuple[bytes, bytes]:
    """The bytes of `.index` and `.timeindex` of a segment that starts at `start_offset`.

    Raises ValueError if an offset or position does not fit 31 bits; no plan makes a segment of that
    size.
    """
    positions, last_offset = heads.position, heads.last_offset
    if len(positions) and int(positions[-1]) > np.iinfo(np.int32).max:
        raise ValueError(f"a batch at position {positions[-1]} lies beyond what an index can hold")
    indexed, newest = _entries(heads.size_bytes, heads.max_timestamp_ms, index_interval_bytes)
    offsets = OffsetIndex(
        offsets=last_offset[indexed], positions=positions[indexed].astype(np.int32)
    )
    times = TimeIndex(timestamps_ms=heads.max_timestamp_ms[newest], offsets=last_offset[newest])
    return write_offset_index(offsets, start_offset), write_time_index(times, start_offset)


@numba.njit(cache=True, nogil=True)
def _entries(
    size_bytes: NDArray[np.int64], max_timestamp_ms: NDArray[np.int64], index_interval_bytes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The batches in the offset index, and those whose timestamps are in the time index."""
    indexed = np.empty(len(size_bytes), np.int64)
    newest = np.empty(len(size_bytes), np.int64)
    indexed_count = newest_count = since_bytes = 0
    largest_ms = timed_ms = NO_TIMESTAMP_MS
    largest_at = -1
    for batch in range(len(size_bytes)):
        if max_timestamp_ms[batch] > largest_ms:
            largest_ms = max_timestamp_ms[batch]
            largest_at = batch
        if since_bytes > index_interval_bytes:
            indexed[indexed_count] = batch
            indexed_count += 1
            if largest_ms > timed_ms:
                newest[newest_count] = largest_at
                newest_count += 1
                timed_ms = largest_ms
            since_bytes = 0
        since_bytes += size_bytes[batch]
    if largest_ms > timed_ms:
        newest[newest_count] = largest_at
        newest_count += 1
    return indexed[:indexed_count], newest[:newest_count]

"""Clean segments whose key index says of every record whether the sample supersedes it.

An index has the hash and the size of each record, so it is as good as a window over the whole
segment, for a hundredth of its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.estimation.sample import SampledWindow
from tierfold.compaction.estimation.sources import Sources
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.skipping.key_index import SHARE_MAX, KeyIndex

INDEXES_MAX: Final = 16
"""Key indexes that are read of one partition, at most: a request each."""
INDEX_BYTES_MAX: Final = 8 * 2**20
"""Bytes of them, at most."""

_RECORDS_MAX: Final = 100_000
"""Of each index so many records are looked at, at most: any are as good as any others."""
_FIXED_BYTES: Final = 2**16
"""What an index may take of any segment."""


def segments_to_ask(sources: Sources, now_ms: int) -> Iterator[tuple[Segment, int]]:
    """The clean segments whose index is read, evenly spaced, each with the bytes that it may have.

    Not those in which a delete horizon has passed, as an index does not say which are tombstones.
    """
    may = [segment for segment in sources.clean if not segment.is_due(now_ms)]
    step, left_bytes = max(1, -(-len(may) // INDEXES_MAX)), INDEX_BYTES_MAX
    for segment in may[step // 2 :: step]:
        bytes_max = int(SHARE_MAX * segment.size_bytes) + _FIXED_BYTES
        if bytes_max <= left_bytes:
            left_bytes -= bytes_max
            yield segment, bytes_max


def indexed_window(
    segment: Segment, index: KeyIndex, windows: Sequence[SampledWindow]
) -> SampledWindow:
    """The segment as a window; a record whose stored bits are those of a key of `windows` has it.

    It stores so many bits that this is wrong for few records.
    """
    stored, sizes = index.hashes, index.record_bytes
    every = max(1, -(-len(stored) // _RECORDS_MAX))
    stored, sizes = stored[::every], sizes[::every]
    known = np.unique(np.concatenate([one.key_hash[one.may_compete] for one in windows]))
    bits = known >> np.uint64(64 - index.bits)
    hashes = np.arange(1, len(stored) + 1, dtype=np.uint64)  # Below 2**56: no key has one of them.
    if len(bits):
        at = np.minimum(np.searchsorted(bits, stored), len(bits) - 1)
        hashes = np.where(bits[at] == stored, known[at], hashes)
    return SampledWindow(
        start_offset=segment.start_offset,
        end_offset=segment.next_offset,
        stored_bytes=segment.size_bytes,
        offset=_spread(segment, len(stored)),
        key_hash=hashes,
        record_bytes=sizes * (segment.size_bytes / max(1.0, float(sizes.sum()))),
        goes=np.zeros(len(stored), np.bool_),
        may_compete=np.ones(len(stored), np.bool_),
    )


def _spread(segment: Segment, count: int) -> NDArray[np.int64]:
    """Offsets of so many records: an index does not say where they are."""
    length = segment.next_offset - segment.start_offset
    return segment.start_offset + (np.arange(count) * length // count).astype(np.int64)

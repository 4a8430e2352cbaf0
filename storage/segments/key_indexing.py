"""Collects what the key index of a segment needs, window by window, while the segment is read.

Held: 8 bytes per record, and the batches to watch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.transactions import DATA
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.model.units import NO_HORIZON
from tierfold.compaction.skipping.bloom_filter import bloom_filter
from tierfold.compaction.skipping.key_hashes import key_hashes
from tierfold.compaction.skipping.key_index import (
    SHARE_MAX,
    KeyIndex,
    entries_of,
    key_index,
    rest_bytes_for,
)
from tierfold.compaction.skipping.segment_facts import (
    SegmentFacts,
    WatchedBatches,
    joined_watched,
)
from tierfold.storage.kafka.batch_headers import BatchHeads
from tierfold.storage.kafka.batch_rewrite import RewrittenBatches
from tierfold.storage.kafka.control_records import EMPTIED, control_types
from tierfold.storage.kafka.records import Records, decode
from tierfold.storage.key_indexes.index_files import IndexedSegment

RECORDS_MAX: Final = 8_000_000
"""Records of a segment with an index. While it is made, each takes some 30 bytes."""

_SHARE_MOST: Final = 0.1
"""Of a segment's bytes: what its filter and one byte per record may take at most."""
_BYTES_ALWAYS: Final = 2**16
"""What they may take of any segment."""

_WATCHED_BYTES: Final = 16
"""Stored bytes of a batch to watch, about, once compressed."""
_WATCHED_ALWAYS: Final = 4096
"""Batches to watch that any segment may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedWindow:
    """What the index needs of one window."""

    entries: NDArray[np.uint64]
    """Shape (data records,): as in `entries_of`."""
    records: int
    record_bytes: int
    first_offset: int
    last_offset: int
    tombstone_horizons_ms: NDArray[np.int64]
    """The delete horizon of each batch with a tombstone, or `NO_HORIZON`."""
    watched: WatchedBatches


def indexed_window(
    heads: BatchHeads, records: Records, types: NDArray[np.int16]
) -> IndexedWindow | None:
    """What the index needs of these batches; None: their segment must always be read.

    `types` has shape (batches,), as `control_types` gives it.
    """
    return _indexed(heads, types, records, records.batch, records.end - records.start)


def indexed_rewrite(
    heads: BatchHeads,
    records: Records,
    types: NDArray[np.int16],
    rewritten: RewrittenBatches,
) -> IndexedWindow | None:
    """What the index needs of rewritten batches: `indexed_window` of them, without decoding them.

    `heads` are those of the new batches; `records` and `types` those of the source.
    """
    is_written = rewritten.batch_bytes > 0
    new_batch = (np.cumsum(is_written) - 1).astype(np.int32)
    is_emptied = heads.is_control & (heads.count == 0)
    new_types = np.where(is_emptied, EMPTIED, types[is_written]).astype(np.int16)
    return _indexed(heads, new_types, records, new_batch[records.batch], rewritten.record_bytes)


def _indexed(
    heads: BatchHeads,
    types: NDArray[np.int16],
    records: Records,
    batch: NDArray[np.int32],
    sizes: NDArray[np.int64],
) -> IndexedWindow | None:
    """`records` may be more than these batches hold.

    Both arrays have shape (records,): `batch` is the one that holds a record, and `sizes` its
    uncompressed bytes there, 0 if none of them does.
    """
    is_there = sizes > 0
    is_data = is_there & ~heads.is_control[batch]
    has_key = records.key_bytes >= 0
    if heads.is_legacy.any() or not has_key[is_data].all():
        return None
    hashes = key_hashes(records.body, records.key_at[is_data], records.key_bytes[is_data])
    has_tombstone = np.zeros(len(heads), np.bool_)
    # A control record without a value gets a delete horizon as a tombstone does.
    has_tombstone[batch[is_there & (records.value_bytes < 0)]] = True
    return IndexedWindow(
        entries=entries_of(hashes, sizes[is_data]),
        records=int(np.count_nonzero(is_there)),
        record_bytes=int(sizes.sum()),
        first_offset=int(heads.base_offset[0]),
        last_offset=int(heads.last_offset[-1]),
        tombstone_horizons_ms=heads.delete_horizon_ms[has_tombstone],
        watched=_watched(heads, types),
    )


def indexed_batches(
    data: NDArray[np.uint8], heads: BatchHeads, *, where: str
) -> IndexedWindow | None:
    """What the index needs of batches that were just made; `heads` were read from `data`.

    Raises CorruptLog if they cannot be decoded.
    """
    records = decode(data, heads, where=where)
    return indexed_window(heads, records, control_types(records, heads, where=where))


def _watched(heads: BatchHeads, types: NDArray[np.int16]) -> WatchedBatches:
    rows = np.flatnonzero(heads.is_transactional | heads.is_control | (heads.count == 0))
    kinds = np.where(heads.is_control, types, DATA).astype(np.int16)
    return WatchedBatches(
        base_offset=heads.base_offset[rows],
        last_offset=heads.last_offset[rows],
        producer_id=heads.producer_id[rows],
        producer_epoch=heads.producer_epoch[rows],
        control_type=kinds[rows],
        horizon_ms=heads.delete_horizon_ms[rows],
        is_transactional=heads.is_transactional[rows],
        is_control=heads.is_control[rows],
        has_records=heads.count[rows] > 0,
        is_emptied=heads.is_emptied[rows],
    )


class KeyIndexing:
    """Builds the index of one segment from its windows, in their order."""

    def __init__(self) -> None:
        self._windows: list[IndexedWindow] = []
        self._records = 0
        self._is_possible = True

    @property
    def is_possible(self) -> bool:
        """Whether the segment can still get an index."""
        return self._is_possible

    def add(self, window: IndexedWindow | None) -> None:
        """Take the next window; None: the segment gets no index."""
        self._records += 0 if window is None else window.records
        if window is None or self._records > RECORDS_MAX:
            self._is_possible = False
            self._windows.clear()
        elif self._is_possible:
            self._windows.append(window)

    def built(self, segment: Segment, fpp: float) -> tuple[IndexedSegment, KeyIndex] | None:
        """The index of `segment`, which the windows make up; None: it must always be read.

        That is so, too, if it has more than `RECORDS_MAX` records, or if the index would take too
        large a share of it: of many small transactional batches, or of records that compress to a
        few bytes each. `fpp`: as in `bloom_filter`.
        """
        if not self._windows:
            return None
        windows, self._windows = self._windows, []
        watched = joined_watched([window.watched for window in windows])
        share = SHARE_MAX * segment.size_bytes / _WATCHED_BYTES
        if len(watched) > max(_WATCHED_ALWAYS, share):
            return None
        horizons_ms = np.concatenate([window.tombstone_horizons_ms for window in windows])
        dated_ms = horizons_ms[horizons_ms != NO_HORIZON]
        facts = SegmentFacts(
            segment_id=segment.segment_id,
            start_offset=segment.start_offset,
            size_bytes=segment.size_bytes,
            first_offset=windows[0].first_offset,
            last_offset=windows[-1].last_offset,
            records=self._records,
            record_bytes=sum(window.record_bytes for window in windows),
            tombstones_due_ms=int(dated_ms.min()) if len(dated_ms) else None,
            has_undated_tombstones=len(dated_ms) < len(horizons_ms),
            watched=watched,
        )
        entries = np.concatenate([window.entries for window in windows])
        del windows
        bloom = bloom_filter(entries, fpp)
        if bloom.words.nbytes + len(entries) > max(_BYTES_ALWAYS, _SHARE_MOST * segment.size_bytes):
            return None
        rest_bytes = rest_bytes_for(segment.size_bytes, len(entries), bloom.words.nbytes)
        return IndexedSegment(facts=facts, bloom=bloom), key_index(entries, rest_bytes)

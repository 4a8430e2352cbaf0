"""The unit of the shuffle: one serialized block of keys per segment and key bucket.

A row per key costs microseconds of JVM and shuffle time per record; a block costs one row.
Layout, little-endian: int64 entries, int64 key bytes in all, int64 `competes_from`, int64 1 where
versions follow, else 0, int64 bytes of a key length: 1, 2 or 4; then the columns version (int64, if
any), ordinal (uint32), key length (unsigned), whether a version is known (bool, if any), and the
keys' bytes end to end. To hash the keys again takes less time than to shuffle their hashes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.key_columns import (
    NO_VERSIONS,
    KeyColumns,
    PartedKeys,
    Versions,
    hashed,
    taken,
)

HEADER: Final = struct.Struct("<qqqqq")

_LENGTHS: Final[dict[int, type[np.generic]]] = {1: np.uint8, 2: np.uint16, 4: np.uint32}
"""By their bytes, the types of key lengths: the smallest that holds all lengths of a block."""

PARTS_AT_LEAST: Final = 128
"""Enough parts that the hash table of one part fits the cache, for a segment of any size, and that
a bucket of many keys can be cut into small blocks."""

BLOCK_BYTES: Final = 2**19
"""Bytes at which a bucket's keys are cut into several blocks. A block is one value of an Arrow
batch, which holds at most 2 GiB, and is copied a few times on its way through the JVM: the smaller
it is, the more of these copies stay in the processor's cache. Measured with 50 million keys: 6.1
CPU seconds of the JVM with blocks of 3.6 MB, 5.5 with these."""

_ENTRY_BYTES: Final = 17
"""Bytes of an entry with a version, without its key."""


def parts_per_bucket(buckets: int) -> int:
    """The number of parts in each of `buckets` buckets."""
    return max(1, -(-PARTS_AT_LEAST // buckets))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyBlock:
    """The keys of one segment, or of a stretch of it, in one bucket, ordered by part."""

    columns: KeyColumns
    competes_from: int
    """Entries with an ordinal at or above this compete; those below can only be superseded. If
    versions decide, all compete."""

    @property
    def first_ordinal(self) -> int:
        """The lowest ordinal in the block, for the order of blocks within a segment."""
        return int(self.columns.ordinal.min()) if len(self.columns) else 0


def serialize(block: KeyBlock) -> bytes:
    """The block as bytes for a shuffle."""
    columns, has_versions = block.columns, block.columns.versions is not None
    versions = columns.versions or NO_VERSIONS
    lengths = columns.key_bytes.astype(np.min_scalar_type(columns.key_bytes.max(initial=0)))
    arrays = (versions.value, columns.ordinal, lengths, versions.is_known)
    sizes = (len(columns), len(columns.keys), block.competes_from, has_versions)
    header = HEADER.pack(*sizes, lengths.itemsize)
    return b"".join((header, *(array.data for array in (*arrays, columns.keys))))


def deserialize(data: bytes) -> KeyBlock:
    """The block that `serialize` made; all but hashes and lengths are views of `data`."""
    entries, key_bytes, competes_from, has_versions, length_bytes = HEADER.unpack_from(data)
    value, ordinal, lengths, is_known, keys = arrays_in(
        data,
        HEADER.size,
        (np.int64, entries * has_versions),
        (np.uint32, entries),
        (_LENGTHS[length_bytes], entries),
        (np.bool_, entries * has_versions),
        (np.uint8, key_bytes),
    )
    versions = Versions(value=value, is_known=is_known) if has_versions else None
    key_lengths = lengths.astype(np.int32)
    columns = hashed(ordinal=ordinal, key_bytes=key_lengths, keys=keys, versions=versions)
    return KeyBlock(columns=columns, competes_from=competes_from)


def arrays_in(data: bytes, at: int, *layout: tuple[type[np.generic], int]) -> list[NDArray[Any]]:
    """Views of the arrays stored end to end in `data` from `at` on; (type, length) of each."""
    arrays: list[NDArray[Any]] = []
    for dtype, length in layout:
        arrays.append(np.frombuffer(data, dtype, length, at))
        at += arrays[-1].nbytes
    return arrays


def blocks_of(
    keys: PartedKeys,
    superseded: NDArray[np.bool_],
    *,
    buckets: int,
    competes_from: int,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[tuple[int, KeyBlock]]:
    """For each bucket with any, the entries that no other entry of their segment supersedes.

    `keys` have `buckets * parts_per_bucket(buckets)` parts; `superseded` has shape (entries,). A
    bucket of more than `block_bytes` becomes several blocks. All entries of a part are in one of
    them, so that their order does not matter.
    """
    step, key_at = parts_per_bucket(buckets), keys.columns.key_at
    rows, starts = keys.rows_by_part(~superseded)
    for bucket in range(buckets):
        ends = starts[bucket * step : (bucket + 1) * step + 1]
        here = rows[int(ends[0]) : int(ends[-1])]
        for piece in _cut(here, keys.columns.key_bytes[here], ends - ends[0], block_bytes):
            columns = taken(keys.columns, piece, key_at)
            yield bucket, KeyBlock(columns=columns, competes_from=competes_from)


def _cut(
    rows: NDArray[np.int64],
    key_bytes: NDArray[np.int32],
    part_ends: NDArray[np.int64],
    block_bytes: int,
) -> list[NDArray[np.int64]]:
    """`rows` in pieces of whole parts, of at most `block_bytes` unless one part has more."""
    if key_bytes.sum(dtype=np.int64) + _ENTRY_BYTES * len(rows) <= block_bytes:
        return [rows] if len(rows) else []
    sizes = np.concatenate(([0], np.cumsum(key_bytes, dtype=np.int64)))
    sizes += _ENTRY_BYTES * np.arange(len(sizes))
    cuts = [0]
    for before, end in pairwise(part_ends):
        if sizes[end] - sizes[cuts[-1]] > block_bytes:
            cuts.append(int(before))
    pieces = [rows[start:end] for start, end in pairwise([*cuts, len(rows)])]
    return [piece for piece in pieces if len(piece)]

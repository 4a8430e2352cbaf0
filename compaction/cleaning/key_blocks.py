"""The unit of the shuffle: one serialized block of keys per segment and key bucket.

A row per key costs microseconds of JVM and shuffle time per record; a block costs one row.
Layout, little-endian: int64 entries, int64 key bytes in all, int64 `competes_from`, int64 1 where
versions follow, else 0; then the columns hash (uint64), version (int64, if any), ordinal (uint32),
key length (int32), whether a version is known (bool, if any), and the keys' bytes end to end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.key_columns import KeyColumns, Versions, taken

HEADER: Final = struct.Struct("<qqqq")

PARTS_AT_LEAST: Final = 64
"""Enough parts that the table of one of them stays in the cache for a segment of any size."""


def parts_per_bucket(buckets: int) -> int:
    """How many parts each of `buckets` buckets has."""
    return max(1, -(-PARTS_AT_LEAST // buckets))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyBlock:
    """The keys of one segment (or one stretch of it) that fall into one bucket, ordered by part."""

    columns: KeyColumns
    competes_from: int
    """Entries with an ordinal at or above this compete; those below can only be superseded.
    Ignored where versions decide: then all compete."""

    @property
    def first_ordinal(self) -> int:
        """The lowest ordinal in the block, for the order of blocks within a segment."""
        return int(self.columns.ordinal.min()) if len(self.columns) else 0


def serialize(block: KeyBlock) -> bytes:
    """The block as bytes for a shuffle."""
    columns, versions = block.columns, block.columns.versions
    has_versions = versions is not None
    return b"".join(
        (
            HEADER.pack(len(columns), len(columns.keys), block.competes_from, has_versions),
            columns.hash.tobytes(),
            b"" if versions is None else versions.value.tobytes(),
            columns.ordinal.tobytes(),
            columns.key_bytes.tobytes(),
            b"" if versions is None else versions.is_known.tobytes(),
            columns.keys.tobytes(),
        )
    )


def deserialize(data: bytes) -> KeyBlock:
    """The block that `serialize` made; views of `data`, nothing is copied."""
    entries, key_bytes, competes_from, has_versions = HEADER.unpack_from(data)
    at = HEADER.size
    hash_ = np.frombuffer(data, np.uint64, entries, at)
    at += hash_.nbytes
    value = np.frombuffer(data, np.int64, entries * has_versions, at)
    at += value.nbytes
    ordinal = np.frombuffer(data, np.uint32, entries, at)
    at += ordinal.nbytes
    lengths = np.frombuffer(data, np.int32, entries, at)
    at += lengths.nbytes
    is_known = np.frombuffer(data, np.bool_, entries * has_versions, at)
    at += is_known.nbytes
    keys = np.frombuffer(data, np.uint8, key_bytes, at)
    versions = Versions(value=value, is_known=is_known) if has_versions else None
    columns = KeyColumns(
        hash=hash_, ordinal=ordinal, key_bytes=lengths, keys=keys, versions=versions
    )
    return KeyBlock(columns=columns, competes_from=competes_from)


def blocks_of(
    ordered: KeyColumns,
    part_starts: NDArray[np.int64],
    superseded: NDArray[np.bool_],
    *,
    buckets: int,
    competes_from: int,
) -> Iterator[tuple[int, KeyBlock]]:
    """Per bucket that has any, the entries that nothing in their own segment supersedes.

    `ordered` and `part_starts` come from `ordered_by_part` with `buckets * parts_per_bucket(...)`
    parts; `superseded` has shape (entries,).
    """
    step = parts_per_bucket(buckets)
    for bucket in range(buckets):
        start, end = int(part_starts[bucket * step]), int(part_starts[(bucket + 1) * step])
        rows = start + np.flatnonzero(~superseded[start:end])
        if len(rows):
            yield bucket, KeyBlock(columns=taken(ordered, rows), competes_from=competes_from)

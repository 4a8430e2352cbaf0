"""The distributed offset map: which records are superseded by a newer record of their key.

Kafka builds one map of key → last offset over the dirty region (`Cleaner.buildOffsetMap`) and keeps
a record if its offset is not below its key's entry. This is the same rule without the map. Of the
*competing* records of a key, those at or above `first_dirty`, the last one stays; it supersedes
every other record of the key, clean or dirty. A key without a competing record loses none.

There are two steps: first each segment by itself, then the blocks of one bucket across segments.
Both walk from the last record to the first. The first competing entry of a key stays, and every
entry of the key after it is superseded.

If versions decide (KIP-280), all records compete, clean ones too, and an entry that the walk meets
later stays instead if its version is strictly higher. A superseded record may then lie above the
one that stays, where the next pass does not look, so superseding records are reported, too.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.key_blocks import KeyBucket
from tierfold.compaction.cleaning.key_columns import KeyColumns, PartedKeys
from tierfold.compaction.cleaning.key_hash import part_of, same_key

SUPERSEDED: Final = np.uint8(1)
"""Bit of a record: it is superseded."""
SUPERSEDING: Final = np.uint8(2)
"""Bit of a record: it supersedes another in this pass. Set only if versions decide; the record may
itself be superseded elsewhere."""


class Superseded(NamedTuple):
    """Which entries are superseded, and which supersede another; shape (entries,), never both."""

    superseded: NDArray[np.bool_]
    superseding: NDArray[np.bool_]


class Ordinals(NamedTuple):
    """The superseded and superseding entries of one block, as ordinals."""

    superseded: NDArray[np.uint32]
    superseding: NDArray[np.uint32]


def superseded_in_segment(keys: PartedKeys, competes_from: int) -> Superseded:
    """Which entries of one segment another entry of it supersedes.

    Entries with an ordinal at or above `competes_from` compete; if versions decide, all do.
    """
    return _superseded(keys.columns, keys.columns.ordinal >= competes_from, keys.starts)


def superseded_in_bucket(bucket: KeyBucket, buckets: int, parts: int) -> list[Ordinals]:
    """For each block, the entries that one of another block supersedes, and those that supersede.

    The blocks are in log order: by segment, then by first ordinal. `parts` is
    `parts_per_bucket(buckets)`.
    """
    ordinal = bucket.columns.ordinal
    starts = np.empty((len(bucket.edges) - 1, parts + 1), np.int64)
    _part_starts(bucket.columns.hash, bucket.edges, buckets * parts, starts)
    superseded, superseding = _superseded(bucket.columns, bucket.competes, starts)
    return [
        Ordinals(
            superseded=ordinal[start:end][superseded[start:end]],
            superseding=ordinal[start:end][superseding[start:end]],
        )
        for start, end in pairwise(bucket.edges)
    ]


def _superseded(
    columns: KeyColumns, competes: NDArray[np.bool_], starts: NDArray[np.int64]
) -> Superseded:
    """`competes` has shape (entries,), `starts` (blocks, parts + 1)."""
    keys = (columns.hash, columns.key_bytes, columns.key_at, columns.keys)
    superseded, superseding = np.zeros(len(columns), np.bool_), np.zeros(len(columns), np.bool_)
    if columns.versions is None:
        _walk(keys, competes, starts, superseded)
        return Superseded(superseded=superseded, superseding=superseding)
    versions = (columns.versions.value, columns.versions.is_known)
    _walk_versions(keys, versions, starts, (superseded, superseding))
    return Superseded(superseded=superseded, superseding=superseding & ~superseded)


@numba.njit(cache=True, nogil=True)
def _part_starts(hash_: np.ndarray, edges: np.ndarray, all_parts: int, starts: np.ndarray) -> None:
    """Fills `starts[block, part]` for entries that are ordered by part within each block."""
    parts = starts.shape[1] - 1
    for block in range(starts.shape[0]):
        for part in range(parts + 1):
            starts[block, part] = 0
        for i in range(edges[block], edges[block + 1]):
            starts[block, part_of(hash_[i], all_parts) % parts + 1] += 1
        starts[block, 0] = edges[block]
        for part in range(parts):
            starts[block, part + 1] += starts[block, part]


@numba.njit(cache=True, nogil=True)
def empty_table(table: np.ndarray, starts: np.ndarray, part: int) -> tuple[np.ndarray, np.uint64]:
    """An empty table, at most half full with the entries of a part, and its mask."""
    entries = 0
    for block in range(starts.shape[0]):
        entries += starts[block, part + 1] - starts[block, part]
    size = 16
    while size < 2 * entries:
        size *= 2
    if size > len(table):
        table = np.empty(size, np.int64)
    table[:size] = -1
    return table, np.uint64(size - 1)


@numba.njit(cache=True, nogil=True)
def _walk(
    keys: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    competes: np.ndarray,
    starts: np.ndarray,
    superseded: np.ndarray,
) -> None:
    """Sets `superseded`, part by part; `starts` has shape (blocks, parts + 1), blocks ascending."""
    hash_, key_bytes, key_at, body = keys
    blocks, parts = starts.shape[0], starts.shape[1] - 1
    table = np.empty(16, np.int64)
    for part in range(parts):
        table, mask = empty_table(table, starts, part)
        for block in range(blocks - 1, -1, -1):
            for i in range(starts[block, part + 1] - 1, starts[block, part] - 1, -1):
                slot = hash_[i] & mask
                while table[slot] >= 0:
                    other = table[slot]
                    if (
                        hash_[other] == hash_[i]
                        and key_bytes[other] == key_bytes[i]
                        and same_key(body, key_at[other], body, key_at[i], key_bytes[i])
                    ):
                        superseded[i] = True
                        break
                    slot = (slot + np.uint64(1)) & mask
                if not superseded[i] and competes[i]:
                    table[slot] = i


@numba.njit(cache=True, nogil=True)
def _walk_versions(
    keys: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    versions: tuple[np.ndarray, np.ndarray],
    starts: np.ndarray,
    found: tuple[np.ndarray, np.ndarray],
) -> None:
    """As `_walk`, but versions decide; also sets which entries supersede another."""
    hash_, key_bytes, key_at, body = keys
    version, is_known = versions
    superseded, superseding = found
    blocks, parts = starts.shape[0], starts.shape[1] - 1
    table = np.empty(16, np.int64)
    for part in range(parts):
        table, mask = empty_table(table, starts, part)
        for block in range(blocks - 1, -1, -1):
            for i in range(starts[block, part + 1] - 1, starts[block, part] - 1, -1):
                slot = hash_[i] & mask
                latest = i
                while table[slot] >= 0:
                    other = table[slot]
                    if (
                        hash_[other] == hash_[i]
                        and key_bytes[other] == key_bytes[i]
                        and same_key(body, key_at[other], body, key_at[i], key_bytes[i])
                    ):
                        # The other entry is the later one, so it also stays on a tie.
                        if not is_known[i] or (is_known[other] and version[other] >= version[i]):
                            latest = other
                        superseded[i], superseded[other] = latest == other, latest == i
                        superseding[latest] = True
                        break
                    slot = (slot + np.uint64(1)) & mask
                table[slot] = latest

"""The unit of the shuffle: one block of keys per segment and key bucket, as bytes.

A row per key costs microseconds of JVM and shuffle time per record; a block costs one row.
Layout, little-endian: the numbers of `BlockHead`, then the columns version (int64, if versions
decide), ordinal (uint32), key length (of as few bytes as the longest needs; once, if all keys have
the same), whether a version is known (bool, if versions decide), the bytes with which all keys
begin, and the rest of each key, end to end. Keys are often alike: a serializer's schema id comes
first, or the name of a type, or zeros. To hash them again takes less time than to shuffle hashes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.kernel_memory import load_u64
from tierfold.compaction.cleaning.key_columns import (
    NO_VERSIONS,
    KeyColumns,
    PartedKeys,
    Versions,
    copy_bytes,
    copy_keys,
    hash_each,
)
from tierfold.compaction.model.hash_key import HashKey

_HEAD: Final = struct.Struct("<8q2Q")

HEAD_BYTES: Final = _HEAD.size

_LENGTHS: Final[dict[int, type[np.generic]]] = {1: np.uint8, 2: np.uint16, 4: np.uint32}
"""By their bytes, the types of key lengths: the smallest that holds all lengths of a block."""

PARTS_AT_LEAST: Final = 128
"""Enough parts that the hash table of one part fits the cache, for a segment of any size, and that
a bucket of many keys can be cut into small blocks."""

BLOCK_BYTES: Final = 2**19
"""Bytes, counted with whole keys, at which a bucket's keys are cut into several blocks.

A block is one value of an Arrow batch, which holds at most 2 GiB, and is copied a few times on its
way through the JVM: the smaller it is, the more of these copies stay in the processor's cache.
Measured with 50 million keys: 6.1 CPU seconds of the JVM with blocks of 3.6 MB, 5.5 with these.
"""

_ENTRY_BYTES: Final = 17
"""Bytes of an entry with a version, without its key."""


def parts_per_bucket(buckets: int) -> int:
    """The number of parts in each of `buckets` buckets."""
    return max(1, -(-PARTS_AT_LEAST // buckets))


class BlockHead(NamedTuple):
    """The head of a serialized block: the keys of one segment, or of a stretch of it."""

    entries: int
    """At least one."""
    first_ordinal: int
    """The lowest, for the order of the blocks within a segment."""
    competes_from: int
    """Entries with an ordinal at or above this compete; those below can only be superseded. If
    versions decide, all compete."""
    has_versions: int
    """1 or 0."""
    lengths: int
    """How many key lengths follow: one for all entries, or one for each."""
    length_bytes: int
    """Of each of them."""
    shared_bytes: int
    """With how many bytes in common all keys begin."""
    rest_bytes: int
    """Of all keys, without these."""
    first: int
    second: int
    """The run's `HashKey`, by which the keys are ordered and hashed again."""

    @property
    def hash_key(self) -> HashKey:
        """The run's."""
        return HashKey(self.first, self.second)


def head_of(block: bytes) -> BlockHead:
    """The head of a block of `blocks_of`."""
    return BlockHead._make(_HEAD.unpack_from(block))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyBucket:
    """The blocks of one partition in one bucket, end to end."""

    columns: KeyColumns
    """The entries of each block, ordered by part."""
    competes: NDArray[np.bool_]
    """Shape (entries,)."""
    edges: NDArray[np.int64]
    """Shape (blocks + 1,): block b has the entries from `edges[b]` to `edges[b + 1]`."""


def joined_blocks(blocks: Sequence[bytes]) -> KeyBucket:
    """The entries of the blocks, in their order; all have versions, or none has."""
    heads = [head_of(block) for block in blocks]
    edges = np.cumsum([0] + [head.entries for head in heads])
    entries, with_versions = int(edges[-1]), any(head.has_versions for head in heads)
    hashes, ordinal = np.empty(entries, np.uint64), np.empty(entries, np.uint32)
    key_bytes, competes = np.empty(entries, np.int32), np.empty(entries, np.bool_)
    keys = np.empty(sum(h.entries * h.shared_bytes + h.rest_bytes for h in heads), np.uint8)
    versions = Versions(
        value=np.empty(entries * with_versions, np.int64),
        is_known=np.empty(entries * with_versions, np.bool_),
    )
    keys_end = 0
    for block, head, (start, end) in zip(blocks, heads, pairwise(edges), strict=True):
        here = slice(start, end)
        value, ordinals, lengths, is_known, shared, rest = _arrays_of(block, head)
        ordinal[here], key_bytes[here] = ordinals, lengths
        competes[here] = ordinals >= head.competes_from
        if with_versions:
            versions.value[here], versions.is_known[here] = value, is_known
        keys_start, keys_end = keys_end, keys_end + head.entries * len(shared) + len(rest)
        _put_together(shared, rest, key_bytes[here], keys[keys_start:keys_end])
        words = head.hash_key.words
        hash_each(keys[keys_start:keys_end], key_bytes[here], words, hashes[here])
    columns = KeyColumns(
        hash=hashes,
        ordinal=ordinal,
        key_bytes=key_bytes,
        keys=keys,
        versions=versions if with_versions else None,
    )
    return KeyBucket(columns=columns, competes=competes, edges=edges)


def _arrays_of(block: bytes, head: BlockHead) -> list[NDArray[Any]]:
    return arrays_in(
        block,
        HEAD_BYTES,
        (np.int64, head.entries * head.has_versions),
        (np.uint32, head.entries),
        (_LENGTHS[head.length_bytes], head.lengths),
        (np.bool_, head.entries * head.has_versions),
        (np.uint8, head.shared_bytes),
        (np.uint8, head.rest_bytes),
    )


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
    hash_key: HashKey,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[tuple[int, bytes]]:
    """For each bucket with any, the entries that no other entry of their segment supersedes.

    `keys` have `buckets * parts_per_bucket(buckets)` parts, and were gathered with `hash_key`;
    `superseded` has shape (entries,). A bucket of more than `block_bytes` becomes several blocks.
    All entries of a part are in one of them, so that their order does not matter.
    """
    columns, key_at = keys.columns, keys.columns.key_at
    rows, starts = keys.rows_by_part(~superseded)
    step = parts_per_bucket(buckets)
    for bucket in range(buckets):
        ends = starts[bucket * step : (bucket + 1) * step + 1]
        for start, end in pairwise(_cuts(rows, columns.key_bytes, ends, block_bytes)):
            if start < end:
                block = _serialized(columns, key_at, rows[start:end], competes_from, hash_key)
                yield bucket, block


def _serialized(
    columns: KeyColumns,
    key_at: NDArray[np.int64],
    rows: NDArray[np.int64],
    competes_from: int,
    hash_key: HashKey,
) -> bytes:
    """The entries at `rows`, at least one, as one block."""
    versions = NO_VERSIONS if columns.versions is None else columns.versions[rows]
    ordinal, key_bytes = columns.ordinal[rows], columns.key_bytes[rows]
    longest = key_bytes.max()
    lengths = key_bytes.astype(np.min_scalar_type(longest))
    if key_bytes.min() == longest:
        lengths = lengths[:1]
    at = key_at[rows]
    shared = _shared_bytes(columns.keys, at, key_bytes)
    rest = np.empty(int(key_bytes.sum(dtype=np.int64)) - shared * len(rows), np.uint8)
    copy_keys(columns.keys, at + shared, key_bytes - np.int32(shared), rest)
    head = BlockHead(
        entries=len(rows),
        first_ordinal=int(ordinal.min()),
        competes_from=competes_from,
        has_versions=columns.versions is not None,
        lengths=len(lengths),
        length_bytes=lengths.itemsize,
        shared_bytes=shared,
        rest_bytes=len(rest),
        first=hash_key.first,
        second=hash_key.second,
    )
    arrays = (versions.value, ordinal, lengths, versions.is_known)
    keys = (columns.keys[at[0] : at[0] + shared], rest)
    return b"".join((_HEAD.pack(*head), *(array.data for array in (*arrays, *keys))))


@numba.njit(cache=True, nogil=True)
def _cuts(
    rows: np.ndarray, key_bytes: np.ndarray, part_ends: np.ndarray, block_bytes: int
) -> np.ndarray:
    """Where to cut a bucket's `rows`: whole parts of at most `block_bytes`, unless one has more."""
    cuts = np.empty(len(part_ends), np.int64)
    cuts[0] = part_ends[0]
    last, size = 0, 0
    for part in range(len(part_ends) - 1):
        of_part = _ENTRY_BYTES * (part_ends[part + 1] - part_ends[part])
        for i in range(part_ends[part], part_ends[part + 1]):
            of_part += key_bytes[rows[i]]
        # Never at the first part, so `cuts` has room.
        if size > 0 and size + of_part > block_bytes:
            last += 1
            cuts[last], size = part_ends[part], 0
        size += of_part
    cuts[last + 1] = part_ends[-1]
    return cuts[: last + 2]


@numba.njit(cache=True, nogil=True)
def _shared_bytes(keys: np.ndarray, key_at: np.ndarray, key_bytes: np.ndarray) -> int:
    """With how many bytes in common these keys, at least one, begin."""
    first, shared = key_at[0], int(key_bytes[0])
    for nth in range(len(key_at)):
        shared = min(shared, int(key_bytes[nth]))
        at, i = key_at[nth], 0
        while i + 8 <= shared and load_u64(keys, at + i) == load_u64(keys, first + i):
            i += 8
        while i < shared and keys[at + i] == keys[first + i]:
            i += 1
        shared = i
    return shared


@numba.njit(cache=True, nogil=True)
def _put_together(
    shared: np.ndarray, rest: np.ndarray, key_bytes: np.ndarray, keys: np.ndarray
) -> None:
    at = to = 0
    for length in key_bytes:
        to = copy_bytes(shared, 0, len(shared), keys, to)
        to = copy_bytes(rest, at, length - len(shared), keys, to)
        at += length - len(shared)

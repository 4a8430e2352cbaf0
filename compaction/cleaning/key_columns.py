"""The keys of many records as columns, ordered so that a hash table over them fits the cache.

One big hash table over scattered keys costs a cache miss per record. So the keys of each window are
gathered into parts, by the top bits of their hash, while the window is in the cache. Each part of
all windows gets its own small table, and the parts of a bucket, end to end, are the block that is
shuffled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numba
import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.kernel_memory import (
    PREFETCH_AHEAD,
    load_u64,
    prefetch,
    store_u64,
)
from tierfold.compaction.cleaning.key_hash import hash_key, part_of
from tierfold.compaction.model.hash_key import HashKey, Words

WINDOW_PARTS_MAX: Final = 1024
"""With more parts, keys are ordered once all windows are joined, and not in each: a window has
thousands of keys, and 8 bytes for each part would take more space than they do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Versions, which decide between records of a key instead of their offsets (KIP-280)."""

    value: NDArray[np.int64]
    """Shape (n,): the highest stays; 0 if unknown."""
    is_known: NDArray[np.bool_]
    """Shape (n,): a record with a version supersedes those without."""

    def __getitem__(self, rows: NDArray[np.int64]) -> Versions:
        """The versions at `rows` (shape (m,)), in that order."""
        return Versions(value=self.value[rows], is_known=self.is_known[rows])


NO_VERSIONS: Final = Versions(value=np.empty(0, np.int64), is_known=np.empty(0, np.bool_))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyColumns:
    """`n` keyed records, one entry each."""

    hash: NDArray[np.uint64]
    """Shape (n,)."""
    ordinal: NDArray[np.uint32]
    """Shape (n,): the record's number within its segment, in offset order."""
    key_bytes: NDArray[np.int32]
    """Shape (n,): the length of each key."""
    keys: NDArray[np.uint8]
    """The keys' bytes, end to end, in the order of the entries."""
    versions: Versions | None = None
    """None: offsets decide."""

    def __len__(self) -> int:
        return len(self.hash)

    def numbered_from(self, first_ordinal: int) -> KeyColumns:
        """The same keys with ordinals raised by `first_ordinal`."""
        return replace(self, ordinal=self.ordinal + np.uint32(first_ordinal))

    @property
    def key_at(self) -> NDArray[np.int64]:
        """Shape (n,): where each key begins in `keys`."""
        starts = np.empty(len(self.key_bytes), np.int64)
        _sum_before(self.key_bytes, starts)
        return starts


_EMPTY: Final = KeyColumns(
    hash=np.empty(0, np.uint64),
    ordinal=np.empty(0, np.uint32),
    key_bytes=np.empty(0, np.int32),
    keys=np.empty(0, np.uint8),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartedKeys:
    """Keyed records of consecutive windows; the entries of each window are ordered by part."""

    columns: KeyColumns
    starts: NDArray[np.int64]
    """Shape (windows, parts + 1): part p of window w has the entries from `[w, p]` to `[w, p + 1]`,
    in record order."""

    def rows_by_part(
        self, chosen: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The chosen entries in a stable order by part, and where each part starts among them.

        `chosen` has shape (entries,), and the starts have shape (parts + 1,).
        """
        rows = np.empty(int(np.count_nonzero(chosen)), np.int64)
        starts = np.zeros(self.starts.shape[1], np.int64)
        _rows_by_part(self.starts, chosen, rows, starts)
        return rows, starts


def gathered(
    body: NDArray[np.uint8],
    key_at: NDArray[np.int64],
    key_bytes: NDArray[np.int32],
    chosen: NDArray[np.bool_],
    parts: int,
    hash_key: HashKey,
) -> PartedKeys:
    """The keys of a window's chosen records by `part_of(hash, parts)`; record i has ordinal i.

    With more than `WINDOW_PARTS_MAX` parts they stay in record order, in a single part.

    `key_at`, `key_bytes` and `chosen` have shape (records,); the keys are in `body`. Every chosen
    record must have a key (`key_bytes` ≥ 0).
    """
    parts = parts if parts <= WINDOW_PARTS_MAX else 1
    hash_, ordinal, lengths, keys, starts = _gather(
        body, key_at, key_bytes, chosen, parts, hash_key.words
    )
    columns = KeyColumns(hash=hash_, ordinal=ordinal, key_bytes=lengths, keys=keys)
    return PartedKeys(columns=columns, starts=starts.reshape(1, -1))


def joined_windows(windows: Sequence[PartedKeys], parts: int) -> PartedKeys:
    """The entries of windows that follow each other and were `gathered` into these parts."""
    columns = joined([window.columns for window in windows])
    if parts > WINDOW_PARTS_MAX:
        return ordered_by_part(columns, parts)
    ends = np.cumsum([0] + [len(window.columns) for window in windows])
    starts = [window.starts + end for window, end in zip(windows, ends[:-1], strict=True)]
    return PartedKeys(
        columns=columns, starts=np.concatenate([np.empty((0, parts + 1), np.int64), *starts])
    )


def joined(pieces: Sequence[KeyColumns]) -> KeyColumns:
    """The entries of all pieces, in their order; all have versions, or none has."""
    if len(pieces) <= 1:
        return pieces[0] if pieces else _EMPTY
    versions = [piece.versions for piece in pieces if piece.versions is not None]
    return KeyColumns(
        hash=np.concatenate([piece.hash for piece in pieces]),
        ordinal=np.concatenate([piece.ordinal for piece in pieces]),
        key_bytes=np.concatenate([piece.key_bytes for piece in pieces]),
        keys=np.concatenate([piece.keys for piece in pieces]),
        versions=Versions(
            value=np.concatenate([piece.value for piece in versions]),
            is_known=np.concatenate([piece.is_known for piece in versions]),
        )
        if versions
        else None,
    )


def hashed(
    *,
    ordinal: NDArray[np.uint32],
    key_bytes: NDArray[np.int32],
    keys: NDArray[np.uint8],
    hash_key: HashKey,
    versions: Versions | None = None,
) -> KeyColumns:
    """The entries with the hashes of their keys; `keys` has all bytes that `key_bytes` counts."""
    hashes = np.empty(len(key_bytes), np.uint64)
    hash_each(keys, key_bytes, hash_key.words, hashes)
    return KeyColumns(
        hash=hashes, ordinal=ordinal, key_bytes=key_bytes, keys=keys, versions=versions
    )


def ordered_by_part(columns: KeyColumns, parts: int) -> PartedKeys:
    """The entries in a stable order by `part_of(hash, parts)`, as one window."""
    order, starts = _part_order(columns.hash, parts)
    ordered = taken(columns, order, columns.key_at)
    return PartedKeys(columns=ordered, starts=starts.reshape(1, -1))


def taken(
    columns: KeyColumns, rows: NDArray[np.int64], key_at: NDArray[np.int64]
) -> KeyColumns:
    """The entries at `rows` (shape (m,)), in that order, with copies of their keys.

    `key_at` is that of the columns. Computing it takes a step per entry, so a caller does it once
    and not for each bucket: a large partition has thousands.
    """
    lengths = columns.key_bytes[rows]
    keys = np.empty(int(lengths.sum(dtype=np.int64)), np.uint8)
    copy_keys(columns.keys, key_at[rows], lengths, keys)
    return KeyColumns(
        hash=columns.hash[rows],
        ordinal=columns.ordinal[rows],
        key_bytes=lengths,
        keys=keys,
        versions=None if columns.versions is None else columns.versions[rows],
    )


@numba.njit(cache=True, nogil=True)
def _gather(
    body: np.ndarray,
    key_at: np.ndarray,
    key_bytes: np.ndarray,
    chosen: np.ndarray,
    parts: int,
    key: Words,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    found = np.empty(len(chosen), np.uint64)
    starts = np.zeros(parts + 1, np.int64)
    bytes_before = np.zeros(parts + 1, np.int64)
    last = len(chosen) - 1
    for i in range(len(chosen)):
        prefetch(body, key_at[min(i + PREFETCH_AHEAD, last)])
        if chosen[i]:
            found[i] = hash_key(body, key_at[i], key_bytes[i], key)
            after = part_of(found[i], parts) + 1
            starts[after] += 1
            bytes_before[after] += key_bytes[i]
    for part in range(parts):
        starts[part + 1] += starts[part]
        bytes_before[part + 1] += bytes_before[part]
    hash_, ordinal = np.empty(starts[parts], np.uint64), np.empty(starts[parts], np.uint32)
    lengths, keys = np.empty(starts[parts], np.int32), np.empty(bytes_before[parts], np.uint8)
    place = starts[:-1].copy()
    for i in range(len(chosen)):
        prefetch(body, key_at[min(i + PREFETCH_AHEAD, last)])
        if chosen[i]:
            part = part_of(found[i], parts)
            to = place[part]
            hash_[to], ordinal[to], lengths[to] = found[i], i, key_bytes[i]
            place[part] += 1
            bytes_before[part] = copy_bytes(body, key_at[i], key_bytes[i], keys, bytes_before[part])
    return hash_, ordinal, lengths, keys, starts


@numba.njit(cache=True, nogil=True)
def _rows_by_part(
    starts: np.ndarray, chosen: np.ndarray, rows: np.ndarray, starts_chosen: np.ndarray
) -> None:
    to = 0
    for part in range(starts.shape[1] - 1):
        for window in range(starts.shape[0]):
            for i in range(starts[window, part], starts[window, part + 1]):
                if chosen[i]:
                    rows[to] = i
                    to += 1
        starts_chosen[part + 1] = to


@numba.njit(cache=True, nogil=True)
def copy_keys(
    source: np.ndarray, key_at: np.ndarray, lengths: np.ndarray, keys: np.ndarray
) -> None:
    """Fills `keys` with `source[key_at : key_at + lengths]` of each entry, end to end."""
    to = 0
    for i in range(len(lengths)):
        to = copy_bytes(source, key_at[i], lengths[i], keys, to)


@numba.njit(cache=True, nogil=True, inline="always")
def copy_bytes(source: np.ndarray, at: int, length: int, target: np.ndarray, to: int) -> int:
    """Copies `source[at : at + length]` to `target[to:]`, in words; returns where it ends."""
    whole = length - (length & 7)
    for i in range(0, whole, 8):
        store_u64(target, to + i, load_u64(source, at + i))
    for i in range(whole, length):
        target[to + i] = source[at + i]
    return to + length


@numba.njit(cache=True, nogil=True)
def hash_each(keys: np.ndarray, key_bytes: np.ndarray, key: Words, hashes: np.ndarray) -> None:
    """Fills `hashes` for `keys`, which lie end to end."""
    at = 0
    for i in range(len(key_bytes)):
        hashes[i] = hash_key(keys, at, key_bytes[i], key)
        at += key_bytes[i]


@numba.njit(cache=True, nogil=True)
def _sum_before(lengths: np.ndarray, starts: np.ndarray) -> None:
    at = np.int64(0)
    for i in range(len(lengths)):
        starts[i] = at
        at += lengths[i]


@numba.njit(cache=True, nogil=True)
def _part_order(hash_: np.ndarray, parts: int) -> tuple[np.ndarray, np.ndarray]:
    starts = np.zeros(parts + 1, np.int64)
    for i in range(len(hash_)):
        starts[part_of(hash_[i], parts) + 1] += 1
    for part in range(parts):
        starts[part + 1] += starts[part]
    place = starts[:-1].copy()
    order = np.empty(len(hash_), np.int64)
    for i in range(len(hash_)):
        part = part_of(hash_[i], parts)
        order[place[part]] = i
        place[part] += 1
    return order, starts

"""The offset map as a distributed reduce: which records lose their key to a newer one.

Kafka builds one map of key → last offset over the dirty region (`Cleaner.buildOffsetMap`) and keeps
a record when its offset is not below its key's entry. The same law, without the map: of the
*competing* records (those at or above `first_dirty`) of a key the last wins; every other record
of that key, clean or dirty, loses to it; a key without a competing record loses nothing. First each
segment drops its own losers, then the blocks of one bucket are reduced across segments.

Both steps walk from the last record to the first: the first competing entry met of a key is its
winner, every later one has lost. Keys are compared byte by byte whenever their hashes are equal.

Where versions decide (KIP-280) all records compete, clean ones too, and an entry met later takes
the place of the winner so far if its version is strictly higher. What was superseded may then lie
above its winner, beyond what this pass sees next time, so it is told who superseded something.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.key_blocks import KeyBlock
from tierfold.compaction.cleaning.key_columns import KeyColumns, joined
from tierfold.compaction.cleaning.key_hash import part_of, same_key

LOST: Final = np.uint8(1)
"""Bit of a record's standing: superseded."""
WON: Final = np.uint8(2)
"""Bit of a record's standing: it superseded another in this pass. Told only where versions decide;
a record that won here may have lost elsewhere."""


class Contest(NamedTuple):
    """How entries stand among those of their keys, shape (entries,) each; none both ways."""

    lost: NDArray[np.bool_]
    won: NDArray[np.bool_]


class Ordinals(NamedTuple):
    """The ordinals of a block's entries that lost, and of those that won."""

    lost: NDArray[np.uint32]
    won: NDArray[np.uint32]


def own_contest(
    ordered: KeyColumns, part_starts: NDArray[np.int64], competes_from: int
) -> Contest:
    """How the entries of one segment stand among themselves.

    Those with an ordinal at or above `competes_from` compete; where versions decide all do.
    """
    return _contest(ordered, ordered.ordinal >= competes_from, part_starts.reshape(1, -1))


def bucket_contest(blocks: Sequence[KeyBlock], buckets: int, parts: int) -> list[Ordinals]:
    """Per block the entries that lose to one of another block, and those that win.

    `blocks` hold one bucket of one partition in log order: by segment, then by first ordinal.
    `parts` is `parts_per_bucket(buckets)`.
    """
    columns = joined([block.columns for block in blocks])
    competes = np.concatenate(
        [np.empty(0, np.bool_)] + [b.columns.ordinal >= b.competes_from for b in blocks]
    )
    edges = np.cumsum([0] + [len(block.columns) for block in blocks])
    starts = np.empty((len(blocks), parts + 1), np.int64)
    _part_starts(columns.hash, edges, buckets * parts, starts)
    lost, won = _contest(columns, competes, starts)
    return [
        Ordinals(
            lost=columns.ordinal[start:end][lost[start:end]],
            won=columns.ordinal[start:end][won[start:end]],
        )
        for start, end in pairwise(edges)
    ]


def _contest(
    columns: KeyColumns, competes: NDArray[np.bool_], starts: NDArray[np.int64]
) -> Contest:
    """`competes` has shape (entries,), `starts` (blocks, parts + 1)."""
    keys = (columns.hash, columns.key_bytes, columns.key_at, columns.keys)
    lost, won = np.zeros(len(columns), np.bool_), np.zeros(len(columns), np.bool_)
    if columns.versions is None:
        _walk(keys, competes, starts, lost)
        return Contest(lost=lost, won=won)
    versions = (columns.versions.value, columns.versions.is_known)
    _walk_versions(keys, versions, starts, (lost, won))
    return Contest(lost=lost, won=won & ~lost)


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
def _emptied(table: np.ndarray, starts: np.ndarray, part: int) -> tuple[np.ndarray, np.uint64]:
    """A table for the entries of a part, at most half full, all slots empty; and its mask."""
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
    lost: np.ndarray,
) -> None:
    """Marks the losers, part by part; `starts` has shape (blocks, parts + 1), blocks ascending."""
    hash_, key_bytes, key_at, body = keys
    blocks, parts = starts.shape[0], starts.shape[1] - 1
    table = np.empty(16, np.int64)
    for part in range(parts):
        table, mask = _emptied(table, starts, part)
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
                        lost[i] = True
                        break
                    slot = (slot + np.uint64(1)) & mask
                if not lost[i] and competes[i]:
                    table[slot] = i


@numba.njit(cache=True, nogil=True)
def _walk_versions(
    keys: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    versions: tuple[np.ndarray, np.ndarray],
    starts: np.ndarray,
    standing: tuple[np.ndarray, np.ndarray],
) -> None:
    """As `_walk` where versions decide; marks losers, and whoever superseded one on the way."""
    hash_, key_bytes, key_at, body = keys
    version, is_known = versions
    lost, won = standing
    blocks, parts = starts.shape[0], starts.shape[1] - 1
    table = np.empty(16, np.int64)
    for part in range(parts):
        table, mask = _emptied(table, starts, part)
        for block in range(blocks - 1, -1, -1):
            for i in range(starts[block, part + 1] - 1, starts[block, part] - 1, -1):
                slot = hash_[i] & mask
                winner = i
                while table[slot] >= 0:
                    other = table[slot]
                    if (
                        hash_[other] == hash_[i]
                        and key_bytes[other] == key_bytes[i]
                        and same_key(body, key_at[other], body, key_at[i], key_bytes[i])
                    ):
                        # The other one lies above, so that it also wins a tie.
                        if not is_known[i] or (is_known[other] and version[other] >= version[i]):
                            winner = other
                        lost[i], lost[other] = winner == other, winner == i
                        won[winner] = True
                        break
                    slot = (slot + np.uint64(1)) & mask
                table[slot] = winner

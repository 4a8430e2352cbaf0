"""The offset map as a distributed reduce: which records lose their key to a newer one.

Kafka builds one map of key → last offset over the dirty region (`Cleaner.buildOffsetMap`) and keeps
a record when its offset is not below its key's entry. The same law, without the map: of the
*competing* records (those at or above `first_dirty`) of a key the last wins; every other record
of that key, clean or dirty, loses to it; a key without a competing record loses nothing. First each
segment drops its own losers, then the blocks of one bucket are reduced across segments.

Both steps walk from the last record to the first: the first competing entry met of a key is its
winner, every later one has lost. Keys are compared byte by byte whenever their hashes are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numba
import numpy as np
from numpy.typing import NDArray

from compaction.key_blocks import KeyBlock
from compaction.key_columns import KeyColumns, joined
from compaction.key_hash import part_of, same_key


def own_losers(
    ordered: KeyColumns, part_starts: NDArray[np.int64], competes_from: int
) -> NDArray[np.bool_]:
    """Shape (entries,): which entries lose to a later, competing one of the same segment."""
    lost = np.zeros(len(ordered), np.bool_)
    _walk(
        (ordered.hash, ordered.key_bytes, ordered.key_at, ordered.keys),
        ordered.ordinal >= competes_from,
        part_starts.reshape(1, -1),
        lost,
    )
    return lost


def bucket_losers(blocks: Sequence[KeyBlock], buckets: int, parts: int) -> list[NDArray[np.uint32]]:
    """Per block the ordinals of the entries that lose to an entry of a later block.

    `blocks` hold one bucket of one partition in log order: by segment, then by first ordinal.
    `parts` is `parts_per_bucket(buckets)`. Shapes of the result: (losers of block i,).
    """
    columns = joined([block.columns for block in blocks])
    competes = np.concatenate(
        [np.empty(0, np.bool_)] + [b.columns.ordinal >= b.competes_from for b in blocks]
    )
    edges = np.cumsum([0] + [len(block.columns) for block in blocks])
    starts = np.empty((len(blocks), parts + 1), np.int64)
    _part_starts(columns.hash, edges, buckets * parts, starts)
    lost = np.zeros(len(columns), np.bool_)
    _walk((columns.hash, columns.key_bytes, columns.key_at, columns.keys), competes, starts, lost)
    return [
        columns.ordinal[start:end][lost[start:end]]
        for start, end in pairwise(edges)
    ]


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
        entries = 0
        for block in range(blocks):
            entries += starts[block, part + 1] - starts[block, part]
        size = 16
        while size < 2 * entries:
            size *= 2
        if size > len(table):
            table = np.empty(size, np.int64)
        table[:size] = -1
        mask = np.uint64(size - 1)
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

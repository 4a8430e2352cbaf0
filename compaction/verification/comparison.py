"""Whether two sets of segments have the same latest value of every key.

A key that had a tombstone before and is gone now is no difference: it has no value in either.

If versions decide (KIP-280), an expired tombstone may be removed before an older record arrives.
Such a late record stays, and is no difference; `KeysCompared.late` counts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numba
import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.key_blocks import PARTS_AT_LEAST
from tierfold.compaction.cleaning.key_columns import joined, ordered_by_part
from tierfold.compaction.cleaning.key_hash import same_key
from tierfold.compaction.cleaning.offset_map import empty_table
from tierfold.compaction.verification.latest_values import NO_VALUE, LatestValues, numbered

EXAMPLES_MAX: Final = 3
"""The maximum number of differing keys that are named as examples."""

NEVER: Final = 2**63 - 1
"""An offset that no record has."""

_KEY_BYTES_SHOWN: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondOpinion:
    """The result of a comparison by Spark's window functions for one partition."""

    keys: int = 0
    """The number of keys of either side."""
    differing: int = 0
    """The number of keys whose latest record differs from the originals'."""
    late: int = 0
    """As in `KeysCompared`."""
    example: str = ""
    """The first differing key, as a clause."""


def shown_key(key: bytes) -> str:
    """A key in hex, cut after 40 bytes."""
    dots = "…" if len(key) > _KEY_BYTES_SHOWN else ""
    return f"0x{key[:_KEY_BYTES_SHOWN].hex()}{dots}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Latest:
    """One side's latest record of a key."""

    offset: int
    value_bytes: int
    """`NO_VALUE`: a tombstone."""

    def __str__(self) -> str:
        if self.value_bytes == NO_VALUE:
            return f"a tombstone (offset {self.offset})"
        return f"a value of {self.value_bytes} bytes (offset {self.offset})"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDifference:
    """A key whose latest value differs."""

    key: bytes
    before: Latest | None
    """None: the key had no record."""
    now: Latest | None

    def __str__(self) -> str:
        key = shown_key(self.key)
        return f"key {key} had {self.before or 'no record'}, has {self.now or 'none'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysCompared:
    """The result of one comparison."""

    keys: int = 0
    """The number of keys of either side."""
    deleted: int = 0
    """How many of them had a tombstone before."""
    differing: int = 0
    late: int = 0
    """How many have a record older than their tombstone, which was removed before it arrived."""
    examples: tuple[KeyDifference, ...] = ()
    """The first `EXAMPLES_MAX` differing keys, by offset."""


def sum_of(found: Iterable[KeysCompared]) -> KeysCompared:
    """The sum of the comparisons of all buckets."""
    listed = list(found)
    return KeysCompared(
        keys=sum(bucket.keys for bucket in listed),
        deleted=sum(bucket.deleted for bucket in listed),
        differing=sum(bucket.differing for bucket in listed),
        late=sum(bucket.late for bucket in listed),
        examples=_first(example for bucket in listed for example in bucket.examples),
    )


def compared(before: LatestValues, now: LatestValues, passes: Sequence[int] = ()) -> KeysCompared:
    """Compare two sides that hold each key at most once.

    `passes` are the end offsets, ascending, of the passes in which versions decided.
    """
    match = _matches(before, now)
    known = np.flatnonzero(match >= 0)
    partner = match[known]
    met = np.zeros(len(before), np.bool_)
    met[partner] = True
    is_other = (now.value_bytes[known] != before.value_bytes[partner]) | (
        now.digest[known] != before.digest[partner]
    ).any(axis=1)
    is_late = _is_late(before, partner, now.offset[known], passes) & (
        now.value_bytes[known] != NO_VALUE
    )
    is_other &= ~is_late
    lost = np.flatnonzero(~met & (before.value_bytes != NO_VALUE))
    appeared = np.flatnonzero(match < 0)
    changed = known[is_other]
    pairs = [
        *((int(match[i]), int(i)) for i in _earliest(now, changed)),
        *((int(i), None) for i in _earliest(before, lost)),
        *((None, int(i)) for i in _earliest(now, appeared)),
    ]
    return KeysCompared(
        keys=len(before) + len(appeared),
        deleted=int(np.count_nonzero(before.value_bytes == NO_VALUE)),
        differing=len(changed) + len(lost) + len(appeared),
        late=int(is_late.sum()),
        examples=_first(_difference(before, i, now, k) for i, k in pairs),
    )


def _is_late(
    before: LatestValues,
    rows: NDArray[np.int64],
    offset_now: NDArray[np.int64],
    passes: Sequence[int],
) -> NDArray[np.bool_]:
    """Shape of `rows`: the entry was a tombstone, and a pass ended between it and the entry now.

    Only such a pass can remove the tombstone without meeting the record that it supersedes.
    """
    ends = np.array([*passes, NEVER], np.int64)
    next_end = ends[np.searchsorted(ends, before.offset[rows], side="right")]
    was_tombstone: NDArray[np.bool_] = before.value_bytes[rows] == NO_VALUE
    return was_tombstone & (next_end <= offset_now)


def _earliest(side: LatestValues, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    return rows[np.argsort(side.offset[rows], kind="stable")][:EXAMPLES_MAX]


def _first(examples: Iterable[KeyDifference]) -> tuple[KeyDifference, ...]:
    def offset(difference: KeyDifference) -> int:
        return min(side.offset for side in (difference.before, difference.now) if side is not None)

    return tuple(sorted(examples, key=offset)[:EXAMPLES_MAX])


def _difference(
    before: LatestValues, i: int | None, now: LatestValues, k: int | None
) -> KeyDifference:
    side, row = (now, k or 0) if i is None else (before, i)
    at, size_bytes = int(side.keys.key_at[row]), int(side.keys.key_bytes[row])
    key = side.keys.keys[at : at + size_bytes].tobytes()
    return KeyDifference(key=key, before=_latest(before, i), now=_latest(now, k))


def _latest(side: LatestValues, row: int | None) -> Latest | None:
    if row is None:
        return None
    return Latest(offset=int(side.offset[row]), value_bytes=int(side.value_bytes[row]))


def _matches(before: LatestValues, now: LatestValues) -> NDArray[np.int64]:
    """Shape (len(now),): the entry of `before` with the same key; −1: none."""
    # Versions have already decided, and a side without entries has none, so they are dropped.
    keys = joined([replace(side.keys, versions=None) for side in (before, now)])
    parted = ordered_by_part(numbered(keys), PARTS_AT_LEAST)
    ordered = parted.columns
    match = np.full(len(now), -1, np.int64)
    _match(
        (ordered.hash, ordered.key_bytes, ordered.key_at, ordered.keys),
        ordered.ordinal.astype(np.int64),
        len(before),
        parted.starts,
        match,
    )
    return match


@numba.njit(cache=True, nogil=True)
def _match(
    keys: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    number: np.ndarray,
    before_count: int,
    starts: np.ndarray,
    match: np.ndarray,
) -> None:
    """Fills `match`, part by part; in each part the entries of `before` come first.

    Entries with a `number` below `before_count` are those of `before`.
    """
    hash_, key_bytes, key_at, body = keys
    table = np.empty(16, np.int64)
    for part in range(starts.shape[1] - 1):
        table, mask = empty_table(table, starts, part)
        for i in range(starts[0, part], starts[0, part + 1]):
            slot = hash_[i] & mask
            while table[slot] >= 0:
                other = table[slot]
                if (
                    hash_[other] == hash_[i]
                    and key_bytes[other] == key_bytes[i]
                    and same_key(body, key_at[other], body, key_at[i], key_bytes[i])
                ):
                    break
                slot = (slot + np.uint64(1)) & mask
            if number[i] < before_count:
                table[slot] = i
            elif table[slot] >= 0:
                match[number[i] - before_count] = number[table[slot]]

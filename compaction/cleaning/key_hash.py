"""A 64-bit hash of a key's bytes, inside numba kernels.

The hash only orders and buckets keys. The bytes themselves decide whether keys are equal
(SEMANTICS: "Keys are compared as bytes, exactly; no hash decides"), so the hash affects speed,
never correctness. It must be the same in every worker of a run; it is never stored.
"""

from __future__ import annotations

from typing import Final

import numba
import numpy as np

from tierfold.compaction.cleaning.kernel_memory import load_u64

_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_SEED: Final = np.uint64(0xD6E8FEB86659FD93)
_HALF: Final = np.uint64(32)
_SHIFT: Final = np.uint64(29)


@numba.njit(cache=True, nogil=True, inline="always")
def _mixed(hash_: np.uint64, word: np.uint64) -> np.uint64:
    hash_ = (hash_ ^ word) * _MULTIPLIER
    return hash_ ^ (hash_ >> _SHIFT)


@numba.njit(cache=True, nogil=True)
def hash_key(body: np.ndarray, at: int, length: int) -> np.uint64:
    """The hash of `body[at : at + length]`; `body` is uint8 and holds those bytes."""
    hash_ = _SEED ^ np.uint64(length)
    whole = length - (length & 7)
    for i in range(0, whole, 8):
        hash_ = _mixed(hash_, load_u64(body, at + i))
    tail = np.uint64(0)
    for i in range(whole, length):
        tail = (tail << np.uint64(8)) | np.uint64(body[at + i])
    hash_ = _mixed(hash_, tail)
    return _mixed(hash_, hash_ >> _HALF)


@numba.njit(cache=True, nogil=True)
def same_key(a: np.ndarray, at_a: int, b: np.ndarray, at_b: int, length: int) -> bool:
    """Whether two keys of the same length have the same bytes."""
    whole = length - (length & 7)
    for i in range(0, whole, 8):
        if load_u64(a, at_a + i) != load_u64(b, at_b + i):
            return False
    for i in range(whole, length):
        if a[at_a + i] != b[at_b + i]:
            return False
    return True


@numba.njit(cache=True, nogil=True, inline="always")
def part_of(hash_: np.uint64, parts: int) -> int:
    """The number of the slice, of `parts` equal slices of the range, that the hash is in."""
    return int(((hash_ >> _HALF) * np.uint64(parts)) >> _HALF)

"""A keyed 64-bit hash of a record key's bytes, inside numba kernels: SipHash-1-3.

The hash only orders and buckets keys. The bytes themselves decide whether keys are equal
(SEMANTICS: "Keys are compared as bytes, exactly; no hash decides"), so the hash affects speed,
never correctness. But anybody who may produce to a topic chooses its keys: with a hash that can be
predicted they could be made to collide, and a hash table over them would take the square of their
number. So each run draws its own `HashKey`, which all its workers use and no object holds.
(J.-P. Aumasson, D. J. Bernstein: "SipHash: a fast short-input PRF"; Python, Rust and Ruby use it.)
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numba
import numpy as np

from tierfold.compaction.cleaning.kernel_memory import load_u64
from tierfold.compaction.model.hash_key import Words

_STATE: Final = (
    np.uint64(0x736F6D6570736575),
    np.uint64(0x646F72616E646F6D),
    np.uint64(0x6C7967656E657261),
    np.uint64(0x7465646279746573),
)
_END: Final = np.uint64(0xFF)
_HALF: Final = np.uint64(32)
_BITS: Final = np.uint64(64)

_State: TypeAlias = tuple[np.uint64, np.uint64, np.uint64, np.uint64]


@numba.njit(cache=True, nogil=True, inline="always")
def _rotated(word: np.uint64, bits: int) -> np.uint64:
    return (word << np.uint64(bits)) | (word >> (_BITS - np.uint64(bits)))


@numba.njit(cache=True, nogil=True, inline="always")
def _round(v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64) -> _State:
    v0 += v1
    v2 += v3
    v1 = _rotated(v1, 13) ^ v0
    v3 = _rotated(v3, 16) ^ v2
    v0 = _rotated(v0, 32)
    v2 += v1
    v0 += v3
    v1 = _rotated(v1, 17) ^ v2
    v3 = _rotated(v3, 21) ^ v0
    v2 = _rotated(v2, 32)
    return v0, v1, v2, v3


@numba.njit(cache=True, nogil=True)
def hash_key(body: np.ndarray, at: int, length: int, key: Words) -> np.uint64:
    """The hash of `body[at : at + length]`; `body` is uint8 and holds those bytes."""
    v0, v1 = key[0] ^ _STATE[0], key[1] ^ _STATE[1]
    v2, v3 = key[0] ^ _STATE[2], key[1] ^ _STATE[3]
    whole = length - (length & 7)
    for i in range(0, whole, 8):
        word = load_u64(body, at + i)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ word)
        v0 ^= word
    tail = np.uint64(length) << np.uint64(56)
    for i in range(whole, length):
        tail |= np.uint64(body[at + i]) << np.uint64(8 * (i - whole))
    v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ tail)
    v0 ^= tail
    v2 ^= _END
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


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

"""The stored hash of a key: of MurmurHash3 (x64, 128 bits, seed 0) the first 56 bits.

They are those of `hash64` of the package mmh3. Unlike `cleaning.key_hash`, this hash is stored in
files, so it never changes; another hash would need a new version of the files. It may decide that
two keys differ, never that they are equal.
"""

from __future__ import annotations

from typing import Final

import numba
import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.kernel_memory import PREFETCH_AHEAD, load_u64, prefetch

_C1: Final = np.uint64(0x87C37B91114253D5)
_C2: Final = np.uint64(0x4CF5AD432745937F)
_ADD_1: Final = np.uint64(0x52DCE729)
_ADD_2: Final = np.uint64(0x38495AB5)
_MIX_1: Final = np.uint64(0xFF51AFD7ED558CCD)
_MIX_2: Final = np.uint64(0xC4CEB9FE1A85EC53)
_FIVE: Final = np.uint64(5)
_BITS: Final = np.uint64(64)

HASH_BITS: Final = 56
"""Bits of a stored hash, the highest ones; the lowest byte is free for what belongs to the key."""

LOW_BYTE: Final = np.uint64(0xFF)


def key_hashes(
    body: NDArray[np.uint8], key_at: NDArray[np.int64], key_bytes: NDArray[np.int32]
) -> NDArray[np.uint64]:
    """Shape (n,): the hashes of the keys `body[at : at + bytes]`, their lowest byte 0.

    Both arrays have shape (n,).
    """
    hashes = np.empty(len(key_at), np.uint64)
    _hash_keys(body, key_at, key_bytes, hashes)
    return hashes


@numba.njit(cache=True, nogil=True)
def _hash_keys(
    body: np.ndarray, key_at: np.ndarray, key_bytes: np.ndarray, hashes: np.ndarray
) -> None:
    last = len(key_at) - 1
    for i in range(len(key_at)):
        prefetch(body, key_at[min(i + PREFETCH_AHEAD, last)])
        hashes[i] = _murmur3(body, key_at[i], key_bytes[i]) & ~LOW_BYTE


@numba.njit(cache=True, nogil=True)
def _murmur3(body: np.ndarray, at: int, length: int) -> np.uint64:
    h1, h2 = np.uint64(0), np.uint64(0)
    whole = length - (length & 15)
    for i in range(at, at + whole, 16):
        h1 = _rotated(h1 ^ _scrambled_1(load_u64(body, i)), 27) + h2
        h1 = h1 * _FIVE + _ADD_1
        h2 = _rotated(h2 ^ _scrambled_2(load_u64(body, i + 8)), 31) + h1
        h2 = h2 * _FIVE + _ADD_2
    if length - whole > 8:
        h2 ^= _scrambled_2(_tail(body, at + whole + 8, length - whole - 8))
    if length > whole:
        h1 ^= _scrambled_1(_tail(body, at + whole, min(8, length - whole)))
    h1 ^= np.uint64(length)
    h2 ^= np.uint64(length)
    h1 += h2
    h2 += h1
    return mixed(h1) + mixed(h2)


@numba.njit(cache=True, nogil=True, inline="always")
def _scrambled_1(word: np.uint64) -> np.uint64:
    return _rotated(word * _C1, 31) * _C2


@numba.njit(cache=True, nogil=True, inline="always")
def _scrambled_2(word: np.uint64) -> np.uint64:
    return _rotated(word * _C2, 33) * _C1


@numba.njit(cache=True, nogil=True, inline="always")
def _rotated(word: np.uint64, bits: int) -> np.uint64:
    return (word << np.uint64(bits)) | (word >> (_BITS - np.uint64(bits)))


@numba.njit(cache=True, nogil=True, inline="always")
def _tail(body: np.ndarray, at: int, length: int) -> np.uint64:
    """Up to eight bytes as a little-endian word."""
    word = np.uint64(0)
    for i in range(length):
        word |= np.uint64(body[at + i]) << np.uint64(8 * i)
    return word


@numba.njit(cache=True, nogil=True, inline="always")
def mixed(word: np.uint64) -> np.uint64:
    """A word whose bits all depend on all bits of another one (MurmurHash3 `fmix64`)."""
    word ^= word >> np.uint64(33)
    word *= _MIX_1
    word ^= word >> np.uint64(33)
    word *= _MIX_2
    return word ^ (word >> np.uint64(33))

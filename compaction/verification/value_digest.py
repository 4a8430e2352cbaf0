"""A 128-bit digest of a value's bytes, inside a numba kernel.

Two 64-bit hashes with different constants and steps run over the same words. Each step is a
bijection of its word, so values of the same length that differ in only one word of eight bytes
never share a digest. Any others share one with a probability of 2⁻¹²⁸. The digest detects corrupted
values, not forged ones. It is never stored.
"""

from __future__ import annotations

from typing import Final

import numba
import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.kernel_memory import load_u64

DIGEST_BYTES: Final = 16
"""The size of a digest: two hashes of eight bytes."""

_FIRST_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST_SEED: Final = np.uint64(0x243F6A8885A308D3)
_SECOND_MULTIPLIER: Final = np.uint64(0xC2B2AE3D27D4EB4F)
_SECOND_FACTOR: Final = np.uint64(0x87C37B91114253D5)
_SECOND_SEED: Final = np.uint64(0x13198A2E03707344)
_FINAL_MULTIPLIER: Final = np.uint64(0xFF51AFD7ED558CCD)


def digests(
    body: NDArray[np.uint8], value_at: NDArray[np.int64], value_bytes: NDArray[np.int32]
) -> NDArray[np.uint64]:
    """Shape (values, 2): the digests of `body[value_at : value_at + value_bytes]`.

    Zeros where `value_bytes` is −1: there is no value. Both arrays have shape (values,).
    """
    found = np.zeros((len(value_at), 2), np.uint64)
    _digest_all(body, value_at, value_bytes, found)
    return found


@numba.njit(cache=True, nogil=True)
def _digest_all(
    body: np.ndarray, value_at: np.ndarray, value_bytes: np.ndarray, found: np.ndarray
) -> None:
    for i in range(len(value_at)):
        if value_bytes[i] >= 0:
            found[i, 0], found[i, 1] = _digest(body, value_at[i], value_bytes[i])


@numba.njit(cache=True, nogil=True)
def _digest(body: np.ndarray, at: int, length: int) -> tuple[np.uint64, np.uint64]:
    first = _FIRST_SEED ^ np.uint64(length)
    second = _SECOND_SEED + np.uint64(length)
    whole = length - (length & 7)
    for i in range(0, whole, 8):
        word = load_u64(body, at + i)
        first, second = _first_step(first, word), _second_step(second, word)
    tail = np.uint64(0)
    for i in range(whole, length):
        tail = (tail << np.uint64(8)) | np.uint64(body[at + i])
    return _final(_first_step(first, tail)), _final(_second_step(second, tail))


@numba.njit(cache=True, nogil=True, inline="always")
def _first_step(state: np.uint64, word: np.uint64) -> np.uint64:
    state = (state ^ word) * _FIRST_MULTIPLIER
    return state ^ (state >> np.uint64(29))


@numba.njit(cache=True, nogil=True, inline="always")
def _second_step(state: np.uint64, word: np.uint64) -> np.uint64:
    state = state + word * _SECOND_FACTOR
    state = (state << np.uint64(31)) | (state >> np.uint64(33))
    return state * _SECOND_MULTIPLIER


@numba.njit(cache=True, nogil=True, inline="always")
def _final(state: np.uint64) -> np.uint64:
    state = (state ^ (state >> np.uint64(33))) * _FINAL_MULTIPLIER
    return state ^ (state >> np.uint64(33))

"""A Bloom filter over the keys of a segment (KIP-1272).

It may claim a key that the segment lacks, at the rate that it was made for, and never denies one
that the segment has. The bits of a key are `word + i * step` modulo the filter's size,
where word and step depend on its hash (Kirsch and Mitzenmacher, 2006).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.skipping.key_hashes import LOW_BYTE, mixed


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomFilter:
    """A filter over the keys of one segment."""

    words: NDArray[np.uint64]
    """Shape (size / 64,): the bits, the lowest of each word first."""
    bits_per_key: int
    """How many bits are set for a key."""

    def may_hold(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Shape (n,), as the hashes: whether the segment may have the key; False: it does not."""
        found = np.empty(len(hashes), np.bool_)
        _look_up(self.words, self.bits_per_key, hashes, found)
        return found


def bloom_filter(hashes: NDArray[np.uint64], fpp: float) -> BloomFilter:
    """The filter of keys with these hashes, whose lowest bytes are ignored.

    `fpp` (above 0, below 1): how often it claims a key that the segment lacks. The size is the
    smallest for that rate, in whole words: n · ln(1 / fpp) / ln(2)² bits.
    """
    bits = max(1.0, len(hashes) * -math.log(fpp) / math.log(2) ** 2)
    words = np.zeros(math.ceil(bits / 64), np.uint64)
    bits_per_key = max(1, round(-math.log2(fpp)))
    _fill(words, bits_per_key, hashes)
    return BloomFilter(words=words, bits_per_key=bits_per_key)


@numba.njit(cache=True, nogil=True)
def _fill(words: np.ndarray, bits_per_key: int, hashes: np.ndarray) -> None:
    size = np.uint64(64) * np.uint64(len(words))
    for i in range(len(hashes)):
        word = mixed(hashes[i] & ~LOW_BYTE)
        step = mixed(word) | np.uint64(1)
        for _ in range(bits_per_key):
            bit = word % size
            words[bit >> np.uint64(6)] |= np.uint64(1) << (bit & np.uint64(63))
            word += step


@numba.njit(cache=True, nogil=True)
def _look_up(
    words: np.ndarray, bits_per_key: int, hashes: np.ndarray, found: np.ndarray
) -> None:
    size = np.uint64(64) * np.uint64(len(words))
    for i in range(len(hashes)):
        word = mixed(hashes[i] & ~LOW_BYTE)
        step = mixed(word) | np.uint64(1)
        found[i] = True
        for _ in range(bits_per_key):
            bit = word % size
            if not (words[bit >> np.uint64(6)] >> (bit & np.uint64(63))) & np.uint64(1):
                found[i] = False
                break
            word += step

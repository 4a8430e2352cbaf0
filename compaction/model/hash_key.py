"""The secret with which a run hashes record keys; see `cleaning.key_hash`.

A module of its own, without numba, which would slow the start of verbs that read no segment.
"""

from __future__ import annotations

import hashlib
import struct
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

import numpy as np

Words: TypeAlias = tuple[np.uint64, ...]
"""`WORDS` of them, as kernels take them: the two words of the `HashKey`, then the secret numbers of
128 bits by which the words of a record key are multiplied, the high half of each first."""

MULTILINEAR_BYTES_MAX: Final = 128
"""Up to this length, each 8 bytes of a record key have a secret number of their own."""

WORDS: Final = 2 + 2 * (2 + MULTILINEAR_BYTES_MAX // 8)
"""The `HashKey`, and the halves of a number that is added, of one for the length, and of those for
the key's bytes."""


class HashKey(NamedTuple):
    """128 random bits; every worker of a run uses the same, and it is never stored."""

    first: int
    """From 0 to 2**64 - 1."""
    second: int
    """From 0 to 2**64 - 1."""

    @property
    def words(self) -> Words:
        """As kernels take it."""
        return _words(self)


@lru_cache(maxsize=4)
def _words(key: HashKey) -> Words:
    """Expanded by SHAKE128: without the key, its output is as good as random."""
    expanded = hashlib.shake_128(struct.pack("<2Q", *key)).digest(8 * (WORDS - len(key)))
    numbers = np.frombuffer(expanded, "<u8").astype(np.uint64)
    return np.uint64(key.first), np.uint64(key.second), *numbers

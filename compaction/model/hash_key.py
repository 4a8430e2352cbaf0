"""The secret with which a run hashes record keys; see `cleaning.key_hash`.

A module of its own, without numba, which would slow the start of verbs that read no segment.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

Words: TypeAlias = tuple[np.uint64, np.uint64]


class HashKey(NamedTuple):
    """128 random bits; every worker of a run uses the same, and it is never stored."""

    first: int
    """From 0 to 2**64 - 1."""
    second: int
    """From 0 to 2**64 - 1."""

    @property
    def words(self) -> Words:
        """As kernels take it."""
        return np.uint64(self.first), np.uint64(self.second)

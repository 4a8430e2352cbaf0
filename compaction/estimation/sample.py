"""What was read of a partition: records in windows, and which of them come back in the sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

KEPT_SHARES: Final = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
"""The shares of records for which the stored bytes of a rewrite are measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledWindow:
    """Whole batches of a log that follow each other. Arrays have shape (records,)."""

    start_offset: int
    end_offset: int
    """Exclusive."""
    stored_bytes: int
    offset: NDArray[np.int64]
    key_hash: NDArray[np.uint64]
    """As of `skipping.key_hashes`; 0 without a key."""
    record_bytes: NDArray[np.float64]
    """The share of each record in the stored bytes of its batch."""
    goes: NDArray[np.bool_]
    """Whether it goes whatever its key: aborted, without a key, or an expired tombstone."""
    may_compete: NDArray[np.bool_]
    """Whether it may be superseded, and may supersede: a record with a key that was not aborted."""
    rewritten_bytes: tuple[int, ...] = ()
    """Stored bytes if `KEPT_SHARES` of the records were kept, here and there; empty: unknown."""


@dataclass(frozen=True, eq=False)
class Sample:
    """All windows of a partition, in offset order and disjoint, at least one."""

    windows: tuple[SampledWindow, ...]
    competes_from: int
    """Records from here on may supersede others."""

    def __post_init__(self) -> None:
        pairs = zip(self.windows, self.windows[1:], strict=False)
        if any(after.start_offset < before.end_offset for before, after in pairs):
            raise ValueError("the windows of a sample share offsets, or are out of order")

    def joined(self, name: str) -> NDArray[Any]:
        """The column of that name, of all windows."""
        column: NDArray[Any] = np.concatenate([getattr(one, name) for one in self.windows])
        return column

    @cached_property
    def window(self) -> NDArray[np.int64]:
        """Shape (records,): the number of a record's window."""
        counts = [len(window.offset) for window in self.windows]
        return np.repeat(np.arange(len(counts)), counts)

    @cached_property
    def spans(self) -> NDArray[np.int64]:
        """Shape (windows, 2): the first offset of each window, and the first one after it."""
        return np.array([(one.start_offset, one.end_offset) for one in self.windows], np.int64)

    @cached_property
    def competes(self) -> NDArray[np.bool_]:
        """Shape (windows,): whether its records may supersede others."""
        found: NDArray[np.bool_] = self.spans[:, 1] > self.competes_from
        return found

    @cached_property
    def stored_bytes(self) -> NDArray[np.float64]:
        """Shape (windows,): bytes of each window in the log."""
        return np.array([one.stored_bytes for one in self.windows], np.float64)

    def per_window(self, weights: NDArray[Any]) -> NDArray[np.float64]:
        """Shape (windows,): the sum of the weights of a window's records."""
        return np.bincount(self.window, weights, len(self.windows)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Returns:
    """Which records of a sample come back in it. Arrays have shape (records,)."""

    next_record: NDArray[np.int64]
    """The number of the next record of its key that may supersede it; −1: the sample has none."""
    comes_again: NDArray[np.bool_]
    """Whether a second one follows that one."""

    @property
    def is_hit(self) -> NDArray[np.bool_]:
        """Whether the sample has a record that supersedes it."""
        found: NDArray[np.bool_] = self.next_record >= 0
        return found


def returns_of(sample: Sample) -> Returns:
    """Find the next records of each key."""
    offset, key_hash = sample.joined("offset"), sample.joined("key_hash")
    rows = np.flatnonzero(sample.joined("may_compete"))
    order = rows[np.lexsort((offset[rows], key_hash[rows]))]
    hashes, count = key_hash[order], len(order)
    competes = offset[order] >= sample.competes_from
    places = np.arange(count)
    # The first place at or after each one that competes; behind the last one there is none.
    following = np.full(count + 2, count)
    following[:count] = np.where(competes, places, count)
    following = np.minimum.accumulate(following[::-1])[::-1]
    padded = np.append(hashes, np.uint64(0))
    first = following[places + 1]
    has_first = (first < count) & (padded[first] == hashes)
    second = following[first + 1]
    has_second = (second < count) & (padded[second] == hashes)
    next_record = np.full(len(offset), -1)
    next_record[order[has_first]] = order[first[has_first]]
    comes_again = np.zeros(len(offset), np.bool_)
    comes_again[order[has_second]] = True
    return Returns(next_record=next_record, comes_again=comes_again)


def kept_curve(windows: Sequence[SampledWindow]) -> NDArray[np.float64]:
    """Shape (KEPT_SHARES,): which share of stored bytes such a share of the records takes."""
    measured = [window for window in windows if window.rewritten_bytes]
    if not measured:
        return np.array(KEPT_SHARES)
    stored = sum(window.stored_bytes for window in measured)
    rewritten = np.array([window.rewritten_bytes for window in measured], np.float64)
    curve: NDArray[np.float64] = rewritten.sum(axis=0) / stored
    return curve

"""The key index of a segment: which records a set of keys would supersede, and their bytes.

It holds the sorted hashes of all records, cut off after some bits, and the size of each record,
rounded. A key of the segment is always found. A key that it lacks is found with probability
`records / 2**bits` at most. Positions of records are not stored: whether and how much a rewrite
saves follows from the sizes.

    hash      |  slice  |  rest  |   cut off   |       slices: one or two records each
    stored      counts     rests                       per record: 1 to 4 bytes and a rounded size
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.skipping.key_hashes import HASH_BITS, LOW_BYTE

REST_BYTES_MAX: Final = 4
"""With 4 bytes, at most one in 4 billion keys that the segment lacks is found by mistake."""

SHARE_MAX: Final = 0.02
"""The share of a segment's bytes that its Bloom filter and its key index may have."""

_OTHER_BYTES: Final = 0.5
"""Bytes per record of the slices' counts and the sizes, compressed; more if sizes vary a lot."""

_SIZE_STEPS: Final = 8
"""Rounded sizes per doubling: a size is at most 4.5 % off."""

SIZE_ERROR: Final = 2 ** (0.5 / _SIZE_STEPS)
"""By which factor a rounded size may be too small."""


class Matches(NamedTuple):
    """The records of a segment that have one of some keys."""

    keys: int
    """How many of the keys were found."""
    records: int
    record_bytes: int
    """Uncompressed bytes of these records, as `Counts` counts them; at most 4.5 % off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyIndex:
    """The index of one segment."""

    counts: NDArray[np.unsignedinteger[Any]]
    """Shape (slices,), in the smallest type: how many records have a hash in each of the equal
    slices of the range."""
    rests: NDArray[np.uint8]
    """Shape (records, rest bytes): the bits of each hash after its slice, big-endian, sorted."""
    sizes: NDArray[np.uint8]
    """Shape (records,): the rounded size of each record."""

    def matches(self, hashes: NDArray[np.uint64]) -> Matches:
        """The records whose key has one of these hashes, of shape (n,)."""
        entries = self._entries()
        wanted = np.unique(hashes >> np.uint64(64 - self.bits))
        starts = np.searchsorted(entries, wanted, "left")
        ends = np.searchsorted(entries, wanted, "right")
        edges = np.zeros(len(entries) + 1, np.int64)
        np.add.at(edges, starts, 1)
        np.add.at(edges, ends, -1)
        is_found = np.cumsum(edges[:-1]) > 0
        record_bytes = np.exp2(self.sizes[is_found] / _SIZE_STEPS).sum()
        return Matches(
            keys=int(np.count_nonzero(ends > starts)),
            records=int(np.count_nonzero(is_found)),
            record_bytes=round(float(record_bytes)),
        )

    @property
    def hashes(self) -> NDArray[np.uint64]:
        """Shape (records,): the stored bits of each hash, ascending, `bits` in number."""
        return self._entries()

    @property
    def record_bytes(self) -> NDArray[np.float64]:
        """Shape (records,): the rounded size of each record, in the same order."""
        sizes: NDArray[np.float64] = np.exp2(self.sizes / _SIZE_STEPS)
        return sizes

    @property
    def bits(self) -> int:
        """How many bits of each hash are stored."""
        slice_bits: int = (len(self.counts) - 1).bit_length()
        rest_bytes: int = self.rests.shape[1]
        return slice_bits + 8 * rest_bytes

    def _entries(self) -> NDArray[np.uint64]:
        """Shape (records,): the stored bits of each hash, ascending."""
        slices = np.arange(len(self.counts), dtype=np.uint64)
        entries: NDArray[np.uint64] = np.repeat(slices, self.counts)
        for column in self.rests.T:
            entries = (entries << np.uint64(8)) | column.astype(np.uint64)
        return entries


def entries_of(
    hashes: NDArray[np.uint64], record_bytes: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Shape (records,): hash and rounded size of records in one word each, for `key_index`.

    Both arrays have shape (records,). Sorting such words takes a tenth of the time of sorting both
    arrays by an index.
    """
    sizes = np.rint(np.log2(np.maximum(record_bytes, 1)) * _SIZE_STEPS).astype(np.uint64)
    entries: NDArray[np.uint64] = (hashes & ~LOW_BYTE) | np.minimum(sizes, LOW_BYTE)
    return entries


def repeats_a_key(entries: NDArray[np.uint64]) -> bool:
    """Whether two of these records have the same key, by its hash; `entries` as of `entries_of`."""
    hashes = np.sort(entries & ~LOW_BYTE)
    return bool((hashes[1:] == hashes[:-1]).any())


def rest_bytes_for(segment_bytes: int, records: int, filter_bytes: int) -> int:
    """How many bytes of each hash follow its slice, so that index and filter are a small share.

    As many as `SHARE_MAX` of the segment's stored bytes allows, 1 at least.
    """
    budget_bytes = SHARE_MAX * segment_bytes - filter_bytes
    fits = math.floor(budget_bytes / max(1, records) - _OTHER_BYTES)
    return min(max(fits, 1), REST_BYTES_MAX)


def key_index(entries: NDArray[np.uint64], rest_bytes: int) -> KeyIndex:
    """The index of records with these entries, which are sorted in place.

    `rest_bytes`: 1 to `REST_BYTES_MAX` for each record.
    """
    slice_bits = min(max(2, len(entries)).bit_length() - 1, HASH_BITS - 8 * REST_BYTES_MAX)
    entries.sort()
    rest = entries >> np.uint64(64 - slice_bits - 8 * rest_bytes)
    counts = np.bincount(
        (entries >> np.uint64(64 - slice_bits)).astype(np.int64), minlength=2**slice_bits
    )
    # Column by column: a matrix of words would take eight times as much.
    rests = np.empty((len(entries), rest_bytes), np.uint8)
    for column in range(rest_bytes):
        rests[:, column] = rest >> np.uint64(8 * (rest_bytes - 1 - column))
    return KeyIndex(
        counts=counts.astype(np.min_scalar_type(int(counts.max()))),
        rests=rests,
        sizes=(entries & LOW_BYTE).astype(np.uint8),
    )

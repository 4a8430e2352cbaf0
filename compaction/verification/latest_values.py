"""The latest value of every key, as columns: what `verify` compares before and after.

The latest record of a key is the one that the compaction strategy keeps: the last one, or, if
versions decide (KIP-280), the last of those with the highest version. A value is represented by its
length and a digest, so that the values need not be moved. The same step runs three times: it finds
the latest of each key in a window of a segment, then in the segment, then in all segments of a
bucket.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.key_blocks import PARTS_AT_LEAST, arrays_in
from tierfold.compaction.cleaning.key_columns import (
    NO_VERSIONS,
    KeyColumns,
    PartedKeys,
    Versions,
    gathered,
    hashed,
    joined,
    ordered_by_part,
    taken,
)
from tierfold.compaction.cleaning.offset_map import superseded_in_segment
from tierfold.compaction.model.hash_key import HashKey
from tierfold.compaction.verification.value_digest import digests

NO_VALUE: Final = -1
"""In `LatestValues.value_bytes`: a tombstone."""

HEADER: Final = struct.Struct("<qq?2Q")


class Keys(NamedTuple):
    """The positions of the keys of some records in a body, and what they are hashed with."""

    at: NDArray[np.int64]
    """Shape (records,)."""
    size_bytes: NDArray[np.int32]
    """Shape (records,); −1: null."""
    hash_key: HashKey


class Values(NamedTuple):
    """The positions of the values of some records in a body."""

    at: NDArray[np.int64]
    """Shape (records,)."""
    size_bytes: NDArray[np.int32]
    """Shape (records,); −1: null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestValues:
    """The latest record of each key; `n` keys, one entry each."""

    keys: KeyColumns
    """`ordinal` is the number of the entry; there are versions if they decide."""
    offset: NDArray[np.int64]
    """Shape (n,): the record's offset."""
    value_bytes: NDArray[np.int32]
    """Shape (n,): the value's length, or `NO_VALUE`."""
    digest: NDArray[np.uint64]
    """Shape (n, 2): of the value; zeros for a tombstone."""

    def __len__(self) -> int:
        return len(self.keys)

    def taken(self, kept: KeyColumns) -> LatestValues:
        """The entries with the keys `kept`, whose ordinals are the entries' numbers."""
        rows = kept.ordinal
        return LatestValues(
            keys=numbered(kept),
            offset=self.offset[rows],
            value_bytes=self.value_bytes[rows],
            digest=self.digest[rows],
        )


_NONE: Final = LatestValues(
    keys=joined([]),
    offset=np.empty(0, np.int64),
    value_bytes=np.empty(0, np.int32),
    digest=np.empty((0, 2), np.uint64),
)


def latest_in_window(
    body: NDArray[np.uint8],
    keys: Keys,
    values: Values,
    offset: NDArray[np.int64],
    chosen: NDArray[np.bool_],
    versions: Versions | None = None,
) -> LatestValues:
    """The latest of each key among the chosen records, which are in log order and have a key.

    `offset` and `chosen` have shape (records,); keys and values are in `body`. `versions` are those
    of the chosen records; None: offsets decide.
    """
    found = gathered(
        body, keys.at, keys.size_bytes, chosen, PARTS_AT_LEAST, keys.hash_key
    )
    if versions is not None:
        nth = np.cumsum(chosen) - 1
        versions = versions[nth[found.columns.ordinal]]
    kept = _latest_of_each(replace(found, columns=replace(found.columns, versions=versions)))
    rows = kept.ordinal
    return LatestValues(
        keys=numbered(kept),
        offset=offset[rows],
        value_bytes=values.size_bytes[rows],
        digest=digests(body, values.at[rows], values.size_bytes[rows]),
    )


def latest_of(pieces: Sequence[LatestValues]) -> LatestValues:
    """The latest of each key over pieces in log order; all have versions, or none has."""
    every = [_NONE, *pieces]
    together = LatestValues(
        keys=numbered(joined([piece.keys for piece in pieces])),
        offset=np.concatenate([piece.offset for piece in every]),
        value_bytes=np.concatenate([piece.value_bytes for piece in every]),
        digest=np.concatenate([piece.digest for piece in every]),
    )
    return together.taken(_latest_of_each(ordered_by_part(together.keys, PARTS_AT_LEAST)))


def in_buckets(latest: LatestValues, buckets: int) -> Iterator[tuple[int, LatestValues]]:
    """The entries of each bucket that has any; a key is always in the same bucket."""
    ordered = ordered_by_part(latest.keys, buckets)
    key_at, starts = ordered.columns.key_at, ordered.starts[0]
    for bucket in np.flatnonzero(np.diff(starts)):
        rows = np.arange(starts[bucket], starts[bucket + 1])
        yield int(bucket), latest.taken(taken(ordered.columns, rows, key_at))


def serialize_latest(latest: LatestValues, hash_key: HashKey) -> bytes:
    """The entries as bytes for a shuffle; `hash_key` is the run's.

    Little-endian: int64 entries, int64 key bytes in all, bool whether there are versions, two
    uint64 of the hash's key; then the columns offset (int64), digest (two uint64), version (int64),
    key length (int32), value length (int32), whether the version is known (bool), and the keys.
    """
    keys, versions = latest.keys, latest.keys.versions or NO_VERSIONS
    by_key = (latest.offset, latest.digest, versions.value)
    rest = (keys.key_bytes, latest.value_bytes, versions.is_known, keys.keys)
    header = HEADER.pack(len(keys), len(keys.keys), keys.versions is not None, *hash_key)
    return b"".join((header, *(array.tobytes() for array in (*by_key, *rest))))


def deserialize_latest(data: bytes) -> LatestValues:
    """The entries that `serialize_latest` made; arrays are views of `data` where possible."""
    entries, key_bytes, has_versions, *hash_key = HEADER.unpack_from(data)
    offset, digest, version, key_lengths, value_bytes, is_known, body = arrays_in(
        data,
        HEADER.size,
        (np.int64, entries),
        (np.uint64, 2 * entries),
        (np.int64, entries * has_versions),
        (np.int32, entries),
        (np.int32, entries),
        (np.bool_, entries * has_versions),
        (np.uint8, key_bytes),
    )
    keys = hashed(
        ordinal=np.arange(entries, dtype=np.uint32),
        key_bytes=key_lengths,
        keys=body,
        hash_key=HashKey(*hash_key),
        versions=Versions(value=version, is_known=is_known) if has_versions else None,
    )
    return LatestValues(
        keys=keys, offset=offset, value_bytes=value_bytes, digest=digest.reshape(-1, 2)
    )


def _latest_of_each(keys: PartedKeys) -> KeyColumns:
    """The entries that no other entry of their key supersedes, ordered by part."""
    rows, _ = keys.rows_by_part(~superseded_in_segment(keys, 0).superseded)
    return taken(keys.columns, rows, keys.columns.key_at)


def numbered(columns: KeyColumns) -> KeyColumns:
    """The entries, each with its own number as its ordinal."""
    return replace(columns, ordinal=np.arange(len(columns), dtype=np.uint32))

"""The latest value of every key, as columns: what `verify` compares before and after.

The latest record of a key is the one that the compaction strategy keeps: the last one, or, where
versions decide (KIP-280), the last of those with the highest version. A length and a digest stand
for a value, so that values stay where they were read. They are built in equal steps: of entries
in log order the latest of each key stays, first in a window of a segment, then in the segment, then
in all segments of a bucket.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.key_blocks import PARTS_AT_LEAST
from tierfold.compaction.cleaning.key_columns import (
    KeyColumns,
    Versions,
    gathered,
    joined,
    ordered_by_part,
    taken,
)
from tierfold.compaction.cleaning.offset_map import superseded_in_segment
from tierfold.compaction.verification.value_digest import digests

NO_VALUE: Final = -1
"""In `LatestValues.value_bytes`: a tombstone."""

HEADER: Final = struct.Struct("<qq?")


class Fields(NamedTuple):
    """The keys, or the values, of some records: where they lie in a body."""

    at: NDArray[np.int64]
    """Shape (records,)."""
    size_bytes: NDArray[np.int32]
    """Shape (records,); −1: null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestValues:
    """The latest record of each key; `n` keys, one entry each."""

    keys: KeyColumns
    """`ordinal` is the number of the entry; with versions where they decide."""
    offset: NDArray[np.int64]
    """Shape (n,): the record's offset."""
    value_bytes: NDArray[np.int32]
    """Shape (n,): the value's length, or `NO_VALUE`."""
    digest: NDArray[np.uint64]
    """Shape (n, 2): of the value; zeros for a tombstone."""

    def __len__(self) -> int:
        return len(self.keys)


_NONE: Final = LatestValues(
    keys=joined([]),
    offset=np.empty(0, np.int64),
    value_bytes=np.empty(0, np.int32),
    digest=np.empty((0, 2), np.uint64),
)


def latest_in_window(
    body: NDArray[np.uint8],
    keys: Fields,
    values: Fields,
    offset: NDArray[np.int64],
    chosen: NDArray[np.bool_],
    versions: Versions | None = None,
) -> LatestValues:
    """The latest of each key among the chosen records, which are in log order and have a key.

    `offset` and `chosen` have shape (records,); keys and values lie in `body`. `versions` are those
    of the chosen records; None: offsets decide.
    """
    columns = gathered(body, keys.at, keys.size_bytes, chosen)
    kept = _latest_of_each(replace(columns, versions=versions))
    rows = kept.ordinal
    return LatestValues(
        keys=numbered(kept),
        offset=offset[rows],
        value_bytes=values.size_bytes[rows],
        digest=digests(body, values.at[rows], values.size_bytes[rows]),
    )


def latest_of(pieces: Sequence[LatestValues]) -> LatestValues:
    """The latest of each key over pieces in log order; all have versions, or none has."""
    entries = numbered(joined([piece.keys for piece in pieces]))
    kept = _latest_of_each(entries)
    rows = kept.ordinal
    return LatestValues(
        keys=numbered(kept),
        offset=np.concatenate([_NONE.offset, *(piece.offset for piece in pieces)])[rows],
        value_bytes=np.concatenate([_NONE.value_bytes, *(piece.value_bytes for piece in pieces)])[
            rows
        ],
        digest=np.concatenate([_NONE.digest, *(piece.digest for piece in pieces)])[rows],
    )


def in_buckets(latest: LatestValues, buckets: int) -> Iterator[tuple[int, LatestValues]]:
    """The entries of each bucket that has any; a key lies in the same bucket everywhere."""
    ordered, starts = ordered_by_part(latest.keys, buckets)
    for bucket in np.flatnonzero(np.diff(starts)):
        kept = taken(ordered, np.arange(starts[bucket], starts[bucket + 1]))
        rows = kept.ordinal
        yield (
            int(bucket),
            LatestValues(
                keys=numbered(kept),
                offset=latest.offset[rows],
                value_bytes=latest.value_bytes[rows],
                digest=latest.digest[rows],
            ),
        )


def serialize_latest(latest: LatestValues) -> bytes:
    """The entries as bytes for a shuffle.

    Little-endian: int64 entries, int64 key bytes in all, bool whether there are versions; then the
    columns key hash (uint64), offset (int64), digest (two uint64), version (int64), key length
    (int32), value length (int32), whether the version is known (bool), and the keys.
    """
    keys, versions = latest.keys, latest.keys.versions
    return b"".join(
        (
            HEADER.pack(len(keys), len(keys.keys), versions is not None),
            keys.hash.tobytes(),
            latest.offset.tobytes(),
            latest.digest.tobytes(),
            b"" if versions is None else versions.value.tobytes(),
            keys.key_bytes.tobytes(),
            latest.value_bytes.tobytes(),
            b"" if versions is None else versions.is_known.tobytes(),
            keys.keys.tobytes(),
        )
    )


def deserialize_latest(data: bytes) -> LatestValues:
    """What `serialize_latest` made; views of `data`, but for the entries' numbers."""
    entries, key_bytes, has_versions = HEADER.unpack_from(data)
    at = HEADER.size
    hash_ = np.frombuffer(data, np.uint64, entries, at)
    at += hash_.nbytes
    offset = np.frombuffer(data, np.int64, entries, at)
    at += offset.nbytes
    digest = np.frombuffer(data, np.uint64, 2 * entries, at).reshape(-1, 2)
    at += digest.nbytes
    version = np.frombuffer(data, np.int64, entries * has_versions, at)
    at += version.nbytes
    key_lengths = np.frombuffer(data, np.int32, entries, at)
    at += key_lengths.nbytes
    value_bytes = np.frombuffer(data, np.int32, entries, at)
    at += value_bytes.nbytes
    is_known = np.frombuffer(data, np.bool_, entries * has_versions, at)
    at += is_known.nbytes
    keys = KeyColumns(
        hash=hash_,
        ordinal=np.arange(entries, dtype=np.uint32),
        key_bytes=key_lengths,
        keys=np.frombuffer(data, np.uint8, key_bytes, at),
        versions=Versions(value=version, is_known=is_known) if has_versions else None,
    )
    return LatestValues(keys=keys, offset=offset, value_bytes=value_bytes, digest=digest)


def _latest_of_each(columns: KeyColumns) -> KeyColumns:
    """The entries that no other of their key supersedes, ordered by part."""
    ordered, starts = ordered_by_part(columns, PARTS_AT_LEAST)
    return taken(ordered, np.flatnonzero(~superseded_in_segment(ordered, starts, 0).superseded))


def numbered(columns: KeyColumns) -> KeyColumns:
    """The same entries, each with its own number as its ordinal."""
    return replace(columns, ordinal=np.arange(len(columns), dtype=np.uint32))

"""What a scan reports of a segment's batches, so that the rewrite need not read all of them.

A batch of which every record is superseded is dropped, whatever else is in it. The rewrite leaves
it out: it neither fetches it from a bucket nor checks and decodes it again.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.key_blocks import arrays_in
from tierfold.compaction.cleaning.record_retention import RoundRules

HEADER: Final = struct.Struct("<qqq")

ENTRY_BYTES: Final = 16
"""Of one batch, as `serialize_outline` writes it."""

BYTES_ALWAYS: Final = 2**14
"""The size that any segment's outline may have."""

SHARE_MAX: Final = 0.02
"""The share of the log's bytes that a larger outline may have. It is shuffled, and for batches
below 800 bytes it would soon be as large as the keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOutline:
    """All batches of a segment that was scanned, in log order.

    The arrays have shape (batches,).
    """

    size_bytes: NDArray[np.int32]
    """Stored bytes, end to end from the log's first batch on."""
    records: NDArray[np.int32]
    last_offset: NDArray[np.int64]
    first_offset: int
    """Of the first batch; -1: there is none."""
    record_bytes: int
    """Uncompressed bytes of all records, as `Counts` counts them."""
    has_legacy: bool = False
    """Whether a batch has magic 0 or 1; the rewrite converts these in runs of neighbours."""

    def __len__(self) -> int:
        return len(self.size_bytes)


_NO_BATCHES: Final = BatchOutline(
    size_bytes=np.empty(0, np.int32),
    records=np.empty(0, np.int32),
    last_offset=np.empty(0, np.int64),
    first_offset=-1,
    record_bytes=0,
)


def joined_outlines(pieces: Sequence[BatchOutline]) -> BatchOutline:
    """The outline of a log, of which these are stretches in order; none: it has no batch."""
    if not pieces:
        return _NO_BATCHES
    return BatchOutline(
        size_bytes=np.concatenate([piece.size_bytes for piece in pieces]),
        records=np.concatenate([piece.records for piece in pieces]),
        last_offset=np.concatenate([piece.last_offset for piece in pieces]),
        first_offset=pieces[0].first_offset,
        record_bytes=sum(piece.record_bytes for piece in pieces),
        has_legacy=any(piece.has_legacy for piece in pieces),
    )


def is_worth_sending(outline: BatchOutline, log_bytes: int) -> bool:
    """Whether the rewrite can use the outline, and it is small beside a log of so many bytes."""
    is_small = ENTRY_BYTES * len(outline) <= max(BYTES_ALWAYS, SHARE_MAX * log_bytes)
    return bool(len(outline)) and is_small and not outline.has_legacy


def surely_dropped(
    outline: BatchOutline, superseded: NDArray[np.bool_], rules: RoundRules
) -> NDArray[np.bool_]:
    """Shape (batches,): batches that `decide_retention` drops, as the offset map alone shows.

    They hold records, all of them superseded, and neither end the remote range nor are the last
    data of a producer (`must_stay`). `superseded` has shape (records,), and may be longer.

    Raises ValueError if it is shorter, which would be a bug.
    """
    ends = np.cumsum(outline.records, dtype=np.int64)
    records = int(ends[-1])
    if records > len(superseded):
        raise ValueError(f"{records} records were scanned, and {len(superseded)} have bits")
    holds = np.flatnonzero(outline.records)
    goes = np.zeros(len(outline), np.bool_)
    first = (ends - outline.records)[holds]
    goes[holds] = np.logical_and.reduceat(superseded[:records], first)
    may_stay = np.isin(outline.last_offset, rules.last_data_offsets[:, 1])
    may_stay |= outline.last_offset + 1 == rules.remote_end
    return np.asarray(goes & ~may_stay, np.bool_)


def serialize_outline(outline: BatchOutline) -> bytes:
    """The outline as bytes for a shuffle, little-endian."""
    header = HEADER.pack(len(outline), outline.first_offset, outline.record_bytes)
    arrays = (outline.last_offset, outline.size_bytes, outline.records)
    return b"".join((header, *(array.tobytes() for array in arrays)))


def deserialize_outline(data: bytes) -> BatchOutline:
    """The outline that `serialize_outline` made; its arrays are views of `data`."""
    batches, first_offset, record_bytes = HEADER.unpack_from(data)
    last_offset, size_bytes, records = arrays_in(
        data, HEADER.size, (np.int64, batches), (np.int32, batches), (np.int32, batches)
    )
    return BatchOutline(
        size_bytes=size_bytes,
        records=records,
        last_offset=last_offset,
        first_offset=first_offset,
        record_bytes=record_bytes,
    )

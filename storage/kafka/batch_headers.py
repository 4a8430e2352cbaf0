"""The headers of all batches of a segment, as columns.

`batch_lengths` walks the log, a kernel fills the columns, and then every batch's checksum is
compared, here or as its records are decoded: no batch is trusted before. The layout is in
`storage.kafka.batch_layout`. Of a compressed legacy wrapper only the last offset is known here, so
that is its `base_offset`, too; `storage.kafka.legacy_batches` reads the true one.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.record_retention import is_emptied
from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.units import (
    BATCH_HEADER_BYTES,
    NO_HORIZON,
    NO_PRODUCER_ID,
    NO_TIMESTAMP_MS,
)
from tierfold.storage.kafka.batch_layout import (
    CODEC_BITS,
    CONTROL_BIT,
    HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    NO_EPOCH,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    corrupt_batch,
    disordered_batch,
    unknown_batch,
)
from tierfold.storage.kafka.batch_lengths import batch_starts, have_sizes
from tierfold.storage.kafka.checksums import checksums
from tierfold.storage.kafka.columns import empty_columns
from tierfold.storage.kafka.wire import as_kernel_input, be_int, be_word, kernel

UNKNOWN_COUNT: Final = -1
"""In `BatchHeads.count`: a compressed legacy wrapper does not store its record count."""

NO_OFFSET: Final = -1
"""Of the batch before the first one of a log: every offset is above it."""

RECORD_BYTES_MIN: Final = 7
"""Length, attributes, two deltas, null key, null value, no headers: one byte each."""

_OK, _CODEC, _ORDER, _DELTA, _COUNT, _CROWDED = range(6)
_CORRUPTIONS: Final = {
    _CODEC: "the batch at byte {at} has the unknown compression codec {found}",
    _ORDER: "the batch at byte {at} is out of order: offset {found} was there before it",
    _DELTA: "the batch at byte {at} has last offset delta {found}",
    _COUNT: "the batch at byte {at} claims {found} records",
    _CROWDED: "the batch at byte {at} claims {found} records, more than its bytes can hold",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHeads:
    """One entry per batch, in log order; every array has the same length."""

    position: NDArray[np.int64]
    """Byte position of the batch in the log."""
    size_bytes: NDArray[np.int64]
    """The whole batch, its first twelve bytes included."""
    base_offset: NDArray[np.int64]
    last_offset: NDArray[np.int64]
    """Inclusive; above the last record's where compaction removed that."""
    magic: NDArray[np.int8]
    attributes: NDArray[np.int16]
    leader_epoch: NDArray[np.int32]
    crc: NDArray[np.uint32]
    base_timestamp_ms: NDArray[np.int64]
    """The delete horizon where `has_delete_horizon`."""
    max_timestamp_ms: NDArray[np.int64]
    producer_id: NDArray[np.int64]
    producer_epoch: NDArray[np.int16]
    base_sequence: NDArray[np.int32]
    count: NDArray[np.int32]
    """Records; `UNKNOWN_COUNT` for a compressed legacy wrapper."""

    def __len__(self) -> int:
        return len(self.position)

    @property
    def records_max_timestamp_ms(self) -> int:
        """The largest timestamp of all records; −1: there is none. Empty batches do not count."""
        return int(self.max_timestamp_ms[self.count != 0].max(initial=NO_TIMESTAMP_MS))

    @property
    def codec(self) -> NDArray[np.int8]:
        """A `storage.kafka.compression.Codec` per batch."""
        return (self.attributes & CODEC_BITS).astype(np.int8)

    @property
    def is_legacy(self) -> NDArray[np.bool_]:
        """Magic 0 or 1."""
        return self.magic < 2

    @property
    def is_log_append_time(self) -> NDArray[np.bool_]:
        """The broker set the timestamps: every record has the batch's max timestamp (KIP-32)."""
        return self._flag(LOG_APPEND_TIME_BIT) & (self.magic >= 1)

    @property
    def is_transactional(self) -> NDArray[np.bool_]:
        """Part of a transaction, its marker included (KIP-98)."""
        return self._flag(TRANSACTIONAL_BIT) & ~self.is_legacy

    @property
    def is_control(self) -> NDArray[np.bool_]:
        """Holds a control record, which no consumer sees (KIP-98)."""
        return self._flag(CONTROL_BIT) & ~self.is_legacy

    @property
    def has_delete_horizon(self) -> NDArray[np.bool_]:
        """A cleaner set a delete horizon (KIP-534)."""
        return self._flag(HORIZON_BIT) & ~self.is_legacy

    @property
    def delete_horizon_ms(self) -> NDArray[np.int64]:
        """From when on the batch's tombstones and markers may go; `NO_HORIZON` where unset."""
        horizon_ms = np.where(self.has_delete_horizon, self.base_timestamp_ms, NO_HORIZON)
        return horizon_ms.astype(np.int64)

    @property
    def is_emptied(self) -> NDArray[np.bool_]:
        """Already in the form of a batch that must stay without its records."""
        return is_emptied(
            is_legacy=self.is_legacy,
            size_bytes=self.size_bytes,
            codec=self.codec,
            has_delete_horizon=self.has_delete_horizon,
            base_timestamp_ms=self.base_timestamp_ms,
        )

    def _flag(self, bit: int) -> NDArray[np.bool_]:
        return (self.attributes & bit).astype(np.bool_)

    def slice(self, first: int, last: int) -> BatchHeads:
        """The batches `[first, last)`, as views."""
        if (first, last) == (0, len(self)):
            return self
        columns = {column.name: getattr(self, column.name) for column in fields(self)}
        return BatchHeads(**{name: column[first:last] for name, column in columns.items()})


def joined_heads(pieces: Sequence[BatchHeads]) -> BatchHeads:
    """The heads of logs that follow each other, with positions in the joined log."""
    columns = {
        name: np.concatenate([none, *(getattr(piece, name) for piece in pieces)])
        for name, none in empty_columns(BatchHeads, 0).items()
    }
    sizes = columns["size_bytes"]
    return BatchHeads(**columns | {"position": np.cumsum(sizes) - sizes})


# Numba takes named tuples, and mypy checks the kernels by the fields of the dataclass.
if TYPE_CHECKING:
    _Columns = BatchHeads
else:
    _Columns = namedtuple("_Columns", [field.name for field in fields(BatchHeads)])
    """`BatchHeads` in the form that a kernel takes."""


def read_heads(
    log: NDArray[np.uint8],
    *,
    where: str,
    check_crc: bool = True,
    origin: int = 0,
    after: int = NO_OFFSET,
) -> BatchHeads:
    """The heads of all batches of a log (uint8), or of whole batches of it; none for zero bytes.

    Without `check_crc` only the structure is checked. For errors: `where` is the object or file,
    `origin` the position of `log[0]` in it. `after` is the last offset of the batch before.

    Raises CorruptLog with the byte position.
    """
    start = batch_starts(log, where=where, origin=origin)
    heads, error = _filled(log, start, where, origin, after)
    if check_crc:
        # A bad checksum explains an odd header, so it is reported first.
        compare_checksums(log, heads, where=where, origin=origin)
    if error is not None:
        raise error
    return heads


def unchecked_heads(
    log: NDArray[np.uint8], *, where: str, origin: int = 0, after: int = NO_OFFSET
) -> BatchHeads:
    """`read_heads` for a caller that compares the checksums of magic 2 batches as it decodes them.

    Here all of them are compared if a header is odd, to explain it, or if a batch is legacy.
    """
    start = batch_starts(log, where=where, origin=origin)
    return _unchecked(log, start, where, origin, after)


def heads_at(
    log: NDArray[np.uint8],
    start: NDArray[np.int64],
    size_bytes: NDArray[np.int32],
    *,
    where: str,
    origin: int = 0,
) -> BatchHeads | None:
    """`unchecked_heads` of some batches of a log only; None: other batches lie there, or none.

    `start` (bytes of `log`, ascending) and `size_bytes` have shape (batches,).
    """
    if not have_sizes(log, start, size_bytes):
        return None
    return _unchecked(log, start, where, origin, NO_OFFSET)


def compare_checksums(
    log: NDArray[np.uint8], heads: BatchHeads, *, where: str, origin: int = 0
) -> None:
    """Compare the stored checksum of each batch with its bytes; raises CorruptLog.

    The parameters are those of `read_heads`, with any of its batches.
    """
    end = heads.position + heads.size_bytes
    computed = checksums(log, heads.position, end, heads.magic)
    wrong = np.flatnonzero(computed != heads.crc)
    if wrong.size:
        i = int(wrong[0])
        raise corrupt_batch(
            f"the batch at byte {origin + heads.position[i]} (base offset {heads.base_offset[i]}) "
            f"has a bad CRC: stored {heads.crc[i]:#010x}, computed {computed[i]:#010x}",
            where,
        )


def _unchecked(
    log: NDArray[np.uint8], start: NDArray[np.int64], where: str, origin: int, after: int
) -> BatchHeads:
    heads, error = _filled(log, start, where, origin, after)
    if error is not None or heads.is_legacy.any():
        compare_checksums(log, heads, where=where, origin=origin)
    if error is not None:
        raise error
    return heads


def _filled(
    log: NDArray[np.uint8], start: NDArray[np.int64], where: str, origin: int, after: int
) -> tuple[BatchHeads, CorruptLog | None]:
    """The heads of the whole batches at `start`. If one is odd: those up to it, and the error."""
    columns = empty_columns(BatchHeads, len(start))
    read, code, found = _fill(as_kernel_input(log), start, _Columns(**columns), after)
    heads = BatchHeads(**columns)
    if code == _OK:
        return heads, None
    what = _CORRUPTIONS[code].format(at=origin + heads.position[read], found=found)
    refused = {_ORDER: disordered_batch, _CODEC: unknown_batch}.get(code, corrupt_batch)
    error = refused(f"{what} (base offset {heads.base_offset[read]})", where)
    return heads.slice(0, read + 1), error


@kernel
def _fill(
    log: NDArray[np.uint8], start: NDArray[np.int64], out: _Columns, previous: int
) -> tuple[int, int, int]:
    """Fill the columns; return the number of sound heads, a code, and the offending number.

    `previous` is the last offset of the batch before.
    """
    for i in range(start.size):
        at = start[i]
        out.position[i] = at
        out.size_bytes[i] = be_int(log, at + 8, 4) + LOG_OVERHEAD_BYTES
        out.base_offset[i] = be_int(log, at, 8)
        out.magic[i] = log[at + 16]
        if out.magic[i] == 2:
            code, found = _fill_v2(log, at, out, i)
        else:
            code, found = _fill_legacy(log, at, out, i)
        if code != _OK:
            return i, code, found
        if out.base_offset[i] <= previous or out.last_offset[i] < out.base_offset[i]:
            return i, _ORDER, previous
        previous = out.last_offset[i]
    return out.position.size, _OK, 0


@kernel
def _fill_v2(log: NDArray[np.uint8], at: int, out: _Columns, i: int) -> tuple[int, int]:
    last_offset_delta = be_int(log, at + 23, 4)
    count = be_int(log, at + 57, 4)
    out.last_offset[i] = out.base_offset[i] + last_offset_delta
    out.leader_epoch[i] = be_int(log, at + 12, 4)
    out.crc[i] = be_word(log, at + 17, 4)
    out.attributes[i] = be_int(log, at + 21, 2)
    out.base_timestamp_ms[i] = be_int(log, at + 27, 8)
    out.max_timestamp_ms[i] = be_int(log, at + 35, 8)
    out.producer_id[i] = be_int(log, at + 43, 8)
    out.producer_epoch[i] = be_int(log, at + 51, 2)
    out.base_sequence[i] = be_int(log, at + 53, 4)
    out.count[i] = count
    codec = int(out.attributes[i] & CODEC_BITS)
    if codec > 4:
        return _CODEC, codec
    if last_offset_delta < 0:
        return _DELTA, last_offset_delta
    if count < 0:
        return _COUNT, count
    if codec == 0 and count * RECORD_BYTES_MIN > out.size_bytes[i] - BATCH_HEADER_BYTES:
        return _CROWDED, count
    return _OK, 0


@kernel
def _fill_legacy(log: NDArray[np.uint8], at: int, out: _Columns, i: int) -> tuple[int, int]:
    codec = int(log[at + 17] & CODEC_BITS)
    timestamp_ms = be_int(log, at + 18, 8) if out.magic[i] == 1 else int(NO_TIMESTAMP_MS)
    out.last_offset[i] = out.base_offset[i]
    out.leader_epoch[i] = NO_EPOCH
    out.crc[i] = be_word(log, at + 12, 4)
    out.attributes[i] = log[at + 17]
    out.base_timestamp_ms[i] = timestamp_ms
    out.max_timestamp_ms[i] = timestamp_ms
    out.producer_id[i] = NO_PRODUCER_ID
    out.producer_epoch[i] = NO_EPOCH
    out.base_sequence[i] = NO_SEQUENCE
    out.count[i] = 1 if codec == 0 else UNKNOWN_COUNT
    if codec > 3:  # Zstandard came with KIP-110, for magic 2 only.
        return _CODEC, codec
    return _OK, 0

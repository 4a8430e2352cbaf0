"""The headers of every batch of a segment, as a struct of arrays.

One kernel walks the log, one fills the columns, then every batch's checksum is compared: no batch
is trusted before. Layout of magic 2 (KIP-98), offsets in bytes:

    0 base offset i64    8 batch length i32   12 leader epoch i32   16 magic i8   17 crc u32
    21 attributes i16   23 last offset delta i32   27 base timestamp i64   35 max timestamp i64
    43 producer id i64  51 producer epoch i16      53 base sequence i32    57 record count i32
    61 records

Magic 0 and 1 (KIP-31, KIP-32): 0 offset, 8 size, 12 crc, 16 magic, 17 attributes i8, in magic 1
18 timestamp i64, then key and value with int32 lengths. A compressed message is a wrapper; only its
last offset is known without decompressing it, so `base_offset` is the wrapper's own here;
`storage.kafka.legacy_batches` reads the true one.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.units import (
    BATCH_HEADER_BYTES,
    NO_HORIZON,
    NO_PRODUCER_ID,
    NO_TIMESTAMP_MS,
)
from tierfold.storage.kafka.checksums import checksum
from tierfold.storage.kafka.wire import as_kernel_input, be_int, be_word, kernel

LOG_OVERHEAD_BYTES: Final = 12
"""Base offset and batch length: what the batch length does not count."""

LEGACY_BYTES_MIN: Final = (12 + 14, 12 + 22)
"""The smallest message of magic 0 and of magic 1: null key, null value."""

UNKNOWN_COUNT: Final = -1
"""In `BatchHeads.count`: a compressed legacy wrapper does not store its record count."""

NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1

CODEC_BITS: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
HORIZON_BIT: Final = 0x40

RECORD_BYTES_MIN: Final = 7
"""Length, attributes, two deltas, null key, null value, no headers: one byte each."""

_HEAD_BYTES_MIN: Final = 17  # What must be there to know a batch's length and magic.
_OK, _TORN, _SHORT, _MAGIC, _CODEC, _ORDER, _DELTA, _COUNT, _CROWDED = range(9)
_REMEDY: Final = "Take the segment from a backup; nothing of this partition was changed."


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHeads:
    """One entry per batch, in log order; every array has the same length."""

    position: NDArray[np.int64]
    """Byte position of the batch in the log."""
    size_bytes: NDArray[np.int64]
    """The whole batch, its first twelve bytes included."""
    base_offset: NDArray[np.int64]
    last_offset: NDArray[np.int64]
    """Inclusive; beyond the last record where that was compacted away."""
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

    def _flag(self, bit: int) -> NDArray[np.bool_]:
        return (self.attributes & bit).astype(np.bool_)

    def slice(self, first: int, last: int) -> BatchHeads:
        """The batches `[first, last)`, as views."""
        columns = {column.name: getattr(self, column.name) for column in fields(self)}
        return BatchHeads(**{name: column[first:last] for name, column in columns.items()})


class _Columns(NamedTuple):
    """`BatchHeads` as a kernel takes it."""

    position: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    base_offset: NDArray[np.int64]
    last_offset: NDArray[np.int64]
    magic: NDArray[np.int8]
    attributes: NDArray[np.int16]
    leader_epoch: NDArray[np.int32]
    crc: NDArray[np.uint32]
    base_timestamp_ms: NDArray[np.int64]
    max_timestamp_ms: NDArray[np.int64]
    producer_id: NDArray[np.int64]
    producer_epoch: NDArray[np.int16]
    base_sequence: NDArray[np.int32]
    record_count: NDArray[np.int32]  # `count` is a method of tuples.


def read_heads(log: NDArray[np.uint8], *, where: str, check_crc: bool = True) -> BatchHeads:
    """The heads of all batches of a log; none for a log of zero bytes.

    Args:
        log: uint8, the bytes of a `.log`.
        where: Named in errors: the segment's object or file.
        check_crc: Compare every batch's checksum; without it only the structure is checked.

    Raises:
        CorruptLog: Naming the byte position, what was found and what to do.
    """
    log = as_kernel_input(log)
    batches, code, at, found = _count_batches(log)
    if code != _OK:
        raise CorruptLog(_corruption(code, at, found), where=where, remedy=_REMEDY)
    columns = _empty_columns(batches)
    read, code, found = _fill(log, columns)
    if check_crc:
        # A bad checksum explains an odd header, so it is reported first.
        _check_crc(log, columns, min(read + 1, batches), where)
    if code != _OK:
        what = _corruption(code, int(columns.position[read]), found)
        base_offset = int(columns.base_offset[read])
        raise CorruptLog(f"{what} (base offset {base_offset})", where=where, remedy=_REMEDY)
    named = columns._asdict()
    return BatchHeads(count=named.pop("record_count"), **named)


def _empty_columns(batches: int) -> _Columns:
    return _Columns(
        position=np.empty(batches, np.int64),
        size_bytes=np.empty(batches, np.int64),
        base_offset=np.empty(batches, np.int64),
        last_offset=np.empty(batches, np.int64),
        magic=np.empty(batches, np.int8),
        attributes=np.empty(batches, np.int16),
        leader_epoch=np.empty(batches, np.int32),
        crc=np.empty(batches, np.uint32),
        base_timestamp_ms=np.empty(batches, np.int64),
        max_timestamp_ms=np.empty(batches, np.int64),
        producer_id=np.empty(batches, np.int64),
        producer_epoch=np.empty(batches, np.int16),
        base_sequence=np.empty(batches, np.int32),
        record_count=np.empty(batches, np.int32),
    )


def _corruption(code: int, at: int, found: int) -> str:
    match code:
        case 1:
            return f"the log is torn at byte {at}: a batch there needs {found} bytes more"
        case 2:
            return f"the batch at byte {at} claims {found} bytes, fewer than a batch can have"
        case 3:
            return f"the batch at byte {at} has magic {found}; Kafka has 0, 1 and 2"
        case 4:
            return f"the batch at byte {at} has the unknown compression codec {found}"
        case 5:
            return f"the batch at byte {at} is out of order: offset {found} was there before it"
        case 6:
            return f"the batch at byte {at} has last offset delta {found}"
        case 7:
            return f"the batch at byte {at} claims {found} records"
        case _:
            return f"the batch at byte {at} claims {found} records, more than its bytes can hold"


def _check_crc(log: NDArray[np.uint8], columns: _Columns, batches: int, where: str) -> None:
    position = columns.position[:batches].tolist()
    end = (columns.position + columns.size_bytes)[:batches].tolist()
    magic = columns.magic[:batches].tolist()
    stored = columns.crc[:batches].tolist()
    for i in range(batches):
        computed = checksum(log[position[i] : end[i]], magic[i])
        if computed != stored[i]:
            raise CorruptLog(
                f"the batch at byte {position[i]} (base offset {columns.base_offset[i]}) has a bad "
                f"CRC: stored {stored[i]:#010x}, computed {computed:#010x}",
                where=where,
                remedy=_REMEDY,
            )


@kernel
def _count_batches(log: NDArray[np.uint8]) -> tuple[int, int, int, int]:
    """How many batches there are; and a code, the byte position, the offending number."""
    at = 0
    batches = 0
    while at < log.size:
        left = log.size - at
        if left < _HEAD_BYTES_MIN:
            return batches, _TORN, at, _HEAD_BYTES_MIN - left
        magic = be_int(log, at + 16, 1)
        if magic < 0 or magic > 2:
            return batches, _MAGIC, at, magic
        size_bytes = be_int(log, at + 8, 4) + LOG_OVERHEAD_BYTES
        if size_bytes < (BATCH_HEADER_BYTES if magic == 2 else LEGACY_BYTES_MIN[magic]):
            return batches, _SHORT, at, size_bytes
        if size_bytes > left:
            return batches, _TORN, at, size_bytes - left
        at += size_bytes
        batches += 1
    return batches, _OK, at, 0


@kernel
def _fill(log: NDArray[np.uint8], out: _Columns) -> tuple[int, int, int]:
    """Fills the columns; how many heads are sound, a code, and what offends in the next."""
    at = 0
    previous = -1
    for i in range(out.position.size):
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
        at += out.size_bytes[i]
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
    out.record_count[i] = count
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
    out.record_count[i] = 1 if codec == 0 else UNKNOWN_COUNT
    if codec > 3:  # Zstandard came with KIP-110, for magic 2 only.
        return _CODEC, codec
    return _OK, 0

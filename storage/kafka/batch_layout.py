"""The layout of batch headers, and a reader of one header that needs no kernel.

Magic 2 (KIP-98), offsets in bytes:

    0 base offset i64    8 batch length i32   12 leader epoch i32   16 magic i8   17 crc u32
    21 attributes i16   23 last offset delta i32   27 base timestamp i64   35 max timestamp i64
    43 producer id i64  51 producer epoch i16      53 base sequence i32    57 record count i32
    61 records

Magic 0 and 1 (KIP-31, KIP-32): 0 offset, 8 size, 12 crc, 16 magic, 17 attributes i8, in magic 1
18 timestamp i64, then key and value with int32 lengths. A compressed message is a wrapper: its
offset is that of its last inner message, its timestamp the largest.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from tierfold.compaction.model.errors import LEAVE_OUT, UNCHANGED, CorruptLog, from_backup
from tierfold.compaction.model.units import BATCH_HEADER_BYTES, NO_TIMESTAMP_MS

HEADER: Final = struct.Struct(
    ">q"  # base offset
    "i"  # batch length, counted from the next field
    "i"  # leader epoch, outside the crc
    "b"  # magic
    "I"  # crc32c of all that follows
    "h"  # attributes
    "i"  # last offset delta
    "q"  # base timestamp, or the delete horizon
    "q"  # max timestamp
    "q"  # producer id
    "h"  # producer epoch
    "i"  # base sequence
    "i"  # record count
)
"""The header of a batch of magic 2."""

HEADER_WIDTHS: Final = tuple(struct.calcsize(f">{field}") for field in HEADER.format[1:])
"""The bytes of each field of `HEADER`, for kernels."""

CRC: Final = struct.Struct(">I")
CRC_AT: Final = 17
MAGIC: Final = 2

LOG_OVERHEAD_BYTES: Final = 12
"""Base offset and batch length, which the batch length does not count."""

LEGACY_BYTES_MIN: Final = (12 + 14, 12 + 22)
"""The smallest message of magic 0 and of magic 1: null key, null value."""

CODEC_BITS: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
HORIZON_BIT: Final = 0x40

NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1

_START: Final = struct.Struct(">qi4xb")  # The fields that every magic has: offset, length, magic.
_TIMESTAMP: Final = struct.Struct(">q")
_BYTES_MIN: Final = (*LEGACY_BYTES_MIN, BATCH_HEADER_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHeader:
    """The fields of one header that are needed without reading the batch."""

    size_bytes: int
    base_offset: int
    """Of a wrapper the last offset: the first one is inside."""
    last_offset: int
    max_timestamp_ms: int


def read_header(raw: bytes, left_bytes: int) -> BatchHeader:
    """The header that `raw` starts with; raises ValueError with a sentence.

    `raw` holds at least 61 bytes, or all that the log has left; `left_bytes` counts the latter.
    """
    if len(raw) < _START.size:
        raise ValueError(f"the log is torn: {len(raw)} bytes are left")
    base_offset, length, magic = _START.unpack_from(raw)
    size_bytes = length + LOG_OVERHEAD_BYTES
    if not 0 <= magic <= MAGIC:
        raise ValueError(f"a batch has magic {magic}; Kafka has 0, 1 and 2")
    if base_offset < 0 or size_bytes < _BYTES_MIN[magic]:
        raise ValueError(f"a batch claims offset {base_offset} and {size_bytes} bytes")
    if size_bytes > left_bytes or len(raw) < _BYTES_MIN[magic]:
        raise ValueError(f"the log is torn: a batch of {size_bytes} bytes has {left_bytes} left")
    delta, max_timestamp_ms = 0, NO_TIMESTAMP_MS
    if magic == MAGIC:
        fields = HEADER.unpack_from(raw)
        delta, max_timestamp_ms = fields[6], fields[8]
    elif magic == 1:
        (max_timestamp_ms,) = _TIMESTAMP.unpack_from(raw, 18)
    if delta < 0:
        raise ValueError(f"a batch has a last offset delta of {delta}")
    return BatchHeader(
        size_bytes=size_bytes,
        base_offset=base_offset,
        last_offset=base_offset + delta,
        max_timestamp_ms=max_timestamp_ms,
    )


def claimed_bytes(raw: bytes | memoryview) -> int:
    """The size that the batch at the start of `raw` claims, at most that of `raw`."""
    if len(raw) < LOG_OVERHEAD_BYTES:
        return len(raw)
    length = int.from_bytes(raw[8:LOG_OVERHEAD_BYTES], signed=True)
    return min(len(raw), max(length, 0) + LOG_OVERHEAD_BYTES)


def disordered_batch(what: str, where: str) -> CorruptLog:
    """The error for a batch whose offsets were there before it.

    Its checksum does not cover its base offset, so that may be damaged. But some old brokers wrote
    offsets twice (KAFKA-6264), and then a backup has the same bytes.
    """
    return CorruptLog(
        what,
        where=where,
        remedy="Compare the segment with a backup, and take that if it differs. If it is the same,"
        " a broker wrote these offsets twice (KAFKA-6264), and nothing makes tierfold compact the"
        f" partition: {LEAVE_OUT}. Nothing of it was changed.",
    )


def corrupt_batch(what: str, where: str) -> CorruptLog:
    """The error for bytes of a log that contradict Kafka's format, whatever their checksum says."""
    return CorruptLog(what, where=where, remedy=from_backup("the segment"))


def unknown_batch(what: str, where: str) -> CorruptLog:
    """The error for a codec or a magic that Kafka does not have, or did not have so far."""
    return CorruptLog(
        what,
        where=where,
        remedy="If a newer Kafka wrote it, update tierfold. Otherwise compare the segment with a"
        f" backup, and take that if it differs. Until then, {LEAVE_OUT}. {UNCHANGED}",
    )

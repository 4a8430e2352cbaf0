"""A reader of Kafka's batches for the checks: plain Python that shares nothing with the product.

It reads magic 2 without compression, which is all that the state machine's brokers write.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and max
timestamp, producer id and epoch, base sequence, count."""
_LENGTH_FROM: Final = 12
_CODEC_BITS: Final = 0x07
_CONTROL_BIT: Final = 0x20


class FoundBatch(NamedTuple):
    """A batch in a `.log`."""

    base_offset: int
    last_offset: int
    records: tuple[tuple[int, bytes | None, bytes | None], ...]
    """Offset, key, value."""


def whole_batches(log: bytes) -> tuple[list[FoundBatch], bool]:
    """Return the complete batches, and whether other bytes follow the last of them."""
    found: list[FoundBatch] = []
    at = 0
    while at + _HEADER.size <= len(log):
        end = at + _LENGTH_FROM + struct.unpack_from(">i", log, at + 8)[0]
        if end > len(log):
            break
        found.append(_batch(log[at:end]))
        at = end
    return found, at < len(log)


def _batch(data: bytes) -> FoundBatch:
    base, _, _, magic, _, attributes, last_delta, *_, count = _HEADER.unpack_from(data)
    if magic != 2 or attributes & (_CODEC_BITS | _CONTROL_BIT):
        raise ValueError(f"the batch at offset {base} is none that this reader knows")
    records = []
    at = _HEADER.size
    for _ in range(count):
        length, at = _varint(data, at)
        records.append(_record(data[at : at + length], base))
        at += length
    if at != len(data):
        raise ValueError(f"the batch at offset {base} ends in the middle of a record")
    return FoundBatch(base, base + last_delta, tuple(records))


def _record(data: bytes, base: int) -> tuple[int, bytes | None, bytes | None]:
    _, at = _varint(data, 1)
    delta, at = _varint(data, at)
    key, at = _content(data, at)
    value, _ = _content(data, at)
    return base + delta, key, value


def _content(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = _varint(data, at)
    return (None, at) if length < 0 else (data[at : at + length], at + length)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a zigzag number, and the position after it."""
    shift = raw = 0
    while True:
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), at

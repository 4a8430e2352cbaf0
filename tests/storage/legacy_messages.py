"""Magic 0 and 1, written by hand; the product only reads them."""

from __future__ import annotations

import struct
import zlib

from tierfold.storage.kafka.compression import Codec, compress


def message(
    offset: int,
    value: bytes | None,
    *,
    magic: int = 1,
    attributes: int = 0,
    timestamp_ms: int = 7000,
    key: bytes | None = b"k",
) -> bytes:
    """One message with a valid checksum."""
    time = struct.pack(">q", timestamp_ms) if magic else b""
    summed = struct.pack(">bb", magic, attributes) + time + _field(key) + _field(value)
    counted = struct.pack(">I", zlib.crc32(summed)) + summed
    return struct.pack(">qi", offset, len(counted)) + counted


def wrapper(
    offset: int,
    inner: bytes,
    *,
    magic: int = 1,
    codec: Codec = Codec.GZIP,
    attributes: int = 0,
    timestamp_ms: int = 9000,
) -> bytes:
    """A message around compressed messages."""
    packed = compress(codec, inner)
    return message(
        offset,
        packed,
        magic=magic,
        attributes=attributes | codec,
        timestamp_ms=timestamp_ms,
        key=None,
    )


def _field(content: bytes | None) -> bytes:
    return struct.pack(">i", -1) if content is None else struct.pack(">i", len(content)) + content

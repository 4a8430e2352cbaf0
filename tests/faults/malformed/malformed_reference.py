"""The meaning of a log's bytes by the format's definition: a reference in plain, slow Python.

It shares no code with the product, and refuses only bytes without a meaning. A parser may refuse
more, since a refusal is always an allowed outcome.
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Iterator
from io import BytesIO
from typing import NamedTuple, TypeAlias

import google_crc32c
import pyarrow as pa

Headers: TypeAlias = tuple[tuple[bytes, bytes | None], ...]


class Meaningless(ValueError):
    """These bytes have no meaning to any reader."""


class LeftOpen(Exception):
    """The format forbids these bytes, but the libraries of readers accept them."""


def must_mean(condition: bool) -> None:
    """Raise `Meaningless` unless the condition holds."""
    if not condition:
        raise Meaningless


class PlainRecord(NamedTuple):
    """A record as every reader must see it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class PlainBatch(NamedTuple):
    """A batch as every reader must see it."""

    magic: int
    attributes: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: tuple[PlainRecord, ...]

    @property
    def is_control(self) -> bool:
        """Whether it is a control batch, which consumers never see."""
        return self.magic == 2 and bool(self.attributes & 0x20)


def plain_batches(log: bytes, *, has_sums: bool = True) -> list[PlainBatch]:
    """Return every batch of a log; with `has_sums`, check their checksums."""
    return [plain_batch(batch, has_sums=has_sums) for batch in cut_in_batches(log)]


def whole_batches(log: bytes) -> tuple[list[PlainBatch], bool]:
    """Return the complete batches of a log, and whether other bytes follow the last of them."""
    complete: list[bytes] = []
    with contextlib.suppress(Meaningless):
        complete += cut_in_batches(log)  # Keeps the batches before the torn one.
    is_torn = sum(map(len, complete)) < len(log)
    return [plain_batch(batch, has_sums=True) for batch in complete], is_torn


def cut_in_batches(log: bytes) -> Iterator[bytes]:
    """Yield the bytes of every batch of a log."""
    at = 0
    while at < len(log):
        if len(log) - at < 17:
            raise Meaningless("torn")
        size = struct.unpack_from(">i", log, at + 8)[0] + 12
        if not 17 <= size <= len(log) - at:
            raise Meaningless("a batch extends beyond the log")
        yield log[at : at + size]
        at += size


def plain_batch(batch: bytes, *, has_sums: bool) -> PlainBatch:
    """Parse one batch; `batch` is all its bytes."""
    magic = batch[16]
    if magic == 2:
        if len(batch) < 61:
            raise Meaningless("a batch shorter than its header")
        if has_sums and google_crc32c.value(batch[21:]) != struct.unpack_from(">I", batch, 17)[0]:
            raise Meaningless("crc")
        return _v2(batch)
    if magic > 2 or len(batch) < 26 + 8 * magic:
        raise Meaningless("not a message")
    if has_sums and zlib.crc32(batch[16:]) != struct.unpack_from(">I", batch, 12)[0]:
        raise Meaningless("crc")
    return _legacy(batch)


def _v2(batch: bytes) -> PlainBatch:
    base_offset, _, leader_epoch = struct.unpack_from(">qii", batch)
    attributes, last_delta, base_ms, max_ms, *producer, count = struct.unpack_from(
        ">hiqqqhii", batch, 21
    )
    payload = batch[61:]
    if attributes & 7:  # Kafka ignores a compressed payload without records.
        payload = plain_payload(attributes & 7, payload) if count else b""
    reader = _Reader(payload)
    append_ms = max_ms if attributes & 8 else None
    records = tuple(_record(reader, base_offset, base_ms, append_ms) for _ in range(count))
    if reader.at != len(payload):
        raise Meaningless("bytes are left over")
    offsets = (base_offset, base_offset + last_delta)
    return PlainBatch(2, attributes, *offsets, leader_epoch, base_ms, max_ms, *producer, records)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.data) - self.at:
            raise Meaningless("a field extends beyond its bytes")
        self.at += size
        return self.data[self.at - size : self.at]

    def varint(self, bits: int = 32) -> int:
        """Read a zigzag number of at most 5 bytes for 32 bits, 10 for 64; higher bits are lost."""
        raw = 0
        for i in range(5 if bits == 32 else 10):
            byte = self.take(1)[0]
            raw |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                raw &= 2**bits - 1
                return (raw >> 1) ^ -(raw & 1)
        raise Meaningless("not a varint")

    def field(self) -> bytes | None:
        size = self.varint()
        return None if size < 0 else self.take(size)


def _record(reader: _Reader, base_offset: int, base_ms: int, append_ms: int | None) -> PlainRecord:
    size = reader.varint()
    if size < 0:
        raise Meaningless("a negative size")
    body = _Reader(reader.take(size))
    body.take(1)
    timestamp_ms = signed(base_ms + body.varint(64))
    offset = base_offset + body.varint()
    key, value = body.field(), body.field()
    headers: list[tuple[bytes, bytes | None]] = []
    for _ in range(body.varint()):
        name = body.field()
        if name is None:
            raise Meaningless("a header without a name")
        headers.append((name, body.field()))
    if body.at != size:
        raise Meaningless("the fields do not end where the record does")
    seen_ms = timestamp_ms if append_ms is None else append_ms
    return PlainRecord(offset, seen_ms, key, value, tuple(headers))


def signed(number: int) -> int:
    """Wrap a number to signed 64 bits."""
    return (number + 2**63) % 2**64 - 2**63


def _legacy(message: bytes) -> PlainBatch:
    offset, timestamp_ms, attributes, key, value = _message(message)
    magic = message[16]
    records = (PlainRecord(offset, timestamp_ms, key, value),)
    if attributes & 7:
        if value is None:
            raise Meaningless("a wrapper without a value")
        inner = list(cut_in_batches(plain_payload(attributes & 7, value)))
        if not inner or any(batch[16] != magic or len(batch) < 26 + 8 * magic for batch in inner):
            raise Meaningless("a wrapper of other messages")
        fields = [_message(batch) for batch in inner]
        if any(field[2] & 7 for field in fields):
            raise Meaningless("a wrapper within a wrapper")
        base = offset - fields[-1][0] if magic == 1 else 0
        append_ms = timestamp_ms if magic == 1 and attributes & 8 else None
        records = tuple(
            PlainRecord(signed(base + at), time_ms if append_ms is None else append_ms, key, value)
            for at, time_ms, _, key, value in fields
        )
    offsets, times_ms = (records[0].offset, offset), (timestamp_ms, timestamp_ms)
    return PlainBatch(magic, attributes, *offsets, -1, *times_ms, -1, -1, -1, records)


def _message(message: bytes) -> tuple[int, int, int, bytes | None, bytes | None]:
    """Return offset, timestamp, attributes, key and value."""
    magic = message[16]
    reader = _Reader(message)
    (offset,) = struct.unpack(">q", reader.take(8))
    reader.take(9)
    attributes = reader.take(1)[0]
    timestamp_ms = struct.unpack(">q", reader.take(8))[0] if magic else -1
    key, value = _sized(reader), _sized(reader)
    if reader.at != len(message):
        raise Meaningless("the fields do not end where the message does")
    return offset, timestamp_ms, attributes, key, value


def _sized(reader: _Reader) -> bytes | None:
    (size,) = struct.unpack(">i", reader.take(4))
    return None if size < 0 else reader.take(size)


def plain_payload(codec: int, stored: bytes) -> bytes:
    """Decompress a payload without the product's code."""
    try:
        match codec:
            case 1:
                return _ungzipped(stored)
            case 2:
                return _unsnapped(stored)
            case 3:
                return _unlz4(stored)
            case 4:
                with pa.CompressedInputStream(pa.BufferReader(stored), "zstd") as stream:
                    return bytes(stream.read())
    except (OSError, EOFError, zlib.error, IndexError, struct.error) as error:
        raise Meaningless(str(error)) from error
    raise Meaningless(f"codec {codec}")


def _ungzipped(stored: bytes) -> bytes:
    """All members, as Java reads them; 18 bytes behind one, or what begins none, are ignored."""
    plain: list[bytes] = []
    rest = _behind_header(stored)
    must_mean(rest is not None)
    while rest is not None:
        inflate = zlib.decompressobj(-15)
        plain.append(inflate.decompress(rest))
        must_mean(inflate.eof)
        trailer, rest = inflate.unused_data[:8], inflate.unused_data[8:]
        must_mean(trailer == struct.pack("<II", zlib.crc32(plain[-1]), len(plain[-1])))
        rest = _behind_header(rest) if len(rest) > 18 else None
    return b"".join(plain)


def _behind_header(stored: bytes) -> bytes | None:
    """What follows the header of a gzip member (RFC 1952); None: none begins here."""
    if stored[:3] != b"\x1f\x8b\x08" or len(stored) < 10:
        return None
    flags, at = stored[3], 10
    if flags & 4:
        at += 2 + int.from_bytes(stored[at : at + 2], "little")
    for flag in (8, 16):
        if flags & flag:
            at = stored.find(b"\0", at) + 1
            if not at:
                return None
    if flags & 2:
        if zlib.crc32(stored[:at]) & 0xFFFF != int.from_bytes(stored[at : at + 2], "little"):
            return None
        at += 2
    return stored[at:] if at <= len(stored) else None


def _unsnapped(stored: bytes) -> bytes:
    if stored[:8] != b"\x82SNAPPY\x00" or len(stored) < 16:
        return _unsnapped_block(stored)
    reader, plain = _Reader(stored), []
    reader.take(16)
    while reader.at + 4 <= len(stored):
        if stored[reader.at : reader.at + 4] == b"\x82SNA":  # Another frame of xerial's.
            reader.take(16)
        else:
            plain.append(_unsnapped_block(_sized(reader) or b""))
    return b"".join(plain)


def _unsnapped_block(block: bytes) -> bytes:
    """Decompress literals and copies (google/snappy, format_description.txt)."""
    size, at, shift = 0, 0, 0
    while True:
        size |= (block[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if block[at - 1] < 0x80:
            break
    plain = bytearray()
    while at < len(block):
        tag = block[at]
        at += 1
        length = (tag >> 2) + 1
        if tag & 3 == 0:
            if length > 60:
                wide = length - 60
                length = int.from_bytes(block[at : at + wide], "little") + 1
                at += wide
            plain += _Reader(block[at:]).take(length)
            at += length
            continue
        wide = (1, 1, 2, 4)[tag & 3]
        back = int.from_bytes(block[at : at + wide], "little")
        if tag & 3 == 1:
            back, length = back | (tag >> 5) << 8, (tag >> 2 & 7) + 4
        at += wide
        _copied(plain, back, length)
    if len(plain) != size:
        raise Meaningless("snappy: the size is not the declared one")
    return bytes(plain)


def _unlz4(stored: bytes) -> bytes:
    """Decompress one frame (lz4_Frame_format.md); checksums are ignored."""
    flags, at, plain = stored[4], 7 + (8 if stored[4] & 8 else 0), bytearray()
    while size := int.from_bytes(stored[at : at + 4], "little"):
        block = _Reader(stored[at + 4 :]).take(size & 0x7FFFFFFF)
        at += 4 + len(block) + (4 if flags & 0x10 else 0)
        if size >> 31:
            plain += block
        else:
            _unlz4_block(BytesIO(block), plain)
    return bytes(plain)


def _unlz4_block(block: BytesIO, plain: bytearray) -> None:
    while token := block.read(1):
        size = _lz4_length(token[0] >> 4, block)
        literals = block.read(size)
        if len(literals) < size:
            raise Meaningless("lz4: the literals are truncated")
        plain += literals
        if back := block.read(2):
            if back == b"\0\0":
                raise LeftOpen("a copy at distance 0: liblz4 writes zeros or leaves old bytes")
            _copied(plain, int.from_bytes(back, "little"), _lz4_length(token[0] & 15, block) + 4)


def _lz4_length(nibble: int, block: BytesIO) -> int:
    length = nibble
    while nibble == 15:
        byte = block.read(1)[0]
        length += byte
        if byte < 255:
            break
    return length


def _copied(plain: bytearray, back: int, length: int) -> None:
    if not 0 < back <= len(plain):
        raise Meaningless("a copy from before the start")
    for _ in range(length):
        plain.append(plain[-back])

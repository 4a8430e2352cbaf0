"""Decompresses gzip as Java's `GZIPInputStream` does, and any stream within a limit.

Tried with Java 17: a member may be followed by others; bytes that begin no member are ignored, and
18 bytes or fewer in any case. A member that begins must be whole and right.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final, Protocol

GZIP_RATIO_MAX: Final = 1032
"""Two bits of deflate expand to at most 258 bytes."""

_SLICE_BYTES_MIN: Final = 64
_SLICE_BYTES_MAX: Final = 16 * 1024

_GZIP_HEADER: Final = struct.Struct("<2sBB6x")  # magic, method, flags, then time and origin
_GZIP_TRAILER: Final = struct.Struct("<II")  # crc32 and length of the plain data
_GZIP_HEADER_CRC, _GZIP_EXTRA, _GZIP_NAME, _GZIP_COMMENT = 2, 4, 8, 16
_GZIP_IGNORED_BYTES: Final = 18
"""Java ignores so few bytes behind a member: a member has at least 20."""


class TooMuch(Exception):
    """A payload holds more than it may."""


class _Stream(Protocol):
    """The deflated data of one gzip member, or one zstd frame, in progress."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: memoryview, /) -> bytes: ...


def gunzipped(stored: memoryview, limit_bytes: int) -> bytes:
    """Decompress all members; raises EOFError, ValueError, zlib.error, and TooMuch.

    What begins no member is ignored (`GZIPInputStream.readTrailer`).
    """
    parts: list[bytes] = []
    at, left_bytes = _gzip_header_end(stored, 0), limit_bytes
    while True:
        plain, at = streamed(zlib.decompressobj(-15), GZIP_RATIO_MAX, stored, at, left_bytes)
        if at + _GZIP_TRAILER.size > len(stored):
            raise EOFError("it ends before its end mark")
        if _GZIP_TRAILER.unpack_from(stored, at) != (zlib.crc32(plain), len(plain)):
            raise ValueError("gzip: a member has another checksum or length than its trailer")
        parts.append(plain)
        left_bytes -= len(plain)
        at += _GZIP_TRAILER.size
        if len(stored) - at <= _GZIP_IGNORED_BYTES:
            break
        try:
            at = _gzip_header_end(stored, at)
        except ValueError:
            break
    return b"".join(parts)


def _gzip_header_end(stored: memoryview, at: int) -> int:
    """Where a member's header ends; raises ValueError (`GZIPInputStream.readHeader`)."""
    begin, at = at, at + _GZIP_HEADER.size
    if at > len(stored):
        raise ValueError("gzip: a header is cut")
    magic, method, flags = _GZIP_HEADER.unpack_from(stored, begin)
    if (magic, method) != (b"\x1f\x8b", 8):
        raise ValueError(f"gzip: no member begins at byte {begin}")
    if flags & _GZIP_EXTRA:
        at += 2 + int.from_bytes(stored[at : at + 2], "little")
    for flag in (_GZIP_NAME, _GZIP_COMMENT):
        if flags & flag:
            at = _behind_zero(stored, at)
    if flags & _GZIP_HEADER_CRC:
        at += 2
        found = zlib.crc32(stored[begin : at - 2]) & 0xFFFF
        if found != int.from_bytes(stored[at - 2 : at], "little"):
            raise ValueError(f"gzip: the header at byte {begin} has a bad CRC")
    if at > len(stored):
        raise ValueError("gzip: a header is cut")
    return at


def _behind_zero(stored: memoryview, at: int) -> int:
    """The position after the next zero; raises ValueError if there is none."""
    while at < len(stored):
        found = bytes(stored[at : at + _SLICE_BYTES_MIN]).find(0)
        if found >= 0:
            return at + found + 1
        at += _SLICE_BYTES_MIN
    raise ValueError("gzip: a header is cut")


def streamed(
    stream: _Stream, ratio_max: int, stored: memoryview, at: int, limit_bytes: int
) -> tuple[bytes, int]:
    """Decompress one member or frame from `at` on, and return where it ends, too.

    Raises EOFError if it does not end, and TooMuch beyond `limit_bytes`. A slice of the input is
    taken at a time: it expands to at most twice what is still allowed, so the limit is not exceeded
    by much; smaller slices cost zstd a fifth of its speed. Slices also spare copying the rest of
    the input for each of very many tiny members.
    """
    parts: list[bytes] = []
    left_bytes = limit_bytes
    while at < len(stored):
        slice_bytes = min(max(2 * left_bytes // ratio_max, _SLICE_BYTES_MIN), _SLICE_BYTES_MAX)
        piece = stored[at : at + slice_bytes]
        parts.append(stream.decompress(piece))
        left_bytes -= len(parts[-1])
        if left_bytes < 0:
            raise TooMuch
        at += len(piece)
        if stream.eof:
            return b"".join(parts), at - len(stream.unused_data)
    raise EOFError("it ends before its end mark")

"""Payloads with more behind the first member or frame, and what Kafka's readers make of them."""

from __future__ import annotations

import struct
import zlib
from typing import Final

import pyarrow as pa

from tierfold.storage.kafka.compression import XERIAL_HEADER, XERIAL_MAGIC, Codec, compress

ONE: Final = b'{"name":"value","other":12345}' * 100
TWO: Final = b"of the second member " * 50

_GZIP, _SNAPPY, _LZ4, _ZSTD = (
    (compress(codec, ONE), compress(codec, TWO))
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
)


def gzip_member(plain: bytes, flags: int = 0, extra: bytes = b"") -> bytes:
    """A member with these flags, and with `extra` behind the fixed header."""
    deflater = zlib.compressobj(6, zlib.DEFLATED, -15)
    body = deflater.compress(plain) + deflater.flush()
    trailer = struct.pack("<II", zlib.crc32(plain), len(plain))
    return b"\x1f\x8b\x08" + bytes([flags]) + bytes(6) + extra + body + trailer


def _xerial(version: int) -> bytes:
    return XERIAL_HEADER.pack(XERIAL_MAGIC, version, 1) + _SNAPPY[1][XERIAL_HEADER.size :]


_BEGUN: Final = b"\x1f\x8b\x08\x02" + bytes(6)
_HEADER_CRC: Final = struct.pack("<H", zlib.crc32(_BEGUN) & 0xFFFF)
_RAW: Final = pa.compress(ONE, "snappy", asbytes=True)

PAYLOADS: Final[dict[str, tuple[Codec, bytes, bytes | None]]] = {
    f"{codec.name.lower()}: {name}": (codec, stored, plain)
    for codec, name, stored, plain in (
        (Codec.GZIP, "two members", _GZIP[0] + _GZIP[1], ONE + TWO),
        (Codec.GZIP, "an empty one between", gzip_member(b"").join(_GZIP), ONE + TWO),
        (Codec.GZIP, "one zero", _GZIP[0] + bytes(1), ONE),
        (Codec.GZIP, "many zeros", _GZIP[0] + bytes(40), ONE),
        (Codec.GZIP, "noise behind two", _GZIP[0] + _GZIP[1] + b"\xfe" * 40, ONE + TWO),
        (Codec.GZIP, "18 bytes of a member", _GZIP[0] + _GZIP[1][:18], ONE),
        (Codec.GZIP, "19 bytes of a member", _GZIP[0] + _GZIP[1][:19], None),
        (Codec.GZIP, "a cut member", _GZIP[0] + _GZIP[1][:-9], None),
        (Codec.GZIP, "a cut trailer", _GZIP[0] + _GZIP[1][:-1], None),
        (Codec.GZIP, "a member's bad CRC", _GZIP[0] + _GZIP[1][:-8] + bytes(8), None),
        (Codec.GZIP, "a bad CRC", _GZIP[0][:-8] + bytes(8), None),
        (Codec.GZIP, "another method", _GZIP[0] + b"\x1f\x8b\x07" + bytes(40), ONE),
        (Codec.GZIP, "a name", _GZIP[0] + gzip_member(TWO, 8, b"a" * 99 + b"\0"), ONE + TWO),
        (Codec.GZIP, "a comment", _GZIP[0] + gzip_member(TWO, 16, b"a\0"), ONE + TWO),
        (Codec.GZIP, "both", _GZIP[0] + gzip_member(TWO, 24, b"a\0b\0"), ONE + TWO),
        (Codec.GZIP, "more fields", _GZIP[0] + gzip_member(TWO, 4, b"\3\0abc"), ONE + TWO),
        (Codec.GZIP, "a name without end", _GZIP[0] + _BEGUN[:3] + b"\x08" + b"x" * 99, ONE),
        (Codec.GZIP, "fields without end", _GZIP[0] + _BEGUN[:3] + b"\x04" + b"\xff" * 99, ONE),
        (Codec.GZIP, "a header's CRC", _GZIP[0] + gzip_member(TWO, 2, _HEADER_CRC), ONE + TWO),
        (Codec.GZIP, "a header's bad CRC", _GZIP[0] + gzip_member(TWO, 2, b"\0\1"), ONE),
        (Codec.GZIP, "a bad CRC of the first header", gzip_member(TWO, 2, b"\0\1"), None),
        (Codec.GZIP, "flags without meaning", gzip_member(ONE, 128), ONE),
        (Codec.SNAPPY, "two frames", _SNAPPY[0] + _SNAPPY[1], ONE + TWO),
        (Codec.SNAPPY, "an empty one between", _SNAPPY[0][:16].join(_SNAPPY), ONE + TWO),
        (Codec.SNAPPY, "a newer frame", _SNAPPY[0] + _xerial(5), ONE + TWO),
        (Codec.SNAPPY, "an impossible version", _SNAPPY[0] + _xerial(0), None),
        (Codec.SNAPPY, "a header", _SNAPPY[0] + _SNAPPY[1][:16], ONE),
        (Codec.SNAPPY, "a cut header", _SNAPPY[0] + _SNAPPY[1][:15], None),
        (Codec.SNAPPY, "a cut block length", _SNAPPY[0] + _SNAPPY[1][:19], ONE),
        (Codec.SNAPPY, "three bytes", _SNAPPY[0] + b"\xfe" * 3, ONE),
        (Codec.SNAPPY, "four bytes", _SNAPPY[0] + b"\xfe" * 4, None),
        (Codec.SNAPPY, "a cut frame", _SNAPPY[0] + _SNAPPY[1][:-9], None),
        (Codec.SNAPPY, "only a header", _SNAPPY[0][:16], b""),
        (Codec.SNAPPY, "raw, and a frame", _RAW + _SNAPPY[1], None),
        (Codec.SNAPPY, "a frame, and raw", _SNAPPY[0] + _RAW, None),
        (Codec.LZ4, "two frames", _LZ4[0] + _LZ4[1], ONE),
        (Codec.LZ4, "noise", _LZ4[0] + b"\xfe" * 9, ONE),
        (Codec.ZSTD, "two frames", _ZSTD[0] + _ZSTD[1], ONE + TWO),
        (Codec.ZSTD, "noise", _ZSTD[0] + b"\xfe" * 9, None),
        (Codec.ZSTD, "zeros", _ZSTD[0] + bytes(9), None),
    )
}
"""By name: codec, stored bytes, and what they hold; None: they are refused."""

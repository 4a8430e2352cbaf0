"""The five codecs of a record batch, as Kafka frames them; the work is done by their C libraries.

A batch is small, 17 KB on average, so that what a codec does per call counts. Measured against
cramjam, which was here before: lz4 17 KB to read 6.8 µs, was 12; zstd 20 µs, was 33.

What differs from the codecs' plain forms: snappy comes in the frame of the xerial library, or raw
(Kafka's `SnappyCompression` and clients without that frame); lz4 is the frame format with
independent blocks only, and in magic 0 its header checksum is wrong (KAFKA-3160).
"""

from __future__ import annotations

import gzip
import struct
import threading
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Final, TypeAlias

import lz4.frame
import numpy as np
import pyarrow as pa
import zstandard
from numpy.typing import NDArray

from compaction.errors import CorruptLog

Buffer: TypeAlias = bytes | bytearray | memoryview | NDArray[np.uint8]

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = struct.Struct(">8sii")  # magic, version, lowest version that can read it
XERIAL_BLOCK_BYTES: Final = 32 * 1024
SNAPPY_RATIO_MAX: Final = 22
"""A snappy element of three bytes stands for at most 64: a longer claim is not worth its memory."""

GZIP_LEVEL: Final = 6  # The levels are Kafka's defaults (`CompressionType`).
ZSTD_LEVEL: Final = 3


class _Zstd(threading.local):
    """What zstandard uses again from call to call, and never in two threads at once."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
        self.decompressor = zstandard.ZstdDecompressor()


_ZSTD: Final = _Zstd()


class Codec(IntEnum):
    """Bits 0 to 2 of a batch's attributes (Kafka `CompressionType`)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: int, payload: Buffer) -> bytes:
    """`payload` as a batch holds it under `codec`, at Kafka's default level."""
    plain = _view(payload)
    match Codec(codec):
        case Codec.NONE:
            return bytes(plain)
        case Codec.GZIP:
            return gzip.compress(plain, compresslevel=GZIP_LEVEL, mtime=0)
        case Codec.SNAPPY:
            return _xerial(plain)
        case Codec.LZ4:
            frame: bytes = lz4.frame.compress(
                plain,
                block_size=lz4.frame.BLOCKSIZE_MAX64KB,
                block_linked=False,
                store_size=False,
            )
            return frame
        case Codec.ZSTD:
            return _ZSTD.compressor.compress(plain)


def decompress(codec: int, payload: Buffer, *, where: str, mend_lz4_header: bool = False) -> bytes:
    """What `compress` was given.

    Args:
        codec: A `Codec`.
        payload: A batch's records, or a legacy wrapper's value.
        where: Named in errors: the segment and the batch.
        mend_lz4_header: For magic 0, whose lz4 header checksum is never right.

    Raises:
        CorruptLog: The codec is none of Kafka's, or the bytes are not of that codec.
    """
    stored = _view(payload)
    if codec == Codec.NONE:
        return bytes(stored)
    decoder = _DECODERS.get(codec)
    if decoder is None:
        raise CorruptLog(
            f"compression codec {codec} is none that Kafka has (0 to 4)",
            where=where,
            remedy="Take the segment from a replica; if a newer Kafka wrote it, update tierfold.",
        )
    try:
        if codec == Codec.LZ4 and mend_lz4_header:
            stored = memoryview(_with_true_lz4_checksum(stored))
        return decoder(stored)
    except _FAULTS as error:
        raise CorruptLog(
            f"the {Codec(codec).name.lower()} payload cannot be decompressed ({error})",
            where=where,
            remedy="Take the segment from a replica; nothing of this partition was changed.",
        ) from error


def _view(payload: Buffer) -> memoryview:
    return payload.data if isinstance(payload, np.ndarray) else memoryview(payload)


def _xerial(plain: memoryview) -> bytes:
    parts = [XERIAL_HEADER.pack(XERIAL_MAGIC, 1, 1)]
    for start in range(0, len(plain), XERIAL_BLOCK_BYTES):
        block = pa.compress(plain[start : start + XERIAL_BLOCK_BYTES], "snappy", asbytes=True)
        parts += (struct.pack(">i", len(block)), block)
    return b"".join(parts)


def _unsnap(view: memoryview) -> bytes:
    if len(view) < XERIAL_HEADER.size or bytes(view[:8]) != XERIAL_MAGIC:
        return _unsnap_block(view)
    parts = []
    at = XERIAL_HEADER.size
    while at < len(view):
        if at + 4 > len(view):
            raise ValueError(f"snappy: a block length is cut at byte {at}")
        (size_bytes,) = struct.unpack_from(">i", view, at)
        at += 4
        if not 0 <= size_bytes <= len(view) - at:
            raise ValueError(f"snappy: a block of {size_bytes} bytes at byte {at}")
        parts.append(_unsnap_block(view[at : at + size_bytes]))
        at += size_bytes
    return b"".join(parts)


def _unsnap_block(block: memoryview) -> bytes:
    # The library allocates what the first varint claims, before it looks at the rest.
    claimed_bytes = 0
    for i, byte in enumerate(block[:5]):
        claimed_bytes |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            break
    if claimed_bytes > SNAPPY_RATIO_MAX * len(block):
        raise ValueError(f"snappy: {len(block)} bytes claim to hold {claimed_bytes}")
    plain: bytes = pa.decompress(block, claimed_bytes, "snappy", asbytes=True)
    return plain


def _unzip(stored: memoryview) -> bytes:
    if not stored:  # Python takes it for no members at all.
        raise ValueError("gzip: no bytes at all")
    return gzip.decompress(stored)


def _unzstd(stored: memoryview) -> bytes:
    # By stream: a frame need not tell its size, and one that does may lie.
    parts: list[bytes] = []
    while stored or not parts:
        stream = _ZSTD.decompressor.decompressobj()
        parts.append(stream.decompress(stored))
        if not stream.eof:
            raise ValueError("zstd: the frame does not end")
        stored = memoryview(stream.unused_data)
    return b"".join(parts)


def _with_true_lz4_checksum(stored: memoryview) -> bytes:
    """The frame with the header checksum that the lz4 library insists on (KAFKA-3160).

    The descriptor is two flag bytes, eight more when the content size is told, then the checksum:
    the second byte of its xxh32.
    """
    frame = bytearray(stored)
    if len(frame) < 7:
        raise ValueError("lz4: the frame ends within its header")
    descriptor_end = 4 + (10 if frame[4] & 0x08 else 2)
    if descriptor_end < len(frame):
        frame[descriptor_end] = (_short_xxh32(bytes(frame[4:descriptor_end])) >> 8) & 0xFF
    return bytes(frame)


_WORD: Final = 0xFFFFFFFF
_PRIMES: Final = (2654435761, 2246822519, 3266489917, 668265263, 374761393)


def _short_xxh32(data: bytes) -> int:
    """Hash xxh32, seed 0, of fewer than 16 bytes (the algorithm's tail and final mixing)."""
    prime_1, prime_2, prime_3, prime_4, prime_5 = _PRIMES
    hash_ = (prime_5 + len(data)) & _WORD
    whole = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        hash_ = (_rotated((hash_ + word * prime_3) & _WORD, 17) * prime_4) & _WORD
    for byte in data[whole:]:
        hash_ = (_rotated((hash_ + byte * prime_5) & _WORD, 11) * prime_1) & _WORD
    hash_ = ((hash_ ^ (hash_ >> 15)) * prime_2) & _WORD
    hash_ = ((hash_ ^ (hash_ >> 13)) * prime_3) & _WORD
    return hash_ ^ (hash_ >> 16)


def _rotated(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (32 - bits))) & _WORD


_DECODERS: Final[dict[int, Callable[[memoryview], bytes]]] = {
    Codec.GZIP: _unzip,
    Codec.SNAPPY: _unsnap,
    Codec.LZ4: lz4.frame.decompress,
    Codec.ZSTD: _unzstd,
}
_FAULTS: Final = (
    EOFError,
    MemoryError,  # A frame may claim any size.
    OSError,  # What pyarrow and gzip raise for bytes that are none of theirs.
    RuntimeError,  # lz4's own.
    ValueError,
    zlib.error,
    zstandard.ZstdError,
)

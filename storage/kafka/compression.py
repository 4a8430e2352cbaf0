"""Compresses and decompresses batches with the five codecs, as Kafka frames them, in C libraries.

A batch is small, 17 KB on average, so the cost per call matters. Measured, reading 17 KB: lz4 takes
6.8 µs (12 with cramjam, used before), zstd 20 µs (33).

Kafka's forms differ from the plain ones. Snappy comes in frames of the xerial library, or raw
(Kafka's `SnappyCompression` and clients without that frame). Lz4 is the frame format with
independent blocks only, and in magic 0 its header checksum is wrong (KAFKA-3160).

What follows a frame is read as Kafka's readers do (tried with 4.3.0 on Java 17): more gzip members,
xerial frames and zstd frames are read, too, but only the first lz4 frame. What begins no gzip
member is ignored, and up to three bytes behind a xerial frame. One exception: a zstd frame that is
cut is refused, which Kafka finds or not, as its read buffers happen to end.

No frame's claim about its size is trusted: a few bytes may expand to gigabytes. `plain_bytes_max`
bounds what a payload may expand to, and a decoder stops there. `PlainLimits.together_bytes` bounds
what is decoded at a time.
"""

from __future__ import annotations

import gzip
import struct
import threading
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

import lz4.frame
import numpy as np
import pyarrow as pa
import zstandard
from numpy.typing import NDArray

from tierfold.compaction.model.errors import LEAVE_OUT, CorruptLog
from tierfold.storage.kafka.batch_layout import corrupt_batch, unknown_batch
from tierfold.storage.kafka.gzip_members import TooMuch, gunzipped, streamed
from tierfold.storage.kafka.wire import kernel

Buffer: TypeAlias = bytes | bytearray | memoryview | NDArray[np.uint8]

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = struct.Struct(">8sii")  # magic, version, lowest version that can read it
XERIAL_BLOCK_BYTES: Final = 32 * 1024
SNAPPY_RATIO_MAX: Final = 22
"""A snappy element of three bytes expands to at most 64, so a larger claim is false."""
LZ4_RATIO_MAX: Final = 255
"""A byte of an lz4 match's length expands to at most 255."""
ZSTD_RATIO_MAX: Final = 32 * 1024
"""A zstd block of four bytes expands to at most 128 KiB."""

TRUSTED_RATIO: Final = 256
"""Uncompressed to stored bytes, accepted for any payload: the maximum of lz4 and snappy."""
PLAIN_BYTES_TRUSTED: Final = 128 * 2**20
"""Accepted for the smallest payload: a hundred times the largest request that a producer sends by
default (`max.request.size`, 1 MiB, which counts uncompressed bytes)."""
PLAIN_BYTES_MAX: Final = 2**31 - 1
"""No record and no array in Kafka is larger: its sizes are int32."""


class PlainLimits(NamedTuple):
    """How many bytes compressed payloads may expand to."""

    batch_bytes: int = 0
    """Any payload may, even the smallest; see `plain_bytes_max`."""
    together_bytes: int = 2**30
    """Several that are decoded at once. One payload alone may always expand to its own limit."""

    def budget_bytes(self, left_bytes: int) -> int:
        """What a payload may expand to if those before it left so much of `together_bytes`."""
        return PLAIN_BYTES_MAX if left_bytes == self.together_bytes else left_bytes


USUAL_LIMITS: Final = PlainLimits()


def bytes_left(before_bytes: int, plain_bytes: int) -> int:
    """What a payload leaves of `PlainLimits.together_bytes`; one alone may take more."""
    return max(before_bytes - plain_bytes, 0)


GZIP_LEVEL: Final = 6  # The levels are Kafka's defaults (`CompressionType`).
ZSTD_LEVEL: Final = 3


class _Zstd(threading.local):
    """The objects that zstandard reuses between calls, for one thread."""

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
    """Compress `payload` as a batch holds it, at Kafka's default level."""
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


@kernel
def plain_bytes_max(stored_bytes: int, batch_bytes_max: int = 0) -> int:
    """The most that a payload of so many stored bytes may expand to.

    `batch_bytes_max`: accepted of any payload (`decompressed.batch.max.bytes`). Kafka has no bound
    for a batch, only one for a record (`record_sizes`).
    """
    trusted_bytes = max(TRUSTED_RATIO * stored_bytes, PLAIN_BYTES_TRUSTED)
    return min(max(trusted_bytes, batch_bytes_max), PLAIN_BYTES_MAX)


def decompress(
    codec: int,
    payload: Buffer,
    *,
    where: str,
    mend_lz4_header: bool = False,
    budget_bytes: int = PLAIN_BYTES_MAX,
    batch_bytes_max: int = 0,
) -> bytes:
    """Decompress a batch's records, or a legacy wrapper's value.

    `mend_lz4_header` is for magic 0, whose lz4 header checksum is always wrong. `budget_bytes` is
    what other payloads leave for this one; `batch_bytes_max` as in `plain_bytes_max`.

    Raises CorruptLog if Kafka has no such codec, if the bytes are not of that codec, and if they
    expand to more than `plain_bytes_max` allows; TooMuch if `budget_bytes`, a lower limit, ends.
    """
    stored = _view(payload)
    if codec == Codec.NONE:
        return bytes(stored)
    decoder = _DECODERS.get(codec)
    if decoder is None:
        raise unknown_batch(f"the compression codec is {codec}; Kafka has 0 to 4", where)
    limit_bytes = plain_bytes_max(len(stored), batch_bytes_max)
    try:
        if codec == Codec.LZ4 and mend_lz4_header:
            stored = memoryview(_with_true_lz4_checksum(stored))
        return decoder(stored, min(limit_bytes, budget_bytes))
    except TooMuch as error:
        if budget_bytes < limit_bytes:
            raise
        raise _bomb(codec, len(stored), limit_bytes, where) from error
    except _DECODER_ERRORS as error:
        raise corrupt_batch(
            f"the {Codec(codec).name.lower()} payload cannot be decompressed ({_words(error)})",
            where,
        ) from error


def _bomb(codec: int, stored_bytes: int, limit_bytes: int, where: str) -> CorruptLog:
    return CorruptLog(
        f"the {Codec(codec).name.lower()} payload of {stored_bytes} bytes holds more than "
        f"{limit_bytes} when decompressed, beyond what is accepted of it",
        where=where,
        remedy="If the data is meant to be like that, set decompressed.batch.max.bytes to the most "
        "that a batch may take, and have several times that much memory for each worker. "
        f"Otherwise {LEAVE_OUT}.",
    )


def _words(error: BaseException) -> str:
    if isinstance(error, MemoryError):  # It has no text.
        return "it asks for more memory than there is"
    return str(error) or type(error).__name__


def _view(payload: Buffer) -> memoryview:
    return payload.data if isinstance(payload, np.ndarray) else memoryview(payload)


def _xerial(plain: memoryview) -> bytes:
    parts = [XERIAL_HEADER.pack(XERIAL_MAGIC, 1, 1)]
    for start in range(0, len(plain), XERIAL_BLOCK_BYTES):
        block = pa.compress(plain[start : start + XERIAL_BLOCK_BYTES], "snappy", asbytes=True)
        parts += (struct.pack(">i", len(block)), block)
    return b"".join(parts)


def _unsnap(view: memoryview, limit_bytes: int) -> bytes:
    if len(view) < XERIAL_HEADER.size or bytes(view[:8]) != XERIAL_MAGIC:
        return _unsnap_block(view, limit_bytes)
    parts: list[bytes] = []
    at, left_bytes = XERIAL_HEADER.size, limit_bytes
    while at + 4 <= len(view):  # Fewer bytes are ignored (xerial's `SnappyInputStream`).
        if view[at : at + 4] == XERIAL_MAGIC[:4]:
            at = _xerial_header_end(view, at)
            continue
        (size_bytes,) = struct.unpack_from(">i", view, at)
        at += 4
        if not 0 <= size_bytes <= len(view) - at:
            raise ValueError(f"snappy: a block of {size_bytes} bytes at byte {at}")
        parts.append(_unsnap_block(view[at : at + size_bytes], left_bytes))
        left_bytes -= len(parts[-1])
        at += size_bytes
    return b"".join(parts)


def _xerial_header_end(view: memoryview, at: int) -> int:
    """Where the header of another frame ends; raises ValueError. Its magic is compared no further.

    As a block length, the magic would be negative.
    """
    end = at + XERIAL_HEADER.size
    if end > len(view):
        raise ValueError(f"snappy: a header is cut at byte {at}")
    _, version, _ = XERIAL_HEADER.unpack_from(view, at)
    if version < 1:
        raise ValueError(f"snappy: a header of version {version} at byte {at}")
    return end


def _unsnap_block(block: memoryview, limit_bytes: int) -> bytes:
    # The library allocates what the first varint claims before it reads the rest.
    claimed_bytes = 0
    for i, byte in enumerate(block[:5]):
        claimed_bytes |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            break
    if claimed_bytes > SNAPPY_RATIO_MAX * len(block):
        raise ValueError(f"snappy: {len(block)} bytes claim to hold {claimed_bytes}")
    if claimed_bytes > limit_bytes:
        raise TooMuch
    plain: bytes = pa.decompress(block, claimed_bytes, "snappy", asbytes=True)
    return plain


def _unlz4(stored: memoryview, limit_bytes: int) -> bytes:
    # Here, too, the library first allocates what the header claims.
    if len(stored) >= 14 and stored[4] & 0x08:
        claimed_bytes = int.from_bytes(stored[6:14], "little")
        if claimed_bytes > LZ4_RATIO_MAX * len(stored):
            raise ValueError(f"lz4: {len(stored)} bytes claim to hold {claimed_bytes}")
    if LZ4_RATIO_MAX * len(stored) <= limit_bytes:
        plain: bytes = lz4.frame.decompress(stored)
        return plain
    stream = lz4.frame.LZ4FrameDecompressor()
    plain = stream.decompress(stored, max_length=limit_bytes + 1)
    if len(plain) > limit_bytes:
        raise TooMuch
    if not stream.eof:
        raise EOFError("lz4: the frame does not end")
    return plain


def _unzstd(stored: memoryview, limit_bytes: int) -> bytes:
    parts: list[bytes] = []
    at, left_bytes = 0, limit_bytes
    while at < len(stored) or not parts:
        frame = _ZSTD.decompressor.decompressobj()  # Of the calling thread.
        plain, at = streamed(frame, ZSTD_RATIO_MAX, stored, at, left_bytes)
        parts.append(plain)
        left_bytes -= len(plain)
    return b"".join(parts)


def _with_true_lz4_checksum(stored: memoryview) -> bytes:
    """The frame with the header checksum that the lz4 library requires (KAFKA-3160).

    The descriptor is two flag bytes, and eight more if there is a content size. The checksum
    follows: the second byte of the descriptor's xxh32.
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
    """The xxh32 with seed 0 of fewer than 16 bytes: the algorithm's tail and final mixing."""
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


_DECODERS: Final[dict[int, Callable[[memoryview, int], bytes]]] = {
    Codec.GZIP: gunzipped,
    Codec.SNAPPY: _unsnap,
    Codec.LZ4: _unlz4,
    Codec.ZSTD: _unzstd,
}
_DECODER_ERRORS: Final = (
    EOFError,
    MemoryError,  # A frame may claim any size.
    OSError,  # From pyarrow.
    RuntimeError,  # From lz4.
    ValueError,
    zlib.error,
    zstandard.ZstdError,
)

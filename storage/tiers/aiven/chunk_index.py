"""Where the chunks of a `.log` are stored.

A log is cut every `chunk_bytes`, whatever batches it holds; the last chunk is the rest. Each chunk
is stored by itself, and the stored chunks follow each other without a gap.

    fixed      not compressed: all but the last are stored in the same number of bytes
    variable   compressed: the stored size of each chunk

Rule: Aiven's plugin, `FixedSizeChunkIndex`, `VariableSizeChunkIndex`, `ChunkSizesBinaryCodec`.
"""

from __future__ import annotations

import binascii
import struct
from abc import abstractmethod
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import zstandard
from numpy.typing import NDArray

INT_MAX: Final = 2**31 - 1
"""Kafka and the plugin hold sizes in Java's `int`."""

CHUNKS_MAX: Final = 2**20
"""The most encoded chunks of a log that are read: a segment of 2 GiB in chunks of 2 KiB. The plugin
recommends 4 MiB. A few hundred bytes could claim ten millions, of 8 bytes each."""


_HEADER_BYTES_MAX: Final = 64  # More than comes before and after the sizes of 1 to 4 bytes each.


class ChunkIndex(Protocol):
    """The chunks of one log, numbered from 0; sizes and positions are bytes."""

    chunk_bytes: int
    """The size of each chunk of the log, except the last."""
    log_bytes: int
    """The size of the log."""

    @abstractmethod
    def stored_start(self, chunk: int) -> int:
        """Where the chunk begins in the stored object; for `count`, where the last one ends."""

    @property
    def held_bytes(self) -> int:
        """The memory that the index takes, beyond a few numbers."""
        return 0

    @property
    def count(self) -> int:
        """How many chunks there are."""
        return -(-self.log_bytes // self.chunk_bytes)

    @property
    def stored_bytes(self) -> int:
        """The size of the stored object."""
        return self.stored_start(self.count)

    def size_of(self, chunk: int) -> int:
        """The size of the chunk in the log."""
        return min(self.chunk_bytes, self.log_bytes - chunk * self.chunk_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedChunks(ChunkIndex):
    """Chunks that are stored in the same size, except the last."""

    chunk_bytes: int
    log_bytes: int
    stored_chunk_bytes: int
    last_stored_bytes: int

    def stored_start(self, chunk: int) -> int:
        """See `ChunkIndex`."""
        if chunk < self.count or not chunk:
            return chunk * self.stored_chunk_bytes
        return (chunk - 1) * self.stored_chunk_bytes + self.last_stored_bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VariableChunks(ChunkIndex):
    """Chunks whose stored sizes differ."""

    chunk_bytes: int
    log_bytes: int
    _ends: NDArray[np.int64]
    """Shape (chunks + 1,): where chunks are stored."""

    @staticmethod
    def of(chunk_bytes: int, log_bytes: int, stored_sizes: NDArray[np.int64]) -> VariableChunks:
        """The index of chunks of these stored sizes, shape (chunks,)."""
        ends = np.zeros(len(stored_sizes) + 1, np.int64)
        np.cumsum(stored_sizes, out=ends[1:])
        return VariableChunks(chunk_bytes=chunk_bytes, log_bytes=log_bytes, _ends=ends)

    @property
    def held_bytes(self) -> int:
        """See `ChunkIndex`."""
        return self._ends.nbytes

    def stored_start(self, chunk: int) -> int:
        """See `ChunkIndex`."""
        return int(self._ends[chunk])


def decoded_sizes(text: str, chunks: int) -> NDArray[np.int64]:
    """The stored sizes in `transformedChunks`, shape (chunks,); raises ValueError.

    Base64 of a zstd frame with its content size, of big-endian values: int32 count; if there are
    several, int32 base, uint8 width, and all but the last size as `width` bytes each, less the
    base; int32 last size.
    """
    check_count(chunks)
    data = _decompressed(text, _HEADER_BYTES_MAX + 4 * chunks)
    if len(data) < 4:
        raise ValueError("it has no count of chunks")
    (count,) = struct.unpack_from(">i", data)
    if count != chunks:
        raise ValueError(f"it has {count} chunks, but the log has {chunks}")
    if not count:
        if len(data) != 4:
            raise ValueError(f"0 chunks in {len(data)} bytes")
        return np.empty(0, np.int64)
    several = np.empty(0, np.int64)
    if count > 1:
        several, data = _all_but_last(data, count)
    if len(data) != 8:
        raise ValueError(f"{count} chunks, and bytes that do not fit this number")
    sizes = np.append(several, struct.unpack_from(">i", data, 4)).astype(np.int64)
    if sizes.min() <= 0 or sizes.max() > INT_MAX:
        raise ValueError("the stored size of a chunk is not positive, or too large")
    return sizes


def check_count(chunks: int) -> None:
    """Raise ValueError for more encoded chunks than are read."""
    if chunks > CHUNKS_MAX:
        raise ValueError(f"the log has {chunks} chunks, and at most {CHUNKS_MAX} are read")


def encoded_sizes(sizes: NDArray[np.int64]) -> str:
    """The text that `decoded_sizes` takes, of at least one size."""
    parts = [struct.pack(">i", len(sizes))]
    if len(sizes) > 1:
        low = int(sizes[:-1].min())
        above = sizes[:-1] - low
        width = max(1, (int(above.max()).bit_length() + 7) // 8)
        parts.append(struct.pack(">iB", low, width))
        parts.append(above.astype(">u4").view(np.uint8).reshape(-1, 4)[:, 4 - width :].tobytes())
    parts.append(struct.pack(">i", int(sizes[-1])))
    return b64encode(zstandard.ZstdCompressor().compress(b"".join(parts))).decode("ascii")


def _all_but_last(data: bytes, count: int) -> tuple[NDArray[np.int64], bytes]:
    """All sizes but the last, and the count with the bytes that follow them."""
    if len(data) < 9:
        raise ValueError("it ends within its header")
    low, width = struct.unpack_from(">iB", data, 4)
    if low < 0 or not 1 <= width <= 4:
        raise ValueError(f"sizes from {low} on in {width} bytes each")
    end = 9 + (count - 1) * width
    if len(data) != end + 4:
        raise ValueError(f"{count} chunks in {len(data)} bytes")
    columns = np.frombuffer(data, np.uint8, count=end - 9, offset=9).reshape(-1, width)
    powers = 256 ** np.arange(width - 1, -1, -1, dtype=np.int64)
    return columns @ powers + low, data[:4] + data[end:]


def _decompressed(text: str, bytes_max: int) -> bytes:
    try:
        packed = b64decode(text, validate=True)
        claimed_bytes = zstandard.frame_content_size(packed)
        if not 0 <= claimed_bytes <= bytes_max:
            raise ValueError(f"its frame claims {claimed_bytes} bytes")
        return zstandard.ZstdDecompressor().decompress(packed, allow_extra_data=False)
    except binascii.Error as error:
        raise ValueError("it is not base64") from error
    except zstandard.ZstdError as error:
        raise ValueError(f"it cannot be decompressed ({error})") from error

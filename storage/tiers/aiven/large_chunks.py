"""Decodes a large chunk a stretch at a time, in the same memory whatever its size.

The plugin allows chunks of up to 1 GiB. A smaller one is decoded as a whole (`chunk_transform`);
this one is fetched, decrypted and decompressed as it is read, from its start on. A chunk that is
only read in part is not authenticated: its tag is at its end, and compared there. Every reader that
changes anything reads the log to its end, and the batches have checksums of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Final, cast

import numpy as np
import zstandard
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import GCM
from numpy.typing import NDArray

from tierfold.storage.tiers.aiven.chunk_transform import (
    IV_BYTES,
    TAG_BYTES,
    ChunkTransform,
    DataKey,
    cannot_be_decrypted,
    check_claim,
    corrupt_object,
    undecodable_frame,
)

FETCHED_BYTES: Final = 4 * 2**20
"""Fetched at a time."""

WINDOW_BYTES_MAX: Final = 8 * 2**20
"""The largest window of a zstd frame that is decoded in stretches. The plugin compresses at zstd's
default level, whose window has 2 MiB; zstd itself would allow 128."""

STREAMS_MAX: Final = 16
"""Chunks that are open at a time, some 6 MiB each, at most 12: more than segments are read at once.
"""

_HEADER_BYTES_MAX: Final = 18  # Of a zstd frame.


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeChunk:
    """A chunk in a stored `.log`."""

    name: tuple[str, int]
    """The object's key, and the chunk's number."""
    read: Callable[[int, int], NDArray[np.uint8]]
    """(start, length) → these bytes of the object."""
    start: int
    stored_bytes: int
    size_bytes: int
    """Once decoded."""
    where: str


class OpenChunks:
    """Chunks that were read up to some position, where the next reader may go on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[_Stream] = []

    def read(
        self, chunk: LargeChunk, transform: ChunkTransform, start: int, end: int
    ) -> NDArray[np.uint8]:
        """Bytes `[start, end)` of the decoded chunk; raises UnreadableObject and CorruptLog.

        It is cheap if an earlier read ended at `start`; else the chunk is decoded from its start.
        """
        stream = self._taken(chunk, start) or _Stream(chunk, transform)
        while stream.position < start:
            stream.next(min(FETCHED_BYTES, start - stream.position))
        found = stream.next(end - start)
        if stream.position == chunk.size_bytes:
            stream.check_end()
        else:
            self._keep(stream)
        return found

    def _taken(self, chunk: LargeChunk, start: int) -> _Stream | None:
        with self._lock:
            fitting = [
                stream
                for stream in self._waiting
                if stream.chunk.name == chunk.name and stream.position <= start
            ]
            if not fitting:
                return None
            nearest = max(fitting, key=lambda stream: stream.position)
            self._waiting.remove(nearest)
            return nearest

    def _keep(self, stream: _Stream) -> None:
        with self._lock:
            self._waiting = [*self._waiting, stream][-STREAMS_MAX:]

    def __reduce__(self) -> tuple[object, ...]:
        return (OpenChunks, ())


class _Stream:
    """A chunk, decoded up to a position."""

    def __init__(self, chunk: LargeChunk, transform: ChunkTransform) -> None:
        self.chunk = chunk
        self.position = 0
        self._packed = _Packed(chunk, transform.data_key)
        self._frame: zstandard.ZstdDecompressionReader | None = None
        if transform.is_compressed:
            head = self._packed.peek(_HEADER_BYTES_MAX)
            check_claim(head, chunk.stored_bytes, chunk.size_bytes, chunk.where)
            # Bytes after the frame are an error: another frame would hold more than is announced.
            decompressor = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX)
            self._frame = decompressor.stream_reader(
                cast(IO[bytes], self._packed), read_across_frames=True
            )

    def next(self, length: int) -> NDArray[np.uint8]:
        """The next bytes; raises CorruptLog if the chunk has fewer."""
        found = np.empty(length, np.uint8)
        at = 0
        while at < length:
            data = self._read(length - at)
            if not data:
                raise corrupt_object(
                    f"it has {self.position + at} bytes when decoded, the manifest says"
                    f" {self.chunk.size_bytes}",
                    self.chunk.where,
                )
            found[at : at + len(data)] = np.frombuffer(data, np.uint8)
            at += len(data)
        self.position += length
        return found

    def check_end(self) -> None:
        """Raise CorruptLog if more follows, or if the tag is not that of the chunk."""
        if self._read(1) or self._packed.read(1):
            raise corrupt_object("it is longer than the manifest says", self.chunk.where)

    def _read(self, length: int) -> bytes:
        try:
            return (self._packed if self._frame is None else self._frame).read(length)
        except zstandard.ZstdError as error:
            raise undecodable_frame(error, self.chunk.where) from error


class _Packed:
    """The chunk as it was before it was encrypted: a file to read from."""

    def __init__(self, chunk: LargeChunk, data_key: DataKey | None) -> None:
        self._chunk = chunk
        self._fetched = 0
        self._ready = memoryview(b"")
        self._end = chunk.stored_bytes - (0 if data_key is None else TAG_BYTES)
        self._opener = None
        if data_key is not None:
            iv = self._fetch(min(IV_BYTES, chunk.stored_bytes))
            if self._end < self._fetched:
                raise cannot_be_decrypted(chunk.where)
            self._opener = Cipher(AES(data_key.key), GCM(iv.tobytes())).decryptor()
            self._opener.authenticate_additional_data(data_key.aad)

    def peek(self, length: int) -> bytes:
        """The next bytes, which stay; fewer at the end."""
        if not self._ready:
            self._fill()
        return bytes(self._ready[:length])

    def read(self, length: int) -> bytes:
        """The next bytes, one to `length` of them; none at the end, where the tag is compared."""
        data = self.peek(length)
        self._ready = self._ready[length:]
        return data

    def _fill(self) -> None:
        length = min(FETCHED_BYTES, self._end - self._fetched)
        if length > 0:
            data = self._fetch(length)
            opened = data.data if self._opener is None else self._opener.update(data.data)
            self._ready = memoryview(opened)
        elif self._opener is not None:
            try:
                self._opener.finalize_with_tag(self._fetch(TAG_BYTES).tobytes())
            except InvalidTag:
                raise cannot_be_decrypted(self._chunk.where) from None
            self._opener = None

    def _fetch(self, length: int) -> NDArray[np.uint8]:
        chunk = self._chunk
        data = chunk.read(chunk.start + self._fetched, length)
        if len(data) < length:
            raise corrupt_object(
                f"the object ends within it, after {self._fetched + len(data)} of"
                f" {chunk.stored_bytes} bytes",
                chunk.where,
            )
        self._fetched += length
        return data

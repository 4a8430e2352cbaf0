"""Reads the parts of a segment from its objects, as its manifest says they are stored.

Of an encoded `.log`, one request fetches only the chunks that hold the wanted bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.model.errors import CorruptLog, UnreadableObject
from tierfold.storage.tiers.aiven.chunk_transform import ChunkTransform, corrupt_object
from tierfold.storage.tiers.aiven.large_chunks import LargeChunk, OpenChunks
from tierfold.storage.tiers.aiven.manifest import PIECES, Manifest
from tierfold.storage.tiers.object_store import Bytes, ObjectStore
from tierfold.storage.tiers.remote_tier import Access, Part, check_size

CHUNK_BYTES_HELD: Final = 16 * 2**20
"""The largest chunk that is decoded or encoded as a whole: it and what it becomes are in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSegment:
    """A segment whose manifest was read."""

    store: ObjectStore
    log_key: str
    indexes_key: str
    manifest: Manifest
    transform: ChunkTransform
    open_chunks: OpenChunks
    """Of all segments of the tier, in this process."""

    def access(self, part: Part) -> Access:
        """See `RemoteTier.access`."""
        if part is not Part.LOG:
            return Access()
        if self.manifest.is_plain:
            return Access(map_range=self.store.range_mapper(self.log_key))
        if self.has_large_chunks:
            return Access(is_in_order=True)
        return Access(unit_bytes=self.manifest.chunks.chunk_bytes)

    @property
    def has_large_chunks(self) -> bool:
        """Whether chunks are too large to be decoded as a whole."""
        chunks = self.manifest.chunks
        largest_bytes = min(chunks.chunk_bytes, chunks.log_bytes)
        return not self.manifest.is_plain and largest_bytes > CHUNK_BYTES_HELD

    def read_part(self, part: Part) -> NDArray[np.uint8]:
        """A whole part; raises UnreadableObject and CorruptLog."""
        if part is Part.LOG:
            return self.read_log(0, self.manifest.chunks.log_bytes + 1)
        piece = self.manifest.pieces.get(part)
        where = self.store.uri(self.indexes_key)
        if piece is None:
            raise UnreadableObject(
                f"it is not there: the segment has no {PIECES[part]} index",
                where=where,
                remedy="List the tier again; if a segment still names it, restore it from a copy.",
            )
        if not piece.size_bytes:
            return np.empty(0, np.uint8)
        check_size(part, self.manifest.part_bytes(part) or 0, f"{where} (.{part})")
        found = self.store.read_range(self.indexes_key, piece.position, piece.size_bytes)
        if len(found) != piece.size_bytes:
            raise _cut_off(piece.position + len(found), piece.end, where)
        return _array(self.transform.read_piece(found, f"{where} ({PIECES[part]})"))

    def read_range(self, part: Part, start: int, length: int) -> NDArray[np.uint8]:
        """See `RemoteTier.read_range`."""
        if part is Part.LOG:
            return self.read_log(start, length)
        return self.read_part(part)[start : start + length]

    def read_log(self, start: int, length: int) -> NDArray[np.uint8]:
        """Up to `length` bytes of the log from `start` on, fewer at its end.

        If more is asked for than the log has, the stored object must end where its chunks do.

        Raises UnreadableObject and CorruptLog.
        """
        chunks = self.manifest.chunks
        end = min(start + length, chunks.log_bytes)
        if start >= end:
            return np.empty(0, np.uint8)
        is_beyond = start + length > chunks.log_bytes
        if self.manifest.is_plain:
            return self._stored(start, end, is_beyond=is_beyond)
        if self.has_large_chunks:
            if is_beyond:
                self._stored(chunks.stored_bytes, chunks.stored_bytes, is_beyond=True)
            return self._decoded(start, end, self._streamed)
        first, last = start // chunks.chunk_bytes, (end - 1) // chunks.chunk_bytes
        origin = chunks.stored_start(first)
        stored = self._stored(origin, chunks.stored_start(last + 1), is_beyond=is_beyond)
        where = self.store.uri(self.log_key)

        def decoded(chunk: int, low: int, high: int) -> NDArray[np.uint8]:
            at, behind = chunks.stored_start(chunk), chunks.stored_start(chunk + 1)
            piece, size_bytes = stored[at - origin : behind - origin], chunks.size_of(chunk)
            data = self.transform.decoded(piece, size_bytes, f"{where}, chunk {chunk}")
            return np.frombuffer(data, np.uint8)[low:high]

        return self._decoded(start, end, decoded)

    def _stored(self, start: int, end: int, *, is_beyond: bool) -> NDArray[np.uint8]:
        """Bytes `[start, end)` of the stored `.log`; it must end there if `is_beyond`."""
        found = self.store.read_range(self.log_key, start, end - start + is_beyond)
        where = self.store.uri(self.log_key)
        if len(found) < end - start:
            raise _cut_off(start + len(found), end, where)
        if len(found) > end - start:
            raise corrupt_object(
                f"the object continues after byte {end}, where it ends according to its manifest",
                where,
            )
        return found

    def _decoded(
        self, start: int, end: int, decoded: Callable[[int, int, int], NDArray[np.uint8]]
    ) -> NDArray[np.uint8]:
        """Bytes `[start, end)` of the log; `decoded` returns bytes `[low, high)` of a chunk."""
        chunk_bytes = self.manifest.chunks.chunk_bytes
        found = np.empty(end - start, np.uint8)
        for chunk in range(start // chunk_bytes, (end - 1) // chunk_bytes + 1):
            at = chunk * chunk_bytes
            low, high = max(start, at), min(end, at + chunk_bytes)
            found[low - start : high - start] = decoded(chunk, low - at, high - at)
        return found

    def _streamed(self, chunk: int, low: int, high: int) -> NDArray[np.uint8]:
        chunks = self.manifest.chunks
        at, behind = chunks.stored_start(chunk), chunks.stored_start(chunk + 1)
        large = LargeChunk(
            name=(self.log_key, chunk),
            read=partial(self.store.read_range, self.log_key),
            start=at,
            stored_bytes=behind - at,
            size_bytes=chunks.size_of(chunk),
            where=f"{self.store.uri(self.log_key)}, chunk {chunk}",
        )
        return self.open_chunks.read(large, self.transform, low, high)


def _cut_off(end: int, expected: int, where: str) -> CorruptLog:
    return corrupt_object(
        f"the object ends at byte {end}, and its manifest places data up to byte {expected}", where
    )


def _array(data: Bytes) -> NDArray[np.uint8]:
    """A writable array; arrays are returned as they are."""
    return data if isinstance(data, np.ndarray) else np.frombuffer(bytearray(data), np.uint8)

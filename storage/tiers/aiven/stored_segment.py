"""Reads the parts of a segment from its objects, as its manifest says they are stored.

Of an encoded `.log` only the chunks are fetched that hold the wanted bytes, in one request.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.model.errors import CorruptLog, UnreadableObject
from tierfold.storage.tiers.aiven.chunk_transform import ChunkTransform, corrupt_object
from tierfold.storage.tiers.aiven.manifest import PIECES, Manifest
from tierfold.storage.tiers.object_store import Bytes, ObjectStore
from tierfold.storage.tiers.remote_tier import Access, Part


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSegment:
    """A segment whose manifest was read."""

    store: ObjectStore
    log_key: str
    indexes_key: str
    manifest: Manifest
    transform: ChunkTransform

    def access(self, part: Part) -> Access:
        """See `RemoteTier.access`."""
        if part is not Part.LOG or self.manifest.is_plain:
            return Access(is_mapped=part is Part.LOG and self.store.maps_ranges)
        return Access(unit_bytes=self.manifest.chunks.chunk_bytes)

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
        first, last = start // chunks.chunk_bytes, (end - 1) // chunks.chunk_bytes
        stored_start, stored_end = chunks.stored_start(first), chunks.stored_start(last + 1)
        if self.manifest.is_plain:
            stored_start, stored_end = start, end
        is_beyond = start + length > chunks.log_bytes
        stored = self.store.read_range(
            self.log_key, stored_start, stored_end - stored_start + is_beyond
        )
        where = self.store.uri(self.log_key)
        if len(stored) < stored_end - stored_start:
            raise _cut_off(stored_start + len(stored), stored_end, where)
        if len(stored) > stored_end - stored_start:
            raise corrupt_object(
                f"the object goes on behind byte {stored_end}, where it ends by its manifest", where
            )
        if self.manifest.is_plain:
            return stored
        return self._decoded(stored, start, end)

    def _decoded(self, stored: NDArray[np.uint8], start: int, end: int) -> NDArray[np.uint8]:
        """Bytes `[start, end)` of the log, of the stored chunks that hold them."""
        chunks = self.manifest.chunks
        first, last = start // chunks.chunk_bytes, (end - 1) // chunks.chunk_bytes
        origin = chunks.stored_start(first)
        found = np.empty(end - start, np.uint8)
        for chunk in range(first, last + 1):
            place = slice(
                chunks.stored_start(chunk) - origin, chunks.stored_start(chunk + 1) - origin
            )
            where = f"{self.store.uri(self.log_key)}, chunk {chunk}"
            data = self.transform.decoded(stored[place], chunks.size_of(chunk), where)
            at = chunk * chunks.chunk_bytes
            low, high = max(start, at), min(end, at + len(data))
            found[low - start : high - start] = np.frombuffer(data, np.uint8)[low - at : high - at]
        return found


def _cut_off(end: int, expected: int, where: str) -> CorruptLog:
    return corrupt_object(
        f"the object ends at byte {end}, and its manifest places data up to byte {expected}", where
    )


def _array(data: Bytes) -> NDArray[np.uint8]:
    """A writable array; arrays are returned as they are."""
    return data if isinstance(data, np.ndarray) else np.frombuffer(bytearray(data), np.uint8)

"""Writes a segment in the layout of Aiven's plugin: `.log`, `.indexes`, `.rsm-manifest`.

The log is cut into chunks while it is written, so at most one chunk is held. The other parts are
small, and held until all are there. The manifest comes last: without it the segment is incomplete.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from tierfold.compaction.model.segments import Segment
from tierfold.storage.clock import now_ms
from tierfold.storage.tiers.aiven.chunk_index import ChunkIndex, FixedChunks, VariableChunks
from tierfold.storage.tiers.aiven.chunk_transform import ChunkTransform
from tierfold.storage.tiers.aiven.manifest import (
    PIECES,
    SEALED_BYTES,
    Encryption,
    Manifest,
    Piece,
    write_manifest,
)
from tierfold.storage.tiers.aiven.object_names import ObjectNames, Suffix
from tierfold.storage.tiers.object_store import (
    Bytes,
    ObjectStore,
    ObjectWriter,
    PartWriter,
    as_view,
)
from tierfold.storage.tiers.remote_tier import Part, SegmentAddress, StagedSegment, check_order

CHUNK_BYTES_DEFAULT: Final = 4 * 2**20
"""What the plugin's documentation recommends, if nothing says more."""


class _ChunkWriter(PartWriter):
    """Cuts a log into chunks, its parts, and writes each as it is stored.

    `size_bytes` counts the log, not the object.
    """

    def __init__(self, writer: ObjectWriter, chunk_bytes: int, transform: ChunkTransform) -> None:
        super().__init__(chunk_bytes)
        self._writer = writer
        self._transform = transform
        self._stored_sizes: list[int] = []

    def write(self, data: Bytes) -> None:
        """See `ObjectWriter`; a plain log is written without being held."""
        if self._transform.is_plain:
            self._writer.write(data)
            self.size_bytes += len(data)
        else:
            super().write(data)

    def finish(self) -> ChunkIndex:
        """Write what is left; return where the chunks are.

        Raises UnreadableObject, and ValueError for a log of 0 bytes, at which consumers get stuck.
        """
        if not self.size_bytes:
            raise ValueError("a .log of 0 bytes is never written")
        if self.part:
            self.send_part()
        if self._transform.is_compressed:
            sizes = np.array(self._stored_sizes, np.int64)
            return VariableChunks.of(self.part_bytes, self.size_bytes, sizes)
        added = 0 if self._transform.data_key is None else SEALED_BYTES
        last_bytes = (self.size_bytes - 1) % self.part_bytes + 1
        return FixedChunks(
            chunk_bytes=self.part_bytes,
            log_bytes=self.size_bytes,
            stored_chunk_bytes=self.part_bytes + added,
            last_stored_bytes=last_bytes + added,
        )

    def send_part(self) -> None:
        """See `PartWriter`."""
        stored = self._transform.encoded(self.part)
        self._writer.write(stored)
        self._stored_sizes.append(len(stored))
        self.part.clear()


@dataclass(slots=True, kw_only=True)
class StagedObjects(StagedSegment):
    """A segment being written; see `StagedSegment`."""

    store: ObjectStore
    names: ObjectNames
    address: SegmentAddress
    chunk_bytes: int
    transform: ChunkTransform
    wrapped_key: str
    """The transform's data key, wrapped; empty: there is none."""
    _objects: list[tuple[str, int]] = field(default_factory=list)
    _pieces: dict[Part, Bytes] = field(default_factory=dict)
    _chunks: ChunkIndex | None = None

    @property
    def objects(self) -> tuple[tuple[str, int], ...]:
        """See `StagedSegment.objects`."""
        return tuple(self._objects)

    @contextmanager
    def open_log(self) -> Iterator[ObjectWriter]:
        """See `StagedSegment.open_log`."""
        check_order(Part.LOG, self._written)
        with self.store.open_new(self._key(Suffix.LOG)) as writer:
            chunks = _ChunkWriter(writer, self.chunk_bytes, self.transform)
            yield chunks
            index = chunks.finish()
        self._chunks = index
        self._objects.append((Suffix.LOG.value, writer.size_bytes))

    def put(self, part: Part, data: Bytes) -> None:
        """See `StagedSegment.put`; all but the log are held until `finish`."""
        if part is Part.LOG:
            with self.open_log() as writer:
                writer.write(data)
            return
        check_order(part, self._written)
        self._pieces[part] = data

    def finish(self, segment: Segment) -> Segment:
        """See `StagedSegment.finish`; raises ValueError if a part is missing."""
        missing = [part for part in PIECES if part not in self._pieces]
        if self._chunks is None or missing not in ([], [Part.TRANSACTION_INDEX]):
            raise ValueError(f"a segment without {missing} cannot be finished")
        pieces = self._put_indexes()
        encryption = None
        if self.transform.data_key is not None:
            aad = self.transform.data_key.aad
            encryption = Encryption(wrapped_key=self.wrapped_key, aad=aad)
        manifest = Manifest(
            chunks=self._chunks,
            pieces=pieces,
            is_compressed=self.transform.is_compressed,
            encryption=encryption,
        )
        self._create(
            Suffix.MANIFEST, write_manifest(manifest, self.address, segment, event_ms=now_ms())
        )
        return replace(
            segment,
            stored_log_bytes=self._chunks.stored_bytes,
            stored_indexes_bytes=manifest.indexes_bytes,
        )

    @property
    def _written(self) -> list[Part]:
        log = [] if self._chunks is None else [Part.LOG]
        return [*log, *self._pieces]

    def _put_indexes(self) -> dict[Part, Piece]:
        """Write the pieces that there are, in the plugin's order; return where they are."""
        stored = bytearray()
        pieces: dict[Part, Piece] = {}
        for part in PIECES:
            if part not in self._pieces:
                continue
            data = self.transform.stored_piece(self._pieces[part])
            pieces[part] = Piece(position=len(stored), size_bytes=len(data))
            stored += as_view(data)
        self._create(Suffix.INDEXES, stored)
        return pieces

    def _create(self, suffix: Suffix, data: Bytes) -> None:
        self.store.create(self._key(suffix), data)
        self._objects.append((suffix.value, len(data)))

    def _key(self, suffix: Suffix) -> str:
        return self.names.object_key(self.address, suffix)

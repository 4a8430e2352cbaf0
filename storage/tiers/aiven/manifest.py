"""Reads and writes `.rsm-manifest`, which says how the other two objects of a segment are stored.

A JSON object, never compressed or encrypted. The plugin's reader refuses a manifest with a field
that it does not know, and so does this one: it may change how the others are read.
`remoteLogSegmentMetadata` is for information, and may be missing; it says whose objects they are.
Rule: Aiven's plugin, `SegmentManifestV1`, and LANDSCAPE 3.4.
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np

from tierfold.compaction.model.errors import LEAVE_OUT, CorruptLog
from tierfold.compaction.model.segments import Segment
from tierfold.storage.tiers.aiven.chunk_index import (
    INT_MAX,
    ChunkIndex,
    FixedChunks,
    VariableChunks,
    check_count,
    decoded_sizes,
    encoded_sizes,
)
from tierfold.storage.tiers.aiven.segment_owner import (
    Owner,
    copied_metadata,
    end_in,
    metadata_of,
    owner_in,
)
from tierfold.storage.tiers.object_store import Bytes
from tierfold.storage.tiers.remote_tier import Part, SegmentAddress

MANIFEST_BYTES_MAX: Final = 8 * 2**20
"""More than `CHUNKS_MAX` chunk sizes that cannot be compressed, in base64, and the leader epochs
that `MANIFEST_VALUES_MAX` allows."""

MANIFEST_VALUES_MAX: Final = 50_000
"""More values than the manifest of a segment with very many leader epochs has. Each takes a hundred
times as much memory as its text."""

DATA_KEY_CHARACTERS_MAX: Final = 8192
"""A key of RSA with 16,384 bits wraps a data key in 2,732 characters; the rest is the key's id."""

AAD_CHARACTERS_MAX: Final = 1024
"""The plugin writes 44."""

CHUNK_BYTES_MAX: Final = 2**30 - 1
"""The largest `chunk.size` that the plugin allows."""

SEALED_BYTES: Final = 28
"""What encryption adds to a chunk: 12 bytes of IV and 16 of tag."""

PIECES: Final[Mapping[Part, str]] = {
    Part.OFFSET_INDEX: "offset",
    Part.TIME_INDEX: "timestamp",
    Part.SNAPSHOT: "producerSnapshot",
    Part.LEADER_EPOCH_CHECKPOINT: "leaderEpoch",
    Part.TRANSACTION_INDEX: "transaction",
}
"""The parts in `.indexes`, in their order, and what the manifest calls them."""


class _MalformedError(ValueError):
    """A manifest that the plugin would not have written."""


_METADATA: Final = "remoteLogSegmentMetadata"
_PUFFIN: Final = b"PFA1"
_VERSION: Final = "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Where a part is stored in `.indexes`."""

    position: int
    size_bytes: int

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.position + self.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Encryption:
    """How a segment's chunks and pieces are encrypted."""

    wrapped_key: str
    """The data key under a key pair: `<key id>:<base64>`."""
    aad: bytes
    """Additional data of every chunk and piece."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """How the objects of a segment are stored."""

    chunks: ChunkIndex
    pieces: Mapping[Part, Piece]
    """By part; without the transaction index, if there is none."""
    is_compressed: bool
    encryption: Encryption | None
    owner: Owner = field(default_factory=Owner, compare=False)
    """Whose it is, as far as a manifest says that was read."""
    end_offset: int | None = field(default=None, compare=False)
    """The segment's last offset, of a manifest that was read; None: it does not say."""

    @property
    def is_plain(self) -> bool:
        """Whether the stored `.log` is the segment's."""
        return not self.is_compressed and self.encryption is None

    @property
    def indexes_bytes(self) -> int:
        """The size of the stored `.indexes`."""
        return max(piece.end for piece in self.pieces.values())

    def part_bytes(self, part: Part) -> int | None:
        """The size of a part as Kafka counts it; None: the segment lacks the part."""
        if part is Part.LOG:
            return self.chunks.log_bytes
        piece = self.pieces.get(part)
        if piece is None or not piece.size_bytes or self.encryption is None:
            return None if piece is None else piece.size_bytes
        return piece.size_bytes - SEALED_BYTES


def read_manifest(data: Bytes, where: str) -> Manifest:
    """The manifest in the bytes of the object `where`; raises CorruptLog."""
    raw = bytes(data)
    if raw.startswith(_PUFFIN):
        raise CorruptLog(
            "the segments are kept as an Iceberg table (segment.format=iceberg)",
            where=where,
            remedy="tierfold reads no Iceberg tables, only segments in Kafka's format:"
            f" {LEAVE_OUT}. The partition is left unchanged.",
        )
    if len(raw) > MANIFEST_BYTES_MAX:
        raise _unusable(f"it has more than {MANIFEST_BYTES_MAX} bytes", where)
    if sum(map(raw.count, (b",", b"[", b"{"))) > MANIFEST_VALUES_MAX:
        raise _unusable(f"it has more than {MANIFEST_VALUES_MAX} values", where)
    try:
        found = json.loads(raw.decode("utf-8"), object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as error:
        raise _unusable(f"it is not valid JSON ({_first_words(error)})", where) from error
    try:
        return _manifest(found)
    except ValueError as error:
        raise _unusable(str(error), where) from error


def write_manifest(
    manifest: Manifest, address: SegmentAddress, segment: Segment, *, event_ms: int
) -> bytes:
    """The bytes of a manifest, as the plugin writes them; `event_ms` is epoch milliseconds.

    Raises ValueError if a size does not fit the plugin's `int`.
    """
    if max(manifest.chunks.log_bytes, manifest.indexes_bytes) > INT_MAX:
        raise ValueError(f"a segment of {manifest.chunks.log_bytes} bytes is too large")
    fields: dict[str, Any] = {
        "version": _VERSION,
        "chunkIndex": _chunk_fields(manifest.chunks),
        "segmentIndexes": {
            name: _piece_fields(manifest.pieces.get(part)) for part, name in PIECES.items()
        },
        "compression": manifest.is_compressed,
    }
    if manifest.encryption is not None:
        aad = b64encode(manifest.encryption.aad).decode("ascii")
        fields["encryption"] = {"dataKey": manifest.encryption.wrapped_key, "aad": aad}
    fields[_METADATA] = metadata_of(address, segment, event_ms)
    return json.dumps(fields, separators=(",", ":")).encode("ascii")


def copied_manifest(
    data: Bytes, address: SegmentAddress, copy: Segment, *, event_ms: int
) -> bytes:
    """The manifest of a copy; `data` is its source's, which `read_manifest` has read.

    Only the metadata change: chunks, pieces, data key and additional data stay.
    """
    fields = json.loads(bytes(data))
    metadata = copied_metadata(fields.get(_METADATA), address, copy, event_ms)
    return json.dumps({**fields, _METADATA: metadata}, separators=(",", ":")).encode("ascii")


def _manifest(found: object) -> Manifest:
    version = found.get("version") if isinstance(found, dict) else None
    if version != _VERSION:
        shown = json.dumps(version)[:80]
        raise _MalformedError(f"its version is {shown}, and only {_VERSION!r} is known")
    top = _object(found, "it", _TOP, _MAY_LACK)
    is_compressed = top["compression"]
    if not isinstance(is_compressed, bool):
        raise _MalformedError("compression is neither true nor false")
    encryption = _encryption(top.get("encryption"))
    manifest = Manifest(
        chunks=_chunks(top["chunkIndex"]),
        pieces=_pieces(top["segmentIndexes"]),
        is_compressed=is_compressed,
        encryption=encryption,
        owner=owner_in(top.get(_METADATA)),
        end_offset=end_in(top.get(_METADATA)),
    )
    _check_stored_sizes(manifest)
    return manifest


def _chunks(found: object) -> ChunkIndex:
    kind = found.get("type") if isinstance(found, dict) else None
    if not isinstance(kind, str) or kind not in _CHUNKS:
        raise _MalformedError(
            f"the type of chunkIndex is {json.dumps(kind)[:80]}, neither fixed nor variable"
        )
    index = _object(found, "chunkIndex", _CHUNKS[kind])
    chunk_bytes = _size(index, "originalChunkSize", least=1, most=CHUNK_BYTES_MAX)
    log_bytes = _size(index, "originalFileSize")
    if kind == "fixed":
        return FixedChunks(
            chunk_bytes=chunk_bytes,
            log_bytes=log_bytes,
            stored_chunk_bytes=_size(index, "transformedChunkSize"),
            last_stored_bytes=_size(index, "finalTransformedChunkSize"),
        )
    text = index["transformedChunks"]
    if not isinstance(text, str):
        raise _MalformedError("transformedChunks is not a string")
    try:
        sizes = decoded_sizes(text, -(-log_bytes // chunk_bytes))
    except ValueError as error:
        raise _MalformedError(f"transformedChunks cannot be decoded: {error}") from error
    return VariableChunks.of(chunk_bytes, log_bytes, sizes)


def _check_stored_sizes(manifest: Manifest) -> None:
    """Raise ValueError for stored sizes that contradict the log's, where they are known."""
    added = 0 if manifest.encryption is None else SEALED_BYTES
    chunks = manifest.chunks
    if not manifest.is_plain:
        check_count(chunks.count)
    expected = chunks.log_bytes + chunks.count * added
    if not manifest.is_compressed and chunks.stored_bytes != expected:
        raise _MalformedError(
            f"the chunk index has {chunks.stored_bytes} stored bytes, but {chunks.log_bytes}"
            f" bytes in {chunks.count} chunks make {expected}"
        )
    if isinstance(chunks, FixedChunks) and not manifest.is_compressed:
        _check_chunk_size(chunks, chunks.chunk_bytes + added)
    for part, piece in manifest.pieces.items():
        if 0 < piece.size_bytes < added:
            name = PIECES[part]
            raise _MalformedError(f"{name} is encrypted, but has only {piece.size_bytes} bytes")


def _check_chunk_size(chunks: FixedChunks, expected_bytes: int) -> None:
    """Raise ValueError if chunks that are followed by another one have another stored size.

    Where all chunks together have the right size, too: the plugin finds a byte by the sizes of the
    chunks before its own, so brokers would get other bytes.
    """
    if chunks.count > 1 and chunks.stored_chunk_bytes != expected_bytes:
        raise _MalformedError(
            f"the chunk index has chunks of {chunks.chunk_bytes} bytes in"
            f" {chunks.stored_chunk_bytes} each, not in {expected_bytes}"
        )


def _pieces(found: object) -> dict[Part, Piece]:
    """The pieces, one after the other without a gap: a changed size would hide part of an index."""
    fields = _object(found, "segmentIndexes", frozenset(PIECES.values()))
    pieces: dict[Part, Piece] = {}
    end = 0
    for part, name in PIECES.items():
        if fields[name] is None and part is Part.TRANSACTION_INDEX:
            continue
        found_piece = _object(fields[name], name, frozenset({"position", "size"}))
        position = _size(found_piece, "position")
        if position != end:
            raise _MalformedError(f"{name} is at byte {position}, but byte {end} comes next")
        piece = Piece(position=position, size_bytes=_size(found_piece, "size"))
        pieces[part], end = piece, piece.end
    return pieces


def _encryption(found: object) -> Encryption | None:
    if found is None:
        return None
    fields = _object(found, "encryption", frozenset({"dataKey", "aad"}))
    wrapped_key, aad = fields["dataKey"], fields["aad"]
    if not isinstance(wrapped_key, str) or not isinstance(aad, str):
        raise _MalformedError("dataKey or aad is not a string")
    if len(wrapped_key) > DATA_KEY_CHARACTERS_MAX or len(aad) > AAD_CHARACTERS_MAX:
        raise _MalformedError(
            f"dataKey has {len(wrapped_key)} characters of at most {DATA_KEY_CHARACTERS_MAX}, or"
            f" aad {len(aad)} of at most {AAD_CHARACTERS_MAX}"
        )
    try:
        return Encryption(wrapped_key=wrapped_key, aad=b64decode(aad, validate=True))
    except (binascii.Error, ValueError) as error:
        raise _MalformedError("aad is not base64") from error


_TOP: Final = frozenset(
    {
        "version",
        "chunkIndex",
        "segmentIndexes",
        "compression",
        "encryption",
        _METADATA,
    }
)
_MAY_LACK: Final = frozenset({"encryption", _METADATA})
_SIZES: Final = frozenset({"type", "originalChunkSize", "originalFileSize"})
_CHUNKS: Final = {
    "fixed": _SIZES | {"transformedChunkSize", "finalTransformedChunkSize"},
    "variable": _SIZES | {"transformedChunks"},
}
"""By type, the fields of a chunk index."""


def _object(
    found: object, name: str, fields: frozenset[str], may_lack: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """A JSON object with exactly these fields; raises ValueError."""
    if not isinstance(found, dict):
        raise _MalformedError(f"{name} is not a JSON object")
    unknown = sorted(found.keys() - fields)
    if unknown:
        raise _MalformedError(f"{name} has an unknown field {unknown[0][:80]!r}")
    missing = sorted(fields - found.keys() - may_lack)
    if missing:
        raise _MalformedError(f"{name} lacks the field {missing[0]!r}")
    return found


def _size(fields: Mapping[str, Any], name: str, *, least: int = 0, most: int = INT_MAX) -> int:
    value = fields[name]
    if type(value) is not int or not least <= value <= most:
        raise _MalformedError(f"{name} is not a whole number from {least} to {most}")
    return value


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise _MalformedError("an object has a field twice")
    return fields


def _first_words(error: Exception) -> str:
    return "too deeply nested" if isinstance(error, RecursionError) else str(error)[:200]


def _chunk_fields(chunks: ChunkIndex) -> dict[str, Any]:
    sizes = {"originalChunkSize": chunks.chunk_bytes, "originalFileSize": chunks.log_bytes}
    if isinstance(chunks, FixedChunks):
        return {
            "type": "fixed",
            **sizes,
            "transformedChunkSize": chunks.stored_chunk_bytes,
            "finalTransformedChunkSize": chunks.last_stored_bytes,
        }
    starts = [chunks.stored_start(chunk) for chunk in range(chunks.count + 1)]
    stored_sizes = np.array([end - start for start, end in pairwise(starts)], np.int64)
    return {"type": "variable", **sizes, "transformedChunks": encoded_sizes(stored_sizes)}


def _piece_fields(piece: Piece | None) -> dict[str, int] | None:
    return None if piece is None else {"position": piece.position, "size": piece.size_bytes}


def _unusable(what: str, where: str) -> CorruptLog:
    return CorruptLog(
        f"the manifest cannot be used: {what}",
        where=where,
        remedy="Restore it from a copy; if a newer version of Aiven's plugin wrote it, update"
        f" tierfold. Until then, {LEAVE_OUT}. The partition is left unchanged.",
    )

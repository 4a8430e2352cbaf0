"""The parsers of Aiven's layout: manifests, chunk sizes, wrapped keys, stored chunks."""

from __future__ import annotations

import json
import struct
from base64 import b64decode, b64encode
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, Final

import zstandard
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.faults.malformed.malformed_bytes import corrupted, fields_of, interesting, overwritten
from tests.faults.malformed.malformed_outcome import Parser, comparison
from tests.faults.malformed.malformed_reference import LeftOpen, Meaningless, must_mean
from tierfold.compaction.model.errors import CorruptLog
from tierfold.storage.tiers.aiven.chunk_index import decoded_sizes
from tierfold.storage.tiers.aiven.chunk_transform import ChunkTransform, DataKey
from tierfold.storage.tiers.aiven.data_keys import unwrapped_key
from tierfold.storage.tiers.aiven.manifest import PIECES, read_manifest
from tierfold.storage.tiers.layout_options import KeyFile

_WHERE: Final = "a manifest"
_SAMPLES: Final = Path(__file__).resolve().parents[2] / "data" / "aiven"
_KEYS: Final = (
    KeyFile(key_id="key-1", path=str(_SAMPLES / "encrypted" / "keys" / "key-1.jwk.json")),
)
_INT_MAX: Final = 2**31 - 1


@lru_cache(maxsize=1)
def _manifests() -> tuple[bytes, ...]:
    """Manifests that the plugin wrote: plain, zstd, encrypted."""
    folders = ("plain/bucket", "encrypted/bucket", "zstd/bucket")
    found = (sorted((_SAMPLES / folder).rglob("*.rsm-manifest"))[:2] for folder in folders)
    return tuple(path.read_bytes() for paths in found for path in paths)


def _manifest(rng: Random) -> bytes:
    raw = rng.choice(_manifests())
    if rng.random() < 0.1:
        return raw
    if rng.random() < 0.4:
        return corrupted(raw, rng)
    fields = json.loads(raw)
    _changed_somewhere(fields, rng)
    return json.dumps(fields).encode()


def _changed_somewhere(fields: dict[str, Any], rng: Random) -> None:
    """Change, remove or add one field, at any depth."""
    name = rng.choice(sorted(fields))
    value = fields[name]
    if isinstance(value, dict) and value and rng.random() < 0.8:
        _changed_somewhere(value, rng)
    elif rng.random() < 0.1:
        del fields[name]
    elif rng.random() < 0.1:
        fields[rng.choice(("more", "type", "compression", "version"))] = rng.choice((None, 1, "1"))
    elif type(value) is int and rng.random() < 0.8:
        fields[name] = rng.choice((value + rng.choice((-1, 1)), interesting("q", rng)))
    else:
        fields[name] = rng.choice(
            (None, 0, 1, -1, 2**31, 1.5, True, "", "1", "AAAA", [], {}, [value], 1e300, "\ud800")
        )


def _read_manifest(raw: bytes) -> dict[str, Any]:
    manifest = read_manifest(raw, _WHERE)
    chunks = manifest.chunks
    return {
        "sizes": (chunks.chunk_bytes, chunks.log_bytes, chunks.count, chunks.stored_bytes),
        "starts": [chunks.stored_start(chunk) for chunk in _some_chunks(chunks.count)],
        "pieces": {
            PIECES[part]: (piece.position, piece.size_bytes)
            for part, piece in manifest.pieces.items()
        },
        "compression": manifest.is_compressed,
        "encryption": None
        if manifest.encryption is None
        else (manifest.encryption.wrapped_key, manifest.encryption.aad),
    }


def _some_chunks(count: int) -> list[int]:
    """The chunk numbers to compare: 0, 1, half of `count` and `count`, if they are at most 9."""
    return sorted({0, 1, count // 2, count} & {*range(min(count, 9) + 1)})


def _plain_manifest(raw: bytes) -> dict[str, Any]:
    """The content of a manifest, read in the obvious way."""
    fields = json.loads(raw)
    index, encryption = fields["chunkIndex"], fields.get("encryption")
    must_mean(fields["version"] == "1" and isinstance(fields["compression"], bool))
    chunk_bytes, log_bytes = index["originalChunkSize"], index["originalFileSize"]
    count = (log_bytes + chunk_bytes - 1) // chunk_bytes
    if index["type"] == "fixed":
        size, last = index["transformedChunkSize"], index["finalTransformedChunkSize"]
        starts = [number * size for number in range(min(count, 9) + 1)]
        total = (count - 1) * size + last if count else 0
        if count <= 9:
            starts[-1] = total
    else:
        starts = [0]
        for size in _plain_sizes((index["transformedChunks"], count)):
            starts.append(starts[-1] + size)
        total = starts[-1]
        must_mean(len(starts) == count + 1)
    pieces = {name: piece for name, piece in fields["segmentIndexes"].items() if piece is not None}
    return {
        "sizes": (chunk_bytes, log_bytes, count, total),
        "starts": [starts[number] for number in _some_chunks(count)],
        "pieces": {name: (piece["position"], piece["size"]) for name, piece in pieces.items()},
        "compression": fields["compression"],
        "encryption": encryption and (encryption["dataKey"], b64decode(encryption["aad"])),
    }


def _sizes(rng: Random) -> tuple[str, int]:
    """Draw the text of a variable chunk index, and the number of chunks it should have."""
    count = rng.choice((1, 2, 3, 40))
    low, width = rng.choice((0, 1, 700, 2**20)), rng.choice((1, 2, 3, 4))
    above = [rng.randrange(256 ** min(width, 3)) for _ in range(count - 1)]
    data = struct.pack(">i", count)
    if count > 1:
        data += struct.pack(">iB", low, width)
        data += b"".join(value.to_bytes(width, "big") for value in above)
    data += struct.pack(">i", rng.choice((1, 700, _INT_MAX)))
    if rng.random() < 0.15:
        data = overwritten(data, fields_of("ii"), rng)
    if rng.random() < 0.15:
        data = corrupted(data, rng)
    packed = zstandard.ZstdCompressor(write_content_size=rng.random() < 0.95).compress(data)
    if rng.random() < 0.3:
        packed = corrupted(packed, rng)
    text = b64encode(packed).decode()
    if rng.random() < 0.1:
        text = corrupted(text.encode(), rng).decode("latin-1")
    return text, count + rng.choice((0, 0, 0, 0, 0, -1, 1))


def _read_sizes(given: tuple[str, int]) -> list[int]:
    try:
        found: list[int] = decoded_sizes(*given).tolist()
    except ValueError as error:  # `read_manifest` raises the same error.
        raise CorruptLog(str(error), where=_WHERE, remedy="Restore it.") from error
    return found


def _plain_sizes(given: tuple[str, int]) -> list[int]:
    """The sizes by the definition of the codec, decoded one at a time."""
    packed = b64decode(given[0], validate=True)
    data = zstandard.ZstdDecompressor().decompressobj().decompress(packed)
    (count,) = struct.unpack_from(">i", data)
    must_mean(count == given[1])
    sizes: list[int] = []
    at = 4
    if count > 1:
        low, width = struct.unpack_from(">iB", data, at)
        at += 5
        for _ in range(count - 1):
            sizes.append(low + int.from_bytes(data[at : at + width], "big"))
            at += width
    if count:
        sizes += struct.unpack_from(">i", data, at)
        at += 4
    must_mean(at == len(data) and all(0 < size <= _INT_MAX for size in sizes))
    return sizes


@lru_cache(maxsize=1)
def _wrapped() -> tuple[str, bytes]:
    """A wrapped key that the plugin wrote, and the key in it."""
    raw = next(raw for raw in _manifests() if b"dataKey" in raw)
    wrapped = str(json.loads(raw)["encryption"]["dataKey"])
    return wrapped, unwrapped_key(wrapped, _KEYS, _WHERE)


def _wrapped_key(rng: Random) -> str:
    wrapped, _ = _wrapped()
    if rng.random() < 0.15:
        return wrapped
    key_id, _, text = wrapped.partition(":")
    if rng.random() < 0.5:
        return f"{key_id}:{b64encode(corrupted(b64decode(text), rng)).decode()}"
    return corrupted(wrapped.encode(), rng).decode("latin-1")


def _read_wrapped_key(given: str) -> bytes:
    return unwrapped_key(given, _KEYS, _WHERE)


def _plain_wrapped_key(given: str) -> bytes:
    """The key, which only the bytes that the plugin wrote contain."""
    wrapped, data_key = _wrapped()
    key_id, _, text = given.partition(":")
    must_mean(key_id == "key-1" and b64decode(text) == b64decode(wrapped.partition(":")[2]))
    return data_key


@dataclass(frozen=True, slots=True)
class _StoredChunk:
    stored: bytes
    size_bytes: int
    is_compressed: bool
    is_encrypted: bool


_KEY: Final = DataKey(bytes(range(32)), b"additional")


def _chunk(rng: Random) -> _StoredChunk:
    """Draw a stored chunk, malformed before it is sealed, afterwards, or not at all."""
    data = rng.randbytes(rng.choice((1, 30, 400))) * rng.choice((1, 1, 50, 2000))
    is_compressed, is_encrypted = rng.random() < 0.7, rng.random() < 0.5
    stored = data
    if is_compressed:
        stored = zstandard.ZstdCompressor(write_content_size=rng.random() < 0.95).compress(data)
        stored = corrupted(stored, rng) if rng.random() < 0.4 else stored
    if is_encrypted:
        iv = rng.randbytes(12)
        stored = iv + AESGCM(_KEY.key).encrypt(iv, stored, _KEY.aad)
        stored = corrupted(stored, rng) if rng.random() < 0.4 else stored
    size_bytes = len(data) + rng.choice((0, 0, 0, 0, 0, 0, -1, 1))
    return _StoredChunk(stored, size_bytes, is_compressed, is_encrypted)


def _read_chunk(given: _StoredChunk) -> bytes:
    key = _KEY if given.is_encrypted else None
    transform = ChunkTransform(is_compressed=given.is_compressed, data_key=key)
    return bytes(transform.decoded(given.stored, given.size_bytes, _WHERE))


def _plain_chunk(given: _StoredChunk) -> bytes:
    data = given.stored
    if given.is_encrypted:
        try:
            data = AESGCM(_KEY.key).decrypt(data[:12], data[12:], _KEY.aad)
        except InvalidTag as error:
            raise Meaningless from error
    if given.is_compressed:
        try:
            data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
        except zstandard.ZstdError as error:
            # zstd accepts a few frames as a whole that it refuses in pieces. The plugin reads them
            # as a whole, and batches have checksums.
            raise LeftOpen from error
    must_mean(len(data) == given.size_bytes)
    return data


AIVEN_PARSERS: Final = tuple(
    Parser(name=name, made=made, checked=checked)
    for name, made, checked in (
        ("manifests", _manifest, comparison(_read_manifest, _plain_manifest)),
        ("chunk sizes", _sizes, comparison(_read_sizes, _plain_sizes)),
        ("wrapped keys", _wrapped_key, comparison(_read_wrapped_key, _plain_wrapped_key)),
        ("stored chunks", _chunk, comparison(_read_chunk, _plain_chunk)),
    )
)

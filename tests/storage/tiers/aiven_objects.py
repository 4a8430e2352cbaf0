"""A second reader and writer of the layout of Aiven's plugin, for tests.

It shares no code with the product: struct, json, zstandard, pycryptodome, and RSA by hand. It
accepts only what the plugin's reader accepts, and every byte must be accounted for. The format is
in `docs/aiven.md`; `test_aiven_objects` checks it against what a real broker wrote.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final

import zstandard
from Crypto.Cipher import AES

from tests.storage.tiers.aiven_keys import KeyPair

_IV_BYTES: Final = 12
_TAG_BYTES: Final = 16

ID: Final = "[A-Za-z0-9_-]{22}"
OBJECT: Final = re.compile(rf"(.+)-({ID})/(\d+)/(\d{{20}})-({ID})\.(log|indexes|rsm-manifest)")
"""The key of an object after the prefix."""

PIECES: Final = {
    "offset": "index",
    "timestamp": "timeindex",
    "producerSnapshot": "snapshot",
    "leaderEpoch": "leader_epoch_checkpoint",
    "transaction": "txnindex",
}
"""Names in a manifest's `segmentIndexes`, in their order, and suffixes of LocalTieredStorage."""


class NotAiven(Exception):
    """These objects are not what the plugin writes, or its reader would refuse them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainSegment:
    """A segment's bytes, whatever the layout is."""

    topic: str
    topic_id: str
    partition: int
    start_offset: int
    segment_id: str
    parts: Mapping[str, bytes]
    """By suffix of LocalTieredStorage: `log`, and those of `PIECES`."""
    end_offset: int | None = None
    """The last offset in the broker's metadata; None: that of its last batch."""

    @property
    def stem(self) -> str:
        """What its objects' keys begin with, after the prefix."""
        folder = f"{self.topic}-{self.topic_id}/{self.partition}"
        return f"{folder}/{self.start_offset:020d}-{self.segment_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The settings with which a broker writes."""

    key_prefix: str = ""
    chunk_bytes: int = 1 << 17
    is_compressed: bool = False
    key: KeyPair | None = None
    """The key pair that wraps data keys; None: no encryption."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cipher:
    """AES-GCM under a data key: IV, ciphertext, tag. IVs are not random, so that tests repeat."""

    data_key: bytes
    aad: bytes

    def sealed(self, plain: bytes) -> bytes:
        iv = hashlib.sha256(self.aad + plain).digest()[:_IV_BYTES]
        cipher = AES.new(self.data_key, AES.MODE_GCM, nonce=iv)
        cipher.update(self.aad)
        text, tag = cipher.encrypt_and_digest(plain)
        return iv + text + tag

    def opened(self, stored: bytes) -> bytes:
        if len(stored) < _IV_BYTES + _TAG_BYTES:
            raise NotAiven(f"a piece of {len(stored)} bytes cannot be encrypted")
        cipher = AES.new(self.data_key, AES.MODE_GCM, nonce=stored[:_IV_BYTES])
        cipher.update(self.aad)
        try:
            return cipher.decrypt_and_verify(stored[_IV_BYTES:-_TAG_BYTES], stored[-_TAG_BYTES:])
        except ValueError as error:
            raise NotAiven("a piece was changed, or has another key") from error


def objects_of(segment: PlainSegment, variant: Variant) -> dict[str, bytes]:
    """The three objects of a segment, by their keys, in the order in which they are uploaded."""
    cipher = None
    if variant.key is not None:
        names = (f"{segment.stem} {what}".encode() for what in ("key", "aad"))
        data_key, aad = (hashlib.sha256(name).digest() for name in names)
        cipher = _Cipher(data_key=data_key, aad=aad)
    log = segment.parts["log"]
    if not log:
        raise NotAiven("the plugin cannot serve a log of 0 bytes")
    size = variant.chunk_bytes
    plain = [log[at : at + size] for at in range(0, len(log), size)]
    chunks = [_stored(chunk, cipher, is_compressed=variant.is_compressed) for chunk in plain]
    pieces = {
        name: segment.parts.get(suffix) if name == "transaction" else segment.parts[suffix]
        for name, suffix in PIECES.items()
    }
    stored = {
        name: b"" if not piece else (piece if cipher is None else cipher.sealed(piece))
        for name, piece in pieces.items()
    }
    ends = accumulate(map(len, stored.values()), initial=0)
    spans = {
        name: None if pieces[name] is None else {"position": start, "size": end - start}
        for name, (start, end) in zip(stored, pairwise(ends), strict=True)
    }
    manifest: dict[str, Any] = {
        "version": "1",
        "chunkIndex": _chunk_index(chunks, variant, len(log)),
        "segmentIndexes": spans,
        "compression": variant.is_compressed,
    }
    if variant.key is not None and cipher is not None:
        wrapped = base64.b64encode(variant.key.wrapped(cipher.data_key)).decode()
        manifest["encryption"] = {
            "dataKey": f"{variant.key.key_id}:{wrapped}",
            "aad": base64.b64encode(cipher.aad).decode(),
        }
    manifest["remoteLogSegmentMetadata"] = _metadata(segment)
    stem = variant.key_prefix + segment.stem
    return {
        f"{stem}.log": b"".join(chunks),
        f"{stem}.indexes": b"".join(stored.values()),
        f"{stem}.rsm-manifest": json.dumps(manifest, separators=(",", ":")).encode(),
    }


def segment_of(
    objects: Mapping[str, bytes], stem: str, key_prefix: str, keys: Iterable[KeyPair] = ()
) -> PlainSegment:
    """The segment in the three objects whose keys begin with `stem`; raises NotAiven."""
    found = OBJECT.fullmatch(f"{stem}.log".removeprefix(key_prefix))
    if found is None or not stem.startswith(key_prefix):
        raise NotAiven(f"{stem} is no segment's name")
    log, indexes, text = (objects[f"{stem}.{of}"] for of in ("log", "indexes", "rsm-manifest"))
    manifest = json.loads(text)
    top = {"version", "chunkIndex", "segmentIndexes", "compression", "remoteLogSegmentMetadata"}
    _has_exactly(manifest, top, optional={"encryption"})
    if manifest["version"] != "1" or not log:
        raise NotAiven(f"version {manifest['version']}, a log of {len(log)} bytes")
    cipher = _cipher_of(manifest.get("encryption"), {key.key_id: key for key in keys})
    segment = PlainSegment(
        topic=found[1],
        topic_id=found[2],
        partition=int(found[3]),
        start_offset=int(found[4]),
        segment_id=found[5],
        parts={
            "log": _log_of(log, manifest["chunkIndex"], cipher, manifest["compression"]),
            **_pieces_of(indexes, manifest["segmentIndexes"], cipher),
        },
    )
    named = manifest["remoteLogSegmentMetadata"]["remoteLogSegmentId"]
    if named != _metadata(segment)["remoteLogSegmentId"]:
        raise NotAiven(f"{stem} has the manifest of {named}")
    return segment


def _stored(chunk: bytes, cipher: _Cipher | None, *, is_compressed: bool) -> bytes:
    if is_compressed:
        chunk = zstandard.ZstdCompressor(level=3, write_content_size=True).compress(chunk)
    return chunk if cipher is None else cipher.sealed(chunk)


def _chunk_index(chunks: list[bytes], variant: Variant, file_bytes: int) -> dict[str, Any]:
    index = {"originalChunkSize": variant.chunk_bytes, "originalFileSize": file_bytes}
    sizes = [len(chunk) for chunk in chunks]
    if variant.is_compressed:
        return {"type": "variable", **index, "transformedChunks": packed_sizes(sizes)}
    added = 0 if variant.key is None else _IV_BYTES + _TAG_BYTES
    return {
        "type": "fixed",
        **index,
        "transformedChunkSize": variant.chunk_bytes + added,
        "finalTransformedChunkSize": sizes[-1],
    }


def packed_sizes(sizes: list[int]) -> str:
    """The field `transformedChunks` (`ChunkSizesBinaryCodec`)."""
    data = struct.pack(">i", len(sizes))
    if len(sizes) > 1:
        base = min(sizes[:-1])
        width = max(1, (max(sizes[:-1]) - base).bit_length() + 7 >> 3)
        data += struct.pack(">iB", base, width)
        data += b"".join((size - base).to_bytes(width, "big") for size in sizes[:-1])
    data += struct.pack(">i", sizes[-1]) if sizes else b""
    frame = zstandard.ZstdCompressor(level=3, write_content_size=True).compress(data)
    return base64.b64encode(frame).decode()


def unpacked_sizes(text: str) -> list[int]:
    """The sizes in the field `transformedChunks`; raises NotAiven."""
    data = zstandard.ZstdDecompressor().decompress(base64.b64decode(text, validate=True))
    (count,) = struct.unpack_from(">i", data)
    if count > 1:
        base, width = struct.unpack_from(">iB", data, 4)
        ends = range(9, 9 + width * (count - 1), width)
        sizes = [base + int.from_bytes(data[at : at + width], "big") for at in ends]
        at = 9 + width * (count - 1)
    else:
        sizes, at = [], 4
    if count:
        sizes += struct.unpack_from(">i", data, at)
    if len(data) != at + 4 * min(count, 1):
        raise NotAiven(f"{len(data)} bytes for {count} sizes")
    return sizes


def _log_of(
    stored: bytes, index: Mapping[str, Any], cipher: _Cipher | None, is_compressed: object
) -> bytes:
    if not isinstance(is_compressed, bool):
        raise NotAiven(f"compression is {is_compressed!r}")
    own = {"transformedChunks"}
    if not is_compressed:
        own = {"transformedChunkSize", "finalTransformedChunkSize"}
    _has_exactly(index, {"type", "originalChunkSize", "originalFileSize"} | own)
    if index["type"] != ("variable" if is_compressed else "fixed"):
        raise NotAiven(f"a chunk index of type {index['type']}, compression {is_compressed}")
    chunk_bytes, file_bytes = index["originalChunkSize"], index["originalFileSize"]
    count = -(-file_bytes // chunk_bytes)
    if is_compressed:
        sizes = unpacked_sizes(index["transformedChunks"])
    else:
        sizes = [index["transformedChunkSize"]] * (count - 1) + [index["finalTransformedChunkSize"]]
    if len(sizes) != count or sum(sizes) != len(stored):
        raise NotAiven(f"{len(sizes)} chunks of {sum(sizes)} bytes, the object has {len(stored)}")
    log = b""
    for start, end in pairwise(accumulate(sizes, initial=0)):
        chunk = stored[start:end] if cipher is None else cipher.opened(stored[start:end])
        if is_compressed:
            chunk = zstandard.ZstdDecompressor().decompress(chunk)
        if len(chunk) != min(chunk_bytes, file_bytes - len(log)):
            raise NotAiven(f"a chunk of {len(chunk)} bytes at byte {len(log)}")
        log += chunk
    return log


def _pieces_of(
    stored: bytes, spans: Mapping[str, Any], cipher: _Cipher | None
) -> dict[str, bytes]:
    _has_exactly(spans, set(PIECES))
    parts = {}
    at = 0
    for name, suffix in PIECES.items():
        span = spans[name]
        if span is None and name == "transaction":
            continue
        _has_exactly(span, {"position", "size"})
        if span["position"] != at:
            raise NotAiven(f"{name} is at byte {span['position']}, and byte {at} comes next")
        piece = stored[at : at + span["size"]]
        at += span["size"]
        parts[suffix] = cipher.opened(piece) if cipher is not None and piece else piece
    if at != len(stored):
        raise NotAiven(f"{len(stored)} bytes of indexes, {at} of them named")
    return parts


def _cipher_of(encryption: Any, keys: Mapping[str, KeyPair]) -> _Cipher | None:
    if encryption is None:
        return None
    _has_exactly(encryption, {"dataKey", "aad"})
    key_id, wrapped = encryption["dataKey"].split(":")
    data_key = keys[key_id].unwrapped(base64.b64decode(wrapped, validate=True))
    if len(data_key) != 32:
        raise NotAiven(f"a data key of {len(data_key)} bytes")
    return _Cipher(data_key=data_key, aad=base64.b64decode(encryption["aad"], validate=True))


def _has_exactly(
    found: Any, names: set[str], optional: Iterable[str] = ()
) -> None:
    """Jackson fails on an unknown field, and on a missing one."""
    if not isinstance(found, dict) or found.keys() - set(optional) != names:
        raise NotAiven(f"{found!r} instead of {sorted(names)}")


def _metadata(segment: PlainSegment) -> dict[str, Any]:
    """The field `remoteLogSegmentMetadata`, which the plugin does not read."""
    ends = list(_batch_ends(segment.parts["log"]))
    lines = segment.parts["leader_epoch_checkpoint"].decode().splitlines()[2:]
    lineage = [tuple(map(int, line.split())) for line in lines]
    last = max(epoch for epoch, start in lineage if start <= segment.start_offset)
    epochs = {str(e): max(start, segment.start_offset) for e, start in lineage if e >= last}
    where = {"topic": segment.topic, "partition": segment.partition}
    return {
        "remoteLogSegmentId": {
            "topicIdPartition": {"topicId": segment.topic_id, "topicPartition": where},
            "id": segment.segment_id,
        },
        "startOffset": segment.start_offset,
        "endOffset": ends[-1][0] if segment.end_offset is None else segment.end_offset,
        "maxTimestampMs": max(time_ms for _, time_ms in ends),
        "brokerId": 1,
        "eventTimestampMs": max(time_ms for _, time_ms in ends),
        "segmentLeaderEpochs": epochs,
        "txnIdxEmpty": "txnindex" not in segment.parts,
    }


def _batch_ends(log: bytes) -> Iterator[tuple[int, int]]:
    """Last offset and largest timestamp (ms) of each batch."""
    at = 0
    while at < len(log):
        base, size = struct.unpack_from(">qi", log, at)
        magic = log[at + 16]
        if magic == 2:
            yield (
                base + struct.unpack_from(">i", log, at + 23)[0],
                struct.unpack_from(">q", log, at + 35)[0],
            )
        else:
            yield base, struct.unpack_from(">q", log, at + 18)[0] if magic else -1
        at += 12 + size

"""Compresses and encrypts a chunk of a log, or a piece of `.indexes`, and back.

A chunk is compressed first: one zstd frame with its content size, at zstd's default level. Then it
is encrypted: 12 bytes of IV, the ciphertext, 16 bytes of tag (AES-256-GCM). A piece of `.indexes`
is only encrypted, and an empty one is stored as 0 bytes.

Rule: Aiven's plugin, `CompressionChunkEnumeration`, `EncryptionChunkEnumeration`.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import Final

import zstandard
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tierfold.compaction.model.errors import CorruptLog, from_backup
from tierfold.storage.kafka.compression import ZSTD_LEVEL, ZSTD_RATIO_MAX
from tierfold.storage.tiers.aiven.data_keys import DATA_KEY_BYTES
from tierfold.storage.tiers.aiven.manifest import SEALED_BYTES
from tierfold.storage.tiers.object_store import Bytes, as_view

IV_BYTES: Final = 12
TAG_BYTES: Final = 16
AAD_BYTES: Final = 32


class _Zstd(threading.local):
    """The objects that zstandard reuses between calls, for one thread."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
        self.decompressor = zstandard.ZstdDecompressor()


_ZSTD: Final = _Zstd()


@dataclass(frozen=True, slots=True)
class DataKey:
    """The key of one segment; it is never stored, printed or put in a task."""

    key: bytes = field(repr=False)
    aad: bytes = field(repr=False)

    @staticmethod
    def fresh() -> DataKey:
        """A new key, with new additional data."""
        return DataKey(os.urandom(DATA_KEY_BYTES), os.urandom(AAD_BYTES))

    def sealed(self, data: Bytes) -> bytes:
        """The bytes as they are stored, `SEALED_BYTES` more."""
        iv = os.urandom(IV_BYTES)
        return iv + AESGCM(self.key).encrypt(iv, as_view(data), self.aad)

    def opened(self, stored: Bytes, where: str) -> bytes:
        """The bytes that were sealed; raises CorruptLog if one was changed."""
        view = as_view(stored)
        if len(view) < SEALED_BYTES:
            raise cannot_be_decrypted(where)
        try:
            return AESGCM(self.key).decrypt(view[:IV_BYTES], view[IV_BYTES:], self.aad)
        except InvalidTag:
            raise cannot_be_decrypted(where) from None

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a data key is not pickled")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkTransform:
    """What is done to each chunk of one segment."""

    is_compressed: bool
    data_key: DataKey | None
    """None: chunks and pieces are not encrypted."""

    @property
    def is_plain(self) -> bool:
        """Whether chunks are stored as they are."""
        return not self.is_compressed and self.data_key is None

    def encoded(self, chunk: Bytes) -> Bytes:
        """The chunk as it is stored."""
        packed = _ZSTD.compressor.compress(as_view(chunk)) if self.is_compressed else chunk
        return packed if self.data_key is None else self.data_key.sealed(packed)

    def decoded(self, stored: Bytes, size_bytes: int, where: str) -> Bytes:
        """A chunk of that size as it was before `encoded`; raises CorruptLog for any other."""
        packed = stored if self.data_key is None else self.data_key.opened(stored, where)
        chunk = _unpacked(packed, size_bytes, where) if self.is_compressed else packed
        if len(chunk) != size_bytes:
            raise corrupt_object(
                f"it has {len(chunk)} bytes when decoded, the manifest says {size_bytes}", where
            )
        return chunk

    def stored_piece(self, piece: Bytes) -> Bytes:
        """A piece of `.indexes` as it is stored."""
        return piece if self.data_key is None or not len(piece) else self.data_key.sealed(piece)

    def read_piece(self, stored: Bytes, where: str) -> Bytes:
        """A piece as it was before `stored_piece`; raises CorruptLog."""
        if self.data_key is None or not len(stored):
            return stored
        return self.data_key.opened(stored, where)


def corrupt_object(what: str, where: str) -> CorruptLog:
    """The error for a stored object that cannot be decoded."""
    return CorruptLog(
        what,
        where=where,
        remedy=from_backup("the segment's objects"),
    )


def cannot_be_decrypted(where: str) -> CorruptLog:
    """The error for a stored object whose tag is wrong."""
    return corrupt_object(
        "it cannot be decrypted: a byte of it, or of the manifest's dataKey or aad, has changed",
        where,
    )


def undecodable_frame(error: Exception, where: str) -> CorruptLog:
    """The error for what zstd refuses."""
    return corrupt_object(f"it cannot be decompressed ({error})", where)


def check_claim(head: Bytes, packed_bytes: int, size_bytes: int, where: str) -> None:
    """Check what a zstd frame claims to hold, by its header, before memory is taken for it.

    `packed_bytes` is the frame's size. Raises CorruptLog.
    """
    try:
        claimed_bytes = zstandard.frame_content_size(as_view(head))
    except zstandard.ZstdError as error:
        raise undecodable_frame(error, where) from error
    if claimed_bytes != size_bytes or claimed_bytes > ZSTD_RATIO_MAX * packed_bytes:
        raise corrupt_object(
            f"a zstd frame of {packed_bytes} bytes claims to hold {claimed_bytes}, the manifest"
            f" says {size_bytes}",
            where,
        )


def _unpacked(packed: Bytes, size_bytes: int, where: str) -> bytes:
    """The content of the one zstd frame."""
    check_claim(packed, len(packed), size_bytes, where)
    try:
        return _ZSTD.decompressor.decompress(as_view(packed), allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise undecodable_frame(error, where) from error

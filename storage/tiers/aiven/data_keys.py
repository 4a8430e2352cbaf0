"""Wraps and unwraps data keys: each segment has its own, under the RSA key of a key pair.

A wrapped key is `<key id>:<base64>`. RSA-OAEP with SHA3-512, also for the mask, and no label;
`cryptography` does not offer SHA-3 there, pycryptodome does.
Rule: Aiven's plugin, `RsaEncryptionProvider`, `EncryptedDataKey`.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Final

from Crypto.Cipher import PKCS1_OAEP
from Crypto.Hash import SHA3_512

from tierfold.compaction.model.errors import (
    BadSettings,
    CorruptLog,
    UnreadableObject,
    from_backup,
)
from tierfold.storage.tiers.aiven.key_files import read_key
from tierfold.storage.tiers.layout_options import KeyFile

DATA_KEY_BYTES: Final = 32
"""AES-256."""


def wrapped_key(data_key: bytes, files: Sequence[KeyFile]) -> str:
    """The data key under the first key pair; a public key is enough. Raises BadSettings."""
    if not files:
        raise BadSettings(
            "the segment must be encrypted, and there is no key for it",
            where="--encryption-key",
            remedy="Name the brokers' key: --encryption-key ID=FILE, ID as in"
            " encryption.key.pair.id.",
        )
    first = files[0]
    wrapped = PKCS1_OAEP.new(read_key(first.path), hashAlgo=SHA3_512).encrypt(data_key)
    return f"{first.key_id}:{b64encode(wrapped).decode('ascii')}"


def unwrapped_key(wrapped: str, files: Sequence[KeyFile], where: str) -> bytes:
    """The data key in a manifest, the object `where`.

    Raises UnreadableObject without the right private key, CorruptLog if it is not a wrapped key,
    and BadSettings if a key file cannot be used.
    """
    key_id, colon, text = wrapped.partition(":")
    try:
        data = b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if not key_id or not colon or not data:
        raise CorruptLog(
            "dataKey is not a key id, a colon and base64",
            where=where,
            remedy=from_backup("the manifest"),
        )
    file = next((file for file in files if file.key_id == key_id), None)
    if file is None:
        named = ", ".join(repr(file.key_id) for file in files)
        raise UnreadableObject(
            f"the segment is encrypted under key {key_id!r}, and no file is named for it"
            + (f", only for {named}" if files else ""),
            where=where,
            remedy=f"Name the file of its private key: --encryption-key {key_id}=FILE.",
        )
    return _opened(data, file, where)


def _opened(data: bytes, file: KeyFile, where: str) -> bytes:
    key = read_key(file.path)
    if not key.has_private():
        raise UnreadableObject(
            f"the segment is encrypted under key {file.key_id!r}, and {file.path} has only its"
            " public half",
            where=where,
            remedy="Name a file with the private key, which reading needs.",
        )
    try:
        data_key = PKCS1_OAEP.new(key, hashAlgo=SHA3_512).decrypt(data)
    except ValueError:
        data_key = b""
    if len(data_key) != DATA_KEY_BYTES:
        raise UnreadableObject(
            f"the data key cannot be unwrapped with key {file.key_id!r} of {file.path}",
            where=where,
            remedy="Check that the file is the private key which the brokers have under this id."
            " If it is, the manifest is corrupt: restore it from a copy.",
        )
    return data_key

"""RSA key pairs of the second reader and writer of Aiven's layout, with arithmetic of its own.

The product unwraps data keys with a library; this is RFC 8017 by hand, so that neither can hide a
mistake of the other.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from Crypto.PublicKey import RSA

_HASH_BYTES: Final = 64
"""Of SHA3-512, for the label and for MGF1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A key pair of a broker (`encryption.key.pairs`)."""

    key_id: str
    modulus: int
    exponent: int
    private_exponent: int

    @property
    def _size_bytes(self) -> int:
        return (self.modulus.bit_length() + 7) // 8

    def wrapped(self, data_key: bytes) -> bytes:
        """A data key under RSA-OAEP with SHA3-512, an empty label (RFC 8017, 7.1.1).

        The seed is not drawn at random, so that tests repeat.
        """
        seed = _digest(data_key)
        room = self._size_bytes - len(data_key) - 2 * _HASH_BYTES - 2
        block = _digest(b"") + bytes(room) + b"\1" + data_key
        hidden = _xor(block, _mask(seed, len(block)))
        padded = b"\0" + _xor(seed, _mask(hidden, _HASH_BYTES)) + hidden
        number = pow(int.from_bytes(padded, "big"), self.exponent, self.modulus)
        return number.to_bytes(self._size_bytes, "big")

    def unwrapped(self, wrapped: bytes) -> bytes:
        """The data key (RFC 8017, 7.1.2); raises ValueError if another key wrapped it."""
        if len(wrapped) != self._size_bytes:
            raise ValueError(f"{len(wrapped)} bytes, and the key has {self._size_bytes}")
        number = _decrypted(int.from_bytes(wrapped, "big"), self.private_exponent, self.modulus)
        padded = number.to_bytes(self._size_bytes, "big")
        hidden = padded[1 + _HASH_BYTES :]
        seed = _xor(padded[1 : 1 + _HASH_BYTES], _mask(hidden, _HASH_BYTES))
        block = _xor(hidden, _mask(seed, len(hidden)))
        label, rest = block[:_HASH_BYTES], block[_HASH_BYTES:].lstrip(b"\0")
        if padded[0] or label != _digest(b"") or rest[:1] != b"\1":
            raise ValueError("another key wrapped it")
        return rest[1:]

    def write_files(self, folder: Path) -> tuple[Path, Path]:
        """Write the private key (PKCS 8) and the public one as PEM; return both paths."""
        key = RSA.construct((self.modulus, self.exponent, self.private_exponent))
        private, open_to_all = (folder / f"{self.key_id}.{of}.pem" for of in ("private", "public"))
        private.write_bytes(key.export_key(pkcs=8))
        open_to_all.write_bytes(key.public_key().export_key())
        return private, open_to_all


def new_key_pair(key_id: str) -> KeyPair:
    """A fresh RSA key pair of 2048 bits."""
    key = RSA.generate(2048)
    return KeyPair(key_id=key_id, modulus=key.n, exponent=key.e, private_exponent=key.d)


def key_pair_of_jwk(path: Path) -> KeyPair:
    """The key pair in a JSON Web Key (RFC 7517)."""
    key = json.loads(path.read_text())
    modulus, exponent, private = (
        int.from_bytes(base64.urlsafe_b64decode(key[name] + "==="), "big") for name in "ned"
    )
    return KeyPair(
        key_id=key["kid"], modulus=modulus, exponent=exponent, private_exponent=private
    )


@cache
def _decrypted(number: int, private_exponent: int, modulus: int) -> int:
    """RSADP (RFC 8017, 5.1.2): 15 ms, and tests read the same segments again and again."""
    return pow(number, private_exponent, modulus)


def _digest(data: bytes) -> bytes:
    return hashlib.sha3_512(data).digest()


def _mask(seed: bytes, length: int) -> bytes:
    """MGF1 (RFC 8017, B.2.1)."""
    blocks = range(-(-length // _HASH_BYTES))
    return b"".join(_digest(seed + number.to_bytes(4, "big")) for number in blocks)[:length]


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))

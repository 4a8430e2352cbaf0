"""RSA keys for tests of encrypted tiers, made once per process."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from functools import lru_cache
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from tierfold.storage.tiers.layout_options import KeyFile


@lru_cache(maxsize=4)
def rsa_key(number: int = 0) -> rsa.RSAPrivateKey:
    """A key; another for each number."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def private_pem(number: int = 0) -> bytes:
    """The key as PEM (PKCS #8)."""
    return rsa_key(number).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def public_pem(number: int = 0) -> bytes:
    """Its public half as PEM."""
    public = rsa_key(number).public_key()
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def jwk(number: int = 0, *, is_private: bool = True) -> bytes:
    """The key, or its public half, as a JSON Web Key."""
    private = rsa_key(number).private_numbers()
    fields = {"n": private.public_numbers.n, "e": private.public_numbers.e}
    if is_private:
        fields |= {"d": private.d, "p": private.p, "q": private.q}
    texts = {name: _base64(value) for name, value in fields.items()}
    return json.dumps({"kty": "RSA", "kid": f"key-{number}"} | texts).encode()


def _base64(value: int) -> str:
    data = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def key_file(folder: Path, number: int = 0, content: bytes | None = None) -> KeyFile:
    """The private key in a file, or another content."""
    folder.mkdir(exist_ok=True)
    path = folder / f"key-{number}.pem"
    path.write_bytes(private_pem(number) if content is None else content)
    return KeyFile(key_id=f"key-{number}", path=str(path))

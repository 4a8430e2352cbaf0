"""Reads RSA keys from files: PEM, or a JSON Web Key (RFC 7517, RFC 7518 6.3).

Each process reads the files itself, once, so no key travels with a task. Nothing of a file's
content is put in a message.
"""

from __future__ import annotations

import binascii
import json
import stat
from base64 import b64decode
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from Crypto.PublicKey import RSA
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from tierfold.compaction.model.errors import BadSettings
from tierfold.storage.tiers.layout_options import KeyFile

FILE_BYTES_MAX: Final = 64 * 1024

KEY_BITS_MIN: Final = 2048
KEY_BITS_MAX: Final = 16_384


def check_key_files(files: Sequence[KeyFile]) -> None:
    """Raise BadSettings for ids that cannot be told apart; no file is opened."""
    for key_id, count in Counter(file.key_id for file in files).items():
        if not key_id or ":" in key_id or count > 1:
            raise BadSettings(
                f"the key id {key_id!r} is empty, has a colon, or is given twice",
                where="--encryption-key",
                remedy="Write ID=FILE once for each of the brokers' encryption.key.pairs.",
            )


def read_key(path: str) -> RSA.RsaKey:
    """The key in a file, private if the file has one; raises BadSettings.

    A file that changes is read again. Another process could not read a pipe again, such as the one
    of a shell's `<(...)`: it would wait forever.
    """
    try:
        found = Path(path).stat()
    except (OSError, ValueError) as error:
        raise _unusable(_cause(error), path) from error
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        raise _unusable("it is a device or a pipe, not a file", path)
    return _read_key(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=64)
def _read_key(path: str, _modified_ns: int, size_bytes: int) -> RSA.RsaKey:
    if size_bytes > FILE_BYTES_MAX:
        raise _unusable(f"it has {size_bytes} bytes, too many for a key", path)
    try:
        return parsed_key(Path(path).read_bytes())
    except OSError as error:
        raise _unusable(_cause(error), path) from error
    except ValueError as error:
        # Without its cause, which may quote the key.
        raise _unusable(str(error), path) from None


def parsed_key(content: bytes) -> RSA.RsaKey:
    """The RSA key in PEM or a JSON Web Key; raises ValueError without quoting the content."""
    return _of_jwk(content) if content.lstrip().startswith(b"{") else _of_pem(content)


def _of_pem(content: bytes) -> RSA.RsaKey:
    try:
        if b"PRIVATE KEY-----" in content:
            key: object = load_pem_private_key(content, password=None)
        else:
            key = load_pem_public_key(content)
    except TypeError:
        raise ValueError("the private key is encrypted under a password") from None
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("it is neither PEM of an RSA key nor a JSON Web Key") from None
    if isinstance(key, rsa.RSAPrivateKey):
        numbers = key.private_numbers()
        public = numbers.public_numbers
        return _constructed(public.n, public.e, numbers.d, numbers.p, numbers.q)
    if isinstance(key, rsa.RSAPublicKey):
        return _constructed(key.public_numbers().n, key.public_numbers().e)
    raise ValueError("the key is not RSA")


def _of_jwk(content: bytes) -> RSA.RsaKey:
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("it is not a JSON Web Key: it is not valid JSON") from None
    if fields.get("kty") != "RSA":
        raise ValueError("the JSON Web Key is not RSA (`kty`)")
    names = ("n", "e", *(("d", "p", "q") if "d" in fields else ()))
    return _constructed(*(_number(fields, name) for name in names))


def _constructed(*numbers: int) -> RSA.RsaKey:
    """The key of these numbers, the modulus first."""
    bits = numbers[0].bit_length()
    if not KEY_BITS_MIN <= bits <= KEY_BITS_MAX:
        raise ValueError(f"the RSA key has {bits} bits, not {KEY_BITS_MIN} to {KEY_BITS_MAX}")
    try:
        return RSA.construct(numbers)
    except (ValueError, IndexError):
        raise ValueError("its numbers do not form an RSA key") from None


def _number(fields: dict[str, Any], name: str) -> int:
    try:
        text = f"{fields[name]}{'=' * (-len(fields[name]) % 4)}"
        return int.from_bytes(b64decode(text, altchars=b"-_", validate=True), "big")
    except (KeyError, TypeError, binascii.Error, ValueError):
        raise ValueError(f"the JSON Web Key has no number `{name}`") from None


def _cause(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "the file is not there"
    if isinstance(error, OSError):
        return f"the file cannot be read ({error.strerror})"
    return "this is not a path"


def _unusable(what: str, path: str) -> BadSettings:
    return BadSettings(
        f"the key cannot be used: {what}",
        where=path,
        remedy="Name a file with an RSA key, PEM or a JSON Web Key, that every machine of the run"
        " has at this path, and let the user that runs tierfold read it.",
    )

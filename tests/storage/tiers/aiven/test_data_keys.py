"""Data keys: wrapped and unwrapped with keys from files; no secret in a message or a pickle."""

from __future__ import annotations

import os
import pickle
import subprocess
from base64 import b64decode, b64encode
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from tests.storage.tiers.aiven.rsa_keys import jwk, key_file, private_pem, public_pem, rsa_key
from tierfold.compaction.model.errors import BadSettings, CorruptLog, UnreadableObject
from tierfold.storage.tiers.aiven.chunk_transform import DataKey
from tierfold.storage.tiers.aiven.data_keys import unwrapped_key, wrapped_key
from tierfold.storage.tiers.aiven.key_files import FILE_BYTES_MAX, check_key_files, parsed_key
from tierfold.storage.tiers.layout_options import KeyFile

DATA_KEY = bytes(range(32))


@pytest.mark.parametrize("content", [private_pem(), jwk()], ids=["PEM", "JSON Web Key"])
def test_a_data_key_is_unwrapped_with_the_key_that_wrapped_it(
    tmp_path: Path, content: bytes
) -> None:
    file = key_file(tmp_path, content=content)
    wrapped = wrapped_key(DATA_KEY, (file,))
    assert wrapped.startswith("key-0:")
    assert unwrapped_key(wrapped, (file,), "here") == DATA_KEY
    assert wrapped_key(DATA_KEY, (file,)) != wrapped


@pytest.mark.parametrize(
    "content", [public_pem(), jwk(is_private=False)], ids=["PEM", "JSON Web Key"]
)
def test_a_public_key_is_enough_to_write_and_not_to_read(tmp_path: Path, content: bytes) -> None:
    public = key_file(tmp_path / "public", content=content)
    wrapped = wrapped_key(DATA_KEY, (public,))
    with pytest.raises(UnreadableObject, match="has only its public half") as caught:
        unwrapped_key(wrapped, (public,), "here")
    assert caught.value.where == "here"
    assert unwrapped_key(wrapped, (key_file(tmp_path / "private"),), "here") == DATA_KEY


def test_openssl_unwraps_what_is_wrapped(tmp_path: Path) -> None:
    file = key_file(tmp_path)
    (tmp_path / "wrapped").write_bytes(b64decode(wrapped_key(DATA_KEY, (file,))[6:]))
    options = ("rsa_padding_mode:oaep", "rsa_oaep_md:sha3-512", "rsa_mgf1_md:sha3-512")
    command = ["openssl", "pkeyutl", "-decrypt", "-inkey", file.path, "-in", "wrapped"]
    command += [word for option in options for word in ("-pkeyopt", option)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    assert done.stdout == DATA_KEY


def test_the_first_key_writes_and_all_read(tmp_path: Path) -> None:
    files = (key_file(tmp_path, 1), key_file(tmp_path, 0))
    assert wrapped_key(DATA_KEY, files).startswith("key-1:")
    by_either = [wrapped_key(DATA_KEY, (file,)) for file in files]
    assert [unwrapped_key(wrapped, files, "here") for wrapped in by_either] == [DATA_KEY] * 2


def test_a_key_that_is_not_named_is_asked_for(tmp_path: Path) -> None:
    wrapped = wrapped_key(DATA_KEY, (key_file(tmp_path, 1),))
    with pytest.raises(UnreadableObject, match="under key 'key-1', and no file is named") as caught:
        unwrapped_key(wrapped, (key_file(tmp_path, 0),), "here")
    assert "--encryption-key key-1=FILE" in caught.value.remedy
    with pytest.raises(BadSettings, match="there is no key for it"):
        wrapped_key(DATA_KEY, ())


def test_another_key_under_the_same_id_is_refused(tmp_path: Path) -> None:
    wrapped = wrapped_key(DATA_KEY, (key_file(tmp_path / "right", 0),))
    wrong = key_file(tmp_path / "wrong", 0, content=private_pem(1))
    with pytest.raises(UnreadableObject, match="cannot be unwrapped with key 'key-0' of"):
        unwrapped_key(wrapped, (wrong,), "here")


def test_a_data_key_of_another_length_is_refused(tmp_path: Path) -> None:
    file = key_file(tmp_path)
    with pytest.raises(UnreadableObject, match="cannot be unwrapped"):
        unwrapped_key(wrapped_key(b"short", (file,)), (file,), "here")


@pytest.mark.parametrize(
    "wrapped", ["", "key-0", "key-0:", ":AAAA", "key-0:?", "key-0:AAAA:AAAA", "key-0:AAA"]
)
def test_what_is_no_wrapped_key_is_refused(tmp_path: Path, wrapped: str) -> None:
    with pytest.raises(CorruptLog, match="dataKey is not a key id, a colon and base64"):
        unwrapped_key(wrapped, (key_file(tmp_path),), "here")


@pytest.mark.parametrize("size_bytes", [1, 255, 257])
def test_a_wrapped_key_of_another_size_is_refused(tmp_path: Path, size_bytes: int) -> None:
    wrapped = f"key-0:{b64encode(bytes(size_bytes)).decode()}"
    with pytest.raises(UnreadableObject, match="cannot be unwrapped"):
        unwrapped_key(wrapped, (key_file(tmp_path),), "here")


def pem_of(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, password: bytes = b"") -> bytes:
    algorithm = BestAvailableEncryption(password) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, algorithm)


WRONG_FILES = {
    "empty": (b"", "neither PEM of an RSA key nor a JSON Web Key"),
    "text": (b"SECRET", "neither PEM"),
    "torn": (private_pem()[:-100], "neither PEM"),
    "under a password": (pem_of(rsa_key(), b"SECRET"), "encrypted under a password"),
    "not RSA": (pem_of(ec.generate_private_key(ec.SECP256R1())), "the key is not RSA"),
    "too short": (pem_of(rsa.generate_private_key(65537, 1024)), "has 1024 bits, not 2048 to"),
    "no JSON": (b"{SECRET", "it is not valid JSON"),
    "other JSON": (b'{"kty":"oct","k":"SECRET"}', "not RSA"),
    "no number": (b'{"kty":"RSA","n":"AQAB","e":7}', "no number `e`"),
    "no base64": (b'{"kty":"RSA","n":"AQAB","e":"?"}', "no number `e`"),
    "no key": (jwk(is_private=False).replace(b'"e": "AQAB"', b'"e": "AA"'), "not form an RSA key"),
    "a short modulus": (b'{"kty":"RSA","n":"AQAB","e":"AQAB"}', "has 17 bits, not 2048 to"),
    "deep JSON": (b'{"a":' + b"[" * 60_000, "it is not valid JSON"),
    "odd base64": (b'{"kty":"RSA","n":"AQAB","e":"A"}', "no number `e`"),
    "many bits": (b'{"kty":"RSA","e":"AQAB","n":"' + b"_" * 4_002 + b'"}', "bits, not 2048 to"),
    "half private": (jwk().replace(b'"p"', b'"P"'), "no number `p`"),
    "too large": (b" " * (FILE_BYTES_MAX + 1), "too many for a key"),
}


@pytest.mark.parametrize("name", WRONG_FILES)
def test_a_file_without_a_usable_key_is_refused_and_not_quoted(tmp_path: Path, name: str) -> None:
    content, says = WRONG_FILES[name]
    file = key_file(tmp_path, content=content)
    with pytest.raises(BadSettings, match=says) as caught:
        wrapped_key(DATA_KEY, (file,))
    assert caught.value.where == file.path
    assert "SECRET" not in f"{caught.value} {caught.value.__cause__}"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for path, says in ((tmp_path / "none", "is not there"), (tmp_path, "Is a directory")):
        with pytest.raises(BadSettings, match=f"the key cannot be used: .*{says}") as caught:
            wrapped_key(DATA_KEY, (KeyFile(key_id="k", path=str(path)),))
        assert caught.value.where == str(path)


def test_a_device_or_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/zero", str(tmp_path / "pipe")):
        with pytest.raises(BadSettings, match="it is a device or a pipe, not a file") as caught:
            wrapped_key(DATA_KEY, (KeyFile(key_id="k", path=path),))
        assert caught.value.where == path


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    file = key_file(tmp_path, 0)
    wrapped = wrapped_key(DATA_KEY, (file,))
    Path(file.path).write_bytes(private_pem(1))
    os.utime(file.path, ns=(1, 1))
    with pytest.raises(UnreadableObject, match="cannot be unwrapped"):
        unwrapped_key(wrapped, (file,), "here")


def test_all_spellings_of_a_key_are_one_key() -> None:
    assert parsed_key(private_pem()) == parsed_key(b" \n" + jwk())
    assert parsed_key(public_pem()) == parsed_key(jwk(is_private=False))


@pytest.mark.parametrize("ids", [("",), ("a:b",), ("a", "a")])
def test_ids_that_cannot_be_told_apart_are_refused(ids: tuple[str, ...]) -> None:
    with pytest.raises(BadSettings, match="is empty, has a colon, or is given twice"):
        check_key_files([KeyFile(key_id=key_id, path="x") for key_id in ids])


@pytest.mark.parametrize("size_bytes", [0, 1, 7, 12, 27])
def test_what_is_too_short_to_be_encrypted_is_refused(size_bytes: int) -> None:
    with pytest.raises(CorruptLog, match="it cannot be decrypted"):
        DataKey.fresh().opened(bytes(size_bytes), "here")


def test_a_data_key_is_neither_printed_nor_pickled() -> None:
    key = DataKey.fresh()
    assert len({key.key, DataKey.fresh().key, key.aad, DataKey.fresh().aad}) == 4
    assert repr(key) == "DataKey()"
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(key)
    assert key.sealed(b"x") != key.sealed(b"x")

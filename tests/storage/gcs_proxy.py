"""A proxy that speaks Google Cloud Storage's XML API and asks an S3 emulator.

No emulator of Google speaks that API, which obstore and delta-rs use; its requests and answers are
those of S3 with other names. So this shows that our requests fit together, not how Google answers.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Final
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.storage.s3_proxy import HOP_BY_HOP, asked, error, send, served

_NAMES: Final = {
    "x-goog-meta-": "x-amz-meta-",
    "x-goog-copy-source": "x-amz-copy-source",
    "x-goog-storage-class": "x-amz-storage-class",
}
_SIGNED: Final = (
    "AWS4-HMAC-SHA256 Credential=AKIAX/20260101/us-east-1/s3/aws4_request, SignedHeaders=host,"
    " Signature=x"
)
"""moto wants a signature, and does not check it."""

SERVICE_ACCOUNT: Final = json.dumps(
    {
        "disable_oauth": True,
        "gcs_base_url": "",
        "client_email": "",
        "private_key": "",
        "private_key_id": "",
    }
)
"""An account of Google whose requests carry no token (GOOGLE_SERVICE_ACCOUNT_KEY)."""



def signing_account() -> str:
    """An account with a key of its own, which signs; nothing checks what it signs."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    named = {"client_email": "a@b", "private_key_id": "k", "private_key": pem}
    return json.dumps({**json.loads(SERVICE_ACCOUNT), **named, "disable_oauth": False})


_TAKEN: Final = error(412, "PreconditionFailed")


@contextmanager
def google(target: str) -> Iterator[str]:
    """The endpoint of the proxy in front of the S3 emulator `target`."""
    place, alone = urlsplit(target).netloc, threading.Lock()

    def handle(handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        with alone:
            status, headers, found = _answer(
                place, handler.command, handler.path, dict(handler.headers.items()), body
            )
        send(handler, status, found, headers)

    with served(handle) as endpoint:
        yield endpoint


def _answer(
    place: str, method: str, path: str, asked: Mapping[str, str], body: bytes
) -> tuple[int, dict[str, str], bytes]:
    path = path.replace("%2D", "-")  # In the name of the bucket.
    given = {_renamed(name, _NAMES): value for name, value in asked.items()}
    if "x-amz-copy-source" in given:
        given["x-amz-copy-source"] = given["x-amz-copy-source"].replace("%2D", "-")
    is_new = given.pop("x-goog-if-generation-match", None) == "0"
    # moto copies without a condition.
    if is_new and _asked(place, "HEAD", path, {}, b"")[0] == 200:
        return _TAKEN[0], {}, _TAKEN[1]
    status, headers, found = _asked(place, method, path, given, body)
    back = {new: old for old, new in _NAMES.items()}
    kept = {
        _renamed(name, back): value
        for name, value in headers.items()
        if name.lower() not in HOP_BY_HOP or method == "HEAD"
    }
    return status, kept | {"x-goog-generation": "1"}, found


def _renamed(name: str, names: Mapping[str, str]) -> str:
    name = name.lower()
    for old, new in names.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def _asked(
    place: str, method: str, path: str, headers: Mapping[str, str], body: bytes
) -> tuple[int, dict[str, str], bytes]:
    return asked(place, method, path, {**headers, "authorization": _SIGNED}, body)

"""A proxy that speaks Google Cloud Storage's XML API and asks an S3 emulator.

No emulator of Google speaks that API, which obstore and delta-rs use; its requests and answers are
those of S3 with other names. So this shows that our requests fit together, not how Google answers.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import urlsplit

from tests.storage.s3_proxy import HOP_BY_HOP, error

_NAMES: Final = {"x-goog-meta-": "x-amz-meta-", "x-goog-copy-source": "x-amz-copy-source"}
_SIGNED: Final = (
    "AWS4-HMAC-SHA256 Credential=AKIAX/20260101/us-east-1/s3/aws4_request, SignedHeaders=host,"
    " Signature=x"
)
"""moto wants a signature, and does not check it."""

_TAKEN: Final = error(412, "PreconditionFailed")


@contextmanager
def google(target: str) -> Iterator[str]:
    """The endpoint of the proxy in front of the S3 emulator `target`."""
    place, alone = urlsplit(target).netloc, threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with alone:
                status, headers, found = _answer(
                    place, self.command, self.path, dict(self.headers.items()), body
                )
            self.send_response_only(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if self.command != "HEAD":
                self.send_header("Content-Length", str(len(found)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(found)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


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
    connection = http.client.HTTPConnection(place, timeout=60)
    connection.request(method, path, body or None, {**headers, "authorization": _SIGNED})
    answer = connection.getresponse()
    found = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), found

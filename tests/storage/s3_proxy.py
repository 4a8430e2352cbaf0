"""A proxy in front of an S3 emulator: it counts requests, and answers chosen ones wrongly.

Signatures cover the host, so the proxy forwards the header with its own, for which a client signs.
"""

from __future__ import annotations

import http.client
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs, urlsplit

HOP_BY_HOP: Final = frozenset({"connection", "transfer-encoding", "keep-alive", "content-length"})


@dataclass(frozen=True, slots=True)
class Request:
    """A request as the proxy sees it."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]

    @property
    def kind(self) -> str:
        """What it asks for, in the words of `Requests`."""
        if self.method == "GET" and {"list-type", "uploads"} & self.query.keys():
            return "lists"
        if "uploadId" in self.query:
            return {"PUT": "parts", "POST": "completes", "DELETE": "aborts", "GET": "lists"}[
                self.method
            ]
        if "uploads" in self.query:
            return "begins"
        return {"GET": "gets", "HEAD": "heads", "PUT": "puts", "DELETE": "deletes"}[self.method]

Answer = tuple[int, bytes]
"""A status and a body."""


@dataclass(slots=True)
class Fault:
    """What happens to the next `times` requests of a kind."""

    kind: str
    times: int = 1
    text: str = ""
    """Only to requests with this text in their path or query."""
    answer: Answer | None = None
    """Answered instead of the emulator."""
    is_forwarded: bool = False
    """Whether the emulator receives the request nevertheless: its answer is lost."""
    cut_after_bytes: int | None = None
    """Where the connection breaks in the body of the emulator's answer."""
    body_bytes: int | None = None
    """The length of the body, whichever range the emulator's answer says it is."""
    silent_s: float = 0.0
    """How long the proxy waits before its answer."""
    before: Callable[[], None] | None = None
    """Done before the request."""
    seen: int = field(default=0, init=False)

    def is_for(self, request: Request) -> bool:
        """Whether the request is of its kind and has its text."""
        return self.kind == request.kind and self.text in f"{request.path} {request.query}"


def error(status: int, code: str, more: str = "") -> Answer:
    """An error as S3 answers it."""
    return status, (
        f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code>'
        f"<Message>AKIA-secret in a message</Message>{more}</Error>"
    ).encode()


RESET: Final[Answer] = (0, b"")
"""The connection is closed without an answer."""


class Proxy:
    """A running proxy; `faults` and `counts` may be read and changed at any time."""

    def __init__(self, target: str) -> None:
        self.target = urlsplit(target).netloc
        self.lock = threading.Lock()
        self.faults: list[Fault] = []
        self.counts: Counter[str] = Counter()
        self.requests: list[Request] = []
        self.dropped = {"expect"}
        """Headers that are not forwarded, in lower case."""

    def add(self, kind: str, **given: object) -> Fault:
        """Plan a fault."""
        fault = Fault(kind, **given)  # type: ignore[arg-type]
        self.faults.append(fault)
        return fault

    def received(self, request: Request) -> Fault | None:
        """Count a request, and return the fault that it meets."""
        with self.lock:
            self.counts[request.kind] += 1
            self.requests.append(request)
            for fault in self.faults:
                if fault.is_for(request) and fault.seen < fault.times:
                    fault.seen += 1
                    return fault
        return None


@contextmanager
def proxied(target: str, tls: ssl.SSLContext | None = None) -> Iterator[tuple[Proxy, str]]:
    """A proxy and its endpoint, with TLS if there is a context for it."""
    proxy = Proxy(target)
    with served(lambda handler: _handle(proxy, handler), tls) as endpoint:
        yield proxy, endpoint


@contextmanager
def served(
    handle: Callable[[BaseHTTPRequestHandler], None], tls: ssl.SSLContext | None = None
) -> Iterator[str]:
    """The endpoint of a server that answers each request by `handle`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # A body that follows its head would wait for 40 ms.

        def handle_any(self) -> None:
            handle(self)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        # A client that trusts no certificate ends the handshake, which is no error of the server.
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        # Without a handshake in the thread that accepts, which a client could block.
        server.socket = tls.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        scheme = "http" if tls is None else "https"
        yield f"{scheme}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def _handle(proxy: Proxy, handler: BaseHTTPRequestHandler) -> None:
    url = urlsplit(handler.path)
    query = parse_qs(url.query, keep_blank_values=True)
    request = Request(handler.command, url.path, query, dict(handler.headers.items()))
    if handler.headers.get("Expect", "").lower() == "100-continue":
        handler.send_response_only(100)
        handler.end_headers()
    body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
    fault = proxy.received(request)
    if fault is not None and fault.before is not None:
        fault.before()
    if fault is not None and fault.silent_s:
        time.sleep(fault.silent_s)
    if fault is not None and fault.answer is not None:
        if fault.is_forwarded:
            _forwarded(proxy, handler, body)
        send(handler, *fault.answer, {"Content-Type": "application/xml"})
        return
    status, headers, found = _forwarded(proxy, handler, body)
    if fault is not None and fault.body_bytes is not None:
        found = found[: fault.body_bytes].ljust(fault.body_bytes)
    send(handler, status, found, headers, None if fault is None else fault.cut_after_bytes)


def _forwarded(
    proxy: Proxy, handler: BaseHTTPRequestHandler, body: bytes
) -> tuple[int, dict[str, str], bytes]:
    headers = {
        name: value for name, value in handler.headers.items() if name.lower() not in proxy.dropped
    }
    status, kept, found = asked(proxy.target, handler.command, handler.path, headers, body)
    if handler.command != "HEAD":
        kept = {name: value for name, value in kept.items() if name.lower() not in HOP_BY_HOP}
    return status, kept, found


def asked(
    place: str, method: str, path: str, headers: Mapping[str, str], body: bytes
) -> tuple[int, dict[str, str], bytes]:
    """What the server at `place` answers: status, headers and body."""
    connection = http.client.HTTPConnection(place, timeout=60)
    connection.request(method, path, body or None, headers)
    answer = connection.getresponse()
    found = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), found


def send(
    handler: BaseHTTPRequestHandler,
    status: int,
    body: bytes,
    headers: dict[str, str],
    cut_after_bytes: int | None = None,
) -> None:
    """Answer the request; a status of 0 closes the connection instead."""
    handler.close_connection = cut_after_bytes is not None or status == 0
    if status == 0:
        return
    handler.send_response_only(status)
    for name, value in headers.items():
        if name.lower() not in HOP_BY_HOP - {"content-length"}:
            handler.send_header(name, value)
    if handler.command != "HEAD":
        handler.send_header("Content-Length", str(len(body)))
    elif "content-length" not in {name.lower() for name in headers}:
        handler.send_header("Content-Length", "0")
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(body[:cut_after_bytes])

"""A proxy in front of an S3 server: it counts requests, and makes some of them fail or wait."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import urlsplit

_HOP_BY_HOP: Final = frozenset({"connection", "content-length", "transfer-encoding", "date"})

Forward = Callable[[], tuple[int, list[tuple[str, str]], bytes]]
"""Sends the request on, and returns the server's status, headers and body."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request as a rule sees it."""

    method: str
    path: str
    """With the query."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The answer of a store that refuses a request."""

    status: int
    code: str
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def body(self) -> bytes:
        """As S3 writes it."""
        return (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{self.code}</Code>'
            f"<Message>{self.code} it is</Message><RequestId>4442587FB7D0A2F9</RequestId></Error>"
        ).encode()


class AnswerIsLost(Exception):
    """The connection breaks after the server has done what was asked."""


Rule = Callable[[Request, Forward], Fault | None]
"""Returns the answer of a refused request; None: the request is forwarded.

It may forward the request itself, wait, or raise `AnswerIsLost`.
"""


@dataclass(slots=True)
class S3Proxy:
    """A running proxy."""

    url: str
    requests: list[Request] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)

    def fail(self, fault: Fault, *, method: str = "", path: str = "") -> None:
        """From now on refuse requests with this method, and this text in the path."""
        self.rules.append(lambda request, _: fault if _is_for(request, method, path) else None)

    def lose_answer(self, *, method: str, path: str) -> list[Request]:
        """Break the connection once after such a request was done; returns where it is noted."""
        lost: list[Request] = []

        def rule(request: Request, forward: Forward) -> None:
            if not lost and _is_for(request, method, path):
                lost.append(request)
                forward()
                raise AnswerIsLost

        self.rules.append(rule)
        return lost

    def hold(self, *, method: str, path: str) -> Held:
        """Let the first such request wait until it is released."""
        held = Held()

        def rule(request: Request, _forward: Forward) -> None:
            if not held.has_come.is_set() and _is_for(request, method, path):
                held.request = request
                held.has_come.set()
                assert held.may_go.wait(timeout=100)

        self.rules.append(rule)
        return held


@dataclass(slots=True)
class Held:
    """A request that waits in the proxy."""

    has_come: threading.Event = field(default_factory=threading.Event)
    may_go: threading.Event = field(default_factory=threading.Event)
    request: Request | None = None


@contextmanager
def s3_proxy(server_url: str) -> Iterator[S3Proxy]:
    """Run a proxy in front of the server at a URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.daemon_threads = True
    proxy = S3Proxy(f"http://127.0.0.1:{server.server_port}")
    target = urlsplit(server_url)

    class Handler(_Handler):
        state = proxy
        host, port = target.hostname or "", target.port or 80

    server.RequestHandlerClass = Handler
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: S3Proxy
    host: str
    port: int

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def handle_one_request(self) -> None:
        """Serve any method."""
        self.raw_requestline = self.rfile.readline(1 << 16)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Request(self.command, self.path)
        self.state.requests.append(request)
        try:
            self._serve(request, body)
        except (AnswerIsLost, OSError):
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

    def _serve(self, request: Request, body: bytes) -> None:
        def forward() -> tuple[int, list[tuple[str, str]], bytes]:
            connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
            try:
                connection.request(self.command, self.path, body, dict(self.headers))
                answer = connection.getresponse()
                return answer.status, answer.getheaders(), answer.read()
            finally:
                connection.close()

        for rule in tuple(self.state.rules):
            fault = rule(request, forward)
            if fault is not None:
                self._answer(fault.status, list(fault.headers), fault.body)
                return
        self._answer(*forward())

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        is_head = self.command == "HEAD"
        for name, value in headers:
            if name.lower() not in _HOP_BY_HOP or (is_head and name.lower() == "content-length"):
                self.send_header(name, value)
        if not is_head:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if not is_head:
            self.wfile.write(body)
        self.wfile.flush()


def _is_for(request: Request, method: str, path: str) -> bool:
    return method in {"", request.method} and path in request.path

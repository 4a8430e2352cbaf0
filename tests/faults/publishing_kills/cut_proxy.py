"""A TCP proxy before a broker that is cut and restored: a network that is lost for a while.

The broker advertises the proxy's port at the listener `PROXIED`, so all of a client's connections
go through it.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from tests.brokers.broker import Broker
from tests.brokers.cluster import KafkaCluster
from tests.storage.emulators import free_port

LISTENER: Final = "PROXIED"
_BYTES: Final = 1 << 16


class CutProxy:
    """Forwards connections from one port to another, as long as the network is there."""

    def __init__(self, upstream: str) -> None:
        """`upstream`: HOST:PORT."""
        host, _, port = upstream.rpartition(":")
        self._upstream = (host, int(port))
        self.port = free_port()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._passes = threading.Event()
        self._passes.set()
        self._is_lossy = False
        self._listener: socket.socket | None = None

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._listener is not None
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """End all connections at once, and refuse new ones."""
        self._passes.clear()
        with self._lock:
            ended, self._open = self._open, set()
        for one in ended:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def lose_answers(self) -> None:
        """From now on what brokers answer is lost; what they are sent still arrives."""
        self._is_lossy = True

    def restore(self) -> None:
        """Let new connections through again, both ways; lossy ones end."""
        self.cut()
        self._is_lossy = False
        self._passes.set()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            if not self._passes.is_set():
                client.close()
                continue
            try:
                broker = socket.create_connection(self._upstream)
            except OSError:
                client.close()
                continue
            with self._lock:
                self._open |= {client, broker}
            for source, target, loses in ((client, broker, False), (broker, client, True)):
                threading.Thread(
                    target=self._pump, args=(source, target, loses), daemon=True
                ).start()

    def _pump(self, source: socket.socket, target: socket.socket, loses: bool) -> None:
        with suppress(OSError):
            while chunk := source.recv(_BYTES):
                if not (loses and self._is_lossy):
                    target.sendall(chunk)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class ProxiedCluster(KafkaCluster):
    """A cluster of one broker that is also reached through a proxy."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, listeners={LISTENER: "PLAINTEXT"})
        self.proxy: CutProxy | None = None

    @property
    def proxied(self) -> str:
        """The proxy's address, as `--bootstrap-server` takes it."""
        assert self.proxy is not None
        return f"127.0.0.1:{self.proxy.port}"

    def _new_broker(self) -> Broker:
        broker = super()._new_broker()
        listeners = broker.settings["advertised.listeners"]
        (behind,) = (one for one in listeners.split(",") if one.startswith(f"{LISTENER}://"))
        self.proxy = CutProxy(behind.partition("//")[2])
        broker.settings["advertised.listeners"] = listeners.replace(
            behind, f"{LISTENER}://{self.proxied}"
        )
        return broker

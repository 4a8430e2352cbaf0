"""The parent of Spark's Python workers, spoken to as Spark's JVM does, without one."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.end_to_end.processes import awaited, text_of
from tests.jobs.commands import ROOT


@dataclass(slots=True, kw_only=True)
class Daemon:
    """What runs, where it listens, and what it said in the end."""

    process: subprocess.Popen[bytes]
    address: str
    said: str = ""

    def hung_up_on(self) -> None:
        """A worker is forked for a connection that ends at once; returns when the worker has."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self.address)
            (pid,) = struct.unpack("!i", connection.recv(4))
        awaited("the worker's end", lambda: None if text_of(pid, "stat") else True)


@contextmanager
def daemon(**environment: str) -> Iterator[Daemon]:
    """It ends with the context, as when its JVM closes its input."""
    # Not in pytest's folder: a socket's path has 107 bytes.
    with tempfile.TemporaryDirectory(prefix="tierfold-") as folder:
        settings = {
            "PYTHON_UNIX_DOMAIN_ENABLED": "true",
            "PYTHON_WORKER_FACTORY_SOCK_DIR": folder,
            "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "jobs.worker_daemon", "pyspark.worker"],
            cwd=ROOT,
            env=os.environ | settings | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        (length,) = struct.unpack("!i", process.stdout.read(4))
        running = Daemon(process=process, address=process.stdout.read(length).decode())
        try:
            yield running
        finally:
            running.said = process.communicate()[1].decode()


def test_a_worker_whose_spark_hangs_up_ends_in_silence() -> None:
    with daemon() as running:
        running.hung_up_on()
    assert running.said == ""


def test_what_else_befalls_a_worker_is_told() -> None:
    with daemon(SPARK_BUFFER_SIZE="no number") as running:
        running.hung_up_on()
    assert "ValueError" in running.said

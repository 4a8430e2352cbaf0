"""The parent of Spark's Python workers speaks the JVM's protocol, tested without a JVM."""

from __future__ import annotations

import json
import os
import re
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.processes import awaited, text_of
from tests.jobs.commands import ROOT
from tests.jobs.other_users import kept_private

THREADS: Final = frozenset({"OPENBLAS_NUM_THREADS", "JE_ARROW_MALLOC_CONF"})
"""Settings of the test run that could hide that the daemon must forbid threads itself."""

IMPORTED: Final = """
import gc, json, os, sys
from tierfold.jobs.spark.worker_daemon import imported_once
imported_once()
print(json.dumps([sorted(sys.modules), gc.get_freeze_count(), len(os.listdir("/proc/self/task"))]))
"""

FAULTS: Final = """
import resource, sys
import numpy as np
from tierfold.jobs.spark.worker_daemon import freed_memory_kept
if sys.argv[1] == "kept":
    freed_memory_kept()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(2):
    before = faults()
    array = np.ones(100 * 2**20, np.uint8)
    del array
print(faults() - before)
"""
"""Prints how often the second large array had to wait for memory of the system."""


@dataclass(slots=True, kw_only=True)
class Daemon:
    """A running daemon, and its stderr after it has ended."""

    process: subprocess.Popen[bytes]
    address: str
    stderr: str = ""

    def hung_up_on(self) -> None:
        """Connect and hang up at once; return when the worker that was forked has ended."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self.address)
            (pid,) = struct.unpack("!i", connection.recv(4))
        awaited("the worker's end", lambda: None if text_of(pid, "stat") else True)


def without_threads() -> dict[str, str]:
    """The environment without `THREADS`."""
    return {name: text for name, text in os.environ.items() if name not in THREADS}


@contextmanager
def daemon(umask: int = 0o022, **environment: str) -> Iterator[Daemon]:
    """Run a daemon; at the end, close its input as its JVM does."""
    settings = {
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        # The driver's folder, which an executor on another machine lacks.
        "PYTHON_WORKER_FACTORY_SOCK_DIR": "/tmp/tierfold-elsewhere",
        "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "tierfold.jobs.spark.worker_daemon", "pyspark.worker"],
        cwd=ROOT,
        env=without_threads() | settings | environment,
        umask=umask,
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
        running.stderr = process.communicate()[1].decode()


def test_a_worker_whose_spark_hangs_up_prints_nothing() -> None:
    with daemon() as running:
        running.hung_up_on()
    assert running.stderr == ""


def test_the_daemon_has_imported_what_its_workers_need_and_has_one_thread() -> None:
    # A fork has one thread; a lock that another thread held stays locked in it forever.
    with daemon() as running:
        running.hung_up_on()
        pid = running.process.pid
        assert all(f"/{name}/" in text_of(pid, "maps") for name in ("numba", "pandas", "pyarrow"))
        assert len([*Path(f"/proc/{pid}/task").iterdir()]) == 1


def test_a_worker_imports_neither_a_stage_nor_what_kernels_call() -> None:
    command = [sys.executable, "-c", IMPORTED]
    printed = subprocess.check_output(command, cwd=ROOT, env=without_threads())
    modules, frozen, threads = json.loads(printed)
    stages = {
        f"tierfold.jobs.engines.{path.stem}"
        for path in (ROOT / "jobs" / "engines").glob("*.py")
        if re.search(r"^class \w+Stage\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(stages) >= 5
    needed = {"tierfold.jobs.engines.arrow_rows", "pyspark.sql.pandas.serializers", "pandas"}
    # numba imports this just before its first kernel.
    of_kernels = "numba.cpython.listobj"
    assert stages | needed | {of_kernels} <= set(modules)
    assert frozen > len(modules)
    # OpenBLAS ends its threads at a fork, so the test above cannot see them.
    assert threads == 1


@pytest.mark.parametrize(("memory", "waits"), [("kept", False), ("returned", True)])
def test_a_large_array_reuses_the_memory_of_the_one_before(memory: str, waits: bool) -> None:
    printed = subprocess.check_output([sys.executable, "-c", FAULTS, memory], cwd=ROOT)
    assert (int(printed) > 20) is waits  # Of 2 MiB, or of 4 KiB.


def test_other_worker_failures_are_reported() -> None:
    with daemon(SPARK_BUFFER_SIZE="no number") as running:
        running.hung_up_on()
    assert "ValueError" in running.stderr


def test_no_other_user_can_fork_a_worker_whatever_the_umask() -> None:
    with daemon(umask=0) as running:
        assert kept_private(running.address)
        running.hung_up_on()
    assert running.stderr == ""
    assert not Path(running.address).parent.exists()


def test_a_daemon_that_ends_on_request_leaves_no_folder() -> None:
    with daemon() as running:
        running.hung_up_on()  # Now the daemon handles signals.
        running.process.terminate()
        running.process.wait()
        assert not Path(running.address).parent.exists()

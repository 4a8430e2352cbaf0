"""Runs PySpark's worker daemon, without a traceback when Spark closes the connection.

    python -m tierfold.jobs.spark.worker_daemon

Spark closes the socket of an idle worker after a minute and at the end of the session. The worker
cannot write its last message to the closed socket, and PySpark's daemon prints a traceback although
the run succeeds.

Spark plans Python data sources with PySpark's own daemon, which no setting replaces. For its
workers there is `silent_planning`.

The daemon listens in its own private folder, not in `spark.python.unix.domain.socket.dir`. That
folder is the driver's: an executor on another machine lacks it, and one that runs as another user
may not enter it. Spark uses any path that its daemon reports.

The daemon imports once what its workers need; as forks they inherit it. PySpark's own daemon
imports nothing, because a fork lacks the threads that an import started: `imported_once` starts
none. Forks also inherit how the C library handles memory, see `freed_memory_kept`.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from tierfold.jobs.spark.unpacked_pyspark import prefer_unpacked_pyspark

if __name__ == "__main__":
    prefer_unpacked_pyspark()

# isort: split
from pyspark import daemon
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from tierfold.jobs.spark.private_sockets import socket_folder

HUNG_UP: Final = 1
"""The exit code of a worker; its daemon forks another one if needed."""

_NEEDED: Final = (
    "tierfold.jobs.engines.arrow_rows",
    "tierfold.jobs.engines.check",
    "tierfold.jobs.engines.probe",
    "tierfold.jobs.engines.reduce",
    "tierfold.jobs.engines.rewrite",
    "tierfold.jobs.engines.scan",
)
"""What all stages need, and the modules of the stages."""

_REUSED: Final = "spark.python.worker.reuse"

_TRIM_THRESHOLD: Final = -1
_MMAP_MAX: Final = -4
"""Numbers of glibc's malloc.h."""


def silent(worker: Callable[[socket.socket, bool], int]) -> Callable[[socket.socket, bool], int]:
    """Return PySpark's `daemon.worker` without an error when the socket is already closed."""

    def until_hung_up(sock: socket.socket, authenticated: bool) -> int:  # noqa: FBT001 - as theirs
        try:
            return worker(sock, authenticated)
        except BrokenPipeError:
            return HUNG_UP

    return until_hung_up


def imported_once() -> None:
    """Import what the stages need, in a process that will fork: 0.5 CPU seconds of each worker."""
    # NumPy would start threads for linear algebra, which nothing here uses, and pyarrow one for a
    # memory allocator that is not its default.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"
    for name in _NEEDED:
        importlib.import_module(name)
    # At its first scalar, pyarrow imports pandas if that is installed, to recognise its values.
    importlib.import_module("pyarrow").scalar(None)
    # Before its first kernel, numba imports what kernels may call.
    importlib.import_module("numba.core.registry").cpu_target.target_context.refresh()
    # PySpark collects garbage after every task, and would walk all of this each time.
    gc.collect()
    gc.freeze()


def freed_memory_kept() -> None:
    """Let the C library keep the memory of large arrays for the next ones.

    Otherwise it returns arrays of more than 32 MiB to the system, which clears the memory again for
    each new one. Measured with 50 million keys: 0.8 of 12 CPU seconds, and 2 where the system's
    free memory was fragmented. More than 1 GiB is returned if nothing in use lies behind it, and
    all of it when Spark ends the worker, after a minute without tasks. Does nothing where the
    library is not glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, 2**30)


def silent_planning() -> None:
    """End the worker that plans a data source without a traceback; does nothing elsewhere."""
    main = sys.modules["__main__"]
    if getattr(main.__spec__, "name", None) == daemon.__name__:
        vars(main)["worker"] = silent(vars(main)["worker"])


@contextmanager
def workers_used_once(spark: SparkSession) -> Iterator[None]:
    """Make `spark` plan with workers that end after one task.

    `silent_planning` cannot reach workers that load no module of tierfold.
    """
    if is_remote():  # Spark Connect plans in the server, whose settings are its own.
        yield
        return
    # Not a copy, as `SparkContext.getConf` is. With Spark 4.3 py4j cannot look into SparkEnv.
    settings = spark.sparkContext._jsc.sc().conf()  # noqa: SLF001 - there is no public way
    before = settings.get(_REUSED, "true")
    settings.set(_REUSED, "false")
    try:
        yield
    finally:
        settings.set(_REUSED, before)


if __name__ == "__main__":
    vars(daemon)["worker"] = silent(daemon.worker)
    os.environ["PYTHON_WORKER_FACTORY_SOCK_DIR"] = socket_folder()
    imported_once()
    freed_memory_kept()
    daemon.manager()

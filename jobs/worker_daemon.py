"""PySpark's worker daemon, silent where Spark hangs up: `python -m jobs.worker_daemon`.

A worker that waits for its next task when Spark closes its socket, after a minute without work or
at the end of the session, cannot say goodbye over a Unix socket that is closed already, and
PySpark's daemon prints a traceback about it in the middle of a good run.

It listens in a private folder of its own, not in the one that `spark.python.unix.domain.socket.dir`
names. That one is the driver's: an executor on another machine lacks it, and one that runs as
another user may not enter it. Spark takes any path that its daemon reports.
"""

from __future__ import annotations

import os
import socket
from typing import Final

from pyspark import daemon

from jobs.private_sockets import private_folder

HUNG_UP: Final = 1
"""The code of a worker that is to end: its daemon forks another where one is wanted."""


def worker(sock: socket.socket, authenticated: bool) -> int:  # noqa: FBT001 - as PySpark's
    """PySpark's `daemon.worker`, but that nobody listening any more is no error of the worker."""
    try:
        return _pysparks_worker(sock, authenticated)
    except BrokenPipeError:
        return HUNG_UP


_pysparks_worker: Final = daemon.worker


if __name__ == "__main__":
    daemon.worker = worker
    os.environ["PYTHON_WORKER_FACTORY_SOCK_DIR"] = private_folder()
    daemon.manager()

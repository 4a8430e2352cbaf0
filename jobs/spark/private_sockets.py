"""Private folders for Spark's Unix sockets.

Spark does not authenticate connections to them. Anyone who connects can run code as this user: the
daemon forks a worker, and the accumulators' server unpickles what it receives. The umask decides
the sockets' permissions, so the folder around them must keep other users out.
"""

from __future__ import annotations

import atexit
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from pyspark import SparkContext

SHORT_PARENT: Final = "/tmp"
"""A socket's path has at most 107 bytes, of which its name takes 42. A long temporary folder, such
as that of a YARN container, leaves too few."""


def private_folder() -> str:
    """Create a folder that only this user may enter, whatever the umask; remove it at exit.

    Raises OSError if that fails.
    """
    folder = mkdtemp(prefix="tierfold-", dir=SHORT_PARENT)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    # `mkdtemp` uses 0700, but a umask can remove even the owner's bits.
    Path(folder).chmod(0o700)
    return folder


def removed_with_jvm(context: SparkContext, folder: str) -> None:
    """Remove a folder when the JVM of `context` ends, which also happens if Python is killed.

    The folder must outlive the context: the JVM passes the setting on to the process's later
    sessions.
    """
    jvm = context._jvm  # noqa: SLF001 - PySpark has no public way to its JVM
    assert jvm is not None, "a context that has started has a JVM"  # noqa: S101
    hooks = jvm.org.apache.spark.util.ShutdownHookManager
    hooks.registerShutdownDeleteDir(jvm.java.io.File(folder))

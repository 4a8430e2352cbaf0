"""Private folders for Spark's Unix sockets.

Spark does not authenticate connections to them. Anyone who connects can run code as this user: the
daemon forks a worker, and the accumulators' server unpickles what it receives. The umask decides
the sockets' permissions, so the folder around them must keep other users out.
"""

from __future__ import annotations

from typing import Final

from pyspark import SparkContext

from tierfold.storage.private_folders import private_folder

SHORT_PARENT: Final = "/tmp"
"""A socket's path has at most 107 bytes, of which its name takes 42. A long temporary folder, such
as that of a YARN container, leaves too few."""


def socket_folder() -> str:
    """Create a folder for sockets that only this user may enter; raises OSError if that fails."""
    return private_folder("tierfold-", parent=SHORT_PARENT)


def removed_with_jvm(context: SparkContext, folder: str) -> None:
    """Remove a folder when the JVM of `context` ends, which also happens if Python is killed.

    The folder must outlive the context: the JVM passes the setting on to the process's later
    sessions.
    """
    jvm = context._jvm  # noqa: SLF001 - PySpark has no public way to its JVM
    assert jvm is not None, "a context that has started has a JVM"  # noqa: S101
    hooks = jvm.org.apache.spark.util.ShutdownHookManager
    hooks.registerShutdownDeleteDir(jvm.java.io.File(folder))

"""Imports PySpark from its installation instead of the archive of the same installation.

Spark puts `pyspark.zip` first on the path of its Python processes. The archive has no bytecode, so
each process compiles what it imports: 0.4 CPU seconds of the 0.5 that a daemon took to start.
Where Spark is part of an installed PySpark, the same modules lie beside it, with their bytecode.
"""

from __future__ import annotations

import sys
from pathlib import Path

_ARCHIVES = ("pyspark.zip", "py4j-*-src.zip")


def prefer_unpacked_pyspark() -> None:
    """Remove Spark's archives from this process's path if it also has their unpacked modules.

    Other archives stay: a cluster's Spark may be of another version than an installed PySpark.
    """
    sys.path[:] = [entry for entry in sys.path if not _is_unpacked_beside(Path(entry))]


def _is_unpacked_beside(entry: Path) -> bool:
    """Whether it is PREFIX/pyspark/python/lib/ARCHIVE, and PREFIX is on the path, too."""
    if not any(entry.match(archive) for archive in _ARCHIVES) or len(entry.parts) < 5:
        return False
    package, prefix = entry.parents[2], entry.parents[3]
    return (package / "daemon.py").is_file() and str(prefix) in sys.path

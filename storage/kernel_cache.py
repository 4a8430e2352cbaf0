"""Where numba keeps compiled kernels: in a private temporary folder where it finds no other.

Its own places are `__pycache__` beside the source and the user's cache folder. Where neither can be
written, in a read-only installation without a home say, it refuses to compile at all.
"""

from __future__ import annotations

import atexit
import os
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

VARIABLE: Final = "NUMBA_CACHE_DIR"
"""Numba reads it when it is imported; the Python workers of a local Spark inherit it."""

_SOURCES: Final = Path(__file__).resolve().parent.parent
_FOLDERS: Final = ("compaction", "storage")


def ensure_kernel_cache() -> None:
    """Give numba a folder of this process, removed at exit, where it could write nowhere else."""
    if VARIABLE in os.environ:
        return
    packages = (path.parent for room in _FOLDERS for path in (_SOURCES / room).rglob("__init__.py"))
    beside = [package / "__pycache__" for package in packages]
    if all(map(_is_writable, beside)) or _is_writable(_users_cache()):
        return
    folder = mkdtemp(prefix="tierfold-kernels-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ[VARIABLE] = folder


def _users_cache() -> Path:
    """Numba's own rule."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "numba"


def _is_writable(folder: Path) -> bool:
    """It can be written, or made."""
    there = next(parent for parent in (folder, *folder.parents) if os.path.lexists(parent))
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)

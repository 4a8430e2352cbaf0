"""Gives numba a temporary folder for compiled kernels if it cannot write to its own.

Numba's own are `__pycache__` beside the source and the user's cache folder. If it can write to
neither, as in a read-only installation without a home, it refuses to compile.
"""

from __future__ import annotations

import atexit
import os
from pathlib import Path
from typing import Final

VARIABLE: Final = "NUMBA_CACHE_DIR"
"""Numba reads it when it is imported; the Python workers of a local Spark inherit it."""

_SOURCES: Final = Path(__file__).resolve().parent.parent
_FOLDERS: Final = ("compaction", "storage")


def ensure_kernel_cache() -> None:
    """Give numba a temporary folder, removed at exit, if it can write to none of its own."""
    if VARIABLE in os.environ:
        return
    # Not deeper: this runs at every start, and a cache may hold hundreds of files.
    packages = (
        path.parent for name in _FOLDERS for path in (_SOURCES / name).glob("*/__init__.py")
    )
    beside = [package / "__pycache__" for package in packages]
    if all(map(_is_writable, beside)) or _is_writable(_users_cache()):
        return
    # Seldom needed, and every start would wait for their import.
    import shutil  # noqa: PLC0415
    from tempfile import mkdtemp  # noqa: PLC0415

    folder = mkdtemp(prefix="tierfold-kernels-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ[VARIABLE] = folder


def _users_cache() -> Path:
    """The user's cache folder, by numba's own rule."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "numba"


def _is_writable(folder: Path) -> bool:
    """Whether the folder can be written to, or created."""
    there = next(parent for parent in (folder, *folder.parents) if os.path.lexists(parent))
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)

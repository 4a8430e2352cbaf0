"""Gives numba a temporary folder for compiled kernels if it cannot write to its own folders.

These are `__pycache__` beside the source and the user's cache folder. If it can write to neither,
as in a read-only installation without a home, numba refuses to compile.
"""

from __future__ import annotations

import atexit
import os
from pathlib import Path
from typing import Final

VARIABLE: Final = "NUMBA_CACHE_DIR"
"""Numba reads it on import; the Python workers of a local Spark inherit it."""

_SOURCES: Final = Path(__file__).resolve().parent.parent
_FOLDERS: Final = ("compaction", "storage")


def ensure_kernel_cache() -> None:
    """Give numba a temporary folder if it needs one; it is removed at exit."""
    if VARIABLE in os.environ:
        return
    # Only folders: this runs at every start, and a cache may hold hundreds of files.
    packages = (
        path.parent for name in _FOLDERS for path in (_SOURCES / name).glob("*/__init__.py")
    )
    beside = [package / "__pycache__" for package in packages]
    if all(map(_is_writable, beside)) or _is_users_cache_writable():
        return
    # Rarely needed; importing them at the top would slow every start.
    import shutil  # noqa: PLC0415
    from tempfile import mkdtemp  # noqa: PLC0415

    folder = mkdtemp(prefix="tierfold-kernels-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ[VARIABLE] = folder


def _is_users_cache_writable() -> bool:
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    except RuntimeError:  # This user has no home.
        return False
    return _is_writable(cache / "numba")


def _is_writable(folder: Path) -> bool:
    there = next(parent for parent in (folder, *folder.parents) if os.path.lexists(parent))
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)

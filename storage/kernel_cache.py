"""Chooses where numba keeps compiled kernels: never where another user could put one.

A kernel's file is a pickle, which runs code when it is read. numba itself would take the first of
these folders that it can write to, whether others can or not. If it can write to none, it refuses
to compile. Here each must also be private (`private_folders`):

    1  NUMBA_CACHE_DIR, if it is set
    2  `__pycache__` beside the source
    3  `numba` in the user's folder for caches
    4  a temporary folder, which is removed at exit, so that each command compiles again
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path
from typing import Final

from tierfold.storage.private_folders import foreign_hand, made_private, private_folder

VARIABLE: Final = "NUMBA_CACHE_DIR"
"""Numba reads it on import; the Python workers of a local Spark inherit it."""

_SOURCES: Final = Path(__file__).resolve().parent.parent
_FOLDERS: Final = ("compaction", "storage")

_log: Final = logging.getLogger(__name__)


def ensure_kernel_cache() -> None:
    """Choose the folder; one line on stderr says why a temporary one is needed."""
    given = os.environ.get(VARIABLE)
    if given is None and all(map(_is_usable, _beside_sources())):
        return
    cache = Path(given) if given is not None else _users_cache()
    why_not = "this user has no home" if cache is None else _why_not(cache)
    if cache is None or why_not:
        cache = Path(private_folder("tierfold-kernels-"))
        _log.warning(
            "Compiled kernels are kept in a temporary folder, so each command compiles them again,"
            " for up to two minutes: %s. Set %s to a folder that only this user can change.",
            why_not,
            VARIABLE,
        )
    os.environ[VARIABLE] = str(cache)


def _beside_sources() -> list[Path]:
    # Only folders: this runs at every start, and a cache may hold hundreds of files.
    return [
        path.parent / "__pycache__"
        for name in _FOLDERS
        for path in (_SOURCES / name).glob("*/__init__.py")
    ]


def _users_cache() -> Path | None:
    """The folder that numba uses if it cannot write beside the source; None: there is no home."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "numba"
    except RuntimeError:
        return None


def _why_not(cache: Path) -> str:
    """Why the cache is not used, as a clause; else make it and keep others out: "" then."""
    if reason := made_private(cache):
        return reason
    if not os.access(cache, os.W_OK | os.X_OK):
        return f"{cache} cannot be written to"
    with os.scandir(cache) as children:
        reasons = (foreign_hand(Path(child.path)) for child in children)
        found = next((reason for reason in reasons if reason), "")
    if not found and stat.S_IMODE(cache.stat().st_mode) != stat.S_IRWXU:
        # numba makes folders in it as the umask says, which may let everybody write to them.
        cache.chmod(stat.S_IRWXU)
    return found


def _is_usable(folder: Path) -> bool:
    """Whether numba can write to the folder, or can make it, and no one else can."""
    there = folder if folder.exists() else folder.parent
    return os.access(there, os.W_OK | os.X_OK) and not foreign_hand(there)

"""Chooses where numba keeps compiled kernels: never where another user could put one.

A kernel's file is a pickle, which runs code when it is read. numba itself would take the first of
these folders that it can write to, whether others can or not. If it can write to none, it refuses
to compile. Here each must also be private (`private_folders`):

    1  `tierfold` in NUMBA_CACHE_DIR, if that is set
    2  `__pycache__` beside the source
    3  `numba` in the user's folder for caches
    4  a temporary folder, which is removed at exit, so that each command compiles again

numba also reads `.numba_config.yaml` in the current folder, which may name another cache. One that
another user could have written is not read.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path
from typing import Final

from tierfold.storage.private_folders import (
    foreign_content,
    foreign_file,
    foreign_hand,
    made_private,
    private_folder,
)

VARIABLE: Final = "NUMBA_CACHE_DIR"
"""Numba reads it on import; the Python workers of a local Spark inherit it."""

_SOURCES: Final = Path(__file__).resolve().parent.parent
_FOLDERS: Final = ("compaction", "storage")
_OWN: Final = "tierfold"
"""In a folder that a user names, which is left as it is: others may need to enter it."""
_KERNELS: Final = (".nbi", ".nbc")
_CONFIG: Final = ".numba_config.yaml"

_log: Final = logging.getLogger(__name__)


def ensure_kernel_cache() -> None:
    """Choose the folder; one line on stderr says why a temporary one is needed."""
    _ensure_own_config()
    # An empty name is none, as numba reads it.
    given = os.environ.pop(VARIABLE, "")
    if not given and all(map(_is_usable, _beside_sources())):
        return
    cache = _within(Path(given)) if given else _users_cache()
    why_not = "this user has no home" if cache is None else _why_not(cache)
    if cache is None or why_not:
        cache = Path(private_folder("tierfold-kernels-"))
        _log.warning(
            "Compiled kernels are kept in a temporary folder, so each command compiles them again,"
            " for up to two minutes: %s. Delete the old ones, or set %s to a folder that only this"
            " user can change.",
            why_not,
            VARIABLE,
        )
    os.environ[VARIABLE] = str(cache)


def _ensure_own_config() -> None:
    """Keep numba from a file of settings in a folder that others may write to, now or later."""
    try:
        here = Path.cwd()
    except FileNotFoundError:
        return
    if not foreign_hand(here) and not foreign_file(here / _CONFIG):
        return
    folder = os.open(".", os.O_RDONLY)
    try:
        # The first import reads it, and so does each compilation.
        os.chdir("/")
        from numba.core import config  # noqa: PLC0415

        config._config_fname = ""  # noqa: SLF001 - there is no setting for it
    finally:
        os.fchdir(folder)
        os.close(folder)


def _within(given: Path) -> Path:
    """The cache in a folder that the user, or the process that started this one, named."""
    return given.absolute() if given.name == _OWN else given.absolute() / _OWN


def _beside_sources() -> list[Path]:
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
    if reason := foreign_content(cache):
        return reason
    if stat.S_IMODE(cache.stat().st_mode) != stat.S_IRWXU:
        # numba makes folders in it as the umask says, which may let everybody write to them.
        cache.chmod(stat.S_IRWXU)
    return ""


def _is_usable(folder: Path) -> bool:
    """Whether numba can write to the folder, or can make it, and no one else can."""
    there = folder if folder.exists() else folder.parent
    is_private = os.access(there, os.W_OK | os.X_OK) and not foreign_hand(there)
    return is_private and not foreign_content(there, _KERNELS)

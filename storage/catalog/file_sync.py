"""Makes files and folders on a local disk durable: they survive a power cut.

A file is durable once its content and its folder are synced.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_FAILED: Final[dict[Path, int]] = {}
"""Paths that could not be synced, and the error's number. The kernel reports a failed write only
once: a second sync succeeds, although data is lost."""


def sync(path: Path) -> None:
    """Sync a file's content, or a folder's names.

    Raises OSError if that fails, or failed before in this process.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.fsync(descriptor)
    except OSError as error:
        _FAILED[path] = error.errno or errno.EIO
    finally:
        os.close(descriptor)
    if path in _FAILED:
        raise OSError(_FAILED[path], f"{os.strerror(_FAILED[path])} (sync)", str(path))


def sync_all(paths: Iterable[Path]) -> None:
    """Sync each path once; raises OSError as `sync` does."""
    for path in dict.fromkeys(paths):
        sync(path)


def make_folder(folder: Path) -> None:
    """Make a folder and its missing parents durably; raises OSError."""
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir(exist_ok=True)
        sync(parent.parent)

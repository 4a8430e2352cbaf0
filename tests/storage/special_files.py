"""What somebody may put in the place of a file: opened as a file, it would hold a run for ever."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final


def fifo(path: Path) -> None:
    """A FIFO: opening it waits for a writer."""
    os.mkfifo(path)


def bound_socket(path: Path) -> None:
    """A Unix socket; its name is short where it is bound, because a path may not fit."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def device(path: Path) -> None:
    """A device that never ends, as `/dev/zero`; a FIFO where this user may make none."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o644, os.makedev(1, 5))
    except PermissionError:
        fifo(path)


SPECIAL_FILES: Final[Mapping[str, Callable[[Path], None]]] = {
    "FIFO": fifo,
    "socket": bound_socket,
    "device": device,
}

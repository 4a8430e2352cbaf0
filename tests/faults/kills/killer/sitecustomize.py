"""What Python loads of itself at its start: here, the end of a Spark worker that touches some data.

The folder of this file is in the PYTHONPATH of the workers that are meant, and of no other process
(`tests.faults.kills.worker_killer`). It is the kernel that kills, as where the memory of the
machine is spent: no `finally` is run, no buffer is flushed, nobody is told.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any, Final

FOLDER: Final = os.environ.get("DOOM_FOLDER", "")
"""Below it lies what nobody survives; empty: nothing does."""
WRITES: Final = int(os.environ.get("DOOM_WRITES", "0"))
"""Dies as the object of this number is begun there; 0: as one is read."""
ONCE: Final = os.environ.get("DOOM_ONCE", "")
"""A file that the first to die makes, and that spares all others; empty: spares nobody."""

_begun = 0


def _on(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and str(arguments[0]).startswith(FOLDER):
        _touched(int(arguments[2]))


def _touched(flags: int) -> None:
    global _begun  # noqa: PLW0603 - a process counts for itself
    is_write = bool(flags & (os.O_WRONLY | os.O_RDWR))
    if is_write is not bool(WRITES):
        return
    _begun += is_write
    if _begun == WRITES and (not ONCE or _is_first()):
        os.kill(os.getpid(), signal.SIGKILL)


def _is_first() -> bool:
    try:
        Path(ONCE).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


if FOLDER:
    sys.addaudithook(_on)

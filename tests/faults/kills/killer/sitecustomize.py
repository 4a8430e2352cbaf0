"""Python loads this module at its start; here it kills a Spark worker that touches certain data.

Only workers to kill have this folder in their PYTHONPATH (`tests.faults.kills.worker_killer`).
The kernel kills the process, as when memory runs out: no `finally` runs and no buffer is flushed.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any, Final

FOLDER: Final = os.environ.get("KILL_FOLDER", "")
"""Opening a file below this folder kills; empty: nothing kills."""
WRITES: Final = int(os.environ.get("KILL_WRITES", "0"))
"""The worker dies when it begins the object of this number; 0: when it reads one."""
ONCE: Final = os.environ.get("KILL_ONCE", "")
"""The first worker to die creates this file, which spares all others; empty: all die."""

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

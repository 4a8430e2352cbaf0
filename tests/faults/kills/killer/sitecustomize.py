"""Python imports this module when it starts: it kills a Spark worker that opens certain files.

`tests.faults.kills.worker_killer` puts this folder on the PYTHONPATH of the workers to kill.
The kernel kills the process, as when memory runs out: no `finally` runs and no buffer is flushed.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any, Final

FOLDER: Final = os.environ.get("KILL_FOLDER", "")
"""A worker that opens a file below this folder dies; empty: none dies."""
WRITES: Final = int(os.environ.get("KILL_WRITES", "0"))
"""How many objects a worker begins to write before it dies; 0: it dies when it reads one."""
ONCE: Final = os.environ.get("KILL_ONCE", "")
"""The first worker to die creates this file, and no other dies; empty: all die."""

_begun = 0


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and str(arguments[0]).startswith(FOLDER):
        _opened(int(arguments[2]))


def _opened(flags: int) -> None:
    global _begun  # noqa: PLW0603 - each process counts its own writes
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
    sys.addaudithook(_audit)

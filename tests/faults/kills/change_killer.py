"""Runs `tierfold` in a process of its own, and kills it before one of its changes of a folder.

    killed_before(change, folder, words)   -> how the process ended

The kernel kills it: no `finally` runs and no buffer is flushed. A write of delta-rs is no event of
Python, but the sync of each of its files is one. What is opened or made again counts once.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from tierfold.jobs.api import uploading
from tierfold.jobs.cli.commands import main

LOADED: Final = (uploading,)
"""The verb imports it when it runs; here each run has it already."""

EVENTS: Final = frozenset({"os.mkdir", "os.link", "os.rename", "os.remove"})
FLAGS: Final = os.O_WRONLY | os.O_RDWR | os.O_NONBLOCK
"""What is written is opened with one of the first two, what is synced with the last."""


def killed_before(change: int, folder: Path, words: Sequence[str | Path]) -> int | None:
    """Run the command; it dies before that change of the folder, counted from 1.

    Return its exit code, -9 if it was killed; what it prints goes to the file `run` beside the
    folder.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    process = context.Process(target=_run, args=(change, str(folder), [*map(str, words)]))
    process.start()
    process.join()
    return process.exitcode


def _run(change: int, folder: str, words: list[str]) -> None:
    with Path(folder).with_name("run").open("wb") as printed:
        for number in (1, 2):
            os.dup2(printed.fileno(), number)
    sys.argv = ["tierfold", *words]
    _kill_before(change, folder)
    main()


def _kill_before(change: int, folder: str) -> None:
    changes: set[tuple[str, ...]] = set()

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        is_change = event in EVENTS or (event == "open" and int(arguments[2]) & FLAGS)
        names = (event, *map(str, arguments[:2]))
        if is_change and any(name.startswith(folder) for name in names):
            changes.add(names)
            if len(changes) == change:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(audit)

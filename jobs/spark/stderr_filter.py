"""What Spark's launcher and native code write straight to stderr, less what tells a user nothing.

The JVM warns at each start of a module that Spark asks for. A writer of delta-rs that meets a full
disk or a folder without permission also panics in a thread of its own; the error that follows from
it is raised in Python, and told in a sentence. Neither can be turned off where it is written.
"""

from __future__ import annotations

import faulthandler
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_INCUBATOR: Final = re.compile(rb"WARNING: Using incubator modules: ")
_PANIC: Final = re.compile(rb"thread '.*' (\(\d+\) )?panicked at .*object_store")
_OF_PANIC: Final = re.compile(rb"stack backtrace:|note: | +\d+: | +at ")
_END: Final = b"\0tierfold\0\n"
_END_WITHIN_S: Final = 1.0
STDERR: Final = 2


@contextmanager
def chatter_hidden() -> Iterator[None]:
    """Within it Python writes to stderr as before, all else through a filter of lines.

    Children that are started meanwhile keep it to the end of this process. Where somebody has put
    another stream in the place of stderr, nothing is changed.
    """
    python = sys.stderr
    is_original = python is sys.__stderr__
    # Python has none where the shell closed it.
    if python is None or not is_original or python.fileno() != STDERR:
        yield
        return
    real = os.dup(STDERR)
    heard, said = os.pipe()
    os.dup2(said, STDERR)
    os.close(said)
    sys.stderr = os.fdopen(
        real, "w", buffering=1, encoding=python.encoding, errors=python.errors, closefd=False
    )
    # What native code says as it aborts this process stays unread in the pipe: say at least where.
    faulthandler.enable(sys.stderr)
    ended = threading.Event()
    threading.Thread(target=_pass_on, args=(heard, real, ended), daemon=True).start()
    try:
        yield
    finally:
        os.write(STDERR, _END)
        ended.wait(_END_WITHIN_S)
        faulthandler.disable()
        sys.stderr = python
        os.dup2(real, STDERR)


def _pass_on(heard: int, real: int, ended: threading.Event) -> None:
    chatter = Chatter()
    with os.fdopen(heard, "rb") as lines:
        for line in lines:
            said = line.removesuffix(_END)
            # Lines are read even if stderr is gone or its disk full: their writers must not fail.
            with suppress(OSError):
                if said and not chatter.hides(said):
                    os.write(real, said)
            if said != line:
                ended.set()


class Chatter:
    """Knows line by line, in their order, what is chatter."""

    def __init__(self) -> None:
        self._panic_lines = 0
        """Of the panic at hand, so far."""

    def hides(self, line: bytes) -> bool:
        """Whether the line is part of it."""
        if _PANIC.match(line):
            self._panic_lines = 1
        elif self._panic_lines == 1 or (self._panic_lines and _OF_PANIC.match(line)):
            self._panic_lines += 1
        else:
            self._panic_lines = 0
        return self._panic_lines > 0 or _INCUBATOR.match(line) is not None

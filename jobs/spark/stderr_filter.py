"""Filters useless lines of Spark's launcher and of native code from stderr.

At each start the JVM prints a warning about a module that Spark uses. If a disk is full or a folder
is forbidden, a writer of delta-rs panics in its own thread; tierfold reports the same error in one
sentence. Neither output can be turned off at its source.
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
    """Filter the lines that other code writes to stderr; Python still writes to it directly.

    Children that start meanwhile keep the filter until this process ends. If another stream has
    replaced stderr, nothing is changed.
    """
    python = sys.stderr
    is_original = python is sys.__stderr__
    # It is None if the shell closed stderr.
    if python is None or not is_original or python.fileno() != STDERR:
        yield
        return
    real = os.dup(STDERR)
    reading, writing = os.pipe()
    os.dup2(writing, STDERR)
    os.close(writing)
    sys.stderr = os.fdopen(
        real, "w", buffering=1, encoding=python.encoding, errors=python.errors, closefd=False
    )
    # If native code aborts this process, its message stays unread in the pipe. This prints at least
    # where that happened.
    faulthandler.enable(sys.stderr)
    ended = threading.Event()
    threading.Thread(target=_pass_on, args=(reading, real, ended), daemon=True).start()
    try:
        yield
    finally:
        os.write(STDERR, _END)
        ended.wait(_END_WITHIN_S)
        faulthandler.disable()
        sys.stderr = python
        os.dup2(real, STDERR)


def _pass_on(reading: int, real: int, ended: threading.Event) -> None:
    chatter = Chatter()
    with os.fdopen(reading, "rb") as lines:
        for line in lines:
            text = line.removesuffix(_END)
            # Read on even if stderr is gone or its disk is full: the writers must not fail.
            with suppress(OSError):
                if text and not chatter.hides(text):
                    os.write(real, text)
            if text != line:
                ended.set()


class Chatter:
    """Decides line by line what is chatter."""

    def __init__(self) -> None:
        self._panic_lines = 0
        """How many lines of the current panic were read."""

    def hides(self, line: bytes) -> bool:
        """Whether the line is chatter; so is an empty one, with which panics begin and end."""
        if not line.strip():
            return True
        if _PANIC.match(line):
            self._panic_lines = 1
        elif self._panic_lines == 1 or (self._panic_lines and _OF_PANIC.match(line)):
            self._panic_lines += 1
        else:
            self._panic_lines = 0
        return self._panic_lines > 0 or _INCUBATOR.match(line) is not None

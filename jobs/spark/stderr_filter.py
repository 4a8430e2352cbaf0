"""Filters useless lines of Spark's launcher and of native code from stderr.

The JVM prints a warning at each start about a module that Spark uses. A writer of delta-rs that
meets a full disk or a forbidden folder also panics in its own thread; Python raises the resulting
error, which is reported in a sentence. Neither output can be turned off at its source.
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
    """Filter the lines that others write to stderr; Python still writes to it directly.

    Children that are started meanwhile keep the filter until this process ends. If stderr was
    replaced by another stream, nothing is changed.
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
    # The message of native code that aborts this process stays unread in the pipe: print at least
    # where it happened.
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
            # Read on even if stderr is gone or its disk is full: the writers must not fail.
            with suppress(OSError):
                if said and not chatter.hides(said):
                    os.write(real, said)
            if said != line:
                ended.set()


class Chatter:
    """Decides line by line, in order, which lines are chatter."""

    def __init__(self) -> None:
        self._panic_lines = 0
        """The lines of the current panic so far."""

    def hides(self, line: bytes) -> bool:
        """Return whether the line is chatter."""
        if _PANIC.match(line):
            self._panic_lines = 1
        elif self._panic_lines == 1 or (self._panic_lines and _OF_PANIC.match(line)):
            self._panic_lines += 1
        else:
            self._panic_lines = 0
        return self._panic_lines > 0 or _INCUBATOR.match(line) is not None

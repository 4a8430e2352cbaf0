"""Ctrl-C and SIGTERM: a verb stops between two steps and releases its claims.

Outside of `deferred` a signal raises Stopped at once. Within it, while partitions are claimed, the
signal is only recorded: `check` raises it at a safe point, and the caller releases its claims. One
line on stderr says at once what is finished first. Without `stoppable`, for example in a notebook,
none of this happens.

spark-submit runs Python as a child of its JVM. Ctrl-C in a terminal reaches both. SIGTERM from a
scheduler reaches only the JVM; when the JVM exits, the container ends, and Python with it. So the
JVM passes the signal on, and exits after this process.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

_NEW_LINE: Final = "\r\x1b[2K"
"""Erases the line of a terminal that the bar may be in."""

_NAMES: Final = {signal.SIGINT: "Ctrl-C (SIGINT)", signal.SIGTERM: "SIGTERM"}


class Stopped(BaseException):
    """A signal asks the process to stop; not an Exception, so no error handler catches it."""

    def __init__(self, signum: int) -> None:
        self.by = _NAMES[signal.Signals(signum)]
        """The signal's name, for messages."""
        self.exit_code = 128 + signum
        """The exit code by the convention of shells."""
        super().__init__(
            f"stopped by {self.by}: finished work is committed, the rest is unchanged; run again to"
            " continue"
        )


@dataclass(slots=True)
class _Stop:
    """The state of signals in this process."""

    asked: int | None = None
    """The first signal that arrived."""
    deferrals: int = 0
    finishing: str = "the step at work is finished"
    """What happens before a deferred signal ends the process; a clause."""
    is_silent: bool = False
    """Nothing may be written to stderr."""


_stop: Final = _Stop()


@contextmanager
def stoppable() -> Iterator[None]:
    """Make Ctrl-C and SIGTERM raise Stopped, at the latest at the end; for the main thread.

    A signal that the process ignores from its start (`nohup`, a shell's `&`) stays ignored.
    """
    active = [name for name in _NAMES if signal.getsignal(name) is not signal.SIG_IGN]
    before = {name: signal.signal(name, _on_signal) for name in active}
    try:
        if under_spark_submit():
            _outlived_by_jvm()
        yield
    finally:
        asked, _stop.asked = _stop.asked, None
        _stop.is_silent = False
        for signum, handler in before.items():
            signal.signal(signum, handler if asked is None else _ending)
        if asked is not None:
            atexit.register(_ignore_signals)
            raise Stopped(asked)


@contextmanager
def deferred() -> Iterator[None]:
    """Record a signal without raising Stopped: `check` raises it, or `stoppable` at its end."""
    _stop.deferrals += 1
    try:
        yield
    finally:
        _stop.deferrals -= 1


@contextmanager
def finishing(what: str) -> Iterator[None]:
    """Say what a deferred signal in this block leaves to do; `what`: a clause."""
    before, _stop.finishing = _stop.finishing, what
    try:
        yield
    finally:
        _stop.finishing = before


def stop_silently() -> None:
    """Write no line if a signal arrives: stderr ends up in a document."""
    _stop.is_silent = True


def is_stopping() -> bool:
    """Whether a signal has arrived."""
    return _stop.asked is not None


def stopped_by() -> str:
    """The name of the signal that has arrived, for messages; empty: none has."""
    return "" if _stop.asked is None else Stopped(_stop.asked).by


def check() -> None:
    """Raise Stopped if a signal has arrived."""
    if _stop.asked is not None:
        raise Stopped(_stop.asked)


@contextmanager
def signals_kept() -> Iterator[None]:
    """Restore the handler for Ctrl-C, which a new Spark context replaces.

    Spark's handler calls the JVM during other calls, and both fail.
    """
    yield
    if signal.getsignal(signal.SIGTERM) is _on_signal:
        signal.signal(signal.SIGINT, _on_signal)


def under_spark_submit() -> bool:
    """Whether spark-submit runs this process; it merges stderr into stdout."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _on_signal(signum: int, _: FrameType | None) -> None:
    # Only the first counts: under spark-submit Ctrl-C arrives twice, from the terminal and the JVM.
    if _stop.asked is None:
        _stop.asked = signum
        if not _stop.deferrals:
            raise Stopped(signum)
        _announce()


def _announce() -> None:
    """Write a line to stderr, which the interrupted code may be writing to just now.

    So Python's own buffer of stderr is not used.
    """
    if _stop.is_silent:
        return
    line = f"Stopping after {stopped_by()}: {_stop.finishing}.\n"
    with suppress(AttributeError, OSError, ValueError):  # A program closed or replaced stderr.
        number = sys.stderr.fileno()
        os.write(number, f"{_NEW_LINE if os.isatty(number) else ''}{line}".encode())


def _ending(_signum: int, _: FrameType | None) -> None:
    """Ignore further signals: the process already ends with the exit code of the first."""


def _ignore_signals() -> None:
    """Ignore signals while Python shuts down: without handlers they would change the exit code."""
    for signum in _NAMES:
        signal.signal(signum, signal.SIG_IGN)


def _outlived_by_jvm() -> None:
    """Make the JVM that started this process pass its SIGTERM on and wait for this process."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    with suppress(Py4JError, OSError):  # If the JVM has died, Spark reports it later.
        SparkContext._ensure_initialized()  # noqa: SLF001 - PySpark has no public way to its JVM
        jvm: Any = SparkContext._jvm  # noqa: SLF001
        this = jvm.java.lang.ProcessHandle.of(os.getpid()).get()
        runnable = jvm.java.lang.Class.forName("java.lang.Runnable")
        for target, action in ((this, "destroy"), (this.onExit(), "join")):
            task = jvm.java.beans.EventHandler.create(runnable, target, action)
            jvm.java.lang.Runtime.getRuntime().addShutdownHook(jvm.java.lang.Thread(task))

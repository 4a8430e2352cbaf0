"""Ctrl-C and SIGTERM: a verb stops where nothing is half done, and gives back what it holds.

Outside `deferred` a signal raises Stopped at once. Within, where partitions are held, it is only
noted: `check` raises it where that does no harm, and the caller releases what it has claimed.
Without `stoppable`, in a notebook say, all of this does nothing.

spark-submit runs Python as a child of its JVM. A terminal's Ctrl-C reaches both; a scheduler's
SIGTERM reaches the JVM alone, whose end takes the container, and Python with it. So the JVM passes
it on, and ends only after this process has.
"""

from __future__ import annotations

import atexit
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkContext

_NAMES: Final = {signal.SIGINT: "Ctrl-C (SIGINT)", signal.SIGTERM: "SIGTERM"}


class Stopped(BaseException):
    """The process was told to stop. No Exception, so that no handler of errors takes it for one."""

    def __init__(self, signum: int) -> None:
        self.by = _NAMES[signal.Signals(signum)]
        """The signal, as people know it."""
        self.exit_code = 128 + signum
        """By the shells' convention."""
        super().__init__(
            f"stopped by {self.by}: what was committed stays, the rest is as it was; run again to"
            " go on"
        )


@dataclass(slots=True)
class _Stop:
    """What is known of signals in this process."""

    asked: int | None = None
    """The first signal that came."""
    deferrals: int = 0


_stop: Final = _Stop()


@contextmanager
def stoppable() -> Iterator[None]:
    """Within it Ctrl-C and SIGTERM raise Stopped, here at the latest; for the main thread.

    A signal that this process was started to ignore, by `nohup` or a shell's `&`, stays ignored.
    """
    heeded = [name for name in _NAMES if signal.getsignal(name) is not signal.SIG_IGN]
    before = {name: signal.signal(name, _on_signal) for name in heeded}
    try:
        if under_spark_submit():
            _outlived_by_jvm()
        yield
    finally:
        asked, _stop.asked = _stop.asked, None
        for signum, handler in before.items():
            signal.signal(signum, handler if asked is None else _ending)
        if asked is not None:
            atexit.register(_ignore_signals)
            raise Stopped(asked)


@contextmanager
def deferred() -> Iterator[None]:
    """Within it a signal is only noted: `check` raises it, or `stoppable` at its end."""
    _stop.deferrals += 1
    try:
        yield
    finally:
        _stop.deferrals -= 1


def is_stopping() -> bool:
    """A signal has come."""
    return _stop.asked is not None


def check() -> None:
    """Raises Stopped where a signal has come."""
    if _stop.asked is not None:
        raise Stopped(_stop.asked)


@contextmanager
def signals_kept() -> Iterator[None]:
    """For the making of a Spark context, which handles Ctrl-C in its own way from then on.

    Its handler calls the JVM amid whatever call is under way, and both fail.
    """
    yield
    if signal.getsignal(signal.SIGTERM) is _on_signal:
        signal.signal(signal.SIGINT, _on_signal)


def under_spark_submit() -> bool:
    """Spark's launcher runs this process, and joins its stderr to its stdout."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _on_signal(signum: int, _: FrameType | None) -> None:
    # The first one counts: under spark-submit a Ctrl-C comes twice, by the terminal and the JVM.
    if _stop.asked is None:
        _stop.asked = signum
        if not _stop.deferrals:
            raise Stopped(signum)


def _ending(_signum: int, _: FrameType | None) -> None:
    """Once one signal is heeded the process ends by itself, with an exit code that says so."""


def _ignore_signals() -> None:
    """Python's last steps take its handlers away, and a signal would decide how it has ended."""
    for signum in _NAMES:
        signal.signal(signum, signal.SIG_IGN)


def _outlived_by_jvm() -> None:
    """Let the JVM that started this process, when it is told to end, tell us and wait."""
    with suppress(Py4JError, OSError):  # It has died already: Spark will say so where needed.
        SparkContext._ensure_initialized()  # noqa: SLF001 - PySpark has no public way to its JVM
        jvm: Any = SparkContext._jvm  # noqa: SLF001
        this = jvm.java.lang.ProcessHandle.of(os.getpid()).get()
        runnable = jvm.java.lang.Class.forName("java.lang.Runnable")
        for target, action in ((this, "destroy"), (this.onExit(), "join")):
            task = jvm.java.beans.EventHandler.create(runnable, target, action)
            jvm.java.lang.Runtime.getRuntime().addShutdownHook(jvm.java.lang.Thread(task))

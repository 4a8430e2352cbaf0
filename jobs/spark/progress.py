"""The progress of a Spark action, in bytes.

Spark tasks add the bytes they have processed to an accumulator; the driver watches it while the
action runs in another thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from py4j.protocol import Py4JError
from pyspark import Accumulator, inheritable_thread_target
from pyspark.sql import SparkSession
from rich.console import Console

from tierfold.jobs.context.progress_bars import byte_bars
from tierfold.jobs.context.stopping import check, deferred, is_stopping

_T = TypeVar("_T")

LOOK_EVERY_S = 0.2
"""How often the driver checks the accumulator and signals."""

CANCELLED_WITHIN_S: Final = 60.0
"""How long to wait for a cancelled action."""


class ByteProgress:
    """One bar per action; silent if stderr is not a terminal."""

    def __init__(self, spark: SparkSession, console: Console) -> None:
        self._spark = spark
        self.bytes_done: Accumulator[int] = spark.sparkContext.accumulator(0)
        self._console = console

    def watched(self, title: str, bytes_total: int | None, action: Callable[[], _T]) -> _T:
        """Run `action` in a thread of the same Spark session, and return its result.

        Without `bytes_total` the bar shows activity but no progress.

        Raises Stopped after a signal, once the session's jobs are cancelled and the thread has
        ended. A thread that still reads at Python's exit would abort the process.
        """
        before = self.bytes_done.value
        results: list[_T] = []
        errors: list[BaseException] = []
        inheriting = inheritable_thread_target(self._spark)(action)

        def work() -> None:
            try:
                results.append(inheriting())
            except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                errors.append(error)

        thread = threading.Thread(target=work, daemon=True)
        with deferred():
            with byte_bars(self._console) as progress:
                bar = progress.add_task(title, total=bytes_total)
                thread.start()
                while thread.is_alive() and not is_stopping():
                    thread.join(LOOK_EVERY_S)
                    progress.update(bar, completed=self.bytes_done.value - before)
            if is_stopping():
                self._cancel(thread)
        check()
        if errors:
            raise errors[0]
        return results[0]

    def _cancel(self, thread: threading.Thread) -> None:
        """Cancel the thread's action; repeat it, because its job may not have begun yet."""
        deadline = time.monotonic() + CANCELLED_WITHIN_S
        while thread.is_alive() and time.monotonic() < deadline:
            with suppress(Py4JError, OSError):  # The JVM may have received the signal too.
                self._spark.sparkContext.cancelAllJobs()
            thread.join(LOOK_EVERY_S)

"""A progress bar over bytes, on stderr.

Workers count the bytes that are done. The driver watches the count, and checks for signals, while
the action runs in another thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)

from tierfold.jobs.context.stopping import check, deferred, is_stopping

_T = TypeVar("_T")

LOOK_EVERY_S = 0.2
"""How often the driver checks the count, and for signals."""

CANCELLED_WITHIN_S: Final = 60.0
"""How long to wait for a cancelled action."""


def byte_bars(console: Console) -> Progress:
    """Return bars that count bytes, hidden if the console is not a terminal."""
    return Progress(
        TextColumn("{task.description:<8}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    )


@dataclass(frozen=True, slots=True)
class ByteProgress:
    """One bar per action; silent if stderr is not a terminal."""

    console: Console
    bytes_done: Callable[[], int]
    """Returns how many bytes are done, including those of earlier actions."""
    cancel: Callable[[], None]
    """Asks the action to end early; called until the action has ended."""

    def watched(self, title: str, bytes_total: int | None, action: Callable[[], _T]) -> _T:
        """Run `action` in a thread, and return its result.

        Without `bytes_total` the bar shows activity but no progress.

        Raises Stopped after a signal, once the action is cancelled and the thread has ended: a
        thread that still reads when Python exits would abort the process.
        """
        before = self.bytes_done()
        results: list[_T] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                results.append(action())
            except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                errors.append(error)
            finally:
                ended.set()

        # If a KeyboardInterrupt ends `join`, Python 3.11 thinks that the thread has ended.
        ended = threading.Event()
        thread = threading.Thread(target=work, daemon=True)
        with deferred():
            try:
                with byte_bars(self.console) as progress:
                    bar = progress.add_task(title, total=bytes_total)
                    thread.start()
                    while not ended.wait(LOOK_EVERY_S) and not is_stopping():
                        progress.update(bar, completed=self.bytes_done() - before)
                    progress.update(bar, completed=self.bytes_done() - before)
            finally:  # Also where a notebook's interrupt ends the loop.
                self._end(ended)
                if ended.is_set():
                    thread.join()
        check()
        if errors:
            raise errors[0]
        return results[0]

    def _end(self, ended: threading.Event) -> None:
        """Cancel the action until it has ended; repeatedly, because it may not have begun yet."""
        deadline = time.monotonic() + CANCELLED_WITHIN_S
        while not ended.is_set() and time.monotonic() < deadline:
            self.cancel()
            ended.wait(LOOK_EVERY_S)

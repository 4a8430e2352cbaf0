"""Progress over bytes, reported to a listener.

Workers count the bytes that are done. The driver watches the count, and checks for signals, while
the action runs in another thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Self, TypeAlias, TypeVar

from tierfold.compaction.model.wording import spaced
from tierfold.jobs.context.stopping import check, deferred, is_stopping

_log: Final = logging.getLogger(__name__)

_T = TypeVar("_T")

LOOK_EVERY_S = 0.2
"""How often the driver checks the count, and for signals."""

CANCELLED_WITHIN_S: Final = 60.0
"""How long to wait for a cancelled action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far one step of a verb is, and the whole run."""

    step: str
    """What is done, such as `scan`; the steps of a run follow each other."""
    bytes_done: int = 0
    bytes_total: int | None
    """None: unknown."""
    is_ended: bool = False
    """The step's last report, also if it failed."""
    partitions_done: int = 0
    """Partitions of the run whose work has ended; in the step `survey`, those inspected."""
    partitions_total: int | None = None
    """Partitions that are due; in the step `survey`, those in scope. None: not known yet."""
    objects_listed: int = 0
    """In the step `survey`: objects of the tier that were listed so far."""
    records_read: int = 0
    """In the step `replay`: records of the brokers' metadata topic that were read so far."""
    records_total: int | None = None
    """How many it has; None: not known yet, or another step."""
    run_bytes_done: int = 0
    """Bytes of the run's logs, or of the objects that it deletes, that are done."""
    run_bytes_total: int | None = None
    """None: unknown, as in the step `survey`."""
    elapsed_s: float = 0.0
    """Seconds since the run began."""
    remaining_s: float | None = None
    """About how many seconds the survey, or the work after it, still takes; None: unknown."""

    @property
    def share(self) -> float | None:
        """How much of the survey, or of the work after it, is done, 0 to 1; None: unknown."""
        if self.run_bytes_total:
            return self.run_bytes_done / self.run_bytes_total
        return self.partitions_done / self.partitions_total if self.partitions_total else None


Listener: TypeAlias = Callable[[Progress], None]
"""Receives progress in the thread of the verb; an error that it raises is logged."""


def unheard(_: Progress) -> None:
    """Ignore the progress."""


class Step:
    """One step, reported to a listener from beginning to end; a context manager."""

    def __init__(self, listener: Listener, name: str, bytes_total: int | None) -> None:
        self._listener = listener
        self._last = Progress(step=name, bytes_total=bytes_total)

    def __enter__(self) -> Self:
        _log.debug("%s begins", self._last.step)
        self._report(self._last)
        return self

    def __exit__(self, *_: object) -> None:
        size = f" after {spaced(self._last.bytes_done)} bytes" if self._last.bytes_done else ""
        _log.debug("%s ends%s", self._last.step, size)
        self._report(replace(self._last, is_ended=True))

    def reach(self, bytes_done: int) -> None:
        """Report that `bytes_done` bytes are done since the beginning."""
        self._last = replace(self._last, bytes_done=bytes_done)
        self._report(self._last)

    def advance(self, size_bytes: int) -> None:
        """Report that `size_bytes` more bytes are done."""
        self.reach(self._last.bytes_done + size_bytes)

    def _report(self, progress: Progress) -> None:
        """Call the listener until it fails in this step: a broken bar must not stop a run."""
        try:
            self._listener(progress)
        except Exception:  # noqa: BLE001 - whatever the user wrote; it is logged
            _log.warning("The listener of the progress failed.", exc_info=True)
            self._listener = unheard


@dataclass(frozen=True, slots=True)
class ByteProgress:
    """Reports each action as one step."""

    listener: Listener
    bytes_done: Callable[[], int]
    """Returns how many bytes are done, including those of earlier actions."""
    cancel: Callable[[], None]
    """Asks the action to end early; called until the action has ended."""

    def watched(self, step: str, bytes_total: int | None, action: Callable[[], _T]) -> _T:
        """Run `action` in a thread, and return its result; `bytes_total` as in `Progress`.

        Raises Stopped after a signal, once the action is cancelled and the thread has ended: a
        thread that still reads when Python exits would abort the process. The action does not begin
        if the signal came before.
        """
        check()  # Spark would plan a query for seconds before it can be cancelled.
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
                with Step(self.listener, step, bytes_total) as reported:
                    thread.start()
                    while not ended.wait(LOOK_EVERY_S) and not is_stopping():
                        reported.reach(self.bytes_done() - before)
                    reported.reach(self.bytes_done() - before)
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

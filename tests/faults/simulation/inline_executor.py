"""Runs the tasks of a thread pool at once, so that a simulated run has one thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

T = TypeVar("T")


class InlineExecutor(Executor):
    """Runs each task at once, in the thread that submits it."""

    def __init__(self, *_: object, **__: object) -> None:
        """Accept the arguments of a thread pool."""

    def submit(self, task: Callable[..., T], /, *given: Any, **named: Any) -> Future[T]:
        """See `Executor.submit`; `Killed` ends the caller too."""
        done: Future[T] = Future()
        try:
            done.set_result(task(*given, **named))
        except Exception as error:  # noqa: BLE001 - as in a thread pool
            done.set_exception(error)
        return done

"""Counts the objects that this process lists, so that a long listing can show how far it is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_LISTENER: Final[ContextVar[Callable[[], None] | None]] = ContextVar("listener", default=None)


class ListedCount:
    """A count that any thread may add to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._total = 0

    def add(self, objects: int) -> None:
        """Count so many more objects, and call this thread's listener, if there is one."""
        with self._lock:
            self._total += objects
        if listener := _LISTENER.get():
            listener()

    @property
    def total(self) -> int:
        """All so far, of all tiers."""
        return self._total

    @contextmanager
    def reported_to(self, listener: Callable[[], None]) -> Iterator[None]:
        """Call `listener` whenever this thread counts objects in this block."""
        token = _LISTENER.set(listener)
        try:
            yield
        finally:
            _LISTENER.reset(token)


LISTED: Final = ListedCount()
"""Of the listings of many folders, `ObjectStore.list_each`."""

"""Counts the objects that this process lists, so that a long listing can show how far it is."""

from __future__ import annotations

import threading
from typing import Final


class ListedCount:
    """A count that any thread may add to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._total = 0

    def add(self, objects: int) -> None:
        """Count so many more objects."""
        with self._lock:
            self._total += objects

    @property
    def total(self) -> int:
        """All so far, of all tiers."""
        return self._total


LISTED: Final = ListedCount()
"""Of the listings of many folders, `ObjectStore.list_each`."""

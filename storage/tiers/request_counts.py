"""Counts the requests that a store received, so that a run can report and price them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Requests by kind, and bytes of objects; adds up across stores, tasks and runs.

    A request that a library tried again counts once here and its further tries in `retries`, as far
    as the library reports them: boto3 always does, obstore only of requests that failed in the end.
    """

    lists: int = 0
    """Pages of listings; of objects: one per 1,000 keys (Azure: 5,000)."""
    heads: int = 0
    gets: int = 0
    puts: int = 0
    """Objects written by one request."""
    begins: int = 0
    """Multipart uploads begun."""
    parts: int = 0
    completes: int = 0
    copies: int = 0
    deletes: int = 0
    aborts: int = 0
    retries: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0

    def __add__(self, other: Requests) -> Requests:
        return Requests(**{name: getattr(self, name) + getattr(other, name) for name in _NAMES})

    def __sub__(self, earlier: Requests) -> Requests:
        return Requests(**{name: getattr(self, name) - getattr(earlier, name) for name in _NAMES})

    @property
    def total(self) -> int:
        """All requests, tries included."""
        return sum(getattr(self, name) for name in _NAMES if not name.endswith("_bytes"))


_NAMES = tuple(field.name for field in fields(Requests))


class RequestCounter:
    """Adds up the requests of one process to one store; any thread may add."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums = dict.fromkeys(_NAMES, 0)

    def __reduce__(self) -> tuple[type[RequestCounter], tuple[()]]:
        # Counts belong to a process: a copy in another one begins at zero.
        return RequestCounter, ()

    def add(self, **counts: int) -> None:
        """Add these counts, named as in `Requests`."""
        with self._lock:
            for name, count in counts.items():
                self._sums[name] += count

    @property
    def requests(self) -> Requests:
        """All so far."""
        with self._lock:
            return Requests(**self._sums)

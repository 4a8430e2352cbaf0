"""Counts what was read from files of a machine in place of a tier's logs."""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NearReads:
    """Reads and their bytes; adds up across tasks."""

    reads: int = 0
    """Each in place of one request, if the tier is in a bucket and stores logs as they are."""
    read_bytes: int = 0

    def __add__(self, other: NearReads) -> NearReads:
        return NearReads(
            reads=self.reads + other.reads, read_bytes=self.read_bytes + other.read_bytes
        )

    def __sub__(self, earlier: NearReads) -> NearReads:
        return NearReads(
            reads=self.reads - earlier.reads, read_bytes=self.read_bytes - earlier.read_bytes
        )


class NearReadCounter:
    """Adds them up; any thread may add."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sum = NearReads()

    def add(self, more: NearReads) -> None:
        """Add these."""
        with self._lock:
            self._sum += more

    @property
    def sum(self) -> NearReads:
        """All so far."""
        with self._lock:
            return self._sum

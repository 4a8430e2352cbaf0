"""How many events a second are sent at most: a bucket that fills, and that one batch may overdraw.

The bucket holds the events of one second. A batch waits until the bucket holds all of its events,
or is full; then all go at once, and the next one waits until the debt is paid.
"""

from __future__ import annotations

from math import ceil


class EventPace:
    """What was sent so far, against `publish.max.events.per.second`."""

    def __init__(self, events_per_second_max: int | None, now_s: float) -> None:
        """A full bucket; None: no limit."""
        self._limit = events_per_second_max
        self._held = float(events_per_second_max or 0)
        self._since_s = now_s

    def wait_ms_for(self, events: int, now_s: float) -> int:
        """How long to wait before so many events may be sent together; 0: they may be now."""
        if self._limit is None:
            return 0
        missing = min(events, self._limit) - self._held_at(now_s)
        return max(0, ceil(missing / self._limit * 1000))

    def spend(self, events: int, now_s: float) -> None:
        """Count events that were sent."""
        self._held = self._held_at(now_s) - events
        self._since_s = now_s

    def _held_at(self, now_s: float) -> float:
        limit = self._limit or 0
        return min(limit, self._held + (now_s - self._since_s) * limit)

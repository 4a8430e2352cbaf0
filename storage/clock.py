"""The only module that reads the clock or waits; other code takes the time as an argument."""

from __future__ import annotations

import time


def now_ms() -> int:
    """The current time in epoch milliseconds, like Kafka's timestamps."""
    return time.time_ns() // 1_000_000


def elapsed_s() -> float:
    """Seconds of a clock that never goes back; only differences have a meaning."""
    return time.monotonic()


def pause(for_ms: int) -> None:
    """Wait `for_ms` milliseconds."""
    time.sleep(for_ms / 1000)

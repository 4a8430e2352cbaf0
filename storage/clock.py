"""The only place that asks the clock, or waits; others take the time as an argument."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Now, in milliseconds since 1970-01-01 UTC, as Kafka's timestamps."""
    return time.time_ns() // 1_000_000


def pause(for_ms: int) -> None:
    """Wait so many milliseconds."""
    time.sleep(for_ms / 1000)

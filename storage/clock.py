"""The only module that reads the clock or waits; other code takes the time as an argument."""

from __future__ import annotations

import time
from typing import Final

# macOS has no CLOCK_BOOTTIME, and its CLOCK_MONOTONIC goes on during sleep.
_BOOT_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now_ms() -> int:
    """The current time in epoch milliseconds, like Kafka's timestamps."""
    return time.time_ns() // 1_000_000


def elapsed_s() -> float:
    """Seconds of a clock that never goes back; only differences have a meaning."""
    return time.monotonic()


def boot_s() -> float:
    """Seconds of a clock that never goes back and counts those that the machine slept as well.

    Only differences have a meaning, and only on this machine until it starts again.
    """
    return time.clock_gettime(_BOOT_CLOCK)


def pause(for_ms: int) -> None:
    """Wait `for_ms` milliseconds."""
    time.sleep(for_ms / 1000)

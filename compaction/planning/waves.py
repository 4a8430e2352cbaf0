"""How large the next wave of a run may be: small at first, then about half a minute of work.

A run commits after each wave, so a run that is stopped or killed loses one wave and no more. Each
wave costs a few commits of the catalog and, on Spark, a few jobs; so it must not be too small
either.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

WAVE_MS: Final = 30_000
"""What a wave should take."""

GROWTH_MAX: Final = 4
"""How many times as large as its predecessor's a wave's limit may be: a small wave says little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveLimit:
    """The most that one wave takes; a partition that is larger is taken alone."""

    partitions: int
    work: int
    """Bytes of logs to read, or objects to delete."""

    def share(self, partitions: int, work: int) -> float:
        """How much of the limit a wave of that size takes; above 1 if a partition is larger."""
        return max(partitions / self.partitions, work / self.work)

    def fitting(self, works: Iterable[int]) -> int:
        """How many of the first partitions, with so much work each, fit; at least one."""
        count = total = 0
        for work in works:
            total += work
            if count and (total > self.work or count == self.partitions):
                break
            count += 1
        return count

    def next(self, *, share: float, took_ms: int, left_ms: int | None) -> WaveLimit:
        """The limit of the next wave, after one that took `share` of this in so many milliseconds.

        `left_ms`: what is left of `--max-duration`; None: no end is set. The limit grows by
        `GROWTH_MAX` at most, and shrinks as far as it must.
        """
        aim_ms = WAVE_MS if left_ms is None else min(WAVE_MS, left_ms)
        # What a wave at the limit would have taken.
        whole_ms = max(1.0, took_ms / share) if share else 1.0
        factor = min(GROWTH_MAX, aim_ms / whole_ms)
        return WaveLimit(
            partitions=max(1, int(self.partitions * factor)),
            work=max(1, int(self.work * factor)),
        )


FIRST_WAVE_OF_BYTES: Final = WaveLimit(partitions=16, work=128 * 2**20)
FIRST_WAVE_OF_OBJECTS: Final = WaveLimit(partitions=16, work=500)

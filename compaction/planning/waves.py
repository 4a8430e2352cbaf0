"""How large the next wave of a run may be: small at first, then about `WAVE_MS` of work.

A run commits after each wave, so a run that is stopped or killed loses one wave and no more. Each
wave costs two commits of the catalog and, on Spark, a few jobs; so it must not be too small either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WAVE_MS: Final = 30_000
"""What a wave should take."""

GROWTH_MAX: Final = 4
"""How many times as large as its predecessor's a wave's limit may be: a first wave says little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveLimit:
    """The most that one wave takes; a partition that is larger is taken alone."""

    partitions: int
    size_bytes: int
    """Bytes of source logs."""

    def share(self, partitions: int, size_bytes: int) -> float:
        """How much of the limit a wave of that size takes; above 1 if a partition is larger."""
        return max(partitions / self.partitions, size_bytes / self.size_bytes)


FIRST_WAVE: Final = WaveLimit(partitions=16, size_bytes=128 * 2**20)


def next_limit(
    limit: WaveLimit, *, share: float, took_ms: int, left_ms: int | None
) -> WaveLimit:
    """The limit of the next wave, after one that took `share` of `limit` and so many milliseconds.

    `left_ms`: what is left of `--max-duration`; None: no end is set. It grows at most by
    `GROWTH_MAX`, and shrinks as far as it must.
    """
    aim_ms = WAVE_MS if left_ms is None else min(WAVE_MS, left_ms)
    # What a wave at the limit would have taken.
    whole_ms = max(1.0, took_ms / share)
    factor = min(GROWTH_MAX, aim_ms / whole_ms)
    return WaveLimit(
        partitions=max(1, int(limit.partitions * factor)),
        size_bytes=max(1, int(limit.size_bytes * factor)),
    )

"""The effective settings of one topic, resolved: what the law needs to know of the configuration.

Names are Kafka's topic configs with underscores; units last.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Effective settings of one topic; defaults are Kafka's (`LogConfig`, `CleanerConfig`)."""

    cleanup_policy: frozenset[str] = frozenset()
    """Of `compact` and `delete`; empty: nobody said, the topic is left alone."""
    min_cleanable_dirty_ratio: Fraction = Fraction(1, 2)
    """Exact, so that a ratio is compared by whole numbers multiplied crosswise."""
    delete_retention_ms: int = DAY_MS
    producer_id_expiration_ms: int = DAY_MS
    segment_bytes: int = 2**30
    segment_index_bytes: int = 10 * 2**20
    index_interval_bytes: int = 4096
    chunk_bytes: int | None = None
    """At most so many dirty bytes are cleaned per commit, and at least one segment (tierfold's own
    setting); None: the whole dirty region at once."""

    @property
    def is_compacted(self) -> bool:
        """The policy names `compact`."""
        return "compact" in self.cleanup_policy

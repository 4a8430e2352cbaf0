"""The effective settings of one topic, resolved: what the law needs to know of the configuration.

Names are Kafka's topic configs with underscores; units last.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

DAY_MS: Final = 86_400_000


class CompactionStrategy(StrEnum):
    """Which record of a key wins (KIP-280 `compaction.strategy`); among equals the last one."""

    OFFSET = "offset"
    """The highest offset, as in Kafka."""
    TIMESTAMP = "timestamp"
    """The highest record timestamp."""
    HEADER = "header"
    """The highest version in the header that `compaction.strategy.header` names."""


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
    compaction_strategy: CompactionStrategy = CompactionStrategy.OFFSET
    compaction_strategy_header: str = ""
    """The name of the header that holds a record's version; empty but under `header`."""

    @property
    def is_compacted(self) -> bool:
        """The policy names `compact`."""
        return "compact" in self.cleanup_policy

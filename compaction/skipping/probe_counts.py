"""What a round's key indexes were asked, and what they answered."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeCounts:
    """Clean segments by what became of them, and how often Bloom filters were wrong."""

    by_bloom_filter: int = 0
    """Segments skipped because their Bloom filter denies all competing keys."""
    by_key_index: int = 0
    """Segments skipped because their key index lacks all competing keys."""
    by_small_gain: int = 0
    """Segments skipped because a rewrite would save less than the settings demand."""
    superseded: int = 0
    """Segments read because they have records of competing keys."""
    no_index: int = 0
    """Segments read because they had no index."""
    unsound_index: int = 0
    """Segments read because their index was damaged, of another segment or version."""
    keys_lacked: int = 0
    """Competing keys that a segment lacks, summed over the segments where this is known."""
    keys_claimed: int = 0
    """How many of them its Bloom filter claimed."""
    keys_claimed_promised: float = 0.0
    """How many of them it should claim by `bloom.filter.fpp`."""
    index_bytes_read: int = 0

    def __add__(self, other: ProbeCounts) -> ProbeCounts:
        return ProbeCounts(
            **{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        )

    @property
    def skipped(self) -> int:
        """Segments whose keys were not read."""
        return self.by_bloom_filter + self.by_key_index + self.by_small_gain

    @property
    def asked(self) -> int:
        """Segments whose index was looked for."""
        return self.skipped + self.superseded + self.no_index + self.unsound_index


NO_PROBES: Final = ProbeCounts()

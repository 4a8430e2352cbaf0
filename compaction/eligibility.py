"""How dirty a partition is: bytes counted as Kafka's `LogToClean` counts them.

A segment in which the first dirty offset lies counts twice, as clean and as cleanable: there,
`UnifiedLog.logSegments(from, to)` starts with the segment that holds `from`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from compaction.regions import Regions
from compaction.view import PartitionView


@dataclass(frozen=True, slots=True, kw_only=True)
class DirtyRatio:
    """Cleanable bytes over clean and cleanable bytes; never a float."""

    clean_bytes: int
    cleanable_bytes: int

    @property
    def total_bytes(self) -> int:
        """The ratio's denominator."""
        return self.clean_bytes + self.cleanable_bytes

    def exceeds(self, threshold: Fraction) -> bool:
        """Whether the ratio is strictly greater; an empty log exceeds nothing."""
        return self.cleanable_bytes * threshold.denominator > threshold.numerator * self.total_bytes

    @property
    def percent(self) -> str:
        """For display: `33.3 %`, rounded down to a tenth; `0.0 %` for an empty log."""
        per_mille = self.cleanable_bytes * 1000 // self.total_bytes if self.total_bytes else 0
        return f"{per_mille // 10}.{per_mille % 10} %"


def dirty_ratio(view: PartitionView, regions: Regions) -> DirtyRatio:
    """Sum the sizes that the catalog keeps; no segment is opened."""
    dirty = regions.dirty
    clean = (each.size_bytes for each in view.segments if each.start_offset < dirty.start)
    cleanable = (
        each.size_bytes
        for each in view.segments
        if dirty.start < each.next_offset and each.start_offset < dirty.end
    )
    return DirtyRatio(
        clean_bytes=sum(clean), cleanable_bytes=0 if dirty.is_empty else sum(cleanable)
    )

"""The sums that a commit stores with a row: planning reads them instead of adding up segments."""

from __future__ import annotations

from dataclasses import dataclass

from tierfold.compaction.model.segments import PartitionState, Segment


def clean_bytes(state: PartitionState) -> int:
    """Bytes of the live segments that start below the cleaner offset."""
    cleaned_to = state.cleaner_offset
    if cleaned_to is None:
        return 0
    return sum(
        segment.size_bytes for segment in state.segments if segment.start_offset < cleaned_to
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSums:
    """Bytes of a row's live segments, as they were read and checked with the row.

    They hold for these very segments: a row with others has another tuple.
    """

    segments: tuple[Segment, ...]
    cleaner_offset: int | None
    clean_bytes: int
    """Bytes of the segments that start below it."""

    def clean_below(self, row: PartitionState, offset: int) -> int | None:
        """Bytes of the row's segments that start below an offset; None: that is not kept."""
        is_kept = row.segments is self.segments and offset == self.cleaner_offset
        return self.clean_bytes if is_kept else None

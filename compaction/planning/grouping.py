"""Which neighbouring segments become one (SEMANTICS 7; Kafka `Cleaner.groupSegmentsBySize`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import add, le

from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.model.units import OFFSET_SPAN_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentGroup:
    """Neighbouring segments, at least one, that are rewritten into one."""

    segments: tuple[Segment, ...]

    @property
    def start_offset(self) -> int:
        """The first segment's start offset."""
        return self.segments[0].start_offset

    @property
    def end_offset(self) -> int:
        """The last segment's end offset, inclusive."""
        return self.segments[-1].end_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of the sources' `.log`s."""
        return sum(segment.size_bytes for segment in self.segments)


def grouped(segments: Sequence[Segment], rules: Rules) -> tuple[SegmentGroup, ...]:
    """Group segments greedily from the first on, each group as long as the limits allow.

    `segments` are in offset order; a gap between two of them ends a group. A segment above a limit
    is a group of its own. The sums of the sources are upper bounds for the segment that replaces
    them.
    """
    limits = (rules.segment_bytes, rules.segment_index_bytes, rules.segment_index_bytes)
    groups: list[list[Segment]] = []
    sums: tuple[int, ...] = (0, 0, 0)
    for segment in segments:
        sizes = (segment.size_bytes, segment.offset_index_bytes, segment.time_index_bytes)
        sums = tuple(map(add, sums, sizes))
        if groups and _fits_offsets(groups[-1], segment) and all(map(le, sums, limits)):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            sums = sizes
    return tuple(SegmentGroup(segments=tuple(group)) for group in groups)


def _fits_offsets(group: Sequence[Segment], segment: Segment) -> bool:
    is_next = segment.start_offset == group[-1].next_offset
    return is_next and segment.end_offset - group[0].start_offset <= OFFSET_SPAN_MAX

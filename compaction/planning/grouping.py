"""Which neighbouring segments become one (SEMANTICS 7; Kafka `Cleaner.groupSegmentsBySize`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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

    `segments` are contiguous and in offset order. A segment above a limit stands alone.
    """
    groups: list[SegmentGroup] = []
    start = 0
    for stop in _cuts(segments, rules):
        groups.append(SegmentGroup(segments=tuple(segments[start:stop])))
        start = stop
    return tuple(groups)


def _cuts(segments: Sequence[Segment], rules: Rules) -> Iterator[int]:
    """Where each group ends. The sums of the sources bound the one that replaces them."""
    start = log_bytes = offset_index_bytes = time_index_bytes = 0
    for place, segment in enumerate(segments):
        log_bytes += segment.size_bytes
        offset_index_bytes += segment.offset_index_bytes
        time_index_bytes += segment.time_index_bytes
        fits = (
            log_bytes <= rules.segment_bytes
            and offset_index_bytes <= rules.segment_index_bytes
            and time_index_bytes <= rules.segment_index_bytes
            and segment.end_offset - segments[start].start_offset <= OFFSET_SPAN_MAX
        )
        if place > start and not fits:
            yield place
            start = place
            log_bytes = segment.size_bytes
            offset_index_bytes = segment.offset_index_bytes
            time_index_bytes = segment.time_index_bytes
    if segments:
        yield len(segments)

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
    is a group of its own. The segment that replaces them is rarely larger than their sum; where a
    rewrite enlarges it too much, it becomes several (`cleaning.rounds.GroupTask.output_bytes_max`).
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


def _fits_offsets(group: Sequence[Segment], following: Segment | SegmentGroup) -> bool:
    """Whether these segments and what follows can be one segment: neighbours, within 31 bits."""
    is_next = following.start_offset == group[-1].next_offset
    return is_next and following.end_offset - group[0].start_offset <= OFFSET_SPAN_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedGroups:
    """The groups of a round after the merge of empty ones."""

    groups: tuple[SegmentGroup, ...]
    """In offset order; they cover the same offsets as before."""
    empty: frozenset[int]
    """The numbers, from 0, of groups that are still empty: each must become one empty batch."""


def merge_empty(groups: Sequence[SegmentGroup], is_empty: Sequence[bool]) -> MergedGroups:
    """Join groups of which nothing is left to their neighbours, as the span of a segment allows.

    Every offset range needs a segment. To avoid writing one just for that, an empty group joins the
    group before it, or else the one after it. If the joined offsets need more than 31 bits, which
    no index can hold, the empty group stays alone and becomes one empty batch; so does one in a
    round for delete horizons whose neighbours are no part of the round.

    `is_empty` has one entry per group. Each result, from the first on, is as long as possible; so
    there are as few as possible, and a second merge changes nothing. Limits on a group's size
    do not apply: an empty group adds only its offsets to the output.
    """
    joined: list[tuple[SegmentGroup, bool]] = []
    for group, empty in zip(groups, is_empty, strict=True):
        before, is_before_empty = joined[-1] if joined else (group, False)
        if joined and (empty or is_before_empty) and _fits_offsets(before.segments, group):
            both = SegmentGroup(segments=before.segments + group.segments)
            joined[-1] = (both, is_before_empty and empty)
        else:
            joined.append((group, empty))
    return MergedGroups(
        groups=tuple(group for group, _ in joined),
        empty=frozenset(number for number, (_, empty) in enumerate(joined) if empty),
    )

"""Which neighbouring segments become one (SEMANTICS 7; Kafka `Cleaner.groupSegmentsBySize`).

Where brokers will read what becomes of them, live segments that share offsets go into one group:
uploads overlap after a change of leader, and a replacement beside one of them would take its place
in look-ups (PUBLISHING 4.1). And a group is small enough for one batch of events (PUBLISHING 3.5).

Where retention is to delete there, too, old segments do not join young ones. Otherwise each pass
would join the head of the log with what was written last, its largest timestamp would always be
young, and nothing would ever expire (docs/decisions/0016).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import inf
from operator import add, le
from typing import Final

from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.model.units import OFFSET_SPAN_MAX

WINDOWS_OF_RETENTION: Final = 10
"""Into so many parts of `retention.ms` a log is divided: it is kept by a tenth longer at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentGroup:
    """Neighbouring segments, at least one, that are rewritten into one."""

    segments: tuple[Segment, ...]
    is_for_brokers: bool = False
    """Whether brokers are to read what becomes of it."""

    @property
    def start_offset(self) -> int:
        """The first segment's start offset."""
        return self.segments[0].start_offset

    @property
    def own_start_offset(self) -> int:
        """The start that names and indexes of the new segment use.

        For brokers, the lowest own start of the sources: one that began behind it would not shield
        that source at the head of the log (PUBLISHING 3.8).
        """
        if not self.is_for_brokers:
            return self.start_offset
        return min(segment.own_start_offset for segment in self.segments)

    @property
    def end_offset(self) -> int:
        """The last segment's end offset, inclusive."""
        return self.segments[-1].end_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of the sources' `.log`s."""
        return sum(segment.size_bytes for segment in self.segments)


def is_for_brokers(view: PartitionView) -> bool:
    """Whether brokers are to read what becomes of the partition."""
    return view.brokers is not None or (view.state is not None and view.state.is_served)


def grouped(
    segments: Sequence[Segment], rules: Rules, sources_max: int | None = None
) -> tuple[SegmentGroup, ...]:
    """Group segments greedily from the first on, each group as long as the limits allow.

    `segments` are in offset order; a gap between two of them ends a group. A segment above a limit
    is a group of its own. The segment that replaces them is rarely larger than their sum; where a
    rewrite enlarges it too much, it becomes several (`cleaning.rounds.GroupTask.output_bytes_max`).

    `sources_max`: how many sources a group has at most that brokers learn of; None: they learn of
    none. Segments that share offsets are one group for them, whatever the limits; and no group
    goes from one window of `retention.ms` into the next (`_windows`).
    """
    limits: tuple[float, ...] = (
        *(rules.segment_bytes, rules.segment_index_bytes, rules.segment_index_bytes),
        inf if sources_max is None else sources_max,
    )
    is_for_brokers = sources_max is not None
    whole = sharing_offsets(segments) if is_for_brokers else _each(segments)
    groups: list[SegmentGroup] = []
    sums: tuple[int, ...] = (0, 0, 0, 0)
    windows = _windows(whole, rules) if is_for_brokers else (0,) * len(whole)
    last_window = 0
    for members, window in zip(whole, windows, strict=True):
        following = SegmentGroup(segments=members, is_for_brokers=is_for_brokers)
        sizes = _sizes(members)
        sums = tuple(map(add, sums, sizes))
        fits = window == last_window and all(map(le, sums, limits))
        if groups and fits and _fits_offsets(groups[-1], following):
            groups[-1] = _joined(groups[-1], following)
        else:
            groups.append(following)
            sums = sizes
        last_window = window
    return tuple(groups)


def _windows(whole: Sequence[Sequence[Segment]], rules: Rules) -> tuple[int, ...]:
    """In which window of time each of them expires: numbers that never descend.

    They expire from the head on, so each has the largest timestamp up to its end: segments whose
    timestamps are in disorder do not fall apart into ever more groups. Without a `retention.ms`
    of the user's for the topic all have the same.
    """
    own_ms = rules.beside_brokers.retention_ms
    if not rules.is_deleted or own_ms < 0:
        return (0,) * len(whole)
    part_ms = max(own_ms // WINDOWS_OF_RETENTION, 1)
    latest_ms = (max(one.max_timestamp_ms for one in members) for members in whole)
    return tuple(reached_ms // part_ms for reached_ms in accumulate(latest_ms, max))


def sharing_offsets(segments: Iterable[Segment]) -> tuple[tuple[Segment, ...], ...]:
    """Live segments in offset order, together where they share offsets, transitively.

    A segment's own range counts, of which earlier segments may give the head to the log.
    """
    whole: list[tuple[Segment, ...]] = []
    for segment in segments:
        following: tuple[Segment, ...] = (segment,)
        while whole and segment.own_start_offset <= whole[-1][-1].end_offset:
            following = (*whole.pop(), *following)
        whole.append(following)
    return tuple(whole)


def _each(segments: Iterable[Segment]) -> tuple[tuple[Segment, ...], ...]:
    return tuple((segment,) for segment in segments)


def _sizes(segments: Sequence[Segment]) -> tuple[int, int, int, int]:
    """Their bytes and their indexes' bytes, and how many they are."""
    return (
        sum(segment.size_bytes for segment in segments),
        sum(segment.offset_index_bytes for segment in segments),
        sum(segment.time_index_bytes for segment in segments),
        len(segments),
    )


def _joined(before: SegmentGroup, after: SegmentGroup) -> SegmentGroup:
    return replace(before, segments=before.segments + after.segments)


def _fits_offsets(before: SegmentGroup, after: SegmentGroup) -> bool:
    """Whether two groups can be one segment: neighbours, within 31 bits."""
    is_next = after.start_offset == before.segments[-1].next_offset
    return is_next and after.end_offset - before.own_start_offset <= OFFSET_SPAN_MAX


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
        if joined and (empty or is_before_empty) and _fits_offsets(before, group):
            joined[-1] = (_joined(before, group), is_before_empty and empty)
        else:
            joined.append((group, empty))
    return MergedGroups(
        groups=tuple(group for group, _ in joined),
        empty=frozenset(number for number, (_, empty) in enumerate(joined) if empty),
    )

"""Merge of empty groups, those without a kept record, with a neighbour (SEMANTICS 7).

Every offset range needs a segment, and none is written without need, so an empty group joins the
group before it, or else the one after it. Where that would span more than 31 bits, which
no index can hold, it stands alone, and one empty batch is written in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tierfold.compaction.model.units import OFFSET_SPAN_MAX
from tierfold.compaction.planning.grouping import SegmentGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedGroups:
    """The groups of a round after the merge of empty ones."""

    groups: tuple[SegmentGroup, ...]
    """In offset order; they cover what the groups before covered."""
    empty: frozenset[int]
    """The numbers, from 0, of groups that are still empty: each must become one empty batch."""


def merge_empty(groups: Sequence[SegmentGroup], is_empty: Sequence[bool]) -> MergedGroups:
    """Join empty groups to their neighbours, as many as the offset span of a segment allows.

    `is_empty` has one entry per group. From the first group on each result is as long as possible,
    so there are as few as possible, and a second merge changes nothing. Limits on a group's size do
    not apply: an empty group adds nothing to the output but its offsets.
    """
    joined: list[tuple[SegmentGroup, bool]] = []
    for group, empty in zip(groups, is_empty, strict=True):
        if joined and (empty or joined[-1][1]) and _fit(joined[-1][0], group):
            before, before_empty = joined.pop()
            both = SegmentGroup(segments=before.segments + group.segments)
            joined.append((both, before_empty and empty))
        else:
            joined.append((group, empty))
    return MergedGroups(
        groups=tuple(group for group, _ in joined),
        empty=frozenset(number for number, (_, empty) in enumerate(joined) if empty),
    )


def _fit(before: SegmentGroup, after: SegmentGroup) -> bool:
    return after.end_offset - before.start_offset <= OFFSET_SPAN_MAX

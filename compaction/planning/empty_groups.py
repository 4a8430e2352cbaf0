"""Merge of empty groups, which keep no record, with a neighbour (SEMANTICS 7).

Every offset range needs a segment. To avoid writing one just for that, an empty group joins the
group before it, or else the one after it. If the joined offsets need more than 31 bits, which no
index can hold, the empty group stays alone and becomes one empty batch.
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
    """In offset order; they cover the same offsets as before."""
    empty: frozenset[int]
    """The numbers, from 0, of groups that are still empty: each must become one empty batch."""


def merge_empty(groups: Sequence[SegmentGroup], is_empty: Sequence[bool]) -> MergedGroups:
    """Join empty groups to their neighbours, as many as the offset span of a segment allows.

    `is_empty` has one entry per group. Each result, from the first on, is as long as possible; so
    the results are as few as possible, and a second merge changes nothing. Limits on a group's size
    do not apply: an empty group adds only its offsets to the output.
    """
    joined: list[tuple[SegmentGroup, bool]] = []
    for group, empty in zip(groups, is_empty, strict=True):
        before, is_before_empty = joined[-1] if joined else (group, False)
        span = group.end_offset - before.start_offset
        if joined and (empty or is_before_empty) and span <= OFFSET_SPAN_MAX:
            both = SegmentGroup(segments=before.segments + group.segments)
            joined[-1] = (both, is_before_empty and empty)
        else:
            joined.append((group, empty))
    return MergedGroups(
        groups=tuple(group for group, _ in joined),
        empty=frozenset(number for number, (_, empty) in enumerate(joined) if empty),
    )

"""Groups of which nothing survived: their offsets go to a neighbour (SEMANTICS 7).

A segment is never written for nothing, and no offset range may be left without a segment, so an
empty group joins the group before it, or, at the head of the log, the one after it.
"""

from __future__ import annotations

from collections.abc import Sequence

from compaction.grouping import SegmentGroup


def absorbed(
    groups: Sequence[SegmentGroup], is_empty: Sequence[bool]
) -> tuple[SegmentGroup, ...]:
    """The groups with every empty one joined to a neighbour.

    Where all are empty one group is left, of all the segments: the round must then end in an empty
    batch. Limits on a group's size do not bind: an empty group adds nothing to the output but its
    offsets.
    """
    joined: list[tuple[SegmentGroup, bool]] = []
    for group, empty in zip(groups, is_empty, strict=True):
        if joined and (empty or joined[-1][1]):
            before, before_empty = joined.pop()
            both = SegmentGroup(segments=before.segments + group.segments)
            joined.append((both, before_empty and empty))
        else:
            joined.append((group, empty))
    return tuple(group for group, _ in joined)

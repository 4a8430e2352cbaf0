"""The plan of a merge: what brokers have beside a replacement is written into one with it.

    row        R 0 ───────── 19
    brokers              L 10 ──────── 29     finished between a look and a batch
    merge      0 ────────────────────── 29    R gives 0 to 19, L 20 to 29

The segments give what the row says that they give: a replacement keeps its offsets, and an upload
gives those beyond (SEMANTICS 1). A merge is no pass: no record, tombstone or marker goes, and the
cleaner offset stays. It becomes one segment, or fails.

Rule: PUBLISHING 4.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tierfold.compaction.brokers.noted_segment import noted_segment
from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.model.units import BATCH_HEADER_BYTES, LOG_BYTES_MAX, OFFSET_SPAN_MAX
from tierfold.compaction.model.wording import spaced
from tierfold.compaction.planning.eligibility import DirtyRatio
from tierfold.compaction.planning.grouping import SegmentGroup
from tierfold.compaction.planning.plan import Compact, CompactReason
from tierfold.compaction.publishing.steps import Merge


def merge_plan(view: PartitionView, merge: Merge) -> Compact:
    """The round that carries out a merge; `view` is of the look that the merge is from.

    Raises ValueError if the view lacks one of the segments, or if others lie between them.
    """
    ids = frozenset(merge.segment_ids)
    group = SegmentGroup(
        segments=tuple(one for one in view.segments if one.segment_id in ids), is_for_brokers=True
    )
    beside = _beside(view, sorted(ids - {one.segment_id for one in group.segments}))
    if not group.segments or any(
        before.next_offset != after.start_offset for before, after in pairwise(group.segments)
    ):
        raise ValueError(f"the segments of {view.key} to merge are no neighbours: {sorted(ids)}")
    return Compact(
        key=view.key,
        reason=CompactReason.MERGE,
        detail=merge.why,
        first_dirty=group.end_offset + 1,
        next_offset=group.end_offset + 1,
        groups=(group,),
        ratio=DirtyRatio(clean_bytes=group.size_bytes, cleanable_bytes=0),
        bytes_in=group.size_bytes,
        bytes_out_estimate=group.size_bytes + BATCH_HEADER_BYTES,
        beside=beside,
    )


def unread_beside(plan: Compact, log_start: int) -> str:
    """Which uploads of brokers have offsets that the merge lacks, a clause; empty: none has.

    They would be retired, and nothing live would have these offsets. `log_start`: the brokers';
    what lies below it counts no more.
    """
    (group,) = plan.groups
    for segment in plan.beside:
        first = max(segment.start_offset, log_start)
        if first < group.start_offset or segment.end_offset > group.end_offset:
            return (
                f"brokers have segment {segment.segment_id} (offsets {first} to"
                f" {segment.end_offset}), which cannot be read, and {group.start_offset} to"
                f" {group.end_offset} are all offsets that can be merged"
            )
    return ""


def why_not_one(plan: Compact) -> str:
    """Why the sources of a merge cannot become one segment, a clause; empty: they can."""
    (group,) = plan.groups
    first, last = group.own_start_offset, group.end_offset
    if last - first > OFFSET_SPAN_MAX:
        return (
            f"offsets {first} to {last} are too many for one segment: an index holds at most"
            f" {spaced(OFFSET_SPAN_MAX)}"
        )
    return too_large(group) if group.size_bytes > LOG_BYTES_MAX else ""


def too_large(group: SegmentGroup) -> str:
    """Why these segments cannot become one, a clause."""
    return (
        f"{len(group.segments)} segments of offsets {group.own_start_offset} to {group.end_offset}"
        f" ({spaced(group.size_bytes)} bytes) are too large to be one: a .log has at most"
        f" {spaced(LOG_BYTES_MAX)} bytes"
    )


def _beside(view: PartitionView, ids: Sequence[str]) -> tuple[Segment, ...]:
    """Segments that only brokers name; raises ValueError if they do not have one."""
    found = {} if view.brokers is None else view.brokers.view.segments
    if missing := [segment_id for segment_id in ids if segment_id not in found]:
        raise ValueError(f"neither the row of {view.key} nor brokers have {missing}")
    return tuple(noted_segment(found[segment_id].added, run="") for segment_id in ids)

"""The plan of a merge: what brokers have beside a replacement is written into one with it.

    row        R 0 ───────── 19
    brokers              L 10 ──────── 29     finished between a look and a batch
    merge      0 ────────────────────── 29    R gives 0 to 19, L 20 to 29

The segments give what the row says that they give: a replacement keeps its offsets, and an upload
gives those beyond (SEMANTICS 1). A merge is no pass: no record, tombstone or marker goes, and the
cleaner offset stays.

Rule: PUBLISHING 4.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tierfold.compaction.brokers.noted_segment import noted_segment
from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.model.units import BATCH_HEADER_BYTES
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


def _beside(view: PartitionView, ids: Sequence[str]) -> tuple[Segment, ...]:
    """Segments that only brokers name; raises ValueError if they do not have one."""
    found = {} if view.brokers is None else view.brokers.view.segments
    if missing := [segment_id for segment_id in ids if segment_id not in found]:
        raise ValueError(f"neither the row of {view.key} nor brokers have {missing}")
    return tuple(noted_segment(found[segment_id].added, run="") for segment_id in ids)

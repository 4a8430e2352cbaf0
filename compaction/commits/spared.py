"""What a round leaves of superseded records, as the row remembers it (`model.spared_bytes`).

`unread` are the segments of a round whose keys were not read, as their key indexes showed: by id,
an upper bound of the bytes of the records that the round superseded and left there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tierfold.compaction.cleaning.rounds import Round
from tierfold.compaction.commits.receipts import STAYING, GroupReceipt
from tierfold.compaction.model.rules import CompactionStrategy
from tierfold.compaction.model.segments import Segment, SparedBytes
from tierfold.compaction.planning.grouping import SegmentGroup


def spared_after(
    work: Round, receipts: Sequence[GroupReceipt], unread: Mapping[str, int]
) -> tuple[SparedBytes, ...]:
    """What is left in the live segments after the round, in offset order.

    A segment that was read is clean if everything that had superseded its records took part in the
    round. Otherwise what was left in it before still is, also if it was rewritten.
    """
    grouped = {segment.segment_id for group in work.groups for segment in group.segments}
    outside = [entry for entry in work.state.spared if entry.segment_id not in grouped]
    inside = [
        entry
        for group, receipt in zip(work.groups, receipts, strict=True)
        for entry in _left_in(group, receipt, work, unread)
    ]
    start_of = {segment.segment_id: segment.start_offset for segment in work.state.segments}
    new = [written.segment for receipt in receipts for written in receipt.written]
    start_of |= {segment.segment_id: segment.start_offset for segment in new}
    return tuple(sorted((*outside, *inside), key=lambda entry: start_of[entry.segment_id]))


def _left_in(
    group: SegmentGroup, receipt: GroupReceipt, work: Round, unread: Mapping[str, int]
) -> Iterator[SparedBytes]:
    left = [one for source in group.segments for one in _left_of(source, work, unread)]
    if not left:
        return
    left_bytes = sum(entry.superseded_bytes for entry in left)
    since_offset = min(entry.since_offset for entry in left)
    written = tuple(new.segment for new in receipt.written)
    # If a group became several segments, each of them may hold all that is left.
    for live in group.segments[:1] if receipt.result in STAYING else written:
        yield SparedBytes(
            segment_id=live.segment_id,
            superseded_bytes=min(live.size_bytes, left_bytes),
            since_offset=since_offset,
        )


def _left_of(source: Segment, work: Round, unread: Mapping[str, int]) -> Iterator[SparedBytes]:
    """What the round leaves of one source, and what earlier ones had left."""
    for entry in work.state.spared:
        if entry.segment_id == source.segment_id and not _is_cleaned(entry, work, unread):
            yield entry
    added_bytes = unread.get(source.segment_id, 0)
    if added_bytes:
        yield SparedBytes(
            segment_id=source.segment_id,
            superseded_bytes=added_bytes,
            since_offset=work.compact.first_dirty,
        )


def _is_cleaned(entry: SparedBytes, work: Round, unread: Mapping[str, int]) -> bool:
    """Whether what superseded the entry's records was compared with them in this round."""
    if entry.segment_id in unread or work.compact.is_partial:
        return False
    by_version = work.rules.compaction_strategy is not CompactionStrategy.OFFSET
    return by_version or work.compact.first_dirty <= entry.since_offset

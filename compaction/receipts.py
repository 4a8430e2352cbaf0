"""What a worker says it did with a group of segments, and whether that can be true.

A worker returns receipts, never rows: the driver checks them and commits them as data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from compaction.grouping import SegmentGroup
from compaction.segments import Segment
from compaction.tally import Tally


class GroupResult(Enum):
    """What became of a group of source segments."""

    WRITTEN = "written"
    """One new segment holds the survivors."""
    UNCHANGED = "unchanged"
    """A single segment of which nothing goes: it stays live as it is."""
    EMPTY = "empty"
    """Nothing survived; the offset range goes to a neighbour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReceipt:
    """The outcome of one group."""

    group_index: int
    result: GroupResult
    segment: Segment | None
    """The new segment where one was written."""
    tally: Tally
    bytes_read: int
    bytes_written: int


def receipt_faults(
    groups: Sequence[SegmentGroup], receipts: Sequence[GroupReceipt], records_scanned: int
) -> tuple[str, ...]:
    """What contradicts: the sums of SEMANTICS 10, the groups planned, what the scan counted.

    `receipts` are in the order of `groups`. No fault: an empty tuple.
    """
    found: list[str] = []
    if len(groups) != len(receipts):
        return (f"{len(groups)} groups were planned, {len(receipts)} receipts came back",)
    for group, receipt in zip(groups, receipts, strict=True):
        found.extend(_group_faults(group, receipt))
    records_in = sum(receipt.tally.records_in for receipt in receipts)
    if records_in != records_scanned:
        found.append(f"the scan counted {records_scanned} records, the rewrite {records_in}")
    return tuple(found)


def _group_faults(group: SegmentGroup, receipt: GroupReceipt) -> list[str]:
    found: list[str] = []
    name = f"group [{group.start_offset}, {group.end_offset}]"
    if not receipt.tally.adds_up:
        found.append(f"{name}: the tally does not add up: {receipt.tally}")
    if receipt.result is GroupResult.UNCHANGED and (
        len(group.segments) != 1 or receipt.tally.removed
    ):
        found.append(f"{name}: said to be unchanged, but something was to go")
    if receipt.result is GroupResult.EMPTY and receipt.tally.kept:
        found.append(f"{name}: said to be empty, but records were kept")
    if receipt.result is not GroupResult.WRITTEN:
        return found
    segment = receipt.segment
    if segment is None:
        return [*found, f"{name}: written, but no segment is named"]
    if (segment.start_offset, segment.end_offset) != (group.start_offset, group.end_offset):
        found.append(
            f"{name}: the new segment covers [{segment.start_offset}, {segment.end_offset}]"
        )
    if segment.size_bytes <= 0 or segment.size_bytes != receipt.bytes_written:
        found.append(f"{name}: {receipt.bytes_written} bytes written, {segment.size_bytes} named")
    if segment.segment_id in {source.segment_id for source in group.segments}:
        found.append(f"{name}: the new segment bears a source's id")
    return found

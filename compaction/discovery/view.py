"""One partition as planning sees it, or why it is refused.

`compaction.discovery.unknown_segments` makes a view from a listing and the catalog's row. The view
includes newly found segments; `state_with_new` is the row that a claim writes from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Final

from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.model.segments import LeaderEpoch, PartitionKey, PartitionState, Segment

PLACE: Final = "TIER PARTITION"
"""A placeholder in a remedy's commands, which the caller replaces with `Refusal.at`."""


class RefusalReason(StrEnum):
    """Why a partition is refused."""

    PARTIAL_SEGMENT = "partial segment"
    GAP = "gap"
    OVERLAP = "overlap"
    DATA_GONE = "data gone"
    LINEAGE_DIVERGED = "lineage diverged"
    FIRST_DIRTY_OUT_OF_RANGE = "first dirty offset out of range"
    NOT_RESTORABLE = "not restorable"
    UNREADABLE = "unreadable"
    """An object is missing, forbidden or corrupt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The partition is left unchanged until a person has looked; other partitions go on."""

    reason: RefusalReason
    detail: str
    """What was found, naming the segments."""
    remedy: str

    def at(self, place: str) -> Refusal:
        """The same, with `place` (tier and partition, as a shell takes them) in its commands."""
        return replace(self, remedy=self.remedy.replace(PLACE, place))

    @property
    def sentence(self) -> str:
        """The whole message: the detail and the remedy."""
        return f"{self.detail.rstrip('.')}. {self.remedy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One partition as this run sees it; names, sizes and offsets only."""

    key: PartitionKey
    state: PartitionState | None
    """The catalog's row as read; None: there is none yet."""
    segments: tuple[Segment, ...]
    """Live segments in offset order, contiguous, the new ones included."""
    orphans: tuple[ListedSegment, ...]
    """They hold nothing of their own: no `.log`, or only offsets that the row's segments give."""
    set_apart: tuple[ListedSegment, ...]
    """Unknown segments of another history of the partition: never read, never extended."""
    waiting: tuple[ListedSegment, ...]
    """Unknown segments that cannot be taken now, and may hold something of their own."""
    stalled_since_ms: int | None
    """When the oldest of those that reach beyond the live end was written, epoch milliseconds;
    None: none does."""
    retired: tuple[ListedSegment, ...]
    """Segments that left the log, as far as objects of them are still listed."""
    lineage: tuple[LeaderEpoch, ...]
    log_start_offset: int
    notes: tuple[str, ...] = ()
    """What is not taken and why, a sentence each."""
    needed: tuple[str, ...] = ()
    """Ids of those of `set_apart` whose head is part of the log, and in no other segment."""

    @property
    def next_offset(self) -> int:
        """The first offset beyond the live range; the log start where no segment is live."""
        return self.segments[-1].next_offset if self.segments else self.log_start_offset

    @property
    def live_bytes(self) -> int:
        """Bytes of all live `.log`s."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def cleaner_offset(self) -> int | None:
        """The newest epoch's cleaner offset, None before the first commit."""
        return None if self.state is None else self.state.cleaner_offset


def never_claimed(key: PartitionKey) -> PartitionState:
    """The row of a partition that no run has claimed yet: epoch 0, and nothing about the log."""
    return PartitionState(
        key=key,
        epoch=0,
        owner_run="",
        cleaner_offsets=(),
        log_start_offset=0,
        segments=(),
        lineage=(),
    )


def fresh_state(view: PartitionView) -> PartitionState:
    """The row of a partition that no run has claimed yet, with the view's segments adopted."""
    return replace(
        never_claimed(view.key),
        log_start_offset=view.log_start_offset,
        segments=view.segments,
        lineage=view.lineage,
    )


def state_with_new(view: PartitionView) -> PartitionState:
    """The row with the new segments adopted, which is what a claim writes."""
    if view.state is None:
        return fresh_state(view)
    return replace(
        view.state,
        segments=view.segments,
        lineage=view.lineage,
        log_start_offset=view.log_start_offset,
        forgotten=(),
    )


CATALOG_FIRST: Final = (
    "If tierfold has compacted this tier before, its catalog is missing: bring `_tierfold` back, or"
    " name it with --catalog. Only if it never has, move the segment that the brokers do not name"
    " out of the tier."
)
"""A replacement overlaps its originals: without the catalog it is unknown which to move."""


def first_break(segments: Sequence[Segment]) -> Refusal | None:
    """The first place where a segment does not start right beyond the one before it."""
    for before, after in pairwise(segments):
        if after.start_offset > before.next_offset:
            return gap(before, after)
        if after.start_offset < before.next_offset:
            return Refusal(
                reason=RefusalReason.OVERLAP,
                detail=f"segment {before.segment_id} ends at offset {before.end_offset},"
                f" segment {after.segment_id} starts at {after.start_offset}",
                remedy=CATALOG_FIRST,
            )
    return None


def gap(before: Segment, after: Segment) -> Refusal:
    """The refusal of a partition that lacks the offsets between two segments."""
    return Refusal(
        reason=RefusalReason.GAP,
        detail=f"segment {before.segment_id} ends at offset {before.end_offset},"
        f" segment {after.segment_id} starts at {after.start_offset}",
        remedy="Bring the missing segment back, or run again once its upload is complete. Where it"
        f" is gone for good, move the segments below offset {after.start_offset} out of the tier,"
        " and keep them: then the log begins there.",
    )

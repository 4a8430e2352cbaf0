"""What planning sees of one partition: its live segments, the newly found ones adopted.

    listing + catalog row -> `compaction.listing.classify` -> the new ones are read once
    -> `view_of` -> PartitionView | Refusal

The catalog's live segments are trusted; a new one must chain to them. On first sight there is
nothing to trust, so whatever does not chain refuses the partition (SEMANTICS 1, "Discovery").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Final

from compaction.lineage import is_within_lineage
from compaction.listing import Classified, ListedSegment
from compaction.segments import LeaderEpoch, PartitionKey, PartitionState, Segment


class RefusalReason(StrEnum):
    """Why nothing may be decided about a partition."""

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
    """The partition is left as it is, and a person must look; the fleet goes on."""

    reason: RefusalReason
    detail: str
    """What was found, naming the segments."""
    remedy: str

    @property
    def sentence(self) -> str:
        """All that a person is told."""
        return f"{self.detail}. {self.remedy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One partition as this run sees it; names, sizes and offsets only."""

    key: PartitionKey
    state: PartitionState | None
    """The catalog's row as read; None on first sight."""
    segments: tuple[Segment, ...]
    """Live segments in offset order, contiguous, the new ones included."""
    new_ids: tuple[str, ...]
    """Those of `segments` that the catalog does not name yet."""
    orphans: tuple[ListedSegment, ...]
    out_of_lineage: tuple[Segment, ...]
    """New segments of another history of the partition: never read, never extended."""
    retired: tuple[ListedSegment, ...]
    """Segments that left the log, as far as objects of them are still listed."""
    lineage: tuple[LeaderEpoch, ...]
    log_start_offset: int
    notes: tuple[str, ...] = ()
    """What is not taken and why, a sentence each."""

    @property
    def next_offset(self) -> int:
        """The first offset beyond the live range; the log start where nothing lives."""
        return self.segments[-1].next_offset if self.segments else self.log_start_offset

    @property
    def live_bytes(self) -> int:
        """Bytes of all live `.log`s."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def cleaner_offset(self) -> int | None:
        """The newest epoch's cleaner offset, None before the first commit."""
        return None if self.state is None else self.state.cleaner_offset


def view_of(
    key: PartitionKey,
    classified: Classified,
    sighted: Sequence[Segment],
    state: PartitionState | None,
    lineage: tuple[LeaderEpoch, ...],
) -> PartitionView | Refusal:
    """Chain the new segments to the live ones by their real offsets.

    Args:
        key: the partition.
        classified: its listing, held against `state`.
        sighted: every segment of `classified.new`, read once by storage; any order.
        state: the catalog's row, None on first sight.
        lineage: the partition's leader epochs, from the newest segment's checkpoint.

    Raises:
        ValueError: `sighted` is not what `classified` calls new (a caller's mistake).
    """
    listed = {each.segment_id: each for each in classified.new}
    if {segment.segment_id for segment in sighted} != listed.keys():
        raise ValueError("sighted and classified.new name different segments")
    live = () if state is None else state.segments
    lineage = lineage if state is None else _with_older_epochs(lineage, state.lineage)
    refusal = _refused_by_listing(classified, state) or _refused_by_lineage(live, lineage)
    if refusal is not None:
        return refusal
    in_order = sorted(sighted, key=lambda each: (each.start_offset, each.segment_id))
    ours = [segment for segment in in_order if is_within_lineage(segment, lineage)]
    apart = tuple(each for each in in_order if not is_within_lineage(each, lineage))
    if state is None:
        if (breaks := first_break(ours)) is not None:
            return breaks
        chain = _Chain(taken=tuple(ours), notes=_set_apart(apart))
        log_start_offset = ours[0].start_offset if ours else 0
    else:
        chain = _chained(ours, state.next_offset)
        log_start_offset = state.log_start_offset
    return PartitionView(
        key=key,
        state=state,
        segments=live + chain.taken,
        new_ids=tuple(segment.segment_id for segment in chain.taken),
        orphans=classified.orphans + tuple(listed[each.segment_id] for each in chain.covered),
        out_of_lineage=apart,
        retired=classified.retired,
        lineage=lineage,
        log_start_offset=log_start_offset,
        notes=classified.notes + chain.notes,
    )


def fresh_state(view: PartitionView) -> PartitionState:
    """The row of a partition that nobody has claimed yet: epoch 0, its segments adopted."""
    return PartitionState(
        key=view.key,
        epoch=0,
        owner_run="",
        cleaner_offsets=(),
        log_start_offset=view.log_start_offset,
        segments=view.segments,
        lineage=view.lineage,
    )


def state_with_new(view: PartitionView) -> PartitionState:
    """The row with the new segments adopted, which is what a claim writes."""
    if view.state is None:
        return fresh_state(view)
    return replace(view.state, segments=view.segments, lineage=view.lineage)


_CATALOG_FIRST: Final = (
    "If tierfold has compacted this tier before, its catalog is missing: bring `_tierfold` back, or"
    " name it with --catalog. Only if it never has, move the segment that the brokers do not name"
    " out of the tier."
)
"""A replacement overlaps its originals: without the catalog nobody can tell which to move."""


def first_break(segments: Sequence[Segment]) -> Refusal | None:
    """The first place where a segment does not start right beyond the one before it."""
    for before, after in pairwise(segments):
        if after.start_offset == before.next_offset:
            continue
        is_gap = after.start_offset > before.next_offset
        return Refusal(
            reason=RefusalReason.GAP if is_gap else RefusalReason.OVERLAP,
            detail=f"segment {before.segment_id} ends at offset {before.end_offset},"
            f" segment {after.segment_id} starts at {after.start_offset}",
            remedy="Bring the missing segment back, or run again once its upload is complete."
            if is_gap
            else _CATALOG_FIRST,
        )
    return None


def _with_older_epochs(
    lineage: tuple[LeaderEpoch, ...], known: tuple[LeaderEpoch, ...]
) -> tuple[LeaderEpoch, ...]:
    """`lineage` with the older epochs that only the catalog remembers.

    A broker cuts its checkpoint off where its log starts (Kafka `LeaderEpochFileCache`), and the
    tier still holds what lies below. That is no other history.
    """
    if not lineage:
        return known
    first = lineage[0]
    older = [
        entry
        for entry in known
        if entry.epoch <= first.epoch and entry.start_offset < first.start_offset
    ]
    is_first_known = bool(older) and older[-1].epoch == first.epoch
    return (*older, *(lineage[1:] if is_first_known else lineage))


def _refused_by_listing(classified: Classified, state: PartitionState | None) -> Refusal | None:
    if not classified.problems:
        return None
    if state is None:
        return Refusal(
            reason=RefusalReason.PARTIAL_SEGMENT,
            detail="; ".join(classified.problems),
            remedy="Run again once the upload is complete, or move what a dead upload left away.",
        )
    return Refusal(
        reason=RefusalReason.DATA_GONE,
        detail="; ".join(classified.problems),
        remedy="Bring the objects back from a backup, or go to an earlier state (`tierfold"
        " history`); nothing of this partition was changed.",
    )


def _refused_by_lineage(
    live: Sequence[Segment], lineage: tuple[LeaderEpoch, ...]
) -> Refusal | None:
    """What the catalog calls live was cut off by an unclean leader election."""
    strangers = [each.segment_id for each in live if not is_within_lineage(each, lineage)]
    if not strangers:
        return None
    return Refusal(
        reason=RefusalReason.LINEAGE_DIVERGED,
        detail=f"live segments outside the partition's leader epoch lineage: {strangers}",
        remedy="The log was truncated by an unclean leader election; remove the partition's row"
        " from the catalog, so that it is discovered anew.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chain:
    """New segments told apart by their real offsets."""

    taken: tuple[Segment, ...]
    covered: tuple[Segment, ...] = ()
    """They start below the live end once `taken` lives: orphans."""
    notes: tuple[str, ...] = ()


def _chained(ours: Sequence[Segment], next_offset: int) -> _Chain:
    """Take new segments as long as each starts right beyond the live end."""
    taken: list[Segment] = []
    covered: list[Segment] = []
    for place, segment in enumerate(ours):
        if segment.start_offset < next_offset:
            covered.append(segment)
            continue
        rivals = [each for each in ours[place:] if each.start_offset == segment.start_offset]
        if segment.start_offset > next_offset or len(rivals) > 1:
            note = _not_taken(ours[place:], rivals, next_offset)
            return _Chain(taken=tuple(taken), covered=tuple(covered), notes=(note,))
        taken.append(segment)
        next_offset = segment.next_offset
    return _Chain(taken=tuple(taken), covered=tuple(covered))


def _set_apart(apart: Sequence[Segment]) -> tuple[str, ...]:
    """First sight has only the newest checkpoint to go by: a person may know better."""
    if not apart:
        return ()
    names = ", ".join(
        f"segment {each.segment_id} (offsets {each.start_offset} to {each.end_offset})"
        for each in apart
    )
    return (f"set apart as outside the leader epoch lineage, not read: {names}",)


def _not_taken(rest: Sequence[Segment], rivals: Sequence[Segment], next_offset: int) -> str:
    ids = ", ".join(each.segment_id for each in rest)
    if rest[0].start_offset > next_offset:
        return f"not taken yet, for offset {next_offset} is missing below them: {ids}"
    both = " and ".join(each.segment_id for each in rivals)
    return f"{both} both start at offset {next_offset}: not taken until one is gone: {ids}"

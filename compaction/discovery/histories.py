"""Which history of a partition its unknown segments belong to, by their leader epochs.

After an unclean leader election the new leader writes other records at offsets that the tier
already holds. Only the leader epochs distinguish the two histories, so they are read from every
unknown segment that has a `.log` (SEMANTICS 1, "Histories first"): from its checkpoint or, without
one, from its batches. The highest epoch decides which lineage is the log's:

    a lineage that contradicts the catalog's row   -> the partition is refused
    a segment that does not fit the lineage        -> set apart: listed, never read

Rule: Kafka `RemoteLogManager.isRemoteSegmentWithinLeaderEpochs` and `LeaderEpochFileCache`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.model.leader_epochs import are_within_lineage, epochs_in
from tierfold.compaction.model.segments import LeaderEpoch, PartitionState, Segment

NO_EPOCH: Final = -1
"""The leader epoch of a batch that has none; it is ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochStretch:
    """Neighbouring batches of one leader epoch."""

    epoch: int
    first_offset: int
    """Base offset of the first batch."""
    last_offset: int
    """Base offset of the last batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedSegment:
    """An unknown segment and what its objects contain."""

    listed: ListedSegment
    segment: Segment | None = None
    """As the catalog would describe it, with its own range; None: incomplete or unreadable."""
    end_offset: int | None = None
    """The last offset in its `.log`; None: there is no `.log`, or it cannot be read."""
    checkpoint: tuple[LeaderEpoch, ...] = ()
    """All leader epochs up to its end, from its checkpoint; empty: it has none."""
    stretches: tuple[EpochStretch, ...] = ()
    """The leader epochs of its batches, read only if there is no checkpoint."""
    corruption: str = ""
    """Why its `.log` cannot be read to the end, a sentence; empty: it can, or there is none."""
    is_own_unfinished: bool = False
    """A write of tierfold's own was interrupted, so no row ever named it; its `.log` cannot be
    read. A broker's would be kept."""
    seen_offset: int = -1
    """In a corrupt `.log`, the last offset of a batch before the corruption; -1: none."""

    @property
    def is_readable(self) -> bool:
        """Whether its end and its leader epochs are known."""
        return self.end_offset is not None and not self.corruption

    @property
    def offsets(self) -> str:
        """Its offsets, for messages."""
        end = "unknown" if self.end_offset is None else self.end_offset
        return f"offsets {self.listed.start_offset} to {end}"

    def __str__(self) -> str:
        return f"segment {self.listed.segment_id} ({self.offsets})"


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The partition's lineage, and which readable unknown segments belong to it."""

    lineage: tuple[LeaderEpoch, ...]
    fitting: tuple[InspectedSegment, ...]
    """Segments within the lineage."""
    apart: tuple[InspectedSegment, ...]
    """Segments of another history."""
    violation: str = ""
    """How the lineage contradicts the row, a sentence; empty: it does not."""


def decided_history(
    inspected: Sequence[InspectedSegment], row: PartitionState | None
) -> History:
    """Decide which lineage is the log's, and check every readable unknown segment against it.

    `inspected` are all unknown segments with a `.log`; `row` is the catalog's, if there is one.
    """
    readable = [segment for segment in inspected if segment.is_readable]
    known = () if row is None else _known(row)
    decider = max(
        (segment for segment in readable if segment.checkpoint),
        key=lambda segment: (
            segment.checkpoint[-1].epoch,
            segment.end_offset,
            segment.listed.segment_id,
        ),
        default=None,
    )
    lineage, violation = known, ""
    if decider is not None and (not known or decider.checkpoint[-1].epoch >= known[-1].epoch):
        violation = _violation(decider, row)
        lineage = with_older_epochs(decider.checkpoint, known)
    lineage = _with_newer_batches(lineage, readable)
    if row is not None and not violation:
        violation = _truncation(inspected, row)
    fitting = tuple(segment for segment in readable if fits(segment, lineage))
    fitting_ids = {segment.listed.segment_id for segment in fitting}
    apart = tuple(s for s in readable if s.listed.segment_id not in fitting_ids)
    return History(lineage=lineage, fitting=fitting, apart=apart, violation=violation)


def fits(segment: InspectedSegment, lineage: Sequence[LeaderEpoch]) -> bool:
    """Whether a readable segment is part of the log that `lineage` describes."""
    if segment.end_offset is None:
        return False
    if segment.checkpoint:
        own = epochs_in(segment.checkpoint, segment.listed.start_offset, segment.end_offset)
        return are_within_lineage(own, segment.end_offset, lineage)
    return all(
        _is_of(lineage, stretch.epoch, offset)
        for stretch in segment.stretches
        if stretch.epoch != NO_EPOCH
        for offset in (stretch.first_offset, stretch.last_offset)
    )


def shared_until(segment: InspectedSegment, lineage: Sequence[LeaderEpoch]) -> int:
    """The last offset up to which a readable segment is part of the log that `lineage` describes.

    It is below the segment's start if the first offset is of another history. If a log was
    truncated inside the segment, the segment's head is still part of the log, and may be nowhere
    else.
    """
    start, end = segment.listed.start_offset, segment.end_offset
    if end is None:
        return start - 1
    from_batches = tuple(
        LeaderEpoch(epoch=stretch.epoch, start_offset=stretch.first_offset)
        for stretch in segment.stretches
        if stretch.epoch != NO_EPOCH
    )
    own = epochs_in(segment.checkpoint or from_batches, start, end)
    theirs = epochs_in(lineage, start, end)
    for offset in sorted({entry.start_offset for entry in (*own, *theirs)}):
        mine = epochs_in(own, offset, offset)
        if mine and mine != epochs_in(theirs, offset, offset):
            return offset - 1
    return end


def with_older_epochs(
    lineage: tuple[LeaderEpoch, ...], known: tuple[LeaderEpoch, ...]
) -> tuple[LeaderEpoch, ...]:
    """`lineage` with the older epochs that only the catalog's row has.

    A broker's checkpoint starts at its log start (Kafka `LeaderEpochFileCache`), and the tier still
    holds the log below. That is not another history.
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


def _with_newer_batches(
    lineage: tuple[LeaderEpoch, ...], readable: Sequence[InspectedSegment]
) -> tuple[LeaderEpoch, ...]:
    """`lineage` with newer epochs that only batches show, because the upload has no checkpoint.

    An epoch starts at its first batch found, or below. Records of older epochs from there on were
    truncated, as when a leader assigns its epoch (Kafka `LeaderEpochFileCache.assign`).
    """
    newest = lineage[-1].epoch if lineage else NO_EPOCH
    first_offsets: dict[int, int] = {}
    for stretch in (stretch for inspected in readable for stretch in inspected.stretches):
        if stretch.epoch > newest:
            first = first_offsets.get(stretch.epoch, stretch.first_offset)
            first_offsets[stretch.epoch] = min(first, stretch.first_offset)
    for epoch, start_offset in sorted(first_offsets.items()):
        kept = (entry for entry in lineage if entry.start_offset < start_offset)
        lineage = (*kept, LeaderEpoch(epoch=epoch, start_offset=start_offset))
    return lineage


def _known(row: PartitionState) -> tuple[LeaderEpoch, ...]:
    """The row's lineage up to the end of its live segments.

    Rows of catalog format 3 also list epochs of newer uploads that were never live and may have
    been truncated.
    """
    return tuple(entry for entry in row.lineage if entry.start_offset < row.next_offset)


def _violation(decider: InspectedSegment, row: PartitionState | None) -> str:
    """How the deciding checkpoint contradicts the row; empty: it does not."""
    if row is None or not _known(row):
        return ""
    known = {entry.epoch: entry.start_offset for entry in _known(row)}
    # With the log start, the head of either list may be missing, or its first entry may be higher.
    heads = {row.lineage[0].epoch, decider.checkpoint[0].epoch}
    for entry in decider.checkpoint:
        start_offset = known.get(entry.epoch)
        if start_offset is None:
            if entry.epoch > row.lineage[0].epoch and entry.start_offset < row.next_offset:
                return _truncated(decider, entry.epoch, entry.start_offset, row)
        elif entry.start_offset != start_offset and entry.epoch not in heads:
            return (
                f"in {decider} leader epoch {entry.epoch} starts at offset {entry.start_offset},"
                f" in the catalog at {start_offset}"
            )
    return ""


def _truncation(inspected: Sequence[InspectedSegment], row: PartitionState) -> str:
    """How an unknown segment shows that the log was truncated; empty: none does.

    An upload without a checkpoint shows it by its batches, one with a torn log by its checkpoint.
    """
    known = _known(row)
    newest = known[-1].epoch if known else NO_EPOCH
    for segment in inspected:
        epochs = [(entry.epoch, entry.start_offset) for entry in segment.checkpoint]
        epochs += [(stretch.epoch, stretch.first_offset) for stretch in segment.stretches]
        for epoch, start_offset in epochs:
            if epoch > newest and start_offset < row.next_offset:
                return _truncated(segment, epoch, start_offset, row)
    return ""


def _truncated(
    segment: InspectedSegment, epoch: int, start_offset: int, row: PartitionState
) -> str:
    return (
        f"{segment} is of leader epoch {epoch}, which starts at offset {start_offset}; the live"
        f" segments have records of an older leader there, up to offset {row.next_offset - 1}"
    )


def _is_of(lineage: Sequence[LeaderEpoch], epoch: int, offset: int) -> bool:
    """Whether the log that `lineage` describes has that offset from a leader of that epoch.

    Below the lineage's first entry, the log's head is gone, so any epoch up to the first fits.
    """
    place = bisect_right([entry.start_offset for entry in lineage], offset)
    if not place:
        return bool(lineage) and epoch <= lineage[0].epoch
    return lineage[place - 1].epoch == epoch

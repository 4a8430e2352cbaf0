"""Which history of a partition its unknown segments belong to, by their leader epochs.

After an unclean leader election the new leader writes other records at offsets that the tier holds
already. Only the leader epochs distinguish the two histories, so they are read of every unknown
segment that has a `.log`, wherever it begins (SEMANTICS 1, "Histories first"):

    the highest epoch decides which lineage is the log's; checkpoints list the epochs, and for an
        upload that has none its batches do
    a lineage that contradicts the catalog's row   -> the partition is refused
    a segment that does not fit the lineage         -> set apart: listed, never read

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
"""The leader epoch of a batch that carries none; it is ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochStretch:
    """Neighbouring batches that carry one leader epoch."""

    epoch: int
    first_offset: int
    """Base offset of the first of them."""
    last_offset: int
    """Base offset of the last of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedSegment:
    """An unknown segment and what its objects contain."""

    listed: ListedSegment
    segment: Segment | None = None
    """As the catalog would name it, with its own range; None: incomplete, or unreadable."""
    end_offset: int | None = None
    """The last offset that its `.log` holds; None: it has none, or it cannot be read."""
    checkpoint: tuple[LeaderEpoch, ...] = ()
    """All leader epochs up to its end, by its checkpoint; empty: it has none."""
    stretches: tuple[EpochStretch, ...] = ()
    """The leader epochs of its batches, read only where there is no checkpoint."""
    corruption: str = ""
    """Why its `.log` cannot be read to the end, a sentence; empty: it can, or there is none."""
    seen_offset: int = -1
    """In a corrupt `.log`, the last offset of a batch before the corruption; -1: there is none."""

    @property
    def is_readable(self) -> bool:
        """Whether its end and its leader epochs are known."""
        return self.end_offset is not None and not self.corruption

    @property
    def offsets(self) -> str:
        """The offsets it holds, for messages."""
        end = "unknown" if self.end_offset is None else self.end_offset
        return f"offsets {self.listed.start_offset} to {end}"

    def __str__(self) -> str:
        return f"segment {self.listed.segment_id} ({self.offsets})"


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The partition's lineage, and which unknown segments belong to it."""

    lineage: tuple[LeaderEpoch, ...]
    fitting: tuple[InspectedSegment, ...]
    """Readable and within the lineage."""
    apart: tuple[InspectedSegment, ...]
    """Readable and of another history."""
    violation: str = ""
    """How the lineage contradicts the row, a sentence; empty: it does not."""


def decided_history(
    inspected: Sequence[InspectedSegment], row: PartitionState | None
) -> History:
    """Decide which lineage is the log's, and check every readable unknown segment against it.

    Args:
        inspected: all unknown segments that have a `.log`.
        row: the catalog's row; None: there is none yet.
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
    return History(
        lineage=lineage,
        fitting=fitting,
        apart=tuple(
            segment for segment in readable if segment.listed.segment_id not in fitting_ids
        ),
        violation=violation,
    )


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

    Below its start if its first offset is of another history. Where a log was cut off inside a
    segment, the segment's head is still part of it, and may be nowhere else.
    """
    start, end = segment.listed.start_offset, segment.end_offset
    if end is None:
        return start - 1
    said = tuple(
        LeaderEpoch(epoch=stretch.epoch, start_offset=stretch.first_offset)
        for stretch in segment.stretches
        if stretch.epoch != NO_EPOCH
    )
    own = epochs_in(segment.checkpoint or said, start, end)
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

    A broker cuts its checkpoint off where its log starts (Kafka `LeaderEpochFileCache`), and the
    tier still holds what lies below. That is not another history.
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
    """`lineage` with the newer epochs that only batches show: their uploads have no checkpoint.

    An epoch begins at or below its first batch found. What older epochs wrote from there on was cut
    off, as where a leader assigns its epoch (Kafka `LeaderEpochFileCache.assign`).
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

    Catalogs of format 3 also hold epochs of newer uploads that were never taken; those may be cut
    off.
    """
    return tuple(entry for entry in row.lineage if entry.start_offset < row.next_offset)


def _violation(decider: InspectedSegment, row: PartitionState | None) -> str:
    """How the deciding checkpoint contradicts the row; empty: it does not."""
    if row is None or not _known(row):
        return ""
    known = {entry.epoch: entry.start_offset for entry in _known(row)}
    # The head of either list may have been cut off, or its first entry moved up, with a log start.
    heads = {row.lineage[0].epoch, decider.checkpoint[0].epoch}
    for entry in decider.checkpoint:
        start_offset = known.get(entry.epoch)
        if start_offset is None:
            if entry.epoch > row.lineage[0].epoch and entry.start_offset < row.next_offset:
                return _truncated(decider, entry.epoch, entry.start_offset, row)
        elif entry.start_offset != start_offset and entry.epoch not in heads:
            return (
                f"{decider} says that leader epoch {entry.epoch} starts at offset"
                f" {entry.start_offset}, the catalog says at {start_offset}"
            )
    return ""


def _truncation(inspected: Sequence[InspectedSegment], row: PartitionState) -> str:
    """How any unknown segment shows a truncation; empty: none does.

    An upload without its checkpoint shows it by its batches, one with a torn log by its checkpoint.
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
        f"{segment} was written by a leader of epoch {epoch}, whose log has offset {start_offset};"
        " the live segments have that offset from another leader,"
        f" and go on to {row.next_offset - 1}"
    )


def _is_of(lineage: Sequence[LeaderEpoch], epoch: int, offset: int) -> bool:
    """Whether the log that `lineage` describes has that offset from a leader of that epoch.

    Below the lineage's first entry, which was cut off with the log's head, only newer epochs
    contradict it.
    """
    place = bisect_right([entry.start_offset for entry in lineage], offset)
    if not place:
        return bool(lineage) and epoch <= lineage[0].epoch
    return lineage[place - 1].epoch == epoch

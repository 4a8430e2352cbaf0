"""Which history of a partition its unknown segments belong to, by their leader epochs.

After an unclean leader election the new leader writes other records at offsets that the tier holds
already. Nothing but the leader epochs tells the two histories apart, so the epochs of every unknown
segment that has a `.log` are read, wherever it begins (SEMANTICS 1, "Histories first"):

    the highest epoch decides which lineage is the log's
    a lineage that contradicts the catalog's row   -> the partition is refused
    a segment that does not fit the lineage         -> set apart: listed, never read

Rule: Kafka `RemoteLogManager.isRemoteSegmentWithinLeaderEpochs` and `LeaderEpochFileCache`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from compaction.lineage import are_within_lineage, epochs_in
from compaction.listing import ListedSegment
from compaction.segments import LeaderEpoch, PartitionState, Segment

NO_EPOCH: Final = -1
"""The leader epoch of a batch that carries none; it says nothing."""


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
    """An unknown segment and what its objects say."""

    listed: ListedSegment
    segment: Segment | None = None
    """As the catalog would name it, with its own range; None: incomplete, or unreadable."""
    end_offset: int | None = None
    """The last offset that its `.log` holds; None: it has none, or it cannot be read."""
    checkpoint: tuple[LeaderEpoch, ...] = ()
    """All leader epochs up to its end, by its checkpoint; empty: it has none."""
    stretches: tuple[EpochStretch, ...] = ()
    """The leader epochs of its batches, read only where there is no checkpoint."""
    problem: str = ""
    """Why its `.log` cannot be read to the end, a sentence; empty: it can, or there is none."""

    @property
    def is_readable(self) -> bool:
        """Its end and its leader epochs are known."""
        return self.end_offset is not None and not self.problem

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
    """Readable and of another history; what only a newer leader's checkpoint can tell is in
    neither list."""
    contradiction: str = ""
    """How the lineage contradicts the row, a sentence; empty: it does not."""


def decided_history(
    inspected: Sequence[InspectedSegment], row: PartitionState | None
) -> History:
    """Decide which lineage is the log's, and hold every readable unknown segment against it.

    Args:
        inspected: all unknown segments that have a `.log`.
        row: the catalog's row; None on first sight.
    """
    readable = [each for each in inspected if each.is_readable]
    known = () if row is None else row.lineage
    decider = max(
        (each for each in readable if each.checkpoint),
        key=lambda each: (each.checkpoint[-1].epoch, each.end_offset, each.listed.segment_id),
        default=None,
    )
    lineage, contradiction = known, ""
    if decider is not None and (not known or decider.checkpoint[-1].epoch >= known[-1].epoch):
        contradiction = _contradiction(decider, row)
        lineage = with_older_epochs(decider.checkpoint, known)
    if row is not None and not contradiction:
        contradiction = _contradicting_batches(readable, row)
    fitting = tuple(each for each in readable if fits(each, lineage))
    return History(
        lineage=lineage,
        fitting=fitting,
        apart=tuple(
            each for each in readable if each not in fitting and not _is_ahead(each, lineage)
        ),
        contradiction=contradiction,
    )


def fits(each: InspectedSegment, lineage: Sequence[LeaderEpoch]) -> bool:
    """Whether a readable segment is part of the log that `lineage` describes."""
    if each.end_offset is None:
        return False
    if each.checkpoint:
        own = epochs_in(each.checkpoint, each.listed.start_offset, each.end_offset)
        return are_within_lineage(own, each.end_offset, lineage)
    return _stretches_fit(each.stretches, lineage)


def _stretches_fit(stretches: Sequence[EpochStretch], lineage: Sequence[LeaderEpoch]) -> bool:
    return all(
        _epoch_at(lineage, offset) == stretch.epoch
        for stretch in stretches
        if stretch.epoch != NO_EPOCH
        for offset in (stretch.first_offset, stretch.last_offset)
    )


def _is_ahead(each: InspectedSegment, lineage: Sequence[LeaderEpoch]) -> bool:
    """A leader newer than the lineage wrote it, and the checkpoint that would tell is missing."""
    newest = lineage[-1].epoch if lineage else NO_EPOCH
    known = [stretch for stretch in each.stretches if stretch.epoch <= newest]
    return len(known) < len(each.stretches) and _stretches_fit(known, lineage)


def with_older_epochs(
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


def _contradiction(decider: InspectedSegment, row: PartitionState | None) -> str:
    """Where the deciding checkpoint and the row cannot both be true of one log."""
    if row is None or not row.lineage:
        return ""
    known = {entry.epoch: entry.start_offset for entry in row.lineage}
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


def _contradicting_batches(readable: Sequence[InspectedSegment], row: PartitionState) -> str:
    """An upload without its checkpoint tells of a truncation, too: by its batches."""
    newest = row.lineage[-1].epoch if row.lineage else NO_EPOCH
    for each in readable:
        for stretch in each.stretches:
            if stretch.epoch > newest and stretch.first_offset < row.next_offset:
                return _truncated(each, stretch.epoch, stretch.first_offset, row)
    return ""


def _truncated(each: InspectedSegment, epoch: int, start_offset: int, row: PartitionState) -> str:
    return (
        f"{each} was written by a leader of epoch {epoch}, whose log has offset {start_offset}; the"
        f" live segments have that offset from an older leader, and go on to {row.next_offset - 1}"
    )


def _epoch_at(lineage: Sequence[LeaderEpoch], offset: int) -> int:
    """The epoch that an offset was written under; `NO_EPOCH` below the first."""
    place = bisect_right([entry.start_offset for entry in lineage], offset)
    return lineage[place - 1].epoch if place else NO_EPOCH

"""Which history of a partition its unknown segments belong to, by their leader epochs.

After an unclean leader election the new leader writes other records at offsets that the tier
already holds. Only the leader epochs distinguish the two histories, so they are read from every
unknown segment that has a `.log` (SEMANTICS 1, "Histories first"): from its checkpoint or, without
one, from its batches. The highest epoch decides which lineage is the log's; older checkpoints that
it continues extend it, since each begins at the log start of its time:

    a lineage that contradicts the catalog's row   -> the partition is refused
    a segment that contradicts the lineage         -> set apart: listed, never read

They contradict each other if they give an offset that both cover to different leaders: that proves
that a log was truncated. What does not fit and contradicts nothing is kept, as unproven.

Rule: Kafka `RemoteLogManager.isRemoteSegmentWithinLeaderEpochs` and `LeaderEpochFileCache`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from operator import not_
from typing import Final

from tierfold.compaction.discovery.checkpoint_chains import joined
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.discovery.ownership import OF_PARTITION, Ownership, Whose
from tierfold.compaction.model.leader_epochs import (
    CoveredEpochs,
    Disagreement,
    are_within_lineage,
    disagreement,
    epochs_in,
)
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
    ownership: Ownership = OF_PARTITION
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
    is_own: bool = False
    """tierfold wrote it, by its id."""
    is_own_unfinished: bool = False
    """A write of tierfold's own was interrupted, so no row ever named it; its `.log` cannot be
    read. A broker's would be kept."""
    is_end_exact: bool = False
    """Whether `segment` ends where its objects say, not just at its last batch."""
    index_corruptions: tuple[str, ...] = ()
    """What is wrong with its offset and time index, a phrase each; its log tells the same."""
    seen_offset: int = -1
    """In a corrupt `.log`, the last offset of a batch before the corruption; -1: none."""

    @property
    def is_doubtful(self) -> bool:
        """Whether it may be another cluster's; then nothing else is known of it."""
        return self.ownership.whose is Whose.DOUBTFUL

    @property
    def obstacle(self) -> str:
        """Why it must not or cannot be read to the end, a sentence; empty: it can."""
        return self.ownership.why or self.corruption

    @property
    def is_readable(self) -> bool:
        """Whether its end and its leader epochs are known."""
        return self.end_offset is not None and not self.corruption

    @property
    def is_without_end(self) -> bool:
        """Whether it has no batch, and only the next segment's start shows where it ends."""
        return self.end_offset is not None and self.end_offset < self.listed.start_offset

    @property
    def reach(self) -> int | None:
        """The last offset that it is known to cover: at least its start; None: unknown."""
        end = self.end_offset
        return None if end is None else max(end, self.listed.start_offset)

    @property
    def offsets(self) -> str:
        """Its offsets, for messages."""
        if self.is_without_end:
            return f"0 bytes, from offset {self.listed.start_offset} on"
        end = "unknown" if self.end_offset is None else self.end_offset
        return f"offsets {self.listed.start_offset} to {end}"

    def __str__(self) -> str:
        return f"segment {self.listed.segment_id} ({self.offsets})"


def doubtful_ids(inspected: Sequence[InspectedSegment]) -> tuple[str, ...]:
    """Ids of the segments that may be another cluster's."""
    return tuple(segment.listed.segment_id for segment in inspected if segment.is_doubtful)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The partition's lineage, and which readable unknown segments belong to it."""

    lineage: tuple[LeaderEpoch, ...]
    fitting: tuple[InspectedSegment, ...]
    """Segments within the lineage."""
    apart: tuple[InspectedSegment, ...]
    """Segments of another history, each proven by a disagreement."""
    unproven: tuple[InspectedSegment, ...] = ()
    """Segments that neither fit the lineage nor contradict it at an offset that both cover."""
    violation: str = ""
    """How the lineage differs from the row, a sentence; empty: it does not."""
    is_violation_proven: bool = True
    """Whether the two contradict each other at an offset that both cover."""
    covered_end: int = -1
    """The last offset that the lineage covers."""

    def against(self, segment: InspectedSegment) -> Disagreement | None:
        """The first offset at which the lineage contradicts a readable segment; None: nowhere."""
        if not self.lineage:
            return None
        return _against(segment, self._covered)

    def against_live(self, segment: Segment) -> Disagreement | None:
        """The first offset at which the lineage contradicts a live segment; None: nowhere."""
        if not self.lineage or not segment.leader_epochs:
            return None
        own = CoveredEpochs(epochs=segment.leader_epochs, end_offset=segment.end_offset)
        return disagreement(own, self._covered)

    @property
    def _covered(self) -> CoveredEpochs:
        return CoveredEpochs(epochs=self.lineage, end_offset=self.covered_end)


def decided_history(
    inspected: Sequence[InspectedSegment], row: PartitionState | None
) -> History:
    """Decide which lineage is the log's, and check every readable unknown segment against it.

    `inspected` are all unknown segments with a `.log`; `row` is the catalog's, if there is one.
    """
    readable = [segment for segment in inspected if segment.is_readable]
    known = _known(row)
    decider = _newest(readable)
    base, violation = known, None
    if decider is not None and (
        known is None or decider.checkpoint[-1].epoch >= known.epochs[-1].epoch
    ):
        violation = _violation(decider, row)
        base = _covered_by(decider)
    checkpoints = [_covered_by(segment) for segment in readable if segment.checkpoint]
    lineage = _with_newer_batches(joined(base, known, checkpoints), readable)
    if row is not None and violation is None:
        violation = _truncation(inspected, row)
    covered_end = _covered_end(row, decider, readable)
    decided = History(
        lineage=lineage,
        fitting=(),
        apart=(),
        violation="" if violation is None else violation.sentence,
        is_violation_proven=violation is None or _is_proven(violation, row),
        covered_end=covered_end,
    )
    fitting = [segment for segment in readable if fits(segment, decided.lineage)]
    fitting_ids = {segment.listed.segment_id for segment in fitting}
    others = [s for s in readable if s.listed.segment_id not in fitting_ids]
    is_apart = [decided.against(segment) is not None for segment in others]
    return replace(
        decided,
        fitting=tuple(fitting),
        apart=tuple(compress(others, is_apart)),
        unproven=tuple(compress(others, map(not_, is_apart))),
    )


def _newest(readable: Sequence[InspectedSegment]) -> InspectedSegment | None:
    """The segment whose checkpoint has the highest epoch; None: none has a checkpoint."""
    return max(
        (segment for segment in readable if segment.checkpoint),
        key=lambda segment: (
            segment.checkpoint[-1].epoch,
            segment.end_offset,
            segment.listed.segment_id,
        ),
        default=None,
    )


def _covered_end(
    row: PartitionState | None,
    decider: InspectedSegment | None,
    readable: Sequence[InspectedSegment],
) -> int:
    """The last offset up to which the row, the decider or batches say whose it is."""
    ends = [stretch.last_offset for segment in readable for stretch in segment.stretches]
    ends += [] if row is None else [row.next_offset - 1]
    if decider is not None:
        ends.append(_covered_by(decider).end_offset)
    return max(ends, default=-1)


def _covered_by(segment: InspectedSegment) -> CoveredEpochs:
    """What a segment's checkpoint covers; there must be one.

    A checkpoint has no epoch beyond its segment's end (`RemoteLogManager` truncates it there).
    """
    end = -1 if segment.end_offset is None else segment.end_offset
    last = segment.checkpoint[-1].start_offset
    return CoveredEpochs(epochs=segment.checkpoint, end_offset=max(end, last))


def _against(segment: InspectedSegment, lineage: CoveredEpochs) -> Disagreement | None:
    if segment.checkpoint:
        return disagreement(_covered_by(segment), lineage)
    for stretch in segment.stretches:
        for offset in (stretch.first_offset, stretch.last_offset):
            own = (LeaderEpoch(epoch=stretch.epoch, start_offset=offset),)
            found = disagreement(CoveredEpochs(epochs=own, end_offset=offset), lineage)
            if found is not None and stretch.epoch != NO_EPOCH:
                return found
    return None


def fits(segment: InspectedSegment, lineage: Sequence[LeaderEpoch]) -> bool:
    """Whether a readable segment is part of the log that `lineage` describes."""
    if segment.reach is None:
        return False
    if segment.checkpoint:
        own = epochs_in(segment.checkpoint, segment.listed.start_offset, segment.reach)
        return are_within_lineage(own, segment.reach, lineage)
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


def _known(row: PartitionState | None) -> CoveredEpochs | None:
    """The row's lineage up to the end of its live segments; None: it has none.

    Rows of catalog format 3 also list epochs of newer uploads that were never live and may have
    been truncated.
    """
    if row is None:
        return None
    epochs = tuple(entry for entry in row.lineage if entry.start_offset < row.next_offset)
    return CoveredEpochs(epochs=epochs, end_offset=row.next_offset - 1) if epochs else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Violation:
    """How a segment's leader epochs differ from the row's."""

    segment: InspectedSegment
    sentence: str


def _violation(decider: InspectedSegment, row: PartitionState | None) -> _Violation | None:
    """How the deciding checkpoint differs from the row; None: it does not."""
    covered = _known(row)
    if row is None or covered is None:
        return None
    known = {entry.epoch: entry.start_offset for entry in covered.epochs}
    # With the log start, the head of either list may be missing, or its first entry may be higher.
    heads = {row.lineage[0].epoch, decider.checkpoint[0].epoch}
    for entry in decider.checkpoint:
        start_offset = known.get(entry.epoch)
        if start_offset is None:
            if entry.epoch > row.lineage[0].epoch and entry.start_offset < row.next_offset:
                return _truncated(decider, entry.epoch, entry.start_offset, row)
        elif entry.start_offset != start_offset and entry.epoch not in heads:
            sentence = (
                f"in {decider} leader epoch {entry.epoch} starts at offset {entry.start_offset},"
                f" in the catalog at {start_offset}"
            )
            return _Violation(segment=decider, sentence=sentence)
    return None


def _truncation(
    inspected: Sequence[InspectedSegment], row: PartitionState
) -> _Violation | None:
    """How an unknown segment shows that the log was truncated; None: none does.

    An upload without a checkpoint shows it by its batches, one with a torn log by its checkpoint.
    """
    known = _known(row)
    newest = NO_EPOCH if known is None else known.epochs[-1].epoch
    for segment in inspected:
        epochs = [(entry.epoch, entry.start_offset) for entry in segment.checkpoint]
        epochs += [(stretch.epoch, stretch.first_offset) for stretch in segment.stretches]
        for epoch, start_offset in epochs:
            if epoch > newest and start_offset < row.next_offset:
                return _truncated(segment, epoch, start_offset, row)
    return None


def _truncated(
    segment: InspectedSegment, epoch: int, start_offset: int, row: PartitionState
) -> _Violation:
    sentence = (
        f"{segment} is of leader epoch {epoch}, which starts at offset {start_offset}; the live"
        f" segments have records of an older leader there, up to offset {row.next_offset - 1}"
    )
    return _Violation(segment=segment, sentence=sentence)


def _is_proven(violation: _Violation, row: PartitionState | None) -> bool:
    """Whether the segment and the row give a common offset to different leaders."""
    known = _known(row)
    return known is not None and _against(violation.segment, known) is not None


def _is_of(lineage: Sequence[LeaderEpoch], epoch: int, offset: int) -> bool:
    """Whether the log that `lineage` describes has that offset from a leader of that epoch.

    Below the lineage's first entry, the log's head is gone, so any epoch up to the first fits.
    """
    place = bisect_right([entry.start_offset for entry in lineage], offset)
    if not place:
        return bool(lineage) and epoch <= lineage[0].epoch
    return lineage[place - 1].epoch == epoch

"""Candidates: segments that the catalog's row does not name, which may be part of the log.

The listing names them, and `storage.segments.segment_inspection` reads their objects. Whatever
decides about them (`histories`, `draft`, `drafted_view`, `notes`) sees this type alone, so another
source, such as brokers' metadata, changes nothing there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.discovery.ownership import OF_PARTITION, Ownership
from tierfold.compaction.model.leader_epochs import (
    CoveredEpochs,
    Disagreement,
    are_within_lineage,
    disagreement,
    epochs_in,
)
from tierfold.compaction.model.segment_ids import Maker
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


class EndFrom(StrEnum):
    """What says where a segment ends; the first that does counts (`discovery.holes`)."""

    BROKERS = "brokers' metadata"
    MANIFEST = "its manifest"
    LOG_DIRECTORY = "the log directory"
    """It was uploaded by this run."""
    LAST_BATCH = "its last batch"
    """Kafka's cleaner may have removed records behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A segment that no row names, and what is known of it."""

    listed: ListedSegment
    """Its objects in the tier."""
    ownership: Ownership = OF_PARTITION
    segment: Segment | None = None
    """As the catalog would describe it, with its own range; None: incomplete or unreadable."""
    end_offset: int | None = None
    """The last offset in its `.log`; None: there is no `.log`, or it cannot be read."""
    end_from: EndFrom = EndFrom.LAST_BATCH
    """What says where `segment` ends."""
    checkpoint: tuple[LeaderEpoch, ...] = ()
    """All leader epochs up to its end, from its checkpoint; empty: it has none."""
    stretches: tuple[EpochStretch, ...] = ()
    """The leader epochs of its batches, read only if there is no checkpoint."""
    corruption: str = ""
    """Why its `.log` cannot be read to the end, a clause; empty: it can, or there is none."""
    remedy: str = ""
    """What to do about the corruption, in sentences; empty: nothing is known."""
    is_unopened: bool = False
    """`corruption` says why an object could not be opened; its bytes may be sound."""
    maker: Maker = Maker.BROKER
    """Who wrote it, by its id."""
    is_own_unfinished: bool = False
    """A write of tierfold's own was interrupted, so no row ever named it; its `.log` cannot be
    read. A broker's would be kept."""
    index_corruptions: tuple[str, ...] = ()
    """What is wrong with its offset and time index, a phrase each; its log tells the same."""
    seen_offset: int = -1
    """In a corrupt `.log`, the last offset of a batch before the corruption; -1: none."""

    @property
    def segment_id(self) -> str:
        """Its id."""
        return self.listed.segment_id

    @property
    def start_offset(self) -> int:
        """Its first offset."""
        return self.listed.start_offset

    @property
    def is_own(self) -> bool:
        """Whether tierfold wrote it, under whichever catalog."""
        return self.maker is not Maker.BROKER

    @property
    def is_unfinished_upload(self) -> bool:
        """Whether an upload of a log directory was interrupted, which has the records still."""
        return self.is_own_unfinished and not self.is_own

    @property
    def is_doubtful(self) -> bool:
        """Whether it is or may be another cluster's; then nothing else is known of it."""
        return self.ownership.is_doubtful

    @property
    def obstacle(self) -> str:
        """Why it must not or cannot be read to the end, and what to do; empty: it can."""
        if self.ownership.why or not self.remedy:
            return self.ownership.why or self.corruption
        return f"{self.corruption}. {self.remedy}"

    @property
    def is_readable(self) -> bool:
        """Whether its end and its leader epochs are known."""
        return self.end_offset is not None and not self.corruption

    @property
    def is_end_exact(self) -> bool:
        """Whether `segment` ends where it says, without a hole behind it."""
        return self.end_from is not EndFrom.LAST_BATCH

    @property
    def is_without_end(self) -> bool:
        """Whether it has no batch, and only the next segment's start shows where it ends."""
        return self.end_offset is not None and self.end_offset < self.start_offset

    @property
    def reach(self) -> int | None:
        """The last offset that it is known to cover: at least its start; None: unknown."""
        return None if self.end_offset is None else max(self.end_offset, self.start_offset)

    @property
    def covered(self) -> CoveredEpochs:
        """What its checkpoint covers; there must be one.

        A checkpoint has no epoch beyond its segment's end (`RemoteLogManager` truncates it there).
        """
        end = -1 if self.end_offset is None else self.end_offset
        last = self.checkpoint[-1].start_offset
        return CoveredEpochs(epochs=self.checkpoint, end_offset=max(end, last))

    def reaches_beyond(self, offset: int) -> bool:
        """Whether it may have records beyond that offset."""
        known = self.seen_offset if self.end_offset is None else self.end_offset
        return max(known, self.start_offset) > offset

    def against(self, lineage: CoveredEpochs) -> Disagreement | None:
        """The first offset at which that lineage contradicts it; None: nowhere."""
        if self.checkpoint:
            return disagreement(self.covered, lineage)
        for stretch in self.stretches:
            for offset in (stretch.first_offset, stretch.last_offset):
                own = (LeaderEpoch(epoch=stretch.epoch, start_offset=offset),)
                found = disagreement(CoveredEpochs(epochs=own, end_offset=offset), lineage)
                if found is not None and stretch.epoch != NO_EPOCH:
                    return found
        return None

    def fits(self, lineage: Sequence[LeaderEpoch]) -> bool:
        """Whether it is readable, and part of the log that `lineage` describes."""
        if self.reach is None:
            return False
        if self.checkpoint:
            own = epochs_in(self.checkpoint, self.start_offset, self.reach)
            return are_within_lineage(own, self.reach, lineage)
        return all(
            _is_of(lineage, stretch.epoch, offset)
            for stretch in self.stretches
            if stretch.epoch != NO_EPOCH
            for offset in (stretch.first_offset, stretch.last_offset)
        )

    def shared_until(self, lineage: Sequence[LeaderEpoch]) -> int:
        """The last offset up to which it is part of the log that `lineage` describes.

        It is below the start if the first offset is of another history. If a log was truncated
        inside the segment, the segment's head is still part of the log, and may be nowhere else.
        """
        start, end = self.start_offset, self.end_offset
        if end is None:
            return start - 1
        from_batches = tuple(
            LeaderEpoch(epoch=stretch.epoch, start_offset=stretch.first_offset)
            for stretch in self.stretches
            if stretch.epoch != NO_EPOCH
        )
        own = epochs_in(self.checkpoint or from_batches, start, end)
        theirs = epochs_in(lineage, start, end)
        for offset in sorted({entry.start_offset for entry in (*own, *theirs)}):
            mine = epochs_in(own, offset, offset)
            if mine and mine != epochs_in(theirs, offset, offset):
                return offset - 1
        return end

    @property
    def offsets(self) -> str:
        """Its offsets, for messages."""
        if self.is_without_end:
            return f"0 bytes, from offset {self.start_offset} on"
        end = "unknown" if self.end_offset is None else self.end_offset
        return f"offsets {self.start_offset} to {end}"

    def __str__(self) -> str:
        return f"segment {self.segment_id} ({self.offsets})"


def _is_of(lineage: Sequence[LeaderEpoch], epoch: int, offset: int) -> bool:
    """Whether the log that `lineage` describes has that offset from a leader of that epoch.

    Below the lineage's first entry, the log's head is gone, so any epoch up to the first fits.
    """
    place = bisect_right([entry.start_offset for entry in lineage], offset)
    if not place:
        return bool(lineage) and epoch <= lineage[0].epoch
    return lineage[place - 1].epoch == epoch


def is_orphan(candidate: Candidate, row: PartitionState | None) -> bool:
    """Whether a candidate holds no record of its own, and is not another catalog's."""
    return candidate.maker is not Maker.ANOTHER_CATALOG and is_redundant(candidate, row)


def is_redundant(candidate: Candidate, row: PartitionState | None) -> bool:
    """Whether a candidate holds no record of its own (SEMANTICS 1, "Orphans").

    It has no `.log`, or the row's segments have all its offsets, or had them before they expired,
    and it has none of a hole between them. What tierfold itself began to write holds only records
    of its sources. Of what may be another cluster's nothing is known.
    """
    if row is None or candidate.is_doubtful:
        return False
    if not candidate.listed.has_log or candidate.is_own_unfinished:
        return True
    return (
        candidate.is_readable
        and candidate.reach is not None
        and lowest_named(row) <= candidate.start_offset
        and candidate.reach < row.next_offset
        and candidate.fits(row.lineage)
        and not is_in_hole(candidate, row)
    )


def is_foreign(candidate: Candidate, row: PartitionState | None) -> bool:
    """Whether a candidate would be an orphan if it were not another catalog's."""
    return is_redundant(candidate, row) and not is_orphan(candidate, row)


def is_in_hole(candidate: Candidate, row: PartitionState) -> bool:
    """Whether an upload has offsets that were taken for a hole: a segment was missing after all."""
    start, end = candidate.start_offset, candidate.end_offset
    if end is None or candidate.is_own:
        return False
    return any(max(start, hole.start_offset) <= min(end, hole.end_offset) for hole in row.holes)


def lowest_named(row: PartitionState) -> int:
    """The first offset of the row; below it, an upload may hold records that no other segment has.

    If a tier is copied with its head last, its row starts in the middle of the log.
    """
    expired = (entry.segment.start_offset for entry in row.retired)
    return min((row.log_start_offset, *expired))

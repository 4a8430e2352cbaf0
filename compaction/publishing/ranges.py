"""Which offsets look-ups find, as ranges of a first and a last offset, both inclusive.

Rule: Kafka `RemoteLogMetadataCache.remoteLogSegmentMetadata`: the segment with the highest start at
or below the offset in its leader epoch serves it, if it reaches that far.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from tierfold.compaction.brokers.events import SegmentAdded
from tierfold.compaction.brokers.partition_fold import PartitionFold
from tierfold.compaction.model.leader_epochs import epoch_ranges
from tierfold.compaction.model.segments import LeaderEpoch
from tierfold.compaction.model.units import OFFSET_MAX

T = TypeVar("T")


class OffsetRange(NamedTuple):
    """Offsets from the first to the last, both inclusive, as brokers write ranges."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first} to {self.last}"

    def overlaps(self, other: OffsetRange) -> bool:
        """Whether the two share an offset."""
        return self.first <= other.last and other.first <= self.last


def range_of(added: SegmentAdded) -> OffsetRange:
    """The offsets of a segment."""
    return OffsetRange(added.start_offset, added.end_offset)


def joined(ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """The same offsets in as few ranges as possible, ascending."""
    found: list[OffsetRange] = []
    for first, last in sorted(ranges):
        if last < first:
            continue
        if found and first <= found[-1].last + 1:
            found[-1] = OffsetRange(found[-1].first, max(last, found[-1].last))
        else:
            found.append(OffsetRange(first, last))
    return tuple(found)


def overlapping(
    members: Iterable[tuple[OffsetRange, T]],
) -> list[list[tuple[OffsetRange, T]]]:
    """Members by their ranges, ascending, together where these share offsets, transitively."""
    runs: list[list[tuple[OffsetRange, T]]] = []
    reached = -1
    for bounds, member in sorted(members, key=lambda found: found[0]):
        if runs and bounds.first <= reached:
            runs[-1].append((bounds, member))
        else:
            runs.append([(bounds, member)])
        reached = max(reached, bounds.last)
    return runs


def without(
    ranges: Sequence[OffsetRange], taken: Sequence[OffsetRange]
) -> tuple[OffsetRange, ...]:
    """The offsets of `ranges` that `taken` lacks; both are as `joined` makes them."""
    left: list[OffsetRange] = []
    for first, last in ranges:
        start = first
        for taken_first, taken_last in taken:
            if taken_first > last:
                break
            if taken_first > start:
                left.append(OffsetRange(start, taken_first - 1))
            start = max(start, taken_last + 1)
        if start <= last:
            left.append(OffsetRange(start, last))
    return tuple(left)


def ranges_found(
    fold: PartitionFold, lineage: Sequence[LeaderEpoch], bounds: OffsetRange
) -> tuple[OffsetRange, ...]:
    """The offsets within `bounds` that look-ups find.

    `lineage`: in offset order; it says in which leader epoch a reader looks for an offset.
    """
    return joined(
        OffsetRange(max(found.first, part.first), min(found.last, part.last))
        for epoch, part in _parts(lineage, bounds)
        for found in _found_in_epoch(fold, epoch, part)
    )


def _parts(
    lineage: Sequence[LeaderEpoch], bounds: OffsetRange
) -> Iterator[tuple[int, OffsetRange]]:
    """The leader epochs of `bounds`, each with its part of them."""
    for entry, last in epoch_ranges(lineage, OFFSET_MAX):
        part = OffsetRange(max(entry.start_offset, bounds.first), min(last, bounds.last))
        if part.first <= part.last:
            yield entry.epoch, part


def _found_in_epoch(
    fold: PartitionFold, epoch: int, part: OffsetRange
) -> Iterator[OffsetRange]:
    references = fold.references_in(epoch, part.first, part.last)
    for place, (start, segment_id) in enumerate(references):
        added = fold.segments[segment_id].added
        last = next(last for entry, last in added.ranges() if entry.epoch == epoch)
        if place + 1 < len(references):
            # Behind the start of the next one a look-up goes there, wherever that one ends.
            last = min(last, references[place + 1].start_offset - 1)
        yield OffsetRange(start, last)

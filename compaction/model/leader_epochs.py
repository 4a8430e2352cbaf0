"""Which leader epochs a segment holds, and whether it belongs to the partition's log.

A segment of an old leader that is not part of the newer leader's log is outside the lineage, and is
never read. The rules are those of Kafka's `RemoteLogManager`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tierfold.compaction.model.segments import LeaderEpoch, Segment
from tierfold.compaction.model.units import OFFSET_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredEpochs:
    """Leader epochs, and the offsets that they cover: from the first one's start to `end_offset`.

    A broker's checkpoint begins at its log start at the time (`LeaderEpochFileCache
    .truncateFromStart`), so it says nothing of the offsets below.
    """

    epochs: tuple[LeaderEpoch, ...]
    """In offset order, at least one."""
    end_offset: int
    """The last offset that they cover, inclusive."""

    @property
    def start_offset(self) -> int:
        """The first offset that they cover."""
        return self.epochs[0].start_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """An offset that two lists of leader epochs cover and give to different leaders."""

    offset: int
    epoch: int
    other_epoch: int


def disagreement(one: CoveredEpochs, other: CoveredEpochs) -> Disagreement | None:
    """The first offset at which the two contradict each other; None: they do not.

    It proves that the two are of different logs, because a log has one leader at an offset. Lists
    without a common offset prove nothing.
    """
    start = max(one.start_offset, other.start_offset)
    end = min(one.end_offset, other.end_offset)
    changes = {entry.start_offset for entry in (*one.epochs, *other.epochs)}
    offsets = sorted(offset for offset in {start, *changes} if start <= offset <= end)
    found = zip(offsets, _epochs_at(one, offsets), _epochs_at(other, offsets), strict=True)
    return next(
        (
            Disagreement(offset=offset, epoch=epoch, other_epoch=other_epoch)
            for offset, epoch, other_epoch in found
            if epoch != other_epoch
        ),
        None,
    )


def _epochs_at(covered: CoveredEpochs, offsets: Iterable[int]) -> list[int]:
    """The leader epoch at each of these offsets, which are covered."""
    starts = [entry.start_offset for entry in covered.epochs]
    return [covered.epochs[bisect_right(starts, offset) - 1].epoch for offset in offsets]


def epochs_in(
    lineage: Sequence[LeaderEpoch], start_offset: int, end_offset: int
) -> tuple[LeaderEpoch, ...]:
    """The epochs of `lineage` within offsets `start_offset` to `end_offset`, both inclusive.

    Each has its lowest offset in that range. `RemoteLogManager` uploads the same with a segment
    (`LeaderEpochFileCache`, truncated at both ends). `lineage` is in offset order.
    """
    begun = [entry for entry in lineage if entry.start_offset <= start_offset]
    within = [entry for entry in lineage if start_offset < entry.start_offset <= end_offset]
    if not begun or end_offset < start_offset:
        return tuple(within)
    return (LeaderEpoch(epoch=begun[-1].epoch, start_offset=start_offset), *within)


def epoch_ranges(
    epochs: Sequence[LeaderEpoch], end_offset: int
) -> list[tuple[LeaderEpoch, int]]:
    """A segment's leader epochs, each with its last offset in the segment, inclusive.

    `epochs` is in offset order; `end_offset` is the segment's last offset.
    """
    ends = [entry.start_offset - 1 for entry in epochs[1:]]
    return list(zip(epochs, [*ends, end_offset][: len(epochs)], strict=True))


def epoch_ends(lineage: Sequence[LeaderEpoch]) -> dict[int, int]:
    """By leader epoch, where the next one begins; the newest has no end. `lineage`: in order."""
    ends = [*(entry.start_offset for entry in lineage[1:]), OFFSET_MAX]
    return {entry.epoch: end for entry, end in zip(lineage, ends, strict=False)}


def merged_epochs(segments_epochs: Iterable[Sequence[LeaderEpoch]]) -> tuple[LeaderEpoch, ...]:
    """The union of several segments' epochs, each with its lowest offset, in epoch order."""
    lowest: dict[int, int] = {}
    for epochs in segments_epochs:
        for entry in epochs:
            lowest[entry.epoch] = min(
                entry.start_offset, lowest.get(entry.epoch, entry.start_offset)
            )
    return tuple(
        LeaderEpoch(epoch=epoch, start_offset=offset) for epoch, offset in sorted(lowest.items())
    )


def is_within_lineage(segment: Segment, lineage: Sequence[LeaderEpoch]) -> bool:
    """Whether `segment` is part of `lineage`'s log; see `are_within_lineage`."""
    return are_within_lineage(segment.leader_epochs, segment.end_offset, lineage)


def are_within_lineage(
    epochs: Sequence[LeaderEpoch], end_offset: int, lineage: Sequence[LeaderEpoch]
) -> bool:
    """Whether a segment with these `epochs` and this last offset is part of `lineage`'s log.

    Rule: `RemoteLogManager.isRemoteSegmentWithinLeaderEpochs`, without its last check, because the
    end of the log is unknown here. Epochs below the lineage's first are ignored: their records are
    below the log start. The lineage's first epoch starts where the log starts.
    """
    own = _with_records(epochs)
    theirs = _with_records(lineage)
    if not own or not theirs:
        return False
    first_of_log = min(theirs)
    last_epoch = max(own)
    kept = [epoch for epoch in own if epoch >= first_of_log]
    if not kept or last_epoch > max(theirs):
        return False
    if kept[0] > first_of_log and own[kept[0]] < theirs.get(kept[0], 0):
        return False
    # From the first epoch to the segment's last one, the two lists must agree entry by entry.
    stretch = [epoch for epoch in theirs if kept[0] <= epoch <= last_epoch]
    if stretch != kept or any(own[epoch] != theirs[epoch] for epoch in kept[1:]):
        return False
    next_starts = [offset for epoch, offset in theirs.items() if epoch > last_epoch]
    return not next_starts or end_offset < next_starts[0]


def _with_records(epochs: Sequence[LeaderEpoch]) -> dict[int, int]:
    """Start offset by epoch, in epoch order, without epochs that have no record."""
    ordered = sorted(epochs)
    next_starts = [entry.start_offset for entry in ordered[1:]]
    return {
        entry.epoch: entry.start_offset
        for entry, next_start in zip(ordered, [*next_starts, None], strict=False)
        if entry.start_offset != next_start
    }

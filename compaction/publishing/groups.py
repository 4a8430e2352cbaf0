"""What must be sent together: segments that share offsets, transitively.

    live     what the row has there: brokers must have it, and read it
    beside   finished segments that the row does not name: uploads that it has not taken yet
    old      what brokers must drop: retired segments that they have, finished or only started

Rule: PUBLISHING 4.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from tierfold.compaction.brokers.broker_view import BrokerSegment
from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.model.segment_ids import is_restored_id
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.ranges import OffsetRange, overlapping, range_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapGroup:
    """Segments that share offsets with each other and with no other segment."""

    bounds: OffsetRange
    live: tuple[Segment, ...]
    """In offset order."""
    beside: tuple[BrokerSegment, ...]
    """By start offset."""
    old: tuple[BrokerSegment, ...]
    """By start offset, then end offset: the order in which they are listed for deletion."""

    @property
    def replacements(self) -> tuple[Segment, ...]:
        """The live segments that a run wrote."""
        return tuple(segment for segment in self.live if not segment.is_named_by_brokers)

    @property
    def is_restored(self) -> bool:
        """Whether a restore brings a live segment back: its id says so."""
        return any(is_restored_id(segment.segment_id) for segment in self.live)


_Member: TypeAlias = Segment | BrokerSegment


def groups_of(look: Look) -> tuple[SwapGroup, ...]:
    """All groups of a partition that reach the log start, in offset order."""
    old = set(map(_id_of, _to_drop(look)))
    groups = (_group(run, old) for run in overlapping(_members(look)))
    return tuple(group for group in groups if group.bounds.last >= look.log_start)


def as_one_group(groups: Sequence[SwapGroup]) -> SwapGroup:
    """Groups of one partition, at least one, as if they shared offsets."""
    ordered = sorted(groups, key=lambda group: group.bounds)
    return SwapGroup(
        bounds=OffsetRange(ordered[0].bounds.first, ordered[-1].bounds.last),
        live=tuple(segment for group in ordered for segment in group.live),
        beside=tuple(segment for group in ordered for segment in group.beside),
        old=tuple(segment for group in ordered for segment in group.old),
    )


def _members(look: Look) -> Iterator[tuple[OffsetRange, _Member]]:
    for segment in look.row.segments:
        if segment.end_offset >= look.log_start:
            yield OffsetRange(segment.own_start_offset, segment.end_offset), segment
    for found in (*_beside(look), *_to_drop(look)):
        yield range_of(found.added), found


def _beside(look: Look) -> Iterator[BrokerSegment]:
    """Also what lies wholly below the log start: see `_to_drop`."""
    named = look.row.named_ids
    for segment in look.view.in_state(SegmentState.COPY_FINISHED):
        if segment.added.segment_id not in named and look.is_of_log(segment.added):
            yield segment


def _to_drop(look: Look) -> Iterator[BrokerSegment]:
    """What brokers must drop.

    What lies wholly below the log start they drop themselves, but until then it may hide a
    replacement that begins below it: look-ups go to the last start before an offset.
    """
    for segment_id, segment in look.view.segments.items():
        if segment_id in look.retired_ids and segment.state in _KEPT:
            yield segment


_KEPT: Final = (SegmentState.COPY_STARTED, SegmentState.COPY_FINISHED)


def _group(run: list[tuple[OffsetRange, _Member]], old: set[str]) -> SwapGroup:
    members = [member for _, member in run]
    brokers = [member for member in members if isinstance(member, BrokerSegment)]
    dropped = [member for member in brokers if _id_of(member) in old]
    return SwapGroup(
        bounds=OffsetRange(run[0][0].first, max(bounds.last for bounds, _ in run)),
        live=tuple(member for member in members if isinstance(member, Segment)),
        beside=tuple(member for member in brokers if _id_of(member) not in old),
        old=tuple(sorted(dropped, key=lambda one: (*range_of(one.added), _id_of(one)))),
    )


def _id_of(segment: BrokerSegment) -> str:
    return segment.added.segment_id

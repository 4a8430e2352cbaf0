"""The decision of `rebuild`: what a lost metadata topic must name again, and whether it may.

A broker that runs remembers what the topic said; one that has restarted does not, and its copy task
moves the log start to the first offset that is still local. What is named below it then, brokers
delete.

    all is named                                 nothing is lost
    the log start is above live segments         lost already: nothing is sent, the objects stay
    a consumer reads at the log start            name again, before any broker restarts
    it does not, and copying is stopped          name again, then copying goes on
    it does not, and brokers copy                copying must stop first

Whatever a consumer gets at the log start, local or not, nothing lies below it that is lost.

What another live segment contains, as after uploads of two leaders, is only started
(`must_be_finished`).

Rule: PUBLISHING 6.6; SWAP.md 8 (`trial_lost_metadata.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from tierfold.compaction.brokers.broker_view import BrokerSegment, Naming
from tierfold.compaction.brokers.events import (
    Event,
    SegmentAdded,
    SegmentState,
)
from tierfold.compaction.model.leader_epochs import epochs_in
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.publishing.batches import fitting
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.must_be_finished import required_ids
from tierfold.compaction.publishing.ranges import (
    OffsetRange,
    joined,
    range_of,
)
from tierfold.compaction.publishing.rebuild_order import finished_event, in_order
from tierfold.compaction.publishing.replacements import NO_BROKER, started_event
from tierfold.compaction.publishing.steps import Purpose, RefusalCode, Refused
from tierfold.compaction.publishing.unnamed import unnamed_step


class SafeOrder(StrEnum):
    """The two orders in which a lost metadata topic can be named again."""

    FROM_MEMORY = "from memory"
    """Brokers still serve from memory: now, before any of them restarts."""
    COPYING_STOPPED = "copying stopped"
    """Brokers have restarted without copying: now, and then copying goes on."""


@dataclass(frozen=True, slots=True)
class NothingLost:
    """The metadata topic names all that is in the tier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameAgain:
    """Send these events in one batch, and look again."""

    order: SafeOrder
    purpose: Purpose
    events: tuple[Event, ...]
    segments: tuple[SegmentAdded, ...]
    """All that the topic lacks, by start offset, also what does not fit into the batch."""
    events_left: int
    """How many events are missing, those of the batch included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopCopying:
    """Brokers no longer serve what they copied: nothing is safe while they copy."""

    segments: tuple[SegmentAdded, ...]
    """As of `NameAgain`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostAlready:
    """Brokers moved the log start above live segments: naming them would delete them."""

    log_start: int
    ranges: tuple[OffsetRange, ...]
    """The offsets that consumers can no longer read."""
    segments: tuple[SegmentAdded, ...]
    """The segments wholly below the log start, by start offset; their objects are in the tier."""
    has_rest: bool
    """Whether live segments reach beyond the log start: only a part is lost."""


RebuildStep: TypeAlias = NothingLost | NameAgain | StopCopying | LostAlready | Refused
"""What `rebuild_step` decides."""


def with_rebuilds(look: Look, covered: Iterable[Segment]) -> Look:
    """The look with all that the topic must name: what is live, and what else has objects.

    `covered`: uploads of the log of which live segments have all offsets. They and what the row has
    retired are only started: no reader ever finds them, and `compact` and `vacuum` go on from there
    as after any upload that died, and any swap that is not wholly sent. What is retired below the
    log start is not: brokers would delete it, and `vacuum` does.
    """
    present = look.present or frozenset[str]()
    retired = (
        one.segment
        for one in look.row.retired
        if one.segment.segment_id in present and one.segment.end_offset >= look.log_start
    )
    segments = (*look.row.segments, *covered, *retired)
    return replace(look, rebuilds={one.segment_id: named_event(look, one) for one in segments})


def named_event(look: Look, segment: Segment) -> SegmentAdded:
    """The event that names a segment again, with the leader epochs of its whole `.log`."""
    if segment.skipped_offsets:
        epochs = epochs_in(look.lineage, segment.own_start_offset, segment.end_offset)
        segment = replace(segment, leader_epochs=epochs)
    return started_event(look.row.key, segment, look.now_ms)


def rebuild_step(look: Look, *, is_served: bool, is_copying: bool) -> RebuildStep:
    """What `rebuild` does next; a pure function of a look of `with_rebuilds`.

    `is_served`: whether a consumer reads at the log start; `is_copying`: whether brokers copy the
    topic to the tier.
    """
    to_start, to_finish = unnamed(look), _unfinished(look)
    if not to_start and not to_finish:
        return NothingLost()
    if (lost := _lost_already(look, (*to_start, *to_finish))) is not None:
        return lost
    if (refused := _refused(look)) is not None:
        return refused
    ends = in_order(look, to_start, to_finish)
    if isinstance(ends, Refused):
        return ends
    if not is_served and is_copying:
        return StopCopying(segments=to_start or to_finish)
    updates = [finished_event(look, one) for one in ends]
    # All are started before the first is finished.
    events: tuple[Event, ...] = to_start or tuple(updates)
    return NameAgain(
        order=SafeOrder.FROM_MEMORY if is_served else SafeOrder.COPYING_STOPPED,
        purpose=Purpose.NAME_AGAIN if to_start else Purpose.SERVE_AGAIN,
        events=fitting(events, look.limits.batch_bytes_max),
        segments=to_start or to_finish,
        events_left=len(to_start) + len(ends),
    )


def unnamed(look: Look) -> tuple[SegmentAdded, ...]:
    """What the topic lacks, by start offset."""
    lacking = (
        added
        for segment_id, added in look.rebuilds.items()
        if look.naming.get(segment_id) is not Naming.NAMED
    )
    return tuple(sorted(lacking, key=lambda one: (one.start_offset, one.segment_id)))


def _unfinished(look: Look) -> tuple[SegmentAdded, ...]:
    """The live segments that a rebuild has started and has to finish, by start offset."""
    found, required = look.view.in_state(SegmentState.COPY_STARTED), required_ids(look)
    begun = (one.added for one in found if _is_begun(look, one))
    return tuple(one for one in begun if one.segment_id in required)


def _is_begun(look: Look, segment: BrokerSegment) -> bool:
    """Whether a rebuild has started the live segment, and not a broker or a swap."""
    added = segment.added
    if added.segment_id not in look.live_ids or added.broker_id != NO_BROKER:
        return False
    if look.is_upload(added.segment_id):
        return True
    sources = (one for one in look.finished if one.added.segment_id in look.retired_ids)
    return not any(range_of(one.added).overlaps(range_of(added)) for one in sources)


def _lost_already(look: Look, lacking: Iterable[SegmentAdded]) -> LostAlready | None:
    """What the log start has passed although it is live; None: nothing."""
    below = sorted(
        (
            one
            for one in lacking
            if one.segment_id in look.live_ids and one.end_offset < look.log_start
        ),
        key=lambda one: one.start_offset,
    )
    if not below:
        return None
    last = look.row.segments[-1].end_offset
    first = max(look.row.log_start_offset, below[0].start_offset)
    return LostAlready(
        log_start=look.log_start,
        ranges=joined([OffsetRange(first, min(look.log_start - 1, last))]),
        segments=tuple(below),
        has_rest=last >= look.log_start,
    )


def _refused(look: Look) -> Refused | None:
    """Why nothing may be named again, whatever brokers serve; None: it may."""
    if look.view.read_only:
        return Refused(code=RefusalCode.READ_ONLY, why=look.view.read_only[0].finding)
    if isinstance(foreign := unnamed_step(look), Refused):
        return foreign
    if not look.row.segments:
        return None  # Only what is retired is lost.
    first, last = look.row.segments[0], look.row.segments[-1]
    if first.own_start_offset > look.log_start:
        return Refused(
            code=RefusalCode.UNCOVERED,
            why=f"the log starts at offset {look.log_start}, and the tier has nothing below offset"
            f" {first.own_start_offset}",
        )
    if look.offsets.high_watermark <= last.end_offset:
        return Refused(
            code=RefusalCode.BEYOND_LOG,
            why=f"the brokers' log ends at offset {look.offsets.high_watermark}, and segments of"
            f" the tier at {last.end_offset}",
        )
    return None

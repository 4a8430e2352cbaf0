"""After a swap, what is read of the brokers as a consumer reads, and what that can show.

    row            | replaced        | upload  | replaced   | upload  |   local
    borders        xx              xxxx      xxxx         xxxx      xx|
    all            xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx|

It counts only where a record that a run dropped was missing: what is still local is served as it
always was. So it is the only proof that the tier given is the one that brokers read.

Rule: PUBLISHING 7.2, and for a broker that does not follow the topic 6.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Final, TypeAlias

from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.segments import PartitionState, RetiredSegment, Segment
from tierfold.compaction.model.units import OffsetSpan

WINDOW_RECORDS: Final = 64
"""How many records of a window are read."""
OFFSETS_BEFORE: Final = 32
"""How far below a border its window begins: often within a hole, as a consumer may."""


class CanaryMode(StrEnum):
    """How much of a partition is read after its swap (`--canary`)."""

    OFF = "off"
    """Nothing: a person's recorded consent takes the place of the proof."""
    BORDERS = "borders"
    """The first records, those around the borders of what was replaced, and the last ones."""
    ALL = "all"
    """All from the log start to the end of the remote log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryWindow:
    """What one consumer reads, from the first offset of a span on."""

    span: OffsetSpan
    records_max: int | None
    """It stops after so many records; None: at the span's end."""


def canary_windows(
    row: PartitionState, log_start: int, mode: CanaryMode
) -> tuple[CanaryWindow, ...]:
    """The windows to read, by first offset; none if the log start has passed all remote segments.

    Only borders of segments that a run wrote and whose sources are still retired: the others were
    read when they were swapped. Raises ValueError for `OFF`.
    """
    if mode is CanaryMode.OFF:
        raise ValueError("without a canary there is nothing to read")
    begin, end = _live_offsets(row, log_start)
    if begin >= end:
        return ()
    if mode is CanaryMode.ALL:
        return (CanaryWindow(span=OffsetSpan(start=begin, end=end), records_max=None),)
    borders = chain.from_iterable(
        (segment.start_offset, segment.next_offset) for segment in replaced_segments(row)
    )
    firsts = (begin, *(border - OFFSETS_BEFORE for border in borders), end - WINDOW_RECORDS)
    starts = sorted({max(first, begin) for first in firsts})
    return tuple(_window(start, end) for start in starts)


def window_around(row: PartitionState, log_start: int, offset: int) -> CanaryWindow:
    """The window that reads the offset of a live segment, at or above the log start."""
    begin, end = _live_offsets(row, log_start)
    return _window(max(begin, offset - OFFSETS_BEFORE), end)


def _window(start: int, end: int) -> CanaryWindow:
    return CanaryWindow(span=OffsetSpan(start=start, end=end), records_max=WINDOW_RECORDS)


def _live_offsets(row: PartitionState, log_start: int) -> tuple[int, int]:
    first = row.segments[0].start_offset if row.segments else row.next_offset
    return max(log_start, first), row.next_offset


def replaced_segments(row: PartitionState) -> tuple[Segment, ...]:
    """The live segments that a run wrote in place of others that are still retired."""
    retired = [entry.segment for entry in row.retired]
    return tuple(
        segment
        for segment in row.segments
        if not segment.is_named_by_brokers and any(_overlap(segment, other) for other in retired)
    )


def sources_of(row: PartitionState) -> tuple[RetiredSegment, ...]:
    """The whole retired segments that the run which retired them wrote something in place of.

    The others may be of another history, so a record that only they have was never dropped.
    """
    return tuple(
        entry
        for entry in row.whole_retired
        if any(
            entry.retired_by_run == segment.written_by_run and _overlap(entry.segment, segment)
            for segment in row.named_segments
        )
    )


def latest_sources(row: PartitionState, segment: Segment) -> tuple[Segment, ...]:
    """The whole retired segments that the run which wrote the segment replaced there."""
    return tuple(
        entry.segment
        for entry in row.whole_retired
        if entry.retired_by_run == segment.written_by_run and _overlap(entry.segment, segment)
    )


def _overlap(one: Segment, other: Segment) -> bool:
    return one.start_offset <= other.end_offset and other.start_offset <= one.end_offset


def may_show_stale(row: PartitionState, log_start: int, below: int) -> bool:
    """Whether a record that was dropped can be known, of an offset from the log start on.

    `below`: only offsets below count, as of `local_copies.gone_before`.
    """
    return any(
        max(entry.segment.start_offset, log_start) < min(entry.segment.next_offset, below)
        for entry in sources_of(row)
    )


class Difference(StrEnum):
    """How what brokers gave differs from what must be there."""

    MISSING = "a record of a live segment is missing"
    CHANGED = "the record is not the one that the live segment has"
    FOREIGN = "no live or retired segment has the record"
    OUT_OF_RANGE = "the offset is out of range"


class NotCounted(StrEnum):
    """Why a canary that found no difference proves nothing of the tier."""

    STILL_LOCAL = "brokers still have what was replaced on their own disks"
    NOTHING_DROPPED = "no record was dropped in what was read"
    LOG_START_PASSED = "the log start has passed all remote segments"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """All agrees, and a record that a run dropped was missing: brokers read this tier."""

    records: int
    """How many records were compared, in each window that read them."""
    dropped: int
    """How many records of retired segments were missing, counted in the same way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """All agrees, and it does not count."""

    records: int
    why: NotCounted


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """A dropped record is still read although local copies are gone.

    Some broker does not follow the metadata topic, so nothing of the partition may be deleted.
    """

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Differs:
    """Consumers do not get what they should: the run stops."""

    offset: int
    difference: Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class NotServed:
    """Brokers answer readers of this offset with an error, for as long as an answer may take.

    So they do when an object is missing where they look for it; or have just started.
    """

    offset: int
    error: str
    """Kafka's name of it."""


@dataclass(frozen=True, slots=True)
class CannotRead:
    """Nothing could be compared: a right is missing, or brokers or tier do not answer."""

    error: TierfoldError


CanaryResult: TypeAlias = Counted | Agreed | Stale | Differs | NotServed | CannotRead

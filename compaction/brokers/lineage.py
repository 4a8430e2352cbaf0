"""Whether what is in the tier is still the brokers' log, by their leader epochs.

After an unclean leader election the new leader has other records at offsets that the tier already
holds, and until its first upload nothing in the tier shows that. So the brokers are asked where
each leader epoch of the tier ends in their log (`epoch_ends`):

    tier       epoch 0: 0-29   epoch 1: 30-59
    brokers    epoch 0 ends at 30   epoch 1 ends at 75     holds
               epoch 0 ends at 20   epoch 2 from there     refused: they lack 20-29 of epoch 0

A leader's log is the only one with its epoch, and other replicas take it over as it is. So a log
that has the tier's last epoch up to its end has all of that leader's log, and discovery has
compared every segment with the checkpoint of that leader. The epochs before it are asked for as
well, the newest few: a log that is years old has hundreds, and each takes a round of questions.

Rule: Kafka `OffsetsForLeaderEpochUtils`, KIP-101, KIP-320; PUBLISHING 2.7.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from tierfold.compaction.brokers.broker_view import BrokerSegment, BrokerView
from tierfold.compaction.brokers.cluster_facts import PartitionOffsets
from tierfold.compaction.brokers.epoch_ends import (
    EpochAnswer,
    EpochEnd,
    NoAnswer,
    NotAllowed,
    UnknownEpoch,
)
from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.model.leader_epochs import (
    are_within_lineage,
    epoch_ends,
    epoch_ranges,
)
from tierfold.compaction.model.segments import LeaderEpoch, Segment

_ASKED_MAX: Final = 8
_NOT_ASKED: Final = NoAnswer("It was not asked for.")


@dataclass(frozen=True, slots=True)
class NothingTiered:
    """Brokers have no finished segment of the lineage, so there is nothing to compare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageHolds:
    """The brokers' log has all that is in the tier."""

    end_offset: int
    """The last offset that was confirmed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEndsBelow:
    """The brokers' log ends below the tier's: records of the tier were cut off."""

    high_watermark: int
    end_offset: int
    """The last offset of the tier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochDenied:
    """The brokers' log lacks records of a leader epoch that are in the tier."""

    epoch: int
    end_offset: int
    """The last offset that the tier has of it."""
    found: EpochEnd | UnknownEpoch
    """What the brokers answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unconfirmed:
    """The brokers did not say whether their log has a leader epoch of the tier."""

    epoch: int
    end_offset: int
    """The last offset that the tier has of it."""
    answer: NotAllowed | NoAnswer


LineageStatus: TypeAlias = (
    NothingTiered | LineageHolds | LogEndsBelow | EpochDenied | Unconfirmed
)


def finished(view: BrokerView, log_start: int) -> tuple[BrokerSegment, ...]:
    """The finished segments that brokers do not delete for their log start, by start offset."""
    return tuple(
        segment
        for segment in view.in_state(SegmentState.COPY_FINISHED)
        if segment.added.end_offset >= log_start
    )


def epochs_to_ask(view: BrokerView, log_start: int) -> tuple[int, ...]:
    """The highest leader epochs of the finished segments, descending; each is asked for once.

    Also those of the started ones: a row that was written without brokers may have one as live.
    """
    started = [
        segment
        for segment in view.in_state(SegmentState.COPY_STARTED)
        if segment.added.end_offset >= log_start
    ]
    asked = {
        epoch
        for segments in (finished(view, log_start), started)
        for epoch in sorted(_ends(segments), reverse=True)[:_ASKED_MAX]
    }
    return tuple(sorted(asked, reverse=True))


def outside_lineage(
    segments: Iterable[BrokerSegment], lineage: Sequence[LeaderEpoch]
) -> tuple[BrokerSegment, ...]:
    """Those of the finished segments that are of another history than the lineage's.

    They are never read, merged, repaired with, or a witness of a hole. `segments`: of `finished`.
    """
    return tuple(segment for segment in segments if not _is_within(segment, lineage))


def not_cut_off(
    segments: Iterable[BrokerSegment], lineage: Sequence[LeaderEpoch]
) -> tuple[BrokerSegment, ...]:
    """The finished segments without those that a leader of the lineage has cut off.

    `lineage` may end early, as a view's does: what is of a newer leader counts as not cut off.
    """
    newest = lineage[-1].epoch if lineage else -1
    return tuple(
        segment
        for segment in segments
        if segment.added.leader_epochs[-1].epoch > newest or _is_within(segment, lineage)
    )


def beside(
    outside: Iterable[BrokerSegment], live: Iterable[Segment], given_up: Collection[str]
) -> tuple[BrokerSegment, ...]:
    """Those of `outside_lineage` that share an offset with a segment of the log.

    `given_up`: ids of segments that the row has retired: whatever brokers have of them, they are
    about to be dropped.
    """
    ranges = [(segment.start_offset, segment.end_offset) for segment in live]
    return tuple(
        segment
        for segment in outside
        if segment.added.segment_id not in given_up
        and any(
            start <= segment.added.end_offset and segment.added.start_offset <= end
            for start, end in ranges
        )
    )


def lineage_status(
    view: BrokerView,
    lineage: Sequence[LeaderEpoch],
    offsets: PartitionOffsets,
    answers: Mapping[int, EpochAnswer],
    live: Sequence[Segment] = (),
) -> LineageStatus:
    """Compare the finished segments of the lineage, and live ones, with what brokers answered.

    `lineage`: in offset order, from the segment with the highest leader epoch, among these the one
    with the highest end. `answers`: by leader epoch, of `epochs_to_ask`; without one for the last
    epoch the lineage is unconfirmed. `offsets` are asked for after the view was replayed.
    """
    within = [one for one in finished(view, offsets.log_start) if _is_within(one, lineage)]
    ends = _ends(within)
    for segment in live:
        for entry, end_offset in epoch_ranges(segment.leader_epochs, segment.end_offset):
            ends[entry.epoch] = max(end_offset, ends.get(entry.epoch, -1))
    if not ends:
        return NothingTiered()
    end_offset = max(ends.values())
    if offsets.high_watermark <= end_offset:
        return LogEndsBelow(high_watermark=offsets.high_watermark, end_offset=end_offset)
    last = max(ends)
    found = [
        _against(epoch, ends[epoch], answers.get(epoch, _NOT_ASKED), is_last=epoch == last)
        for epoch in sorted({last, *ends.keys() & answers.keys()}, reverse=True)
    ]
    denied = next((one for one in found if isinstance(one, EpochDenied)), None)
    unconfirmed = next((one for one in found if one is not None), None)
    return denied or unconfirmed or LineageHolds(end_offset=end_offset)


def epoch_ends_of_brokers(
    lineage: Sequence[LeaderEpoch], answers: Mapping[int, EpochAnswer]
) -> dict[int, int]:
    """By leader epoch of the lineage, where it ends in the brokers' log; without those it lacks.

    As they answered; where they did not, as the lineage has it. `answers`: of `epochs_to_ask`.
    """
    ends = epoch_ends(lineage)
    for epoch, answer in answers.items():
        is_theirs = isinstance(answer, EpochEnd) and answer.epoch == epoch
        if isinstance(answer, EpochEnd | UnknownEpoch) and not is_theirs:
            ends.pop(epoch, None)
        if isinstance(answer, EpochEnd) and answer.epoch in ends:
            ends[answer.epoch] = min(ends[answer.epoch], answer.end_offset)
    return ends


def _against(
    epoch: int, end_offset: int, answer: EpochAnswer, *, is_last: bool
) -> EpochDenied | Unconfirmed | None:
    """What speaks against one epoch, of which the tier has records up to `end_offset`."""
    match answer:
        case NotAllowed() | NoAnswer():
            return Unconfirmed(epoch=epoch, end_offset=end_offset, answer=answer)
        case EpochEnd() if answer.end_offset > end_offset and (
            # A cleaner may have removed all records of an earlier epoch before another replica
            # took the log over, which then does not know that epoch.
            answer.epoch == epoch or not is_last
        ):
            return None
    return EpochDenied(epoch=epoch, end_offset=end_offset, found=answer)


def _is_within(segment: BrokerSegment, lineage: Sequence[LeaderEpoch]) -> bool:
    added = segment.added
    return are_within_lineage(added.leader_epochs, added.end_offset, lineage)


def _ends(segments: Iterable[BrokerSegment]) -> dict[int, int]:
    """By leader epoch the last offset that the segments have of it."""
    ends: dict[int, int] = {}
    for segment in segments:
        for entry, end_offset in segment.added.ranges():
            if end_offset >= entry.start_offset:
                ends[entry.epoch] = max(end_offset, ends.get(entry.epoch, -1))
    return ends

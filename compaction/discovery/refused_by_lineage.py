"""Why a partition is refused once its leader epochs are compared with those of its brokers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tierfold.compaction.brokers.broker_view import BrokerSegment
from tierfold.compaction.brokers.epoch_ends import EpochEnd, NotAllowed
from tierfold.compaction.brokers.lineage import (
    EpochDenied,
    LineageHolds,
    LineageStatus,
    LogEndsBelow,
    NothingTiered,
    Unconfirmed,
    lineage_status,
)
from tierfold.compaction.discovery.facts import PartitionFacts
from tierfold.compaction.discovery.view import PLACE, Refusal, RefusalReason, first_few
from tierfold.compaction.model.segments import LeaderEpoch

_CUT_OFF: Final = (
    "An unclean leader election cut the log off, or these are not the brokers of this tier. If they"
    " are, run again once the new leader has uploaded a segment, which shows what its log has. If"
    " the catalog has records that were cut off, it then says so, and"
    f" `tierfold forget {PLACE} --dry-run` shows what would be lost (docs/operations.md)."
)
_ASK_AGAIN: Final = "Run again once the partition has a leader that answers."
_GIVE_UP: Final = (
    "An unclean leader election cut the log off, and a deposed leader uploaded it."
    f" `tierfold forget {PLACE} --dry-run`, with the same brokers, shows what would be given up;"
    f" then accept it with `tierfold forget {PLACE}` (docs/operations.md)."
)


def denied_lineage(facts: PartitionFacts, lineage: Sequence[LeaderEpoch]) -> Refusal | None:
    """The refusal if the brokers' log is not the one that the tier has; None: it is.

    None also where brokers were not asked, or do not say the offsets, which is another refusal.
    """
    brokers = facts.brokers
    offsets = None if brokers is None else brokers.known_offsets
    if brokers is None or offsets is None:
        return None
    live = () if facts.row is None else facts.row.segments
    status = lineage_status(brokers.view, lineage, offsets, brokers.epoch_answers, live)
    return refused_by_lineage(status)


def refused_by_lineage(status: LineageStatus) -> Refusal | None:
    """The refusal of a partition whose lineage is denied or unconfirmed; None: it is neither."""
    match status:
        case NothingTiered() | LineageHolds():
            return None
        case LogEndsBelow():
            return Refusal(
                reason=RefusalReason.TIER_BEYOND_LOG,
                detail=f"the brokers' log ends at offset {status.high_watermark - 1}, the tier has"
                f" offsets up to {status.end_offset}",
                remedy=_CUT_OFF,
            )
        case EpochDenied():
            return Refusal(
                reason=RefusalReason.LINEAGE_DENIED,
                detail=f"the tier has leader epoch {status.epoch} up to offset"
                f" {status.end_offset}, but {_found(status)}",
                remedy=_CUT_OFF,
            )
        case Unconfirmed():
            return _unconfirmed(status)


def refused_beside(segments: Sequence[BrokerSegment]) -> Refusal | None:
    """The refusal for segments of another history over those of the log; None: there are none.

    `segments`: of `compaction.brokers.lineage.beside`.
    """
    if not segments:
        return None
    named = [
        f"segment {segment.added.segment_id} (offsets {segment.added.start_offset} to"
        f" {segment.added.end_offset})"
        for segment in segments
    ]
    return Refusal(
        reason=RefusalReason.OUTSIDE_LINEAGE,
        detail="brokers have whole segments outside the leader epoch lineage over offsets of the"
        f" log: {first_few(named)}",
        remedy=_GIVE_UP,
    )


def _found(status: EpochDenied) -> str:
    """What the brokers have instead, a clause."""
    found = status.found
    if not isinstance(found, EpochEnd):
        return "the brokers' log has no such epoch, only older ones"
    if found.epoch == status.epoch:
        return f"in the brokers' log it ends at offset {found.end_offset - 1}"
    return (
        f"the brokers' log has no such epoch: there epoch {found.epoch} ends at offset"
        f" {found.end_offset - 1}"
    )


def _unconfirmed(status: Unconfirmed) -> Refusal:
    """The partition waits until brokers can be asked."""
    answer = status.answer
    return Refusal(
        reason=RefusalReason.LINEAGE_UNCONFIRMED,
        detail="the brokers did not confirm that their log has leader epoch"
        f" {status.epoch} up to offset {status.end_offset}, as the tier has it",
        remedy=answer.why if isinstance(answer, NotAllowed) else f"{answer.why} {_ASK_AGAIN}",
    )

"""Why a partition is refused once its row and its listing are compared with what brokers have.

A wrong view is the most dangerous thing here, because everything deletes by it. So whatever does
not fit is a refusal: each says what a person has to find out, and what leads on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from tierfold.compaction.brokers.broker_view import BrokerSegment
from tierfold.compaction.brokers.cluster_facts import Absence, UnknownOffsets
from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.brokers.events import METADATA_TOPIC
from tierfold.compaction.brokers.lineage import beside, finished, not_cut_off
from tierfold.compaction.brokers.unnamed_writes import UnnamedWrites, unnamed_writes
from tierfold.compaction.discovery.facts import PartitionFacts
from tierfold.compaction.discovery.identity import REMEMBERED
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.discovery.lost_replacements import lost_replacements, whole_ids
from tierfold.compaction.discovery.metadata_loss import lost_refusal, perhaps_named
from tierfold.compaction.discovery.phases import Phase, phase_of
from tierfold.compaction.discovery.refused_by_lineage import denied_lineage
from tierfold.compaction.discovery.view import PLACE, Refusal, RefusalReason
from tierfold.compaction.model.segments import PartitionState, Segment

_NAMED: Final = 5
"""How many segments of a kind a refusal names; it counts the others."""

_LOST: Final = (
    f"Either {METADATA_TOPIC} was lost and grew again, or these are not the brokers of this tier."
    f" Do not restart a broker before you know which: {REMEMBERED}."
)

_WITHOUT_OFFSETS: Final[Mapping[Absence, str]] = {
    Absence.NO_PARTITION: "Leave it out with --partition, or name the cluster that has it.",
    Absence.NO_RIGHT: "Then run again.",
    Absence.NO_ANSWER: "Run again once the partition has a leader.",
}

_REASONS: Final[Mapping[Absence, RefusalReason]] = {
    Absence.NO_PARTITION: RefusalReason.NOT_IN_CLUSTER,
    Absence.NO_RIGHT: RefusalReason.RIGHT_MISSING,
    Absence.NO_ANSWER: RefusalReason.UNANSWERED,
}
"""Partitions whose topic the cluster lacks do not come here (`identity.of_cluster`)."""

_FORGET: Final = (
    f"`tierfold forget {PLACE} --dry-run`, with the same brokers, shows what it would take over"
    " from them and what it would give up."
)


def refused_by_brokers(facts: PartitionFacts) -> Refusal | None:
    """The first reason why brokers, row and listing do not fit; None: they do, or none was asked.

    `facts.state` is the row as it was read: brokers may have moved the log start since.
    """
    brokers = facts.brokers
    if brokers is None:
        return None
    return next(filter(None, (check(facts, brokers) for check in _CHECKS)), None)


def refused_without_row_by_brokers(
    facts: PartitionFacts, row: PartitionState | None
) -> Refusal | None:
    """The reasons that hold whatever the row says, of facts without one; None: there are none.

    `row`: what the catalog has all the same; a way out must not give up its records.
    """
    brokers = facts.brokers
    if brokers is None:
        return None
    return (
        _unknown_offsets(facts, brokers)
        or _denied(facts, brokers)
        or perhaps_named(facts, brokers, row)
        or _without_objects(facts, brokers, row)
    )


def _unknown_offsets(_: PartitionFacts, brokers: BrokerPartition) -> Refusal | None:
    return unknown_offsets(brokers)


def unknown_offsets(brokers: BrokerPartition) -> Refusal | None:
    """The refusal if the cluster does not say the partition's offsets; None: it does."""
    unknown = brokers.offsets
    if not isinstance(unknown, UnknownOffsets):
        return None
    return Refusal(
        reason=_REASONS[unknown.absence],
        detail=unknown.why,
        remedy=_WITHOUT_OFFSETS[unknown.absence],
    )


def never_had(facts: PartitionFacts) -> tuple[ListedSegment, ...]:
    """The whole segments that no run of this or another catalog made, and brokers never had."""
    return tuple(unnamed.listed for unnamed in facts.left_alone if unnamed.denies_brokers)


def _denied(facts: PartitionFacts, _: BrokerPartition) -> Refusal | None:
    """Whole objects that brokers never had (PUBLISHING 2.3), young or old, full or empty."""
    strange = never_had(facts)
    if not strange:
        return None
    ids = ",".join(listed.segment_id for listed in strange)
    return Refusal(
        reason=RefusalReason.NEVER_NAMED,
        detail=f"the tier has {_listed(strange)} with all objects, not written by tierfold and"
        " never named in the metadata topic of these brokers",
        remedy=f"{_LOST} If a person copied them here, move them out of the tier and keep them. If"
        " you know that none of them is part of the log, because a run of an early tierfold that"
        f" was killed left them: `tierfold forget {PLACE} --leave-alone {ids}`, with the same"
        " brokers, records that; they are then never read and never deleted.",
    )


def _left_alone(facts: PartitionFacts, brokers: BrokerPartition) -> Refusal | None:
    """Segments to leave alone because brokers never had them, and that brokers have."""
    served = [
        listed
        for listed in facts.classified.left_alone
        if phase_of(listed.segment_id, brokers) is Phase.FINISHED
    ]
    if not served:
        return None
    return Refusal(
        reason=RefusalReason.LEFT_ALONE,
        detail=f"brokers have {_listed(served)} as complete, and a person said to leave them"
        " alone when brokers never had them (--leave-alone)",
        remedy="If their metadata topic came back, they are part of the log after all: "
        f"{_FORGET}",
    )


def _forgotten_uploads(facts: PartitionFacts, brokers: BrokerPartition) -> Refusal | None:
    """Uploads that the row names, and that the whole topic has never named."""
    # A retired one without objects may be what a person copied here, and moved out again.
    there = {listed.segment_id for listed in facts.classified.retired}
    there |= frozenset[str]() if facts.state is None else facts.state.live_ids
    # A rebuild names nothing below the log start: brokers would delete it.
    is_rebuilt = facts.state is not None and facts.state.rebuilt_at_ms >= 0
    uploads = [
        segment
        for segment in _named_in(facts.state)
        if segment.is_named_by_brokers
        and segment.segment_id in there
        and phase_of(segment.segment_id, brokers) is Phase.NEVER_NAMED
        and not (is_rebuilt and segment.end_offset < brokers.log_start)
    ]
    if not uploads:
        return None
    return Refusal(
        reason=RefusalReason.NEVER_NAMED,
        detail=f"the catalog names {_segments(uploads)} as uploads of brokers, never named in the"
        " metadata topic of these brokers",
        remedy=f"{_LOST} If a person copied them here, move them out of the tier and keep them;"
        f" then {_FORGET}",
    )


def unnamed_beside(row: PartitionState | None, brokers: BrokerPartition) -> UnnamedWrites:
    """What runs made and brokers have, although the row does not name it."""
    named = frozenset[str]() if row is None else row.named_ids
    return unnamed_writes(brokers.view, named, brokers.log_start, brokers.asked_by)


def _other_runs(facts: PartitionFacts, brokers: BrokerPartition) -> Refusal | None:
    """Ids in the view that a tierfold made and the row does not name."""
    unnamed = unnamed_beside(facts.state, brokers)
    if foreign := unnamed.of_others:
        return Refusal(
            reason=RefusalReason.ANOTHER_CATALOG,
            detail=f"brokers have {_noted(foreign)}, which a run of another catalog wrote",
            remedy="Two catalogs must not compact one tier: find the other one, and give it with"
            f" --catalog. If it is lost: {_FORGET}",
        )
    if not unnamed.finished:
        return None
    return Refusal(
        reason=RefusalReason.CATALOG_SET_BACK,
        detail=f"brokers have {_noted(unnamed.finished)}, which runs of this catalog wrote and it"
        " no longer names: it was set back to an earlier state",
        remedy=f"Bring the newer catalog back. If it is lost: {_FORGET}",
    )


def _deleted_live(facts: PartitionFacts, brokers: BrokerPartition) -> Refusal | None:
    """Live ids that brokers deleted, and not for their log start (PUBLISHING 1.4).

    While their objects are there, a run that publishes copies them under new ids.
    """
    state = facts.state
    if state is None:
        return None
    known = facts.classified.known if state.is_served else ()
    to_copy = {listed.segment_id for listed in known if listed.is_complete}
    deleted = [
        segment
        for segment in state.segments
        if segment.end_offset >= brokers.log_start
        and phase_of(segment.segment_id, brokers) in {Phase.LISTED, Phase.GONE}
        and segment.segment_id not in to_copy
    ]
    if not deleted:
        return None
    return Refusal(
        reason=RefusalReason.DELETED_BY_BROKERS,
        detail=f"brokers deleted {_segments(deleted)}, live in the catalog, although their log"
        f" start is only {brokers.log_start}",
        remedy="If the topic's tiering was ended, leave the topic out. Otherwise the catalog is"
        f" older than the log: {_FORGET}",
    )


def _other_ranges(facts: PartitionFacts, brokers: BrokerPartition) -> Refusal | None:
    """Live uploads that brokers noted with other offsets than the row.

    Only the last one may end earlier in the row: behind its last batch there may be a hole.
    """
    state = facts.state
    if state is None:
        return None
    unlike = []
    for segment in state.segments:
        noted = brokers.view.segments.get(segment.segment_id)
        if noted is None or not segment.is_named_by_brokers:
            continue
        added, is_last = noted.added, segment is state.segments[-1]
        is_same_end = segment.end_offset == added.end_offset
        if is_last:
            is_same_end = segment.end_offset <= added.end_offset
        if segment.own_start_offset != added.start_offset or not is_same_end:
            unlike.append((segment, added))
    if not unlike:
        return None
    segment, added = unlike[0]
    return Refusal(
        reason=RefusalReason.UNLIKE_BROKERS,
        detail=f"the catalog has segment {segment.segment_id} from offset"
        f" {segment.own_start_offset} to {segment.end_offset}, brokers have it from"
        f" {added.start_offset} to {added.end_offset} ({len(unlike)} such segments)",
        remedy=f"If --holes-are-holes was given here, a segment was missing after all. {_FORGET}",
    )


def _without_objects(
    facts: PartitionFacts, brokers: BrokerPartition, row: PartitionState | None = None
) -> Refusal | None:
    """Segments that readers may need and that the tier does not have whole.

    What an election cut off is not needed, and its offsets are those of other records. Nor is a
    replacement of which other segments have all records.
    """
    retired = frozenset[str]() if facts.state is None else facts.state.retired_ids
    spared = whole_ids(facts) | retired
    had = finished(brokers.view, brokers.log_start)
    missing = [segment for segment in had if segment.added.segment_id not in spared]
    if not missing:
        return None
    lineage = facts.history().lineage
    lost = lost_replacements(facts, brokers)
    needed = [one for one in not_cut_off(missing, lineage) if one.added.segment_id not in lost]
    if not needed:
        return None
    return denied_lineage(facts, lineage) or Refusal(
        reason=RefusalReason.NOT_IN_TIER,
        detail=f"brokers have {_noted(needed)} as complete, and not all of their objects are in"
        " this tier",
        remedy="Check that these brokers write to this place (their rsm.config). If they do, bring"
        f" the objects back from a backup. {_given_up(row or facts.row, needed)}",
    )


def _given_up(row: PartitionState | None, lost: Sequence[BrokerSegment]) -> str:
    """What to do about objects that are lost for good, a sentence."""
    if row is not None and beside(lost, row.segments, ()):
        return "Live segments of the catalog have records of them: do not delete any."
    end = max(segment.added.end_offset for segment in lost)
    return (
        f"If they are lost for good, `kafka-delete-records.sh` with offset {end + 1} lets"
        " consumers begin behind them. It gives up all records below, also those that are not"
        " lost."
    )


def _log_start(facts: PartitionFacts, brokers: BrokerPartition) -> Refusal | None:
    """A log start that the row has not, with no sign that brokers deleted what lies below it.

    After lost metadata and a restart, brokers' log start is wrong. A served row noted this very
    cluster and topic, which was checked by now: it follows (PUBLISHING 6.5).
    """
    state = facts.state
    if state is None or state.is_served or brokers.log_start <= state.log_start_offset:
        return None
    below = [one for one in _named_in(state) if one.end_offset < brokers.log_start]
    phases = {one.segment_id: phase_of(one.segment_id, brokers) for one in below}
    kept = [one for one in below if phases[one.segment_id] is Phase.FINISHED]
    if kept:
        return Refusal(
            reason=RefusalReason.LOG_START_UNPROVEN,
            detail=f"brokers say that the log starts at offset {brokers.log_start}, and have not"
            f" deleted {_segments(kept)} below it yet",
            remedy="They do so within minutes (remote.log.manager.task.interval.ms): run again.",
        )
    deleted = {Phase.LISTED, Phase.GONE}
    # A dead upload stays started for ever, whatever lies above it: brokers know of it.
    unknown = [one for one in below if phases[one.segment_id] is Phase.NEVER_NAMED]
    if not unknown or deleted & set(phases.values()):
        return None
    return Refusal(
        reason=RefusalReason.LOG_START_UNPROVEN,
        detail=f"brokers say that the log starts at offset {brokers.log_start}, the catalog says"
        f" {state.log_start_offset}, and nothing shows that brokers deleted {_segments(unknown)}",
        remedy=_LOST,
    )


_CHECKS: Final[Sequence[Callable[[PartitionFacts, BrokerPartition], Refusal | None]]] = (
    _unknown_offsets,
    lost_refusal,
    _denied,
    _left_alone,
    _forgotten_uploads,
    _other_runs,
    _deleted_live,
    _other_ranges,
    _without_objects,
    _log_start,
)


def _named_in(state: PartitionState | None) -> tuple[Segment, ...]:
    return () if state is None else state.named_segments


def _listed(segments: Sequence[ListedSegment]) -> str:
    return _joined(str(listed) for listed in segments)


def _segments(segments: Sequence[Segment]) -> str:
    return _joined(
        f"segment {one.segment_id} (offsets {one.start_offset} to {one.end_offset})"
        for one in segments
    )


def _noted(segments: Sequence[BrokerSegment]) -> str:
    return _joined(
        f"segment {one.added.segment_id} (offsets {one.added.start_offset} to"
        f" {one.added.end_offset})"
        for one in segments
    )


def _joined(phrases: Iterator[str]) -> str:
    named = list(phrases)
    more = len(named) - _NAMED
    return ", ".join(named[:_NAMED]) + (f" and {more} more" if more > 0 else "")


"""`forget` beside brokers: what a row takes over from them (`commits.adoption`)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.commits.adoption import (
    ADOPTED_FOR,
    Adoption,
    adoption,
    half_sent,
    half_sent_refusal,
    overtaken,
    usable,
    within_log,
)
from tierfold.compaction.commits.commit import (
    AdoptSegments,
    CommitProposal,
    NoteConsent,
    proposed,
)
from tierfold.compaction.commits.undone_passes import Undone, UndonePasses, undone_passes
from tierfold.compaction.discovery.candidates import Candidate
from tierfold.compaction.discovery.draft import draft_of, drafted, lineage_refusal
from tierfold.compaction.discovery.facts import PartitionFacts
from tierfold.compaction.discovery.lost_replacements import lost_replacements
from tierfold.compaction.discovery.phases import Phase, phase_of
from tierfold.compaction.discovery.refused_by_brokers import refused_without_row_by_brokers
from tierfold.compaction.discovery.view import Refusal, RefusalReason, never_claimed
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.serving import Consent, ConsentKind, ServingCluster
from tierfold.compaction.model.tier_service import TierService
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.tier_identity import another_note, notes_of, place_of
from tierfold.jobs.pipeline.discovery import candidates_of, facts_of, view_of_draft
from tierfold.jobs.pipeline.known_partition import KnownPartition, refusal_of
from tierfold.jobs.pipeline.partition_report import FORGOTTEN, PartitionReport
from tierfold.jobs.pipeline.survey import known_by_name
from tierfold.jobs.publishing.segment_copies import SegmentCopies
from tierfold.jobs.verbs.adopted_copies import live_with_copies, unreadable_copies
from tierfold.jobs.verbs.row_change import changed_row, noted_binding, refused
from tierfold.storage.catalog.catalog import new_commit_id
from tierfold.storage.tiers.remote_tier import Listing
from tierfold.storage.tiers.service_notes import Noted


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAdoption:
    """What `forget` would do beside brokers."""

    state: PartitionState | None
    """The row as it was read; None: the catalog has none."""
    adoption: Adoption | Refusal | None
    """None: row, listing and brokers agree, so there is nothing to do."""


def planned_adoption(
    context: RunContext, known: KnownPartition, brokers: BrokerPartition
) -> PlannedAdoption:
    """Plan it; raises nothing: an error in reading is the refusal."""
    try:
        found = _planned(context, known, brokers)
    except TierfoldError as error:
        found = refusal_of(error, str(known.key))
    if isinstance(found, Refusal):
        found = found.at(context.place(known.key))
    return PlannedAdoption(state=known.state, adoption=found)


def _planned(
    context: RunContext, known: KnownPartition, brokers: BrokerPartition
) -> Adoption | Refusal | None:
    key, listed = known.key, known.listed
    present = drafted(facts_of(context, key, known.state, listed, brokers))
    if not isinstance(present, Refusal):
        return None
    if present.reason not in ADOPTED_FOR:
        return present
    bare = facts_of(context, key, None, _without_left_alone(known, brokers), brokers)
    if (refusal := refused_without_row_by_brokers(bare, known.state)) is not None:
        return refusal
    sent = _sent(context, bare, brokers)
    whole = within_log(bare.candidates, sent)
    if (refusal := half_sent_refusal(brokers, whole, context.now_ms)) is not None:
        return refusal
    undone = _undone(context, known, bare, brokers)
    lost = lost_replacements(bare, brokers)
    if isinstance(undone, Undone):
        listed = _without_left_alone(known, brokers)
        facts, sent = facts_of(context, key, undone.row, listed, brokers), ()
    else:
        facts = bare
    taken = usable(facts.candidates, sent, brokers, context.run, lost)
    facts = replace(facts, candidates=taken)
    draft = draft_of(facts)
    refusal = None if isinstance(draft, Refusal) else lineage_refusal(draft)
    view = refusal or view_of_draft(context, facts, draft)
    if isinstance(view, Refusal):
        return view
    found = adoption(view, known.state, brokers, context.run, undone)
    if isinstance(found, Refusal):
        return found
    return (_refused_copy(context) if found.is_published else None) or found


def _undone(
    context: RunContext, known: KnownPartition, bare: PartitionFacts, brokers: BrokerPartition
) -> UndonePasses:
    """Which passes of a served row an election undoes; raises TierfoldError.

    Of a row that no brokers serve, brokers have what was there before the passes.
    """
    row = known.state
    if row is None or not row.is_served:
        return None
    whole = {listed.segment_id for listed in known.listed if listed.is_complete}
    rows = context.catalog.history(known.key)
    return undone_passes(row, rows, bare.history(), whole, brokers.log_start)


def _without_left_alone(known: KnownPartition, brokers: BrokerPartition) -> Listing:
    """Return the listing without what is left alone, unless brokers have had it since."""
    ids = frozenset[str]() if known.state is None else known.state.left_alone_ids
    return tuple(
        listed
        for listed in known.listed
        if listed.segment_id not in ids
        or phase_of(listed.segment_id, brokers) is not Phase.NEVER_NAMED
    )


def _sent(
    context: RunContext, bare: PartitionFacts, brokers: BrokerPartition
) -> tuple[Candidate, ...]:
    """Return what is known of the whole ones of `half_sent` that nothing has overtaken.

    Raises TierfoldError.
    """
    ids = {segment.added.segment_id for segment in half_sent(brokers)} - overtaken(brokers)
    unread = [
        segment
        for segment in bare.classified.unknown
        if segment.segment_id in ids and segment.is_complete
    ]
    return candidates_of(context, bare.key, unread, brokers, bare.fingerprint)


def _refused_copy(context: RunContext) -> Refusal | None:
    """The refusal if the tier's note names another place or cluster; raises TierfoldError."""
    look = context.cluster_view
    notes, place = notes_of(context), place_of(context)
    present = notes.newest()
    if look is None or present is None:
        return None
    note = present.service
    is_here = note.place == place or context.has_moved
    if is_here and note.cluster_id == look.cluster_id:
        return None
    return Refusal(
        reason=RefusalReason.ANOTHER_PLACE,
        detail=f"the tier's note says that cluster {note.cluster_id} serves it from {note.place},"
        f" the brokers given are those of cluster {look.cluster_id}, and TIER is {place}: this is"
        " a copy, or its brokers are others",
        remedy="Name the brokers and the place that the note names. If the tier moved here, set"
        " tier.binding=moved.",
    )


def carried_out(
    context: RunContext,
    name: str,
    planned: PartitionReport,
    state: PartitionState | None,
    taken: Adoption,
) -> PartitionReport:
    """Let the row of the partition `name` take over what was planned, in one commit.

    `state`: the row as it was read. A tier's note that names another catalog names this one then.
    Raises Stopped while segments that come back are read and copied: nothing is changed then.
    """
    row = state or never_claimed(planned.key)
    if (refusal := unreadable_copies(context, row, taken)) is not None:
        return refused(planned.key, refusal)
    copies = SegmentCopies()

    def propose(claimed: PartitionState) -> CommitProposal | Refusal | None:
        nonlocal copies
        # Brokers may have gone on, and a run that was not fenced until now may have, too.
        known = known_by_name(context, name, where=context.tier_uri)
        if known.brokers is None:
            return None
        if planned_adoption(context, known, known.brokers).adoption != taken:
            return None
        try:
            live, copies = live_with_copies(context, claimed, taken)
        except TierfoldError as error:
            return refusal_of(error, str(claimed.key))
        at_ms = context.clock()
        if (refusal := _noted(context, taken, at_ms)) is not None:
            return refusal
        start = known.brokers.metadata_start
        adopted = _adopting(context, replace(taken, live=live), start, at_ms)
        moved = noted_binding(context, claimed, at_ms)
        return proposed(claimed, *adopted, *moved, commit_id=new_commit_id(), at_ms=at_ms)

    report = changed_row(context, row, planned, propose, FORGOTTEN, "forget")
    return replace(
        report,
        objects_written=copies.objects,
        bytes_written=copies.stored_bytes,
        parts_verified=copies.verified,
    )


def _adopting(
    context: RunContext, taken: Adoption, metadata_start: int, at_ms: int
) -> tuple[AdoptSegments, NoteConsent]:
    adopted = AdoptSegments(
        live=taken.live,
        retired=taken.retired,
        brings_back=bool(taken.back),
        lineage=taken.lineage,
        log_start_offset=taken.log_start_offset,
        served_by=_served_by(context, taken, metadata_start),
        at_ms=at_ms,
        run=context.run,
    )
    consent = Consent(kind=ConsentKind.ADOPTED, given_at_ms=at_ms, run=context.run)
    return adopted, NoteConsent(consent=consent)


def _served_by(
    context: RunContext, taken: Adoption, metadata_start: int
) -> tuple[ServingCluster, ...]:
    """The cluster to note: once brokers serve what runs wrote, only its cluster may change it."""
    look = context.cluster_view
    if look is None or not taken.is_published:
        return ()
    return (replace(look.serving(place_of(context)), metadata_start=metadata_start),)


def _noted(context: RunContext, taken: Adoption, at_ms: int) -> Refusal | None:
    """Let the tier's note name this catalog and place, if it does not; why that failed, if it did.

    It comes before the row's commit: if that fails, `forget` is run again.
    """
    look = context.cluster_view
    notes, place = notes_of(context), place_of(context)
    present = notes.newest()
    fingerprint = context.catalog.fingerprint()
    if look is None or not taken.is_published or present is None:
        return None
    if (present.service.fingerprint, present.service.place) == (fingerprint, place):
        return None
    service = TierService(
        cluster_id=look.cluster_id, fingerprint=fingerprint, place=place, noted_at_ms=at_ms
    )
    return None if isinstance(notes.write(service, present), Noted) else another_note(notes)

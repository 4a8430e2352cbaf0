"""`forget` beside brokers: plans what the row takes over from them (`commits.adoption`)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.commits.adoption import (
    ADOPTED_FOR,
    Adoption,
    adoption,
    half_sent,
    half_sent_refusal,
    usable,
)
from tierfold.compaction.discovery.draft import draft_of, drafted, lineage_refusal
from tierfold.compaction.discovery.facts import PartitionFacts
from tierfold.compaction.discovery.refused_by_brokers import refused_without_row_by_brokers
from tierfold.compaction.discovery.view import Refusal
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.segments import PartitionState
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.pipeline.discovery import candidates_of, facts_of, view_of_draft
from tierfold.jobs.pipeline.known_partition import KnownPartition, refusal_of


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
    bare = facts_of(context, key, None, listed, brokers)
    if (refusal := refused_without_row_by_brokers(bare)) is not None:
        return refusal
    complete = [segment.segment_id for segment in listed if segment.is_complete]
    if (refusal := half_sent_refusal(brokers, complete, context.now_ms)) is not None:
        return refusal
    facts = _with_usable(context, bare, brokers)
    draft = draft_of(facts)
    refusal = None if isinstance(draft, Refusal) else lineage_refusal(draft)
    view = refusal or view_of_draft(context, facts, draft)
    if isinstance(view, Refusal):
        return view
    return adoption(view, known.state, brokers, context.run)


def _with_usable(
    context: RunContext, bare: PartitionFacts, brokers: BrokerPartition
) -> PartitionFacts:
    """Return the facts with only what would be live; raises TierfoldError."""
    ids = {segment.added.segment_id for segment in half_sent(brokers)}
    unread = [
        segment
        for segment in bare.classified.unknown
        if segment.segment_id in ids and segment.is_complete
    ]
    sent = candidates_of(context, bare.key, unread, brokers, bare.fingerprint)
    return replace(bare, candidates=usable(bare.candidates, sent, brokers, context.run))

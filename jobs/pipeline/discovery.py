"""Reads a partition of the tier and decides which segments belong to the log.

    facts_of    classifies the listing, reads what is known of its candidates
    view_from   compares overlaps, and returns the decision of `compaction.discovery`

`aborted_in` and `last_stable_in` read what segments say about transactions.

Nothing is written. Each run compares an overlap until a claim stores in the row that the segments
agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.discovery.candidates import Candidate
from tierfold.compaction.discovery.draft import PartitionDraft, drafted
from tierfold.compaction.discovery.drafted_view import view_of
from tierfold.compaction.discovery.facts import PartitionFacts, from_log_start
from tierfold.compaction.discovery.listing import ListedSegment, classify, without_expired
from tierfold.compaction.discovery.ownership import beside_each_other
from tierfold.compaction.discovery.phases import (
    ByPhase,
    UnnamedSegment,
    as_brokers_have,
    by_phase,
    live_end_by,
)
from tierfold.compaction.discovery.view import PartitionView, Refusal
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.compaction.model.segments import PartitionKey, PartitionState, Segment
from tierfold.compaction.planning.regions import LastStable, last_stable_of
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import are_holes_declared
from tierfold.storage.segments.overlap_check import prove_overlaps
from tierfold.storage.segments.segment_inspection import inspected, ownership_of
from tierfold.storage.segments.segment_metadata import read_aborted, read_snapshot
from tierfold.storage.tiers.remote_tier import Listing, address_of


def facts_of(
    context: RunContext,
    key: PartitionKey,
    state: PartitionState | None,
    listed: Listing,
    brokers: BrokerPartition | None = None,
) -> PartitionFacts:
    """Read all facts about a partition; raises TierfoldError.

    `listed`: its listing. `brokers`: what brokers have of it, looked at after row and listing.
    """
    classified = classify(listed, state)
    # A row that was ever claimed was read from the catalog, so this reads nothing more.
    is_claimed = state is not None and state.epoch > 0
    fingerprint = context.catalog.fingerprint() if is_claimed else None
    if brokers is not None and state is not None:
        classified = without_expired(classified, from_log_start(state, brokers).segments)
    sorted_out = ByPhase(finished=classified.unknown, left_alone=())
    if brokers is not None:
        sorted_out = by_phase(classified.unknown, brokers)
    candidates = candidates_of(context, key, sorted_out.finished, brokers, fingerprint)
    return PartitionFacts(
        key=key,
        state=state,
        classified=classified,
        candidates=candidates,
        fingerprint=fingerprint,
        are_holes_declared=are_holes_declared(context.holes_are_holes, key),
        live_end=_live_end(context, key, state, candidates)
        if brokers is None
        else live_end_by(brokers, state),
        brokers=brokers,
        left_alone=tuple(_with_owner(context, key, one) for one in sorted_out.left_alone),
    )


def candidates_of(
    context: RunContext,
    key: PartitionKey,
    read: Sequence[ListedSegment],
    brokers: BrokerPartition | None,
    fingerprint: int | None,
) -> tuple[Candidate, ...]:
    """Read what is known of listed segments, each with the end that `brokers` noted, if given."""
    is_named = brokers is not None
    alone = [_inspected(context, key, one, fingerprint, is_named=is_named) for one in read]
    owners = beside_each_other([candidate.ownership for candidate in alone])
    found = tuple(
        replace(candidate, ownership=owner) for candidate, owner in zip(alone, owners, strict=True)
    )
    if brokers is None:
        return found
    return tuple(as_brokers_have(candidate, brokers) for candidate in found)


def _inspected(
    context: RunContext,
    key: PartitionKey,
    listed: ListedSegment,
    fingerprint: int | None,
    *,
    is_named: bool,
) -> Candidate:
    """Read what is known of a listed segment, unless the survey may recall it."""
    memory = context.memory if context.recalls else None
    if memory is not None:
        recalled = memory.candidate(key, listed, fingerprint, is_named=is_named)
        if recalled is not None:
            return recalled
    most = context.batch_bytes_max(key.topic)
    found = inspected(
        context.tier, key, listed, most, is_named=is_named, fingerprint=fingerprint
    )
    if memory is not None:
        memory.note(key, found, is_named=is_named)
    return found


def newest_producers(
    context: RunContext, key: PartitionKey, segments: Sequence[Segment], listed: Listing
) -> tuple[ProducerEntry, ...]:
    """The producers at the end of the last of these segments; raises TierfoldError.

    It is read, unless the survey may recall it. `listed`: the partition's listing.
    """
    newest = segments[-1]
    entry = next((one for one in listed if one.segment_id == newest.segment_id), None)
    memory = context.memory if context.recalls else None
    if memory is None or entry is None:
        return read_snapshot(context.tier, key, newest)
    if (recalled := memory.producers(key, entry)) is not None:
        return recalled
    found = read_snapshot(context.tier, key, newest)
    memory.note_producers(key, entry, newest, found)
    return found


def _with_owner(context: RunContext, key: PartitionKey, unnamed: UnnamedSegment) -> UnnamedSegment:
    """Return it with what its objects say of whose it is, if it is strange."""
    if not unnamed.is_strange:
        return unnamed
    return replace(unnamed, ownership=ownership_of(context.tier, key, unnamed.listed))


def _live_end(
    context: RunContext,
    key: PartitionKey,
    state: PartitionState | None,
    candidates: Sequence[Candidate],
) -> int | None:
    """Return the last live segment's end as its objects say it, if there is a gap behind it.

    The row may have it from the last batch. None: there is no gap, or the objects do not say it.
    """
    if state is None or not state.segments:
        return None
    starts = [found.start_offset for found in candidates if found.segment is not None]
    above = [start for start in starts if start >= state.next_offset]
    if not above or min(above) == state.next_offset:
        return None
    return context.tier.recorded_end(address_of(key, state.segments[-1]))


def viewed(
    context: RunContext,
    key: PartitionKey,
    state: PartitionState | None,
    listed: Listing,
    brokers: BrokerPartition | None = None,
) -> PartitionView | Refusal:
    """Return the partition's view from its listing and the catalog's row; raises TierfoldError.

    `brokers`: as of `facts_of`.
    """
    return view_from(context, facts_of(context, key, state, listed, brokers))


def aborted_in(
    context: RunContext, key: PartitionKey, segments: Iterable[Segment]
) -> tuple[AbortedTransaction, ...]:
    """Return the aborted transactions in the segments' indexes; raises TierfoldError."""
    return tuple(
        transaction
        for segment in segments
        for transaction in read_aborted(context.tier, key, segment)
    )


def last_stable_in(
    context: RunContext, key: PartitionKey, segments: Sequence[Segment]
) -> LastStable | None:
    """Return the oldest open transaction in the newest segment's snapshot; raises TierfoldError."""
    return last_stable_of(read_snapshot(context.tier, key, segments[-1])) if segments else None


def view_from(context: RunContext, facts: PartitionFacts) -> PartitionView | Refusal:
    """Compare overlaps and return the view of these facts; raises TierfoldError."""
    return view_of_draft(context, facts, drafted(facts))


def view_of_draft(
    context: RunContext, facts: PartitionFacts, draft: PartitionDraft | Refusal
) -> PartitionView | Refusal:
    """Compare the overlaps of a draft and return its view; raises TierfoldError."""
    if isinstance(draft, Refusal):
        return draft.at(context.place(facts.key))
    most = context.batch_bytes_max(facts.key.topic)
    proof = prove_overlaps(context.tier, facts.key, draft.chain, draft.comparisons, most)
    found = view_of(draft, proof)
    return found.at(context.place(facts.key)) if isinstance(found, Refusal) else found

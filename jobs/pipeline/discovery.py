"""What lies in a partition of the tier, and what of it belongs to the log.

    facts_of   row and listing; each unknown segment is read once: its ends, its leader epochs
    facts_from the same, of a listing that was made before
    viewed     what `compaction.discovery` decides of them, the overlaps compared in between

Nothing is written. An overlap is compared anew at each look until a claim has noted in the row that
it agrees.
"""

from __future__ import annotations

from collections.abc import Sequence

from tierfold.compaction.discovery.listing import ListedSegment, classify
from tierfold.compaction.discovery.unknown_segments import PartitionFacts, drafted, view_of
from tierfold.compaction.discovery.view import PartitionView, Refusal
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.jobs.context.run_context import RunContext
from tierfold.storage.segments.overlap_check import prove_overlaps
from tierfold.storage.segments.segment_inspection import inspected


def facts_of(
    context: RunContext, key: PartitionKey, state: PartitionState | None
) -> PartitionFacts:
    """All that is read of a partition before anything is decided; raises TierfoldError."""
    return facts_from(context, key, state, context.tier.listing(key))


def facts_from(
    context: RunContext,
    key: PartitionKey,
    state: PartitionState | None,
    listed: Sequence[ListedSegment],
) -> PartitionFacts:
    """All that is read of a partition with this listing; raises TierfoldError."""
    classified = classify(listed, state)
    return PartitionFacts(
        key=key,
        state=state,
        classified=classified,
        inspected=tuple(inspected(context.tier, key, segment) for segment in classified.unknown),
    )


def viewed(
    context: RunContext, key: PartitionKey, state: PartitionState | None
) -> PartitionView | Refusal:
    """The partition as the tier and the catalog's row show it; raises TierfoldError."""
    return view_from(context, facts_of(context, key, state))


def view_from(context: RunContext, facts: PartitionFacts) -> PartitionView | Refusal:
    """The view that these facts make, once overlaps are compared; raises TierfoldError."""
    draft = drafted(facts)
    if isinstance(draft, Refusal):
        return draft.at(context.place(facts.key))
    proof = prove_overlaps(context.tier, facts.key, draft.chain, draft.comparisons)
    found = view_of(draft, proof)
    return found.at(context.place(facts.key)) if isinstance(found, Refusal) else found

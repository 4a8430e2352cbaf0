"""The draft of a view: which candidates are taken if their overlaps agree.

The catalog's live segments are trusted. Candidates must belong to the same history, continue the
live range without a gap, and agree with live segments in overlaps (SEMANTICS 1, "Discovery").
Without a row, a partition is refused if its segments leave a gap.
"""

from __future__ import annotations

from dataclasses import dataclass

from tierfold.compaction.brokers.lineage import beside, finished, outside_lineage
from tierfold.compaction.discovery.facts import PartitionFacts
from tierfold.compaction.discovery.histories import History
from tierfold.compaction.discovery.overlaps import Chain, Comparison, chain_of, comparisons
from tierfold.compaction.discovery.refusals import (
    refused_by_history,
    refused_by_listing,
    refused_without_row,
)
from tierfold.compaction.discovery.refused_by_brokers import refused_by_brokers
from tierfold.compaction.discovery.refused_by_lineage import denied_lineage, refused_beside
from tierfold.compaction.discovery.view import Refusal, RefusalReason


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDraft:
    """The segments that are taken of a partition if its overlaps agree."""

    facts: PartitionFacts
    history: History
    chain: Chain
    comparisons: tuple[Comparison, ...]


def drafted(facts: PartitionFacts) -> PartitionDraft | Refusal:
    """Decide which candidates belong to the log and continue the live segments."""
    if (refusal := refused_by_brokers(facts)) is not None:
        return refusal
    draft = draft_of(facts)
    if isinstance(draft, Refusal):
        return draft
    return lineage_refusal(draft) or _refused_beside(draft) or draft


def lineage_refusal(draft: PartitionDraft) -> Refusal | None:
    """The refusal if the brokers' log is not the one that the tier has; None: it is."""
    return denied_lineage(draft.facts, draft.history.lineage)


def _refused_beside(draft: PartitionDraft) -> Refusal | None:
    """The refusal if brokers have segments of another history over those of the log.

    None: they do not. What is taken counts as well: a claim makes it live.
    """
    facts = draft.facts
    if facts.brokers is None:
        return None
    live = () if facts.row is None else facts.row.segments
    given_up = frozenset[str]() if facts.state is None else facts.state.retired_ids
    found = finished(facts.brokers.view, facts.brokers.log_start)
    outside = outside_lineage(found, draft.history.lineage)
    return refused_beside(beside(outside, (*live, *draft.chain.taken), given_up))


def draft_of(facts: PartitionFacts) -> PartitionDraft | Refusal:
    """Decide as `drafted`, whatever brokers have."""
    row = facts.row
    if (refusal := refused_by_listing(facts)) is not None:
        return refusal
    history = facts.history()
    live = () if row is None else row.segments
    if (refusal := refused_by_history(history, live)) is not None:
        return refusal
    complete = history.complete
    if row is None:
        reached = min((segment.start_offset for segment in complete), default=0) - 1
    else:
        reached = max(row.next_offset - 1, -1 if facts.live_end is None else facts.live_end)
        complete = [s for s in complete if max(s.start_offset, s.end_offset) > reached]
        if not live:
            # The log start may lie in a batch, where no segment can be cut.
            reached = min([reached, *(s.start_offset - 1 for s in complete)])
    chain = chain_of(reached, complete, facts.holes(history), live[-1] if live else None)
    if row is None and (refusal := refused_without_row(facts, history, chain)) is not None:
        return refusal
    return PartitionDraft(
        facts=facts, history=history, chain=chain, comparisons=comparisons(live, chain)
    )


def divergence(facts: PartitionFacts) -> Refusal | None:
    """The refusal of a log that an unclean leader election truncated; None: none is proven."""
    if facts.row is None:
        draft = drafted(facts)
        found = draft if isinstance(draft, Refusal) else None
    else:
        found = refused_by_history(facts.history(), facts.row.segments)
    is_proven = found is not None and found.reason is RefusalReason.LINEAGE_DIVERGED
    return found if is_proven else None

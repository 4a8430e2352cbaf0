"""Which unknown segments become part of a partition's log.

    listing and row  -> `discovery.listing.classify`: the unknown segments, which are read once
    PartitionFacts   -> `drafted`: the history, the segments to take, the overlaps to compare
    OverlapProof     -> `view_of`: PartitionView | Refusal

The catalog's live segments are trusted. Unknown ones must belong to the same history, continue the
live range without a gap, and agree with live segments in overlaps (SEMANTICS 1, "Discovery").
Without a row, a partition is refused if its segments leave a gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tierfold.compaction.discovery.facts import PartitionFacts
from tierfold.compaction.discovery.histories import (
    History,
    InspectedSegment,
    doubtful_ids,
    fits,
    shared_until,
)
from tierfold.compaction.discovery.holes import with_end
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.discovery.overlaps import (
    Chain,
    Comparison,
    OverlapProof,
    chain_of,
    comparisons,
    with_proof,
)
from tierfold.compaction.discovery.refusals import (
    missing_below,
    refused_by_history,
    refused_by_listing,
    refused_without_row,
)
from tierfold.compaction.discovery.view import (
    CATALOG_FIRST,
    PartitionView,
    Refusal,
    RefusalReason,
)
from tierfold.compaction.model.leader_epochs import is_within_lineage
from tierfold.compaction.model.segments import Hole, PartitionState
from tierfold.compaction.model.wording import counted


def divergence(facts: PartitionFacts) -> Refusal | None:
    """The refusal of a log that an unclean leader election truncated; None: none is proven."""
    if facts.row is None:
        draft = drafted(facts)
        found = draft if isinstance(draft, Refusal) else None
    else:
        found = refused_by_history(facts.history(), facts.row.segments)
    is_proven = found is not None and found.reason is RefusalReason.LINEAGE_DIVERGED
    return found if is_proven else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDraft:
    """The segments that are taken of a partition if its overlaps agree."""

    facts: PartitionFacts
    history: History
    chain: Chain
    comparisons: tuple[Comparison, ...]


def drafted(facts: PartitionFacts) -> PartitionDraft | Refusal:
    """Decide which unknown segments belong to the log and continue the live ones."""
    row = facts.row
    if (refusal := refused_by_listing(facts)) is not None:
        return refusal
    history = facts.history()
    live = () if row is None else row.segments
    if (refusal := refused_by_history(history, live)) is not None:
        return refusal
    complete = [inspected.segment for inspected in history.fitting if inspected.segment is not None]
    rule = facts.holes(history)
    if row is None:
        reached = min((segment.start_offset for segment in complete), default=0) - 1
    else:
        reached = max(row.next_offset - 1, -1 if facts.live_end is None else facts.live_end)
        complete = [s for s in complete if max(s.start_offset, s.end_offset) > reached]
    chain = chain_of(reached, complete, rule, live[-1] if live else None)
    if row is None and (refusal := refused_without_row(facts, history, chain)) is not None:
        return refusal
    return PartitionDraft(
        facts=facts, history=history, chain=chain, comparisons=comparisons(live, chain)
    )


def view_of(draft: PartitionDraft, proof: OverlapProof) -> PartitionView | Refusal:
    """The view, once the overlaps are compared; a refusal if they disagree."""
    facts, history = draft.facts, draft.history
    row = facts.row
    if proof.disagreements:
        return Refusal(
            reason=RefusalReason.OVERLAP,
            detail="; ".join(proof.disagreements),
            remedy=CATALOG_FIRST if row is None else _OTHER_BATCHES,
        )
    taken = with_proof(draft.chain, draft.comparisons, proof)
    live, holes = () if row is None else row.segments, draft.chain.holes
    if live and draft.chain.live_end > live[-1].end_offset:
        beyond = Hole(start_offset=live[-1].next_offset, end_offset=draft.chain.live_end)
        holes = tuple(sorted({beyond, *holes}))
        live = with_end(live, facts.holes(history), draft.chain.live_end)
    segments = live + taken
    first = segments[0].start_offset if segments else 0
    log_start_offset = first if row is None else row.log_start_offset
    end_offset = segments[-1].end_offset if segments else log_start_offset - 1
    orphans = tuple(found.listed for found in facts.inspected if is_orphan(found, row))
    waiting = tuple(_waiting(draft, orphans))
    return PartitionView(
        key=facts.key,
        state=facts.state,
        doubtful=doubtful_ids(facts.inspected),
        segments=segments,
        orphans=orphans,
        set_apart=tuple(inspected.listed for inspected in history.apart),
        needed=_needed(history, draft.chain.reached),
        waiting=tuple(segment.listed for segment in waiting),
        stalled_since_ms=min(
            (late.listed.modified_ms for late in waiting if _reaches_beyond(late, end_offset)),
            default=None,
        ),
        retired=facts.classified.retired,
        # Epochs beyond the live end are left out: an election may still cut them off.
        lineage=tuple(epoch for epoch in history.lineage if epoch.start_offset <= end_offset),
        log_start_offset=log_start_offset,
        holes=holes,
        notes=(*_hole_notes(holes), *_notes(draft, waiting)),
    )


def row_view(facts: PartitionFacts, refusal: Refusal) -> PartitionView | None:
    """A view without unknown segments, by which `vacuum` may delete from a diverged partition.

    None: there is no row. Segments are set apart if they belong neither to the row's history nor to
    the one that contradicts it.
    """
    row = facts.row
    if row is None:
        return None
    history = facts.history()
    complete = [inspected.segment for inspected in history.fitting if inspected.segment is not None]
    shared = _shared_end(row, history)
    return PartitionView(
        key=facts.key,
        state=facts.state,
        doubtful=doubtful_ids(facts.inspected),
        segments=row.segments,
        orphans=orphans_of_diverged(facts),
        set_apart=tuple(
            inspected.listed for inspected in history.apart if not fits(inspected, row.lineage)
        ),
        needed=_needed(history, chain_of(shared, complete).reached),
        waiting=(),
        stalled_since_ms=None,
        retired=facts.classified.retired,
        lineage=row.lineage,
        log_start_offset=row.log_start_offset,
        notes=(refusal.sentence,),
    )


def is_orphan(segment: InspectedSegment, row: PartitionState | None) -> bool:
    """Whether an unknown segment holds no record of its own (SEMANTICS 1, "Orphans").

    It has no `.log`, or the row's segments have all its offsets, or had them before they expired,
    and it has none of a hole between them. What tierfold itself began to write holds only records
    of its sources. What may be another cluster's is no orphan.
    """
    if row is None or segment.is_doubtful:
        return False
    if not segment.listed.has_log or segment.is_own_unfinished:
        return True
    return (
        segment.is_readable
        and segment.reach is not None
        and _lowest_named(row) <= segment.listed.start_offset
        and segment.reach < row.next_offset
        and fits(segment, row.lineage)
        and not _is_in_hole(segment, row)
    )


def _is_in_hole(segment: InspectedSegment, row: PartitionState) -> bool:
    """Whether an upload has offsets that were taken for a hole: a segment was missing after all."""
    start, end = segment.listed.start_offset, segment.end_offset
    if end is None or segment.is_own:
        return False
    return any(max(start, hole.start_offset) <= min(end, hole.end_offset) for hole in row.holes)


def orphans_of_diverged(facts: PartitionFacts) -> tuple[ListedSegment, ...]:
    """The orphans of a partition whose log was truncated: neither history needs them.

    Only the first of the row's segments are part of the new history, too. Beyond them, an upload of
    the new leader may be the only source of its offsets in that history.
    """
    row = facts.row
    if row is None:
        return ()
    history = facts.history()
    shared = _shared_end(row, history)
    return tuple(
        inspected.listed
        for inspected in facts.inspected
        if is_orphan(inspected, row)
        and not ((inspected.end_offset or 0) > shared and fits(inspected, history.lineage))
    )


def _shared_end(row: PartitionState, history: History) -> int:
    """The last offset of the row's segments that are part of the history contradicting the row."""
    common = [segment for segment in row.segments if is_within_lineage(segment, history.lineage)]
    # If all are within the lineage, the new history's lineage is unknown.
    is_known = len(common) < len(row.segments)
    return common[-1].end_offset if common and is_known else row.log_start_offset - 1


def _needed(history: History, reached: int) -> tuple[str, ...]:
    """Ids of segments set apart that alone have offsets of the history above `reached`."""
    found = ((inspected, shared_until(inspected, history.lineage)) for inspected in history.apart)
    return tuple(
        inspected.listed.segment_id
        for inspected, shared in found
        if max(inspected.listed.start_offset, reached + 1) <= shared
    )


def _lowest_named(row: PartitionState) -> int:
    """The first offset of the row; below it, an upload may hold records that no other segment has.

    If a tier is copied with its head last, its row starts in the middle of the log.
    """
    expired = (entry.segment.start_offset for entry in row.retired)
    return min((row.log_start_offset, *expired))


_OTHER_BATCHES: Final = (
    "One of them is not an upload of this log: find out which (`tierfold dump` shows their batches)"
    " and move it out of the tier."
)


def _waiting(
    draft: PartitionDraft, orphans: Sequence[ListedSegment]
) -> Iterator[InspectedSegment]:
    """Segments that may hold offsets beyond the taken ones: after a gap, incomplete, unreadable."""
    settled = {segment.segment_id for segment in (*draft.chain.taken, *draft.chain.superseded)}
    settled |= {segment.segment_id for segment in orphans}
    reached = draft.chain.reached
    settled |= {inspected.listed.segment_id for inspected in draft.history.apart}
    settled -= set(_needed(draft.history, reached))
    for found in draft.facts.inspected:
        end = found.reach
        is_covered = found.is_readable and end is not None and end <= reached
        if found.listed.segment_id not in settled and not is_covered:
            yield found


def _reaches_beyond(segment: InspectedSegment, live_end: int) -> bool:
    known = segment.seen_offset if segment.end_offset is None else segment.end_offset
    return max(known, segment.listed.start_offset) > live_end


def _hole_notes(holes: Sequence[Hole]) -> Iterator[str]:
    """How many gaps are taken for holes, and the one that is most like a missing segment."""
    if holes:
        largest = max(holes, key=lambda hole: hole.end_offset - hole.start_offset)
        gaps = counted(len(holes), "gap")
        yield f"{gaps} between segments taken for holes, the largest at {largest}"


def _notes(draft: PartitionDraft, waiting: Sequence[InspectedSegment]) -> Iterator[str]:
    """Why each unknown segment that is kept is not read, a sentence each."""
    row, reached = draft.facts.row, draft.chain.reached
    taken = {segment.segment_id for segment in draft.chain.taken}
    needed = _needed(draft.history, reached)
    for inspected in draft.history.apart:
        if inspected.listed.segment_id not in needed:
            yield f"{inspected} is set apart, outside the leader epoch lineage: kept, not read"
    for unproven in draft.history.unproven:
        yield (
            f"{unproven} is kept, not read: its leader epochs do not continue the log's, and do not"
            " contradict them at an offset that both cover"
        )
    for fitting in draft.history.fitting:
        if row is not None and _is_in_hole(fitting, row):
            yield f"{fitting} has offsets that were taken for a hole: kept, not read"
            continue
        is_taken = fitting.listed.segment_id in taken
        if row is not None and not is_taken and fitting.listed.start_offset < _lowest_named(row):
            yield (
                f"{fitting} starts below the log start {row.log_start_offset}, and the catalog"
                " lists no segment there: kept, not read"
            )
        if is_taken and fitting.index_corruptions:
            yield (
                f"{fitting} has a corrupt index ({'; '.join(fitting.index_corruptions)}): a"
                " rewrite of the segment builds it again from the .log"
            )
    why_not = missing_below(draft.facts, draft.history, draft.chain)
    for late in waiting:
        if late.obstacle:
            yield f"{late.listed} is kept, not read: {late.obstacle}"
        elif late.listed.segment_id in needed:
            shared = shared_until(late, draft.history.lineage)
            yield (
                f"{late} is set apart, although it is part of the log up to offset {shared}, where"
                " the log was truncated: kept, not read"
            )
        elif late in draft.history.unproven:
            continue
        elif late.is_without_end and late.listed.start_offset == reached + 1:
            yield f"{late} is not used yet: the next segment will show where it ends"
        elif late.segment is not None:
            yield f"{late} is not used yet: {why_not}"
        else:
            yield f"{late} lacks {late.listed.lacking}: not used until its upload is complete"

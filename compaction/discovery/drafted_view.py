"""The view of a drafted partition: which candidates join the log, wait, are set apart, or orphans.

    PartitionDraft, OverlapProof  -> `view_of`: PartitionView | Refusal
    PartitionFacts, Refusal       -> `row_view`: the view of a diverged partition, for `vacuum`
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tierfold.compaction.discovery.candidates import (
    Candidate,
    is_foreign,
    is_orphan,
)
from tierfold.compaction.discovery.draft import PartitionDraft
from tierfold.compaction.discovery.facts import PartitionFacts
from tierfold.compaction.discovery.histories import History
from tierfold.compaction.discovery.holes import with_end
from tierfold.compaction.discovery.listing import ListedSegment, with_classes
from tierfold.compaction.discovery.notes import (
    consent_notes,
    foreign_notes,
    hole_notes,
    notes_of,
)
from tierfold.compaction.discovery.overlaps import OverlapProof, chain_of, with_proof
from tierfold.compaction.discovery.phases import phase_notes
from tierfold.compaction.discovery.view import (
    CATALOG_FIRST,
    NAME_CATALOG,
    PartitionView,
    Refusal,
    RefusalReason,
)
from tierfold.compaction.model.leader_epochs import is_within_lineage
from tierfold.compaction.model.segment_ids import Maker
from tierfold.compaction.model.segments import Hole, PartitionState, Segment
from tierfold.compaction.model.wording import counted

_OTHER_BATCHES: Final = (
    "One of them is not an upload of this log: find out which (`tierfold dump` shows their batches)"
    " and move it out of the tier."
)


def view_of(draft: PartitionDraft, proof: OverlapProof) -> PartitionView | Refusal:
    """The view, once the overlaps are compared; a refusal if they disagree."""
    facts, history = draft.facts, draft.history
    row = facts.row
    if proof.disagreements:
        return _refused_overlap(facts, proof)
    taken = with_proof(draft.chain, draft.comparisons, proof)
    live, holes = () if row is None else row.segments, draft.chain.holes
    if live and draft.chain.live_end > live[-1].end_offset:
        beyond = Hole(start_offset=live[-1].next_offset, end_offset=draft.chain.live_end)
        holes = tuple(sorted({beyond, *holes}))
        live = with_end(live, facts.holes(history), draft.chain.live_end)
    segments = live + taken
    log_start_offset = _log_start(facts, segments)
    end_offset = segments[-1].end_offset if segments else log_start_offset - 1
    orphans = tuple(_orphans(facts))
    waiting = tuple(_waiting(draft, orphans))
    return PartitionView(
        key=facts.key,
        state=facts.state,
        doubtful=facts.doubtful_ids,
        fingerprint=facts.fingerprint,
        segments=segments,
        orphans=orphans,
        set_apart=tuple(candidate.listed for candidate in history.apart),
        needed=history.needed(draft.chain.reached),
        waiting=tuple(candidate.listed for candidate in waiting),
        stalled_since_ms=min(
            (late.listed.modified_ms for late in waiting if late.reaches_beyond(end_offset)),
            default=None,
        ),
        retired=facts.classified.retired,
        # Epochs beyond the live end are left out: an election may still cut them off.
        lineage=tuple(epoch for epoch in history.lineage if epoch.start_offset <= end_offset),
        log_start_offset=log_start_offset,
        holes=holes,
        notes=(
            *hole_notes(holes),
            *foreign_notes(facts),
            *notes_of(draft, waiting),
            *phase_notes(facts.left_alone),
            *consent_notes(facts),
        ),
        brokers=facts.brokers,
        stored=_stored(facts),
    )


def _refused_overlap(facts: PartitionFacts, proof: OverlapProof) -> Refusal:
    """The refusal of segments that share offsets and differ: its likely cause first, if known."""
    remedy = CATALOG_FIRST if facts.row is None else _OTHER_BATCHES
    causes: tuple[str, ...] = ()
    made = [one.segment_id for one in facts.candidates if one.maker is Maker.ANOTHER_CATALOG]
    if made:
        causes = (f"runs of another catalog made {counted(len(made), 'segment')}: {made[0]}",)
        remedy = NAME_CATALOG
    detail = "; ".join((*causes, *proof.disagreements))
    return Refusal(reason=RefusalReason.OVERLAP, detail=detail, remedy=remedy)


def _stored(facts: PartitionFacts) -> tuple[ListedSegment, ...]:
    return with_classes((*facts.classified.known, *(found.listed for found in facts.candidates)))


def _orphans(facts: PartitionFacts) -> Iterator[ListedSegment]:
    """Segments without records of their own, and what runs of this catalog left beside brokers."""
    yield from (found.listed for found in facts.candidates if is_orphan(found, facts.row))
    for unnamed in facts.left_alone:
        if unnamed.is_ours and unnamed.maker is not Maker.ANOTHER_CATALOG:
            yield unnamed.listed


def _log_start(facts: PartitionFacts, segments: Sequence[Segment]) -> int:
    """The first offset that consumers may read, as far as it is known."""
    if facts.row is not None:
        return facts.row.log_start_offset
    brokers = 0 if facts.brokers is None else facts.brokers.log_start
    return max(brokers, segments[0].start_offset) if segments else brokers


def _waiting(draft: PartitionDraft, orphans: Sequence[ListedSegment]) -> Iterator[Candidate]:
    """Candidates that may hold offsets above the taken ones: behind a gap, incomplete, corrupt."""
    reached = draft.chain.reached
    settled = {segment.segment_id for segment in (*draft.chain.taken, *draft.chain.superseded)}
    settled |= {segment.segment_id for segment in orphans}
    settled |= {candidate.segment_id for candidate in draft.history.apart}
    settled -= set(draft.history.needed(reached))
    row = draft.facts.row
    for found in draft.facts.candidates:
        is_covered = found.is_readable and found.reach is not None and found.reach <= reached
        is_settled = found.segment_id in settled or is_foreign(found, row)
        if not is_settled and not is_covered:
            yield found


def row_view(facts: PartitionFacts, refusal: Refusal) -> PartitionView | None:
    """A view without candidates, by which `vacuum` may delete from a diverged partition.

    None: there is no row. Segments are set apart if they belong neither to the row's history nor to
    the one that contradicts it.
    """
    row = facts.row
    if row is None:
        return None
    history = facts.history()
    return PartitionView(
        key=facts.key,
        state=facts.state,
        doubtful=facts.doubtful_ids,
        fingerprint=facts.fingerprint,
        segments=row.segments,
        orphans=orphans_of_diverged(facts),
        set_apart=tuple(found.listed for found in history.apart if not found.fits(row.lineage)),
        needed=history.needed(chain_of(_shared_end(row, history), history.complete).reached),
        waiting=(),
        stalled_since_ms=None,
        retired=facts.classified.retired,
        lineage=row.lineage,
        log_start_offset=row.log_start_offset,
        notes=(*foreign_notes(facts), *consent_notes(facts), refusal.sentence),
    )


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
        found.listed
        for found in facts.candidates
        if is_orphan(found, row)
        and not ((found.end_offset or 0) > shared and found.fits(history.lineage))
    )


def _shared_end(row: PartitionState, history: History) -> int:
    """The last offset of the row's segments that are part of the history contradicting the row."""
    common = [segment for segment in row.segments if is_within_lineage(segment, history.lineage)]
    # If all are within the lineage, the new history's lineage is unknown.
    is_known = len(common) < len(row.segments)
    return common[-1].end_offset if common and is_known else row.log_start_offset - 1

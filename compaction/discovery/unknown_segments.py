"""Which unknown segments become part of a partition's log, by what was read of them. Pure.

    listing + catalog row -> `discovery.listing.classify` -> the unknown ones are read once
    -> `drafted`: which history, which are taken, what must be compared (PartitionDraft | Refusal)
    -> the overlaps are compared -> `view_of` -> PartitionView | Refusal

The catalog's live segments are trusted; unknown ones must belong to their history, reach beyond
them without a gap, and agree with them where they overlap (SEMANTICS 1, "Discovery"). Without a row
there is nothing to trust, so a partition whose segments do not chain is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tierfold.compaction.discovery.histories import (
    History,
    InspectedSegment,
    decided_history,
    fits,
    shared_until,
)
from tierfold.compaction.discovery.listing import Classified, ListedSegment
from tierfold.compaction.discovery.overlaps import (
    Chain,
    Comparison,
    OverlapProof,
    chain_of,
    comparisons,
    with_proof,
)
from tierfold.compaction.discovery.view import (
    CATALOG_FIRST,
    PLACE,
    PartitionView,
    Refusal,
    RefusalReason,
    gap,
)
from tierfold.compaction.model.leader_epochs import is_within_lineage
from tierfold.compaction.model.segments import PartitionKey, PartitionState, Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """All that was read of a partition before anything is decided."""

    key: PartitionKey
    state: PartitionState | None
    """The catalog's row as read; None: it has none."""
    classified: Classified
    inspected: tuple[InspectedSegment, ...]
    """Every segment of `classified.unknown`, read once by storage."""

    @property
    def row(self) -> PartitionState | None:
        """The row, if it knows the log; None where there is none, and after `tierfold forget`."""
        return None if self.state is None or self.state.is_forgotten else self.state

    def history(self) -> History:
        """The history by the leader epochs of all segments with a `.log`; computed at each call."""
        with_log = [inspected for inspected in self.inspected if inspected.listed.has_log]
        return decided_history(with_log, self.row)


def divergence(facts: PartitionFacts) -> Refusal | None:
    """How an unclean leader election cut the log off, whatever else is wrong; None: it did not."""
    if facts.row is None:
        draft = drafted(facts)
        is_diverged = isinstance(draft, Refusal) and draft.reason is RefusalReason.LINEAGE_DIVERGED
        return draft if isinstance(draft, Refusal) and is_diverged else None
    return _refused_by_history(facts.history(), facts.row.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDraft:
    """What is taken of a partition if its overlaps agree."""

    facts: PartitionFacts
    history: History
    chain: Chain
    comparisons: tuple[Comparison, ...]
    """What must be compared first."""


def drafted(facts: PartitionFacts) -> PartitionDraft | Refusal:
    """Decide which unknown segments belong to the log and chain to the live ones."""
    row = facts.row
    refusal = _refused_by_listing(facts)
    if refusal is not None:
        return refusal
    history = facts.history()
    live = () if row is None else row.segments
    refusal = _refused_by_history(history, live)
    if refusal is not None:
        return refusal
    complete = [inspected.segment for inspected in history.fitting if inspected.segment is not None]
    if row is None:
        reached = min((segment.start_offset for segment in complete), default=0) - 1
    else:
        reached = row.next_offset - 1
        complete = [segment for segment in complete if segment.end_offset > reached]
    chain = chain_of(reached, complete)
    refusal = None if row is not None else _refused_without_row(facts, history, chain)
    if refusal is not None:
        return refusal
    return PartitionDraft(
        facts=facts, history=history, chain=chain, comparisons=comparisons(live, chain)
    )


def view_of(draft: PartitionDraft, proof: OverlapProof) -> PartitionView | Refusal:
    """The view, once the overlaps were compared; a refusal where they disagree."""
    facts, history = draft.facts, draft.history
    row = facts.row
    if proof.disagreements:
        return Refusal(
            reason=RefusalReason.OVERLAP,
            detail="; ".join(proof.disagreements),
            remedy=CATALOG_FIRST if row is None else _OTHER_BATCHES,
        )
    taken = with_proof(draft.chain, draft.comparisons, proof)
    live = () if row is None else row.segments
    segments = live + taken
    first = segments[0].start_offset if segments else 0
    log_start_offset = first if row is None else row.log_start_offset
    end_offset = segments[-1].end_offset if segments else log_start_offset - 1
    orphans = tuple(found.listed for found in facts.inspected if is_orphan(found, row))
    waiting = tuple(_waiting(draft, orphans))
    return PartitionView(
        key=facts.key,
        state=facts.state,
        segments=segments,
        orphans=orphans,
        set_apart=tuple(inspected.listed for inspected in history.apart),
        needed=_needed(history, _reached(draft)),
        waiting=tuple(segment.listed for segment in waiting),
        stalled_since_ms=min(
            (late.listed.modified_ms for late in waiting if _reaches_beyond(late, end_offset)),
            default=None,
        ),
        retired=facts.classified.retired,
        # Epochs beyond the live end are left out: they may still be cut off.
        lineage=tuple(epoch for epoch in history.lineage if epoch.start_offset <= end_offset),
        log_start_offset=log_start_offset,
        notes=tuple(_notes(draft, waiting)),
    )


def row_view(facts: PartitionFacts, refusal: Refusal) -> PartitionView | None:
    """A view of the row alone, for what may still be deleted of a diverged partition; None: no row.

    Nothing unknown is taken. Set apart are segments that belong neither to the row's history nor to
    the one that contradicts it.
    """
    row = facts.row
    if row is None:
        return None
    history = facts.history()
    complete = [inspected.segment for inspected in history.fitting if inspected.segment is not None]
    shared = _shared_end(row, history)
    taken = chain_of(shared, complete).taken
    return PartitionView(
        key=facts.key,
        state=facts.state,
        segments=row.segments,
        orphans=orphans_of_diverged(facts),
        set_apart=tuple(
            inspected.listed for inspected in history.apart if not fits(inspected, row.lineage)
        ),
        needed=_needed(history, taken[-1].end_offset if taken else shared),
        waiting=(),
        stalled_since_ms=None,
        retired=facts.classified.retired,
        lineage=row.lineage,
        log_start_offset=row.log_start_offset,
        notes=(refusal.sentence,),
    )


def is_orphan(segment: InspectedSegment, row: PartitionState | None) -> bool:
    """Whether an unknown segment is known to hold nothing of its own (SEMANTICS 1, "Orphans").

    Without a `.log` it holds nothing; else all its offsets lie where the row's segments are, or
    were before they expired.
    """
    if row is None:
        return False
    if not segment.listed.has_log:
        return True
    return (
        segment.is_readable
        and segment.end_offset is not None
        and _lowest_named(row) <= segment.listed.start_offset
        and segment.end_offset < row.next_offset
        and fits(segment, row.lineage)
    )


def orphans_of_diverged(facts: PartitionFacts) -> tuple[ListedSegment, ...]:
    """The orphans of a partition whose log was cut off: neither history needs them.

    Only the first of the row's segments are part of the new history, too. Beyond them, what its
    leader uploaded may be the only source of offsets that the row's segments have otherwise.
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
    """The last offset of the row's segments that are part of the history that contradicts it."""
    common = [segment for segment in row.segments if is_within_lineage(segment, history.lineage)]
    # All within the lineage: that of the new history is not known.
    is_known = len(common) < len(row.segments)
    return common[-1].end_offset if common and is_known else row.log_start_offset - 1


def _needed(history: History, reached: int) -> tuple[str, ...]:
    """Ids of segments that are apart and alone give the history offsets beyond `reached`."""
    found = ((inspected, shared_until(inspected, history.lineage)) for inspected in history.apart)
    return tuple(
        inspected.listed.segment_id
        for inspected, shared in found
        if max(inspected.listed.start_offset, reached + 1) <= shared
    )


def _lowest_named(row: PartitionState) -> int:
    """The first offset that the row knows of; below it, an upload may hold what nothing else has.

    A tier may be copied with its head last, so that the row begins in the middle of the log.
    """
    expired = (entry.segment.start_offset for entry in row.retired)
    return min((row.log_start_offset, *expired))


_OTHER_BATCHES: Final = (
    "One of them is no upload of this log: find out which (`tierfold dump` shows their batches) and"
    " move it out of the tier."
)

_FORGET: Final = (
    f"The log was cut off by an unclean leader election. `tierfold forget {PLACE} --dry-run`"
    " shows what would be lost and what must be done first; then accept it with `tierfold forget"
    f" {PLACE}` (docs/operations.md)."
)


_BRING_BACK: Final = (
    f"Bring the objects back from a backup, or go to an earlier state (`tierfold history {PLACE}`);"
    " nothing of this partition was changed."
)

_NOT_MOVED: Final = (
    "Unless you moved the missing objects away for it, bring them back from a backup first."
)


def _refused_by_listing(facts: PartitionFacts) -> Refusal | None:
    corruptions, row = facts.classified.corruptions, facts.row
    if corruptions:
        # After an election, live objects may have been moved away, as `forget` asks for.
        cut = None if row is None else _refused_by_history(facts.history(), row.segments)
        return Refusal(
            reason=RefusalReason.DATA_GONE,
            detail="; ".join((*corruptions, *(() if cut is None else (cut.detail,)))),
            remedy=_BRING_BACK if cut is None else f"{_FORGET} {_NOT_MOVED}",
        )
    partial = [found.listed for found in facts.inspected if not found.listed.is_complete]
    if partial and row is None:
        return Refusal(
            reason=RefusalReason.PARTIAL_SEGMENT,
            detail="; ".join(f"{segment} lacks {segment.lacking}" for segment in partial),
            remedy="Run again once the upload is complete, or move what a dead upload left away.",
        )
    unreadable = [
        found for found in facts.inspected if found.corruption and _may_be_new(found, row)
    ]
    if unreadable:
        return Refusal(
            reason=RefusalReason.UNREADABLE,
            detail="; ".join(inspected.corruption for inspected in unreadable),
            remedy="Nothing of this partition was changed.",
        )
    return None


def _may_be_new(segment: InspectedSegment, row: PartitionState | None) -> bool:
    """Whether it is complete by its objects' names, and would have been taken next."""
    is_beyond = row is None or segment.listed.start_offset >= row.next_offset
    return is_beyond and segment.listed.is_complete


def _refused_by_history(history: History, live: Sequence[Segment]) -> Refusal | None:
    """A refusal where an unclean leader election cut off what the catalog calls live."""
    found = history.violation
    strays = [segment for segment in live if not is_within_lineage(segment, history.lineage)]
    if strays and not found:
        names = ", ".join(stray.segment_id for stray in strays)
        found = f"live segments outside the partition's leader epoch lineage: {names}"
    if not found:
        return None
    return Refusal(reason=RefusalReason.LINEAGE_DIVERGED, detail=found, remedy=_FORGET)


def _refused_without_row(
    facts: PartitionFacts, history: History, chain: Chain
) -> Refusal | None:
    """Without a row it is unknown which history is right, and whether something was lost."""
    if chain.waiting:
        last, after = chain.taken[-1], chain.waiting[0]
        return gap(last, after)
    consented = () if facts.state is None else facts.state.forgotten
    start = chain.taken[0].start_offset if chain.taken else 0
    end = chain.taken[-1].end_offset if chain.taken else -1
    alone = [
        inspected
        for inspected in history.apart
        if inspected.listed.segment_id not in consented
        and (inspected.listed.start_offset < start or (inspected.end_offset or 0) > end)
    ]
    if not alone:
        return None
    return Refusal(
        reason=RefusalReason.LINEAGE_DIVERGED,
        detail=f"outside the leader epoch lineage, with offsets that no other segment has:"
        f" {', '.join(map(str, alone))}; the lineage's segments give offsets {start} to {end}",
        remedy=_FORGET,
    )


def _waiting(
    draft: PartitionDraft, orphans: Sequence[ListedSegment]
) -> Iterator[InspectedSegment]:
    """What may hold offsets beyond all that is taken: behind a gap, cut short, or unreadable."""
    settled = {segment.segment_id for segment in (*draft.chain.taken, *draft.chain.superseded)}
    settled |= {segment.segment_id for segment in orphans}
    reached = _reached(draft)
    settled |= {inspected.listed.segment_id for inspected in draft.history.apart}
    settled -= set(_needed(draft.history, reached))
    for found in draft.facts.inspected:
        end = found.end_offset
        is_covered = found.is_readable and end is not None and end <= reached
        if found.listed.segment_id not in settled and not is_covered:
            yield found


def _reached(draft: PartitionDraft) -> int:
    """The last offset that is live or taken; -1: none is."""
    taken, row = draft.chain.taken, draft.facts.row
    return taken[-1].end_offset if taken else -1 if row is None else row.next_offset - 1


def _reaches_beyond(segment: InspectedSegment, live_end: int) -> bool:
    known = segment.seen_offset if segment.end_offset is None else segment.end_offset
    return max(known, segment.listed.start_offset) > live_end


def _notes(draft: PartitionDraft, waiting: Sequence[InspectedSegment]) -> Iterator[str]:
    """A sentence for each unknown segment that is kept and not read, and why."""
    row, reached = draft.facts.row, _reached(draft)
    taken = {segment.segment_id for segment in draft.chain.taken}
    needed = _needed(draft.history, reached)
    for inspected in draft.history.apart:
        if inspected.listed.segment_id not in needed:
            yield f"{inspected} is set apart, outside the leader epoch lineage: kept, not read"
    for fitting in draft.history.fitting:
        is_taken = fitting.listed.segment_id in taken
        if row is not None and not is_taken and fitting.listed.start_offset < _lowest_named(row):
            yield (
                f"{fitting} begins below the log start {row.log_start_offset}, where nothing is"
                " known to have been: kept, not read"
            )
    for late in waiting:
        if late.corruption:
            yield f"{late.listed} is kept, not read: {late.corruption}"
        elif late.listed.segment_id in needed:
            shared = shared_until(late, draft.history.lineage)
            yield (
                f"{late} is set apart, though part of the log up to offset {shared}, where that was"
                " cut off: kept, not read"
            )
        elif late.segment is not None:
            yield f"{late} is not taken yet: offset {reached + 1} is missing below it"
        else:
            yield f"{late} lacks {late.listed.lacking}: not taken until its upload is complete"

"""Why a partition is refused for its listing, its leader epochs, or offsets that it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tierfold.compaction.discovery.candidates import Candidate
from tierfold.compaction.discovery.facts import PartitionFacts
from tierfold.compaction.discovery.histories import History
from tierfold.compaction.discovery.holes import Gap
from tierfold.compaction.discovery.overlaps import Chain
from tierfold.compaction.discovery.view import (
    PLACE,
    Refusal,
    RefusalReason,
    first_few,
    missing_segment,
    start_behind,
)
from tierfold.compaction.model.errors import UNCHANGED
from tierfold.compaction.model.leader_epochs import is_within_lineage
from tierfold.compaction.model.segments import Segment

_FORGET: Final = (
    f"An unclean leader election cut the log off. `tierfold forget {PLACE} --dry-run` shows what"
    f" would be lost and what to do first; then accept the loss with `tierfold forget {PLACE}`"
    " (docs/operations.md)."
)

_UNPROVEN: Final = (
    "Nothing proves that an unclean leader election cut the log off: for that, two leader epoch"
    " checkpoints, or a checkpoint and a batch, would have to name different epochs for one offset."
    " A segment of another topic or an older backup may be among them: compare their"
    " .leader_epoch_checkpoint with the broker's leader-epoch-checkpoint, and move the segments"
    " that do not continue it out of the tier, and keep them."
)


_HOLE_OR_MISSING: Final = (
    "1. If __remote_log_metadata has endOffset {end} for the first of the two, a broker compacted"
    " the topic before it was tiered, and nothing is missing: run again with"
    " --holes-are-holes {name}. 2. Otherwise bring the missing segment back, or run again once its"
    " upload is complete. 3. If it is lost for good, {start}"
)


def refused_by_listing(facts: PartitionFacts) -> Refusal | None:
    """A refusal if live objects are gone, or if a segment cannot be used; None: neither."""
    details, row = list(facts.classified.corruptions), facts.row
    if details:
        remedy = (
            "Nothing of this partition was changed. Bring the objects back from a backup, or"
            f" restore an earlier state (`tierfold history {PLACE}` lists them)."
        )
        if _is_of_another_tier(facts):
            details.insert(0, "the tier has none of the live segments that the catalog names")
            remedy = (
                "Nothing of this partition was changed. The catalog is probably that of another"
                " tier: give this tier's with --catalog. If it is this tier's, bring the objects"
                f" back from a backup, or restore an earlier state (`tierfold history {PLACE}`"
                " lists them)."
            )
        # After an election, a person may have moved live objects away, as `forget` asks.
        cut = None if row is None else refused_by_history(facts.history(), row.segments)
        if cut is not None and cut.reason is RefusalReason.LINEAGE_DIVERGED:
            details.append(cut.detail)
            remedy = (
                f"{_FORGET} If you did not move the missing objects away for it, bring them back"
                " from a backup first."
            )
        return Refusal(reason=RefusalReason.DATA_GONE, detail="; ".join(details), remedy=remedy)
    if (refusal := _unreadable(facts)) is not None:
        return refusal
    partial = [
        found.listed
        for found in facts.candidates
        if not (found.listed.is_complete or found.is_unfinished_upload)
    ]
    if partial and row is None:
        return Refusal(
            reason=RefusalReason.PARTIAL_SEGMENT,
            detail="; ".join(f"{segment} lacks {segment.lacking}" for segment in partial),
            remedy="Run again once the upload is complete. If an object was lost, bring it back"
            " from a backup. Only if the upload died, move its objects out of the tier: the broker"
            " has uploaded the records again.",
        )
    return None


def _is_of_another_tier(facts: PartitionFacts) -> bool:
    """Whether the tier has segments of the partition, and none of those that the row has live."""
    found = facts.classified
    is_none_live = facts.row is not None and bool(facts.row.segments) and not found.known
    return is_none_live and bool(found.retired or found.unknown or found.left_alone)


def _unreadable(facts: PartitionFacts) -> Refusal | None:
    """The refusal if a complete segment that would be taken next cannot be read; others wait.

    Without a row nothing shows that the partition itself is not another cluster's.
    """
    row = facts.row
    found = [
        candidate
        for candidate in facts.candidates
        if candidate.obstacle
        and (candidate.listed.is_complete or (row is None and candidate.is_doubtful))
        and (row is None or candidate.start_offset >= row.next_offset)
    ]
    if not found:
        return None
    is_corrupt = any(
        candidate.corruption and not candidate.is_unopened
        for candidate in found
        if not candidate.ownership.why
    )
    reasons = [candidate.ownership.why or candidate.corruption for candidate in found]
    remedies = [
        candidate.remedy.removesuffix(UNCHANGED).rstrip()
        for candidate in found
        if not candidate.ownership.why
    ]
    return Refusal(
        reason=RefusalReason.CORRUPT if is_corrupt else RefusalReason.UNREADABLE,
        detail=first_few(reasons),
        remedy=" ".join(filter(None, (*dict.fromkeys(remedies), UNCHANGED))),
    )


def refused_by_history(history: History, live: Sequence[Segment]) -> Refusal | None:
    """The refusal if the leader epochs of live segments are not the log's."""
    if history.violation:
        return _refused_epochs(history.violation, is_proven=history.is_violation_proven)
    strays = [segment for segment in live if not is_within_lineage(segment, history.lineage)]
    if not strays:
        return None
    names = ", ".join(stray.segment_id for stray in strays)
    return _refused_epochs(
        f"live segments outside the partition's leader epoch lineage: {names}",
        is_proven=any(history.against_live(stray) is not None for stray in strays),
    )


def _refused_gap(facts: PartitionFacts, history: History, found: Gap) -> Refusal:
    """The refusal of a gap, which may be a hole unless the end of the segment below is known."""
    before, after, is_served = found.before, found.after, facts.brokers is not None
    if before is None or not facts.holes(history).may_be_hole(found):
        return missing_segment(found.start_offset - 1, before, after, is_served=is_served)
    is_empty = before.end_offset < before.start_offset
    below = f"{before.segment_id} (0 bytes)" if is_empty else before.segment_id
    return Refusal(
        reason=RefusalReason.GAP,
        detail=f"{found.hole}: a hole, or a missing segment, between segments {below} and"
        f" {after.segment_id}",
        remedy=_HOLE_OR_MISSING.format(
            name=facts.key,
            end=found.hole.end_offset,
            start=start_behind(after.start_offset, is_served=is_served),
        ),
    )


def missing_below(facts: PartitionFacts, history: History, chain: Chain) -> str:
    """Why complete segments behind a gap are not used, a clause."""
    missing = f"offset {chain.reached + 1} is missing below it"
    if chain.gap is None or not facts.holes(history).may_be_hole(chain.gap):
        return missing
    return f"{missing}, unless a broker's cleaner left a hole there: --holes-are-holes {facts.key}"


def _refused_epochs(detail: str, *, is_proven: bool) -> Refusal:
    if is_proven:
        return Refusal(reason=RefusalReason.LINEAGE_DIVERGED, detail=detail, remedy=_FORGET)
    return Refusal(reason=RefusalReason.LINEAGE_UNCLEAR, detail=detail, remedy=_UNPROVEN)


def refused_without_row(
    facts: PartitionFacts, history: History, chain: Chain
) -> Refusal | None:
    """A refusal if, without a row, it is unknown which history is right or what was lost."""
    if chain.gap is not None:
        return _refused_gap(facts, history, chain.gap)
    consented = () if facts.state is None else facts.state.forgotten
    start = chain.taken[0].start_offset if chain.taken else 0
    end = chain.taken[-1].end_offset if chain.taken else -1

    def alone(candidates: Sequence[Candidate]) -> list[Candidate]:
        return [
            found
            for found in candidates
            if found.segment_id not in consented
            and (found.start_offset < start or (found.end_offset or 0) > end)
        ]

    for found, is_proven in ((alone(history.unproven), False), (alone(history.apart), True)):
        if found:
            named = ", ".join(_with_proof(history, candidate) for candidate in found)
            return _refused_epochs(
                "outside the leader epoch lineage, with offsets that no other segment has:"
                f" {named}; the segments of the lineage have offsets {start} to {end}",
                is_proven=is_proven,
            )
    return None


def _with_proof(history: History, candidate: Candidate) -> str:
    """The candidate, and at which offset its leader epochs contradict the lineage."""
    proof = history.against(candidate)
    if proof is None:
        return str(candidate)
    return (
        f"{candidate}, with leader epoch {proof.epoch} at offset {proof.offset}, where the log has"
        f" {proof.other_epoch}"
    )

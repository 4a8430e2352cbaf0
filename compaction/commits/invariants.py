"""Invariants: what must hold between a catalog row and the row that replaces it.

Each rule is a predicate on (before, after): the `Violation` that it found, or None. The catalog
runs the lists below at every claim and commit; a violation is our bug, and nothing is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from tierfold.compaction.model.errors import InvariantBroken
from tierfold.compaction.model.leader_epochs import is_within_lineage
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.model.units import OFFSET_SPAN_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """An invariant and what breaks it."""

    invariant: str
    """The predicate's name."""
    found: str


Invariant: TypeAlias = Callable[[PartitionState, PartitionState], Violation | None]


def segments_are_contiguous(before: PartitionState, after: PartitionState) -> Violation | None:
    """The effective range of each live segment starts one beyond the one before it.

    A reader that finds a hole resets or stops; one that finds an overlap reads records twice.
    Compaction removes records, never ranges: a segment keeps the range of its sources. Uploads of
    two leaders may overlap; each then gives only what those before it do not (SEMANTICS 1).
    """
    for segment in after.segments:
        if not 0 <= segment.own_start_offset <= segment.start_offset <= segment.end_offset:
            return _violation(
                segments_are_contiguous,
                f"segment {segment.segment_id} spans {segment.start_offset}"
                f" to {segment.end_offset}",
            )
    for left, right in pairwise(after.segments):
        if right.start_offset != left.next_offset:
            return _violation(
                segments_are_contiguous,
                f"segment {right.segment_id} starts at {right.start_offset},"
                f" expected {left.next_offset}",
            )
    return None


def covered_span_is_kept(before: PartitionState, after: PartitionState) -> Violation | None:
    """The live segments cover the same offsets before and after, unless the log start moved.

    A span that is shorter at its head is a deletion: the log start moved to the first live segment.
    A longer span would hold data that was never uploaded; one with a lower end has lost data.
    """
    is_moved = after.log_start_offset != before.log_start_offset
    start = after.log_start_offset if is_moved else _span(before)[0]
    expected = start, before.next_offset
    if _span(after) == expected:
        return None
    what = f"{_span(before)} became {_span(after)}, not {expected}"
    return _violation(covered_span_is_kept, what)


def log_start_only_rises(before: PartitionState, after: PartitionState) -> Violation | None:
    """The log start never moves back, nor beyond the log's end.

    What is gone for consumers stays gone (Kafka `UnifiedLog.maybeIncrementLogStartOffset`).
    """
    if before.log_start_offset <= after.log_start_offset <= before.next_offset:
        return None
    found = f"{before.log_start_offset} became {after.log_start_offset}; end {before.next_offset}"
    return _violation(log_start_only_rises, found)


def epoch_stays(before: PartitionState, after: PartitionState) -> Violation | None:
    """A commit is written under the epoch that the claim opened.

    Only a claim opens an epoch. If a commit changed it, a zombie's condition on the epoch could
    hold again (KIP-1272).
    """
    if after.epoch == before.epoch:
        return None
    return _violation(epoch_stays, f"epoch {before.epoch} became {after.epoch}")


def epoch_rises_by_one(before: PartitionState, after: PartitionState) -> Violation | None:
    """A claim opens exactly the next epoch and names the run that holds it.

    Two runs that claim from the same row then want the same epoch, and one conditional update
    decides between them.
    """
    if after.epoch == before.epoch + 1 and after.owner_run:
        return None
    owner = after.owner_run or "nobody"
    return _violation(epoch_rises_by_one, f"epoch {before.epoch} became {after.epoch} of {owner}")


def cleaner_offset_is_kept(before: PartitionState, after: PartitionState) -> Violation | None:
    """The cleaner offset never moves back over offsets that still exist.

    What was cleaned stays clean; below the offset a pass may drop tombstones because no older
    value is left there. It may fall only where the log itself was truncated below it. A pass that
    cleans everything again still ends at or above it.
    """
    old, new = before.cleaner_offset, after.cleaner_offset
    if old is None:
        return None
    floor = min(old, before.next_offset)
    if new is not None and floor <= new <= after.next_offset:
        return None
    return _violation(cleaner_offset_is_kept, f"{old} became {new}; end {after.next_offset}")


def earlier_epochs_are_frozen(before: PartitionState, after: PartitionState) -> Violation | None:
    """The cleaner offsets of earlier epochs do not change.

    Opening an epoch freezes its predecessors (KIP-1272); the oldest entries may be dropped.
    """
    said = set(before.cleaner_offsets)
    anew = [
        entry for entry in after.cleaner_offsets if entry.epoch != after.epoch and entry not in said
    ]
    if not anew:
        return None
    return _violation(earlier_epochs_are_frozen, f"epoch {anew[0].epoch} now says {anew[0].offset}")


def ids_live_once(before: PartitionState, after: PartitionState) -> Violation | None:
    """No segment id is live twice, or live and retired.

    `vacuum` deletes the objects of retired segments by their id; a live one must not share it.
    """
    counts = Counter(_live_ids(after) + _retired_ids(after))
    twice = sorted(segment_id for segment_id, count in counts.items() if count > 1)
    return _violation(ids_live_once, f"twice: {', '.join(twice)}") if twice else None


def retired_never_return(before: PartitionState, after: PartitionState) -> Violation | None:
    """An id that was retired is never live again.

    Objects are never overwritten, so a new segment has a new id. If an old id is live
    again, a listing or a zombie has brought back what a commit had replaced.
    """
    back = sorted(set(_retired_ids(before)) & set(_live_ids(after)))
    return _violation(retired_never_return, f"live again: {', '.join(back)}") if back else None


def what_is_being_deleted_never_returns(
    before: PartitionState, after: PartitionState
) -> Violation | None:
    """An id whose deletion has started is never live again, and stays marked so.

    Some of its objects may be gone already.
    """
    going = _going_ids(before)
    whole = set(_live_ids(after)) | {
        retired_segment.segment.segment_id for retired_segment in after.whole_retired
    }
    back = sorted(going & whole)
    invariant = what_is_being_deleted_never_returns
    return _violation(invariant, f"whole again: {', '.join(back)}") if back else None


def nothing_is_forgotten(before: PartitionState, after: PartitionState) -> Violation | None:
    """A segment that leaves the live list is retired, and stays listed until its deletion started.

    A segment that no list names is an orphan, deleted without its grace period.
    """
    known = set(_live_ids(after)) | set(_retired_ids(after)) | _going_ids(before)
    gone = sorted((set(_live_ids(before)) | set(_retired_ids(before))) - known)
    return _violation(nothing_is_forgotten, f"forgotten: {', '.join(gone)}") if gone else None


def segments_are_within_the_lineage(
    before: PartitionState, after: PartitionState
) -> Violation | None:
    """Every live segment belongs to the partition's leader epoch lineage.

    A segment outside it was written by a leader that lost its log, and is not part of this one
    (Kafka `RemoteLogManager.isRemoteSegmentWithinLeaderEpochs`).
    """
    stray = [
        segment.segment_id
        for segment in after.segments
        if not is_within_lineage(segment, after.lineage)
    ]
    if not stray:
        return None
    return _violation(segments_are_within_the_lineage, f"outside: {', '.join(stray)}")


def segments_never_change(before: PartitionState, after: PartitionState) -> Violation | None:
    """A segment's metadata never changes, above all its effective start.

    If that were computed again, compacted or superseded records could count again (SEMANTICS 1).
    """
    said = {segment.segment_id: segment for segment in _named_segments(before)}
    changed = sorted(
        segment.segment_id
        for segment in _named_segments(after)
        if said.get(segment.segment_id, segment) != segment
    )
    return _violation(segments_never_change, f"changed: {', '.join(changed)}") if changed else None


def overlaps_are_proven(before: PartitionState, after: PartitionState) -> Violation | None:
    """What a claim adopts was compared with every live upload that it shares offsets with.

    `agrees_with` lists them. Against what tierfold wrote, the lineage suffices (SEMANTICS 1).
    """
    known = set(_live_ids(before))
    for place, segment in enumerate(after.segments):
        if segment.segment_id in known:
            continue
        unproven: list[str] = []
        for before_it in range(place - 1, -1, -1):
            earlier = after.segments[before_it]
            if earlier.end_offset < segment.own_start_offset:
                break  # Ends rise, so those before it share nothing either.
            if not earlier.written_by_run and earlier.segment_id not in segment.agrees_with:
                unproven.append(earlier.segment_id)
        if unproven:
            found = f"{segment.segment_id} was not compared with {', '.join(unproven)}"
            return _violation(overlaps_are_proven, found)
    return None


def sizes_are_real(before: PartitionState, after: PartitionState) -> Violation | None:
    """No live `.log` is empty, and no size is negative.

    A group of which nothing survives gives its range to a neighbour, or becomes one empty batch; a
    0-byte log is never written.
    """
    for segment in after.segments:
        if segment.size_bytes <= 0 or min(segment.offset_index_bytes, segment.time_index_bytes) < 0:
            return _violation(
                sizes_are_real,
                f"segment {segment.segment_id} has {segment.size_bytes} log,"
                f" {segment.offset_index_bytes} offset index and"
                f" {segment.time_index_bytes} time index bytes",
            )
    return None


def new_spans_fit_an_index(before: PartitionState, after: PartitionState) -> Violation | None:
    """A segment that becomes live spans no more offsets than an index entry can hold.

    An entry holds 31 bits above the segment's start (Kafka `AbstractIndex.canAppendOffset`). What
    the row listed before is not checked: to refuse it would not repair it.
    """
    known = {*_live_ids(before), *_retired_ids(before)}
    for segment in after.segments:
        start, end = segment.own_start_offset, segment.end_offset
        if end - start > OFFSET_SPAN_MAX and segment.segment_id not in known:
            found = f"segment {segment.segment_id} spans {start} to {end}"
            return _violation(new_spans_fit_an_index, found)
    return None


def consent_is_of_a_forgotten_row(
    before: PartitionState, after: PartitionState
) -> Violation | None:
    """Only a forgotten row lists the segments whose loss was accepted.

    After a claim has adopted a history, another truncation is another loss and needs new consent.
    """
    if after.is_forgotten or not after.forgotten:
        return None
    found = f"{', '.join(after.forgotten)} in a row of {len(after.segments)} segments"
    return _violation(consent_is_of_a_forgotten_row, found)


def all_is_forgotten(before: PartitionState, after: PartitionState) -> Violation | None:
    """A forgotten row holds nothing about the log.

    Its cleaner offset, log start and strategies were those of a history that was cut off.
    """
    if after == after.emptied(after.forgotten):
        return None
    return _violation(all_is_forgotten, f"{len(after.segments)} segments and what was said of them")


STATE_INVARIANTS: Final[tuple[Invariant, ...]] = (
    segments_are_contiguous,
    earlier_epochs_are_frozen,
    ids_live_once,
    what_is_being_deleted_never_returns,
    segments_are_within_the_lineage,
    segments_never_change,
    sizes_are_real,
    new_spans_fit_an_index,
    consent_is_of_a_forgotten_row,
)
"""They hold after every change of a row."""

ROW_INVARIANTS: Final[tuple[Invariant, ...]] = (
    segments_are_contiguous,
    ids_live_once,
    sizes_are_real,
)
"""They hold for a row by itself; no tierfold commit writes a row that breaks one."""

CLAIM_INVARIANTS: Final[tuple[Invariant, ...]] = (
    *STATE_INVARIANTS,
    retired_never_return,
    overlaps_are_proven,
    epoch_rises_by_one,
)
"""A claim may adopt new segments and leave out what a truncation cut off."""

RESTORE_INVARIANTS: Final[tuple[Invariant, ...]] = (
    *STATE_INVARIANTS,
    epoch_stays,
    covered_span_is_kept,
    nothing_is_forgotten,
)
"""A restore brings whole retired segments back, with the cleaner offset and log start they had."""

FORGET_INVARIANTS: Final[tuple[Invariant, ...]] = (epoch_stays, all_is_forgotten)
"""A row is emptied after an unclean leader election, and goes on as a fence."""

COMMIT_INVARIANTS: Final[tuple[Invariant, ...]] = (
    *RESTORE_INVARIANTS,
    retired_never_return,
    cleaner_offset_is_kept,
    log_start_only_rises,
)
"""Any other commit: it compacts, retires or deletes segments."""


def violations(
    before: PartitionState,
    after: PartitionState,
    invariants: Sequence[Invariant] = COMMIT_INVARIANTS,
) -> tuple[Violation, ...]:
    """What `after` breaks, in the order of `invariants`."""
    return tuple(
        violation for invariant in invariants if (violation := invariant(before, after)) is not None
    )


def ensure(
    before: PartitionState,
    after: PartitionState,
    invariants: Sequence[Invariant] = COMMIT_INVARIANTS,
) -> None:
    """Refuse a row that breaks an invariant.

    Raises:
        InvariantBroken: it names every invariant that is broken.
    """
    broken = violations(before, after, invariants)
    if broken:
        raise InvariantBroken(
            "; ".join(f"{violation.invariant}: {violation.found}" for violation in broken),
            where=f"{after.key}, epoch {after.epoch}, commit {after.commit_id}",
            remedy="Nothing was written. This is a bug in tierfold; please report it.",
        )


def _violation(invariant: Invariant, found: str) -> Violation:
    return Violation(invariant=getattr(invariant, "__name__", repr(invariant)), found=found)


def _span(state: PartitionState) -> tuple[int, int]:
    """The live offsets, half open; an empty span at the log start where no segment is live."""
    start = state.segments[0].start_offset if state.segments else state.log_start_offset
    return start, state.next_offset


def _live_ids(state: PartitionState) -> list[str]:
    return [segment.segment_id for segment in state.segments]


def _named_segments(state: PartitionState) -> list[Segment]:
    """The live segments and the retired ones."""
    return [*state.segments, *(gone.segment for gone in state.retired)]


def _retired_ids(state: PartitionState) -> list[str]:
    return [gone.segment.segment_id for gone in state.retired]


def _going_ids(state: PartitionState) -> set[str]:
    """Segments whose deletion has started."""
    return set(_retired_ids(state)) - {
        retired_segment.segment.segment_id for retired_segment in state.whole_retired
    }

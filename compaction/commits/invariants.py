"""Invariants: what must hold between a catalog row and the row that replaces it.

Each invariant is a function of the row before and the row after. It returns what violates it, a
phrase, or "". The catalog checks the lists below at every claim and commit. A violation is a bug
of tierfold, and nothing is written.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, TypeAlias

from tierfold.compaction.model.errors import InvariantBroken
from tierfold.compaction.model.leader_epochs import is_within_lineage
from tierfold.compaction.model.segments import Hole, PartitionState
from tierfold.compaction.model.units import OFFSET_SPAN_MAX

Invariant: TypeAlias = Callable[[PartitionState, PartitionState], str]

_STORED_SIZES: Final = ("stored_log_bytes", "stored_indexes_bytes")


def segments_are_contiguous(before: PartitionState, after: PartitionState) -> str:
    """Each live segment's effective range starts right after the previous segment's.

    A reader resets or stops at a gap, and reads records twice in an overlap. Compaction removes
    records, never ranges: a segment keeps the range of its sources. If uploads of two leaders
    overlap, each gives only the offsets that those before it lack (SEMANTICS 1).
    """
    for segment in after.segments:
        if not 0 <= segment.own_start_offset <= segment.start_offset <= segment.end_offset:
            start, end = segment.start_offset, segment.end_offset
            return f"segment {segment.segment_id} spans {start} to {end}"
    for left, right in pairwise(after.segments):
        if (start := right.start_offset) != left.next_offset:
            return f"segment {right.segment_id} starts at {start}, expected {left.next_offset}"
    return ""


def covered_span_is_kept(before: PartitionState, after: PartitionState) -> str:
    """The live segments cover the same offsets before and after, unless the log start moved.

    If the log start moved, they cover the offsets from there on. A longer span would hold data that
    was never uploaded; a lower end would lose data.
    """
    is_moved = after.log_start_offset != before.log_start_offset
    start = after.log_start_offset if is_moved else _span(before)[0]
    expected = start, before.next_offset
    if _span(after) == expected:
        return ""
    return f"{_span(before)} became {_span(after)}, not {expected}"


def restored_span_is_kept(before: PartitionState, after: PartitionState) -> str:
    """As `covered_span_is_kept`, but the log start may come back within the first segment.

    DeleteRecords had moved it there, and a segment that holds any offset of the log stays whole.
    """
    first, start = after.segments[:1], after.log_start_offset
    holds_start = any(one.start_offset <= start <= one.end_offset for one in first)
    is_kept = holds_start and after.next_offset == before.next_offset
    return "" if is_kept else covered_span_is_kept(before, after)


def log_start_only_rises(before: PartitionState, after: PartitionState) -> str:
    """The log start never moves back, and never beyond the log's end.

    Consumers never see offsets again that they have lost (Kafka
    `UnifiedLog.maybeIncrementLogStartOffset`).
    """
    if before.log_start_offset <= after.log_start_offset <= before.next_offset:
        return ""
    return f"{before.log_start_offset} became {after.log_start_offset}; end {before.next_offset}"


def epoch_stays(before: PartitionState, after: PartitionState) -> str:
    """A commit is written under the epoch that its claim opened.

    Only a claim opens an epoch. If a commit changed it, a zombie's condition on the epoch could
    hold again (KIP-1272).
    """
    return "" if after.epoch == before.epoch else f"epoch {before.epoch} became {after.epoch}"


def epoch_rises_by_one(before: PartitionState, after: PartitionState) -> str:
    """A claim opens exactly the next epoch and names the run that holds it.

    Two runs that claim from the same row then want the same epoch, and one conditional update
    decides between them.
    """
    if after.epoch == before.epoch + 1 and after.owner_run:
        return ""
    return f"epoch {before.epoch} became {after.epoch} of {after.owner_run or 'no run'}"


def cleaner_offset_is_kept(before: PartitionState, after: PartitionState) -> str:
    """The cleaner offset never moves back over offsets that still exist.

    Below it a pass may drop tombstones, because no older value is left there. It may fall only if
    the log itself was truncated below it. A pass that cleans everything again still ends at or
    above it.
    """
    old, new = before.cleaner_offset, after.cleaner_offset
    if old is None:
        return ""
    floor = min(old, before.next_offset)
    if new is not None and floor <= new <= after.next_offset:
        return ""
    return f"{old} became {new}; end {after.next_offset}"


def earlier_epochs_are_frozen(before: PartitionState, after: PartitionState) -> str:
    """The cleaner offsets of earlier epochs do not change.

    Opening an epoch freezes its predecessors (KIP-1272); the oldest entries may be dropped.
    """
    for entry in after.cleaner_offsets:
        if entry.epoch != after.epoch and entry not in before.cleaner_offsets:
            return f"the offset of epoch {entry.epoch} became {entry.offset}"
    return ""


def ids_live_once(before: PartitionState, after: PartitionState) -> str:
    """No segment id is live twice, or live and retired.

    `vacuum` deletes the objects of retired segments by their id, so no live one may share it.
    """
    counts = Counter(segment.segment_id for segment in after.named_segments)
    return with_ids("twice", {segment_id for segment_id, count in counts.items() if count > 1})


def retired_never_return(before: PartitionState, after: PartitionState) -> str:
    """A retired id is never live again.

    Objects are never overwritten, so a new segment has a new id. If an old id is live again, a
    listing or a zombie has brought back a segment that a commit had replaced.
    """
    return with_ids("live again", before.retired_ids & after.live_ids)


def what_is_being_deleted_never_returns(before: PartitionState, after: PartitionState) -> str:
    """A segment whose deletion has started is never live again, and stays marked.

    Some of its objects may be gone already.
    """
    whole = after.live_ids | after.whole_retired_ids
    return with_ids("whole again", before.marked_ids & whole)


def nothing_is_forgotten(before: PartitionState, after: PartitionState) -> str:
    """A segment that leaves the live list is retired, and stays listed until its deletion starts.

    A segment that no list names is an orphan, and is deleted without a grace period.
    """
    listed = after.named_ids | before.marked_ids
    return with_ids("forgotten", before.named_ids - listed)


def only_copies_are_new(before: PartitionState, after: PartitionState) -> str:
    """A restore adds nothing but copies of segments that the row names, with all their metadata.

    Only the stored sizes may be new: older rows lack them.
    """
    sources = defaultdict(list)
    for segment in before.named_segments:
        sources[segment.first_id].append(segment)
    known, strange = before.named_ids, set()
    for segment in after.segments:
        stored = {name: getattr(segment, name) for name in _STORED_SIZES}
        copies = (
            replace(source.copied(segment.segment_id, segment.written_by_run), **stored)
            for source in sources[segment.copy_of]
        )
        if segment.segment_id not in known and segment not in copies:
            strange.add(segment.segment_id)
    return with_ids("no copy", strange)


def segments_are_within_the_lineage(before: PartitionState, after: PartitionState) -> str:
    """Every live segment belongs to the partition's leader epoch lineage.

    A segment outside it was written by a leader that lost its log, and is not part of this one
    (Kafka `RemoteLogManager.isRemoteSegmentWithinLeaderEpochs`).
    """
    stray = {s.segment_id for s in after.segments if not is_within_lineage(s, after.lineage)}
    return with_ids("outside", stray)


def segments_never_change(before: PartitionState, after: PartitionState) -> str:
    """A segment's metadata never changes, above all its effective start.

    A new effective start could make compacted or superseded records count again (SEMANTICS 1).
    """
    known = {segment.segment_id: segment for segment in before.named_segments}
    changed = {s.segment_id for s in after.named_segments if known.get(s.segment_id, s) != s}
    return with_ids("changed", changed)


def claims_change_only_a_hole(before: PartitionState, after: PartitionState) -> str:
    """A claim changes no segment's metadata, but may raise the end of the last live one.

    The row says that it is a hole: the segment's last batch ended there, and the next segment shows
    that the range goes on (`discovery.holes`). The end rises over no offset that the row does not
    call a hole.
    """
    last = before.segments[-1] if before.segments else None
    found = {segment.segment_id: segment for segment in after.segments}
    raised = None if last is None else found.get(last.segment_id)
    if last is None or raised is None or raised.end_offset <= last.end_offset:
        return segments_never_change(before, after)
    hole = Hole(start_offset=last.next_offset, end_offset=raised.end_offset)
    if hole not in after.holes:
        return f"the end of segment {last.segment_id} rose over {hole}, which is no hole"
    expected = replace(last, end_offset=raised.end_offset, leader_epochs=raised.leader_epochs)
    segments = (*before.segments[:-1], expected)
    return segments_never_change(replace(before, segments=segments), after)


def overlaps_are_proven(before: PartitionState, after: PartitionState) -> str:
    """Each adopted segment was compared with every live upload that shares offsets with it.

    `agrees_with` lists them. Of what is no `is_evidence`, the lineage suffices (SEMANTICS 1).
    """
    known = before.live_ids
    for place, segment in enumerate(after.segments):
        if segment.segment_id in known or (segment.is_upload and not segment.is_evidence):
            continue
        unproven: list[str] = []
        for earlier in reversed(after.segments[:place]):
            if earlier.end_offset < segment.own_start_offset:
                break  # End offsets rise, so the segments before it share no offset either.
            if earlier.is_evidence and earlier.segment_id not in segment.agrees_with:
                unproven.append(earlier.segment_id)
        if unproven:
            return f"{segment.segment_id} was not compared with {', '.join(unproven)}"
    return ""


def sizes_are_real(before: PartitionState, after: PartitionState) -> str:
    """No live `.log` that tierfold compacted is empty, and no size is negative.

    A group that keeps no record gives its range to a neighbour, or becomes one empty batch; a
    0-byte log is never written. A broker uploads those that its cleaner has emptied.
    """
    for segment in after.segments:
        indexes = segment.offset_index_bytes, segment.time_index_bytes
        is_empty = segment.size_bytes <= 0 and not segment.is_upload
        if is_empty or min(segment.size_bytes, *indexes) < 0:
            return (
                f"segment {segment.segment_id} has {segment.size_bytes} log, {indexes[0]} offset"
                f" index and {indexes[1]} time index bytes"
            )
    return ""


def new_spans_fit_an_index(before: PartitionState, after: PartitionState) -> str:
    """A segment that becomes live spans no more offsets than an index entry can hold.

    An entry holds 31 bits above the segment's start (Kafka `AbstractIndex.canAppendOffset`).
    Segments that the row already listed are not checked: a refusal would not repair them.
    """
    known = before.named_ids
    for segment in after.segments:
        start, end = segment.own_start_offset, segment.end_offset
        if end - start > OFFSET_SPAN_MAX and segment.segment_id not in known:
            return f"segment {segment.segment_id} spans {start} to {end}"
    return ""


def spared_are_live(before: PartitionState, after: PartitionState) -> str:
    """What rounds left is recorded once for each segment, and only for live ones.

    A retired segment's is of no use, and a segment that a restore brings back has what its earlier
    row recorded.
    """
    ids = [entry.segment_id for entry in after.spared]
    if len(set(ids)) < len(ids):
        return "a segment is listed twice"
    if any(entry.superseded_bytes <= 0 for entry in after.spared):
        return "a segment is listed in which nothing was left"
    return with_ids("not live", set(ids) - after.live_ids)


def consent_is_of_a_forgotten_row(before: PartitionState, after: PartitionState) -> str:
    """Only a forgotten row lists segments whose loss a person accepted.

    After a claim has adopted a history, another truncation loses other data and needs new consent.
    """
    if after.is_forgotten or not after.forgotten:
        return ""
    return f"{', '.join(after.forgotten)} in a row of {len(after.segments)} segments"


def all_is_forgotten(before: PartitionState, after: PartitionState) -> str:
    """A forgotten row holds nothing about the log.

    Its cleaner offset, log start and strategies were those of a history that was truncated.
    """
    if after == after.emptied(after.forgotten):
        return ""
    return f"the row still describes a log, with {len(after.segments)} segments"


STATE_INVARIANTS: Final[tuple[Invariant, ...]] = (
    segments_are_contiguous,
    earlier_epochs_are_frozen,
    ids_live_once,
    what_is_being_deleted_never_returns,
    segments_are_within_the_lineage,
    sizes_are_real,
    new_spans_fit_an_index,
    spared_are_live,
    consent_is_of_a_forgotten_row,
)
"""They hold after every change of a row."""

ROW_INVARIANTS: Final[tuple[Invariant, ...]] = (
    segments_are_contiguous,
    ids_live_once,
    sizes_are_real,
    spared_are_live,
)
"""They hold for a single row; tierfold commits no row that violates one."""

CLAIM_INVARIANTS: Final[tuple[Invariant, ...]] = (
    *STATE_INVARIANTS,
    claims_change_only_a_hole,
    retired_never_return,
    overlaps_are_proven,
    epoch_rises_by_one,
)
"""A claim may adopt new segments, and drop segments that the log lost by a truncation."""

_CHANGE_INVARIANTS: Final[tuple[Invariant, ...]] = (
    *STATE_INVARIANTS,
    segments_never_change,
    epoch_stays,
    nothing_is_forgotten,
)

RESTORE_INVARIANTS: Final[tuple[Invariant, ...]] = (
    *_CHANGE_INVARIANTS,
    restored_span_is_kept,
    only_copies_are_new,
)
"""A restore makes whole retired segments live again, or copies of them, with their cleaner offset
and log start."""

FORGET_INVARIANTS: Final[tuple[Invariant, ...]] = (epoch_stays, all_is_forgotten)
"""After an unclean leader election a row is emptied, and still fences older runs."""

ADOPT_INVARIANTS: Final = (*STATE_INVARIANTS, epoch_stays, nothing_is_forgotten)
"""A row takes over what brokers have; what it named stays named."""

COMMIT_INVARIANTS: Final[tuple[Invariant, ...]] = (
    *_CHANGE_INVARIANTS,
    covered_span_is_kept,
    retired_never_return,
    cleaner_offset_is_kept,
    log_start_only_rises,
)
"""For any other commit: it compacts, retires or deletes segments."""


def violations(
    before: PartitionState,
    after: PartitionState,
    invariants: Sequence[Invariant] = COMMIT_INVARIANTS,
) -> dict[str, str]:
    """The names of the `invariants` that `after` violates, and what violates them."""
    found = {getattr(rule, "__name__", repr(rule)): rule(before, after) for rule in invariants}
    return {name: what for name, what in found.items() if what}


def ensure(
    before: PartitionState,
    after: PartitionState,
    invariants: Sequence[Invariant] = COMMIT_INVARIANTS,
) -> None:
    """Raise InvariantBroken, which names every violated invariant; return if there is none."""
    if broken := violations(before, after, invariants):
        raise InvariantBroken(
            "; ".join(f"{name}: {what}" for name, what in broken.items()),
            where=f"{after.key}, epoch {after.epoch}, commit {after.commit_id}",
            remedy="Nothing was written. This is a bug in tierfold; please report it.",
        )


def _span(state: PartitionState) -> tuple[int, int]:
    """The live offsets, half open; an empty span at the log start if no segment is live."""
    start = state.segments[0].start_offset if state.segments else state.log_start_offset
    return start, state.next_offset


def with_ids(what: str, ids: Collection[str]) -> str:
    """The ids and what they are, as a violation; empty if there are none."""
    return f"{what}: {', '.join(sorted(ids))}" if ids else ""

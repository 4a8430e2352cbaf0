"""The row that a claim or a commit writes.

    claimed(state)         -> the row under the next compaction epoch
    applied(proposal, row) -> the row with a proposal's changes
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import assert_never

from tierfold.compaction.commits.commit import (
    AddSegments,
    AdoptSegments,
    AdvanceCleanerOffset,
    CommitProposal,
    FinishDeletion,
    ForgetPartition,
    MoveLogStart,
    MoveTier,
    NoteConsent,
    NoteDropped,
    NoteFoundHorizon,
    NoteLocalRanges,
    NotePass,
    NotePublished,
    NoteRebuilt,
    NoteRetired,
    NoteSpared,
    NoteStrategy,
    ReleaseClaim,
    RestoreState,
    RetireSegments,
    StartDeletion,
    Update,
)
from tierfold.compaction.model.cleaner_vectors import CLEANER_OFFSETS_KEPT, with_vectors
from tierfold.compaction.model.passes import published, remembered, with_found, with_pass
from tierfold.compaction.model.segments import (
    CleanerOffset,
    PartitionState,
    RetiredSegment,
    Segment,
)
from tierfold.compaction.model.serving import Pass
from tierfold.compaction.model.strategies import with_strategy


def applied(proposal: CommitProposal, state: PartitionState) -> PartitionState:
    """The row after the proposal; the requirements are not checked.

    The cleaner offset always moves first, because the added segments store the new vector.
    """
    after = replace(state, commit_id=proposal.commit_id, committed_at_ms=proposal.at_ms)
    for update in sorted(proposal.updates, key=lambda u: not isinstance(u, AdvanceCleanerOffset)):
        after = _updated(after, update)
    return after.with_live_notes()


def _updated(state: PartitionState, update: Update) -> PartitionState:
    match update:
        case AdvanceCleanerOffset(epoch=epoch, offset=offset):
            return replace(state, cleaner_offsets=_vector(state.cleaner_offsets, epoch, offset))
        case RetireSegments():
            return _without(state, update)
        case NoteRetired(segments=new):
            return replace(state, retired=(*state.retired, *_retired(new, state, update)))
        case AddSegments(segments=segments):
            added = with_vectors(segments, state)
            live = sorted((*state.segments, *added), key=lambda segment: segment.start_offset)
            return replace(state, segments=tuple(live))
        case NoteStrategy(name=name):
            return replace(state, strategies=with_strategy(state.strategies, name))
        case NoteSpared(entries=entries):
            return replace(state, spared=entries)
        case NoteDropped():
            return replace(state, has_dropped=True)
        case NotePass():
            return _with_pass(state, update)
        case NoteFoundHorizon(earliest_ms=earliest_ms):
            return replace(state, passes=with_found(_passes_made(state), earliest_ms))
        case NotePublished(at_ms=at_ms):
            return replace(state, passes=published(_passes_made(state), at_ms))
        case NoteLocalRanges(entries=ranges, retention_ms=retention_ms):
            return replace(state, local_ranges=ranges, local_retention_ms=retention_ms)
        case NoteConsent(consent=consent):
            return replace(state, consents=(*state.consents, consent))
        case MoveTier() | NoteRebuilt():
            return _with_cluster(state, update)
        case ReleaseClaim(run=run):
            return replace(state, owner_run="") if state.owner_run == run else state
        case MoveLogStart(offset=offset):
            return replace(state, log_start_offset=offset)
        case StartDeletion():
            started = (_started(entry, update) for entry in state.retired)
            return replace(state, retired=tuple(started))
        case FinishDeletion(ids=ids):
            left = (entry for entry in state.retired if entry.segment.segment_id not in ids)
            return replace(state, retired=tuple(left))
        case RestoreState():
            return _restored(state, update)
        case ForgetPartition(consent=accepted):
            return state.emptied(accepted)
        case AdoptSegments():
            return _adopted(state, update)
        case _:
            assert_never(update)


def _with_cluster(state: PartitionState, update: MoveTier | NoteRebuilt) -> PartitionState:
    if isinstance(update, MoveTier):
        clusters = tuple(replace(one, place=update.place) for one in state.served_by)
    else:
        clusters = (update.cluster,)
    return replace(state, served_by=clusters, consents=(*state.consents, update.consent))


def _with_pass(state: PartitionState, update: NotePass) -> PartitionState:
    passes = with_pass(
        state.passes,
        epoch=state.epoch,
        earliest_ms=update.earliest_ms,
        has_spared=update.has_spared,
    )
    horizons = (segment.earliest_due_ms for segment in state.segments)
    earliest_ms = min((one for one in horizons if one is not None), default=None)
    return replace(state, passes=remembered(passes, earliest_ms))


def _passes_made(state: PartitionState) -> tuple[Pass, ...]:
    """The row's passes; all that was done before brokers served it is one."""
    if state.passes:
        return state.passes
    last = max((entry.epoch for entry in state.cleaner_offsets), default=0)
    return with_pass((), epoch=last, earliest_ms=0, has_spared=False)


def _vector(old: Sequence[CleanerOffset], epoch: int, offset: int) -> tuple[CleanerOffset, ...]:
    others = (entry for entry in old if entry.epoch != epoch)
    vector = sorted((*others, CleanerOffset(epoch=epoch, offset=offset)))
    return tuple(vector[-CLEANER_OFFSETS_KEPT:])


def _without(state: PartitionState, update: RetireSegments) -> PartitionState:
    ids = frozenset(update.ids)
    leaving = (segment for segment in state.segments if segment.segment_id in ids)
    return replace(
        state,
        segments=tuple(segment for segment in state.segments if segment.segment_id not in ids),
        retired=(*state.retired, *_retired(leaving, state, update)),
    )


def _retired(
    segments: Iterable[Segment],
    state: PartitionState,
    update: RetireSegments | NoteRetired | AdoptSegments,
) -> Iterator[RetiredSegment]:
    """The segments as `update` retires them, in the row's compaction epoch."""
    for segment in segments:
        yield RetiredSegment(
            segment=segment,
            retired_at_ms=update.at_ms,
            retired_by_epoch=state.epoch,
            retired_by_run=update.run,
        )


def _started(entry: RetiredSegment, update: StartDeletion) -> RetiredSegment:
    is_named = entry.segment.segment_id in update.ids and entry.deletion_started_at_ms is None
    return replace(entry, deletion_started_at_ms=update.at_ms) if is_named else entry


def _restored(state: PartitionState, update: RestoreState) -> PartitionState:
    wanted = frozenset(update.ids)
    leaving = tuple(s.segment_id for s in state.segments if s.segment_id not in wanted)
    after = _without(state, RetireSegments(ids=leaving, at_ms=update.at_ms, run=update.run))
    back = [entry.segment for entry in after.retired if entry.segment.segment_id in wanted]
    live = (*after.segments, *back, *update.copies)
    is_clean = update.cleaner_offset >= state.next_offset
    passes: tuple[Pass, ...] = ()
    strategies = update.strategies
    if state.is_served:
        passes = _horizons_again(state, has_spared=not is_clean)
        # They say in which order the restore is published.
        strategies = reduce(with_strategy, strategies, state.strategies)
    return replace(
        after,
        segments=tuple(sorted(live, key=lambda segment: segment.start_offset)),
        retired=tuple(entry for entry in after.retired if entry.segment.segment_id not in wanted),
        cleaner_offsets=_vector(state.cleaner_offsets, state.epoch, update.cleaner_offset),
        log_start_offset=update.log_start_offset,
        strategies=strategies,
        spared=update.spared,
        passes=passes,
    )


def _horizons_again(state: PartitionState, *, has_spared: bool) -> tuple[Pass, ...]:
    """The passes once what consumers see goes back: all delete horizons begin again.

    Older values may be back, too. That the row was published stays known.
    """
    earlier = remembered(state.passes, None)
    return with_pass(earlier, epoch=state.epoch, earliest_ms=0, has_spared=has_spared)


def _adopted(state: PartitionState, update: AdoptSegments) -> PartitionState:
    live = {segment.segment_id for segment in update.live}
    kept = [entry for entry in state.retired if entry.segment.segment_id not in live]
    known = {entry.segment.segment_id for entry in kept}
    new = (segment for segment in update.retired if segment.segment_id not in known)
    is_back = update.brings_back
    return replace(
        state.emptied(()),
        strategies=state.strategies if is_back else (),
        passes=_horizons_again(state, has_spared=True) if is_back else (),
        segments=update.live,
        retired=(*kept, *_retired(new, state, update)),
        lineage=update.lineage,
        log_start_offset=update.log_start_offset,
        served_by=update.served_by or state.served_by,
        has_dropped=True,
    )


def claimed(state: PartitionState, *, run: str, commit_id: str, at_ms: int) -> PartitionState:
    """The row once `run` has opened the next compaction epoch (KIP-1272).

    `state` is the row as read, with newly found segments adopted, or a fresh state of epoch 0. The
    cleaner offset vector stays: the new epoch gets an entry with its first commit.
    """
    after = replace(
        state, epoch=state.epoch + 1, owner_run=run, commit_id=commit_id, committed_at_ms=at_ms
    )
    return after.with_live_notes()

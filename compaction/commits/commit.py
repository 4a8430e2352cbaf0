"""A commit as data: what it requires, what it changes, and how it ends.

A proposal can be printed, checked and refused before anything is written. `storage.catalog.catalog`
reads a row, calls `outcome_of`, writes `applied` under a condition, and calls `outcome_of` again.

    claimed(state)             -> the row under the next compaction epoch
    proposed(row, updates)     -> a change of a claimed row, under its epoch
    outcome_of(proposal, row)  -> the outcome that the row already shows; None: it may be written
    applied(proposal, row)     -> the row that the commit writes
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, assert_never

from tierfold.compaction.model.outcomes import Committed, Fenced, LostRace, Outcome
from tierfold.compaction.model.segments import (
    CleanerOffset,
    PartitionKey,
    PartitionState,
    RetiredSegment,
    Segment,
    SparedBytes,
)
from tierfold.compaction.model.strategies import with_strategy

CLEANER_OFFSETS_KEPT: Final = 64
"""The number of newest entries that a row keeps of its cleaner offset vector.

Every run that commits adds one, and every new segment stores the whole vector, so it must not grow
without limit. Only the newest entry says what is clean, and a fence compares only the epoch.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochIs:
    """The compaction epoch is still `epoch`, and `owner_run` holds it (KIP-1272)."""

    epoch: int
    owner_run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitIs:
    """The row is the one that was planned on."""

    commit_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentsAreLive:
    """These segments are live: the sources of a rewrite, or segments that expire."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentsAreRetired:
    """These segments are retired and whole: their deletion has not started."""

    ids: tuple[str, ...]


Requirement: TypeAlias = EpochIs | CommitIs | SegmentsAreLive | SegmentsAreRetired


@dataclass(frozen=True, slots=True, kw_only=True)
class RetireSegments:
    """Take live segments out of the log; their objects stay until `vacuum` deletes them."""

    ids: tuple[str, ...]
    at_ms: int
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddSegments:
    """Make segments live, with the cleaner offset vector of the row after the commit."""

    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceCleanerOffset:
    """Set epoch `epoch`'s entry of the vector to `offset`: below it everything is clean."""

    epoch: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteStrategy:
    """Record the compaction strategy under which records were superseded (KIP-280)."""

    name: str
    """From `compaction.model.strategies.strategy_name`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteSpared:
    """Record which live segments hold superseded records that rounds left, and how much."""

    entries: tuple[SparedBytes, ...]
    """Of all live segments after the commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseClaim:
    """Release the claim of `run`; the epoch stays."""

    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveLogStart:
    """Let consumers read from `offset` on; the same commit retires the segments below."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartDeletion:
    """Start to delete the objects of retired segments (Kafka `DELETE_SEGMENT_STARTED`).

    It is committed before the first object is deleted, so a segment without it is whole.
    """

    ids: tuple[str, ...]
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishDeletion:
    """Remove segments that have no object left (Kafka `DELETE_SEGMENT_FINISHED`)."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreState:
    """Make the live segments of an earlier row live again, or copies of them.

    Live segments that are not in `ids` are retired; retired segments in `ids` become live.
    """

    ids: tuple[str, ...]
    """All segments that are live afterwards, except the copies."""
    copies: tuple[Segment, ...] = ()
    """New segments with the bytes of retired ones, which stay retired."""
    cleaner_offset: int
    """The earlier row's cleaner offset, for the present epoch."""
    log_start_offset: int
    strategies: tuple[str, ...]
    spared: tuple[SparedBytes, ...]
    at_ms: int
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetPartition:
    """Remove everything about the log from the row; its epoch still fences older runs."""

    consent: tuple[str, ...]
    """Ids of segments whose loss a person accepted."""


Update: TypeAlias = (
    RetireSegments
    | AddSegments
    | AdvanceCleanerOffset
    | NoteStrategy
    | NoteSpared
    | ReleaseClaim
    | MoveLogStart
    | StartDeletion
    | FinishDeletion
    | RestoreState
    | ForgetPartition
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitProposal:
    """One atomic change of one partition's row."""

    key: PartitionKey
    commit_id: str
    """New for every proposal, and the same when a proposal is tried again."""
    requires: tuple[Requirement, ...]
    updates: tuple[Update, ...]
    at_ms: int
    """The time of the proposal, which becomes the row's `committed_at_ms`."""

    @property
    def epoch(self) -> int:
        """The compaction epoch under which it is written; 0: it requires none."""
        return max((need.epoch for need in self.requires if isinstance(need, EpochIs)), default=0)

    @property
    def is_restore(self) -> bool:
        """Whether it goes back to an earlier row, which no other commit may do."""
        return any(isinstance(update, RestoreState) for update in self.updates)


def proposed(
    row: PartitionState,
    *updates: Update,
    commit_id: str,
    at_ms: int,
    requires: Sequence[Requirement] = (),
) -> CommitProposal:
    """A proposal to change exactly the claimed row `row`, under its epoch.

    `row` is the row that the claim, or the last commit after it, wrote. `requires` is what else
    must hold. `at_ms` is the time of the commit, epoch milliseconds.
    """
    return CommitProposal(
        key=row.key,
        commit_id=commit_id,
        requires=(
            EpochIs(epoch=row.epoch, owner_run=row.owner_run),
            CommitIs(commit_id=row.commit_id),
            *requires,
        ),
        updates=updates,
        at_ms=at_ms,
    )


def failed_requirements(
    requires: Sequence[Requirement], state: PartitionState
) -> tuple[Requirement, ...]:
    """The requirements that `state` does not meet, in their order."""
    return tuple(need for need in requires if not _meets(state, need))


def _meets(state: PartitionState, need: Requirement) -> bool:
    match need:
        case EpochIs(epoch=epoch, owner_run=run):
            return (state.epoch, state.owner_run) == (epoch, run)
        case CommitIs(commit_id=commit_id):
            return state.commit_id == commit_id
        case SegmentsAreLive(ids=ids):
            return state.live_ids.issuperset(ids)
        case SegmentsAreRetired(ids=ids):
            return state.whole_retired_ids.issuperset(ids)
        case _:
            assert_never(need)


def outcome_of(proposal: CommitProposal, state: PartitionState | None) -> Outcome | None:
    """The proposal's outcome, as the present row shows it; None: it may be written.

    The row shows a success by its commit id or, after later commits, by the segments that were
    added. A restore adds none, and is the only commit of its epoch: the epoch's cleaner offset
    shows it.
    """
    if state is None:
        return lost(proposal.epoch, state)
    if _took_place(proposal, state):
        return Committed(epoch=proposal.epoch, commit_id=proposal.commit_id)
    if not failed_requirements(proposal.requires, state):
        return None
    return lost(proposal.epoch, state)


def lost(epoch: int, state: PartitionState | None) -> Fenced | LostRace:
    """Why a write under `epoch` did not take place, as the present row shows; None: it is gone."""
    if state is None:
        return LostRace(found_commit_id="")
    if state.epoch > epoch:
        return Fenced(epoch=epoch, by_epoch=state.epoch, by_run=state.owner_run)
    return LostRace(found_commit_id=state.commit_id)


def _took_place(proposal: CommitProposal, state: PartitionState) -> bool:
    if state.commit_id == proposal.commit_id:
        return True
    if proposal.is_restore:
        return any(entry.epoch == proposal.epoch for entry in state.cleaner_offsets)
    added = {
        segment.segment_id
        for update in proposal.updates
        if isinstance(update, AddSegments)
        for segment in update.segments
    }
    return bool(added) and added <= state.named_ids


def applied(proposal: CommitProposal, state: PartitionState) -> PartitionState:
    """The row after the proposal; the requirements are not checked.

    The cleaner offset always moves first, because the added segments store the new vector.
    """
    after = replace(state, commit_id=proposal.commit_id, committed_at_ms=proposal.at_ms)
    for update in sorted(proposal.updates, key=lambda u: not isinstance(u, AdvanceCleanerOffset)):
        after = _updated(after, update)
    return after.with_live_spared()


def _updated(state: PartitionState, update: Update) -> PartitionState:
    match update:
        case AdvanceCleanerOffset(epoch=epoch, offset=offset):
            return replace(state, cleaner_offsets=_vector(state.cleaner_offsets, epoch, offset))
        case RetireSegments():
            return _without(state, update)
        case AddSegments(segments=segments):
            vector = state.cleaner_offsets
            stamped = (replace(segment, cleaner_offsets=vector) for segment in segments)
            live = sorted((*state.segments, *stamped), key=lambda segment: segment.start_offset)
            return replace(state, segments=tuple(live))
        case NoteStrategy(name=name):
            return replace(state, strategies=with_strategy(state.strategies, name))
        case NoteSpared(entries=entries):
            return replace(state, spared=entries)
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
        case ForgetPartition(consent=consent):
            return state.emptied(consent)
        case _:
            assert_never(update)


def _vector(old: Sequence[CleanerOffset], epoch: int, offset: int) -> tuple[CleanerOffset, ...]:
    others = (entry for entry in old if entry.epoch != epoch)
    vector = sorted((*others, CleanerOffset(epoch=epoch, offset=offset)))
    return tuple(vector[-CLEANER_OFFSETS_KEPT:])


def _without(state: PartitionState, update: RetireSegments) -> PartitionState:
    ids = frozenset(update.ids)
    retired = (
        RetiredSegment(
            segment=segment,
            retired_at_ms=update.at_ms,
            retired_by_epoch=state.epoch,
            retired_by_run=update.run,
        )
        for segment in state.segments
        if segment.segment_id in ids
    )
    return replace(
        state,
        segments=tuple(segment for segment in state.segments if segment.segment_id not in ids),
        retired=(*state.retired, *retired),
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
    return replace(
        after,
        segments=tuple(sorted(live, key=lambda segment: segment.start_offset)),
        retired=tuple(entry for entry in after.retired if entry.segment.segment_id not in wanted),
        cleaner_offsets=_vector(state.cleaner_offsets, state.epoch, update.cleaner_offset),
        log_start_offset=update.log_start_offset,
        strategies=update.strategies,
        spared=update.spared,
    )


def claimed(state: PartitionState, *, run: str, commit_id: str, at_ms: int) -> PartitionState:
    """The row once `run` has opened the next compaction epoch (KIP-1272).

    `state` is the row as read, with newly found segments adopted, or a fresh state of epoch 0. The
    cleaner offset vector stays: the new epoch gets an entry with its first commit.
    """
    after = replace(
        state, epoch=state.epoch + 1, owner_run=run, commit_id=commit_id, committed_at_ms=at_ms
    )
    return after.with_live_spared()

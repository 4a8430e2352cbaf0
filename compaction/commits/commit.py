"""A commit as data: what it requires, what it changes, and how it ends.

A proposal can be printed, checked and refused before anything is written. `storage.catalog.catalog`
reads a row, calls `outcome_of`, writes `applied` under a condition, and calls `outcome_of` again.

    proposed(row, updates)     -> a change of a claimed row, under its epoch
    outcome_of(proposal, row)  -> the outcome that the row already shows; None: it may be written

`commits.row_changes` makes the row that a claim or a commit writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from tierfold.compaction.model.outcomes import Committed, Fenced, LostRace, Outcome
from tierfold.compaction.model.segments import (
    LeaderEpoch,
    PartitionKey,
    PartitionState,
    Segment,
    SparedBytes,
)
from tierfold.compaction.model.serving import Consent, LocalRange, ServingCluster


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
class NoteRetired:
    """Retire segments that the row never named: brokers must drop them."""

    segments: tuple[Segment, ...]
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
class NoteDropped:
    """Record that a round removed a tombstone or marker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotePass:
    """Record that a round of this compaction epoch changed what consumers are to see."""

    earliest_ms: int
    """The earliest delete horizon that it set, or found in what brokers wrote."""
    has_spared: bool
    """Whether this pass leaves a record that a tombstone or marker hides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteFoundHorizon:
    """Record that a merge found delete horizons of brokers: they count from the next pass."""

    earliest_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotePublished:
    """Record that brokers have what the row says: all its passes are published.

    It is committed once `publishing.next_step` is done, as read back from the metadata topic.
    """

    at_ms: int
    """When it was read back, epoch milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteLocalRanges:
    """Record until when brokers can have local copies of the log."""

    entries: tuple[LocalRange, ...]
    """In offset order from the log start on, as far as it is known."""
    retention_ms: int | None
    """How long brokers keep local copies, as seen now; None: no time limits them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteConsent:
    """Record what a person agreed to."""

    consent: Consent


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveTier:
    """Record that the tier stands elsewhere, which only a person can say."""

    place: str
    """As `TierPlace` prints it."""
    consent: Consent
    """Of the kind `MOVED`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteRebuilt:
    """Record that a metadata topic which was lost names again what is in the tier."""

    cluster: ServingCluster
    """With the topic as it is now."""
    consent: Consent
    """Of the kind `REBUILT`."""


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
    listed: frozenset[str] = frozenset()
    """Of these, the ids that the metadata of brokers list for deletion, as read back."""
    never_named: frozenset[str] = frozenset()
    """Of these, the ids that brokers' metadata never named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishDeletion:
    """Remove segments that have no object left (Kafka `DELETE_SEGMENT_FINISHED`)."""

    ids: tuple[str, ...]
    gone: frozenset[str] = frozenset()
    """Of these, the ids that brokers know to be gone, as read back from their metadata."""
    never_named: frozenset[str] = frozenset()
    """Of these, the ids that brokers' metadata never named."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptSegments:
    """Make the row name what brokers have, in place of what it named (`commits.adoption`)."""

    live: tuple[Segment, ...]
    retired: tuple[Segment, ...]
    """Those that are not live; what the row had retired stays as it is."""
    brings_back: bool
    """Whether older values are back: delete horizons begin again, and it stays noted which
    strategies decided what consumers have read."""
    lineage: tuple[LeaderEpoch, ...]
    log_start_offset: int
    served_by: tuple[ServingCluster, ...]
    at_ms: int
    run: str


Update: TypeAlias = (
    RetireSegments
    | NoteRetired
    | AddSegments
    | AdvanceCleanerOffset
    | NoteStrategy
    | NoteSpared
    | NoteDropped
    | NotePass
    | NoteFoundHorizon
    | NotePublished
    | NoteLocalRanges
    | NoteConsent
    | MoveTier
    | NoteRebuilt
    | ReleaseClaim
    | MoveLogStart
    | StartDeletion
    | FinishDeletion
    | RestoreState
    | ForgetPartition
    | AdoptSegments
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

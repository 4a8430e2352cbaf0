"""The steps of `next_step` that change the row instead of sending; the next look goes on.

    Merge           writes one segment in the place of several
    Copy            copies a live segment that brokers deleted, under a new id
    Retire          names segments that brokers must drop
    note_published  notes that brokers have what the row says
    note_rebuilt    notes that a metadata topic which was lost names all again

Each changes exactly the row of its look, under the run's claim: where another run has changed it
meanwhile, nothing is written. A run that dies before the commit leaves an orphan at most, which the
next look does not see, and `vacuum` deletes it.

Rule: PUBLISHING 1.4, 2.1, 4.2, 4.6, 5.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from tierfold.compaction.brokers.noted_segment import noted_segment
from tierfold.compaction.cleaning.rounds import Round
from tierfold.compaction.commits.commit import (
    AddSegments,
    CommitProposal,
    NotePublished,
    NoteRetired,
    NoteSpared,
    RetireSegments,
    Update,
    proposed,
)
from tierfold.compaction.commits.rebuilt_row import rebuilt
from tierfold.compaction.commits.seen_by_readers import local_ranges_noted
from tierfold.compaction.discovery.view import PartitionView, Refusal, first_few, state_with_new
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.outcomes import Committed, LostRace, Outcome, Unknown
from tierfold.compaction.model.passes import is_unpublished
from tierfold.compaction.model.segment_ids import is_restored_id
from tierfold.compaction.model.segments import PartitionKey, PartitionState, Segment
from tierfold.compaction.planning.merges import merge_plan, unread_beside, why_not_one
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.steps import Copy, Merge, Retire
from tierfold.jobs.context.stage_seconds import TimedStage
from tierfold.jobs.context.stopping import check, finishing
from tierfold.jobs.engines.rows import sentence_of
from tierfold.jobs.pipeline.check_and_commit import COMMITS, check_and_commit
from tierfold.jobs.pipeline.discovery import aborted_in
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.merging import merged
from tierfold.jobs.pipeline.survey import inspected
from tierfold.jobs.publishing.segment_copies import copied_segments, lack_of_space
from tierfold.jobs.publishing.served_partition import ServedPartition
from tierfold.storage.catalog.catalog import new_commit_id

_NO_SPACE: Final = "Free space, then run again."
_NOT_ONE: Final = (
    "Nothing was changed. Nothing more of this partition is published until its log start has"
    " passed these offsets."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The row is as the step wants it."""

    row: PartitionState
    """As it is now; that of the look, if nothing was left to note."""
    bytes_written: int
    """Bytes of all objects that were written for it."""


@dataclass(frozen=True, slots=True)
class NotChanged:
    """The row is another run's by now, or the commit got no answer."""

    outcome: Outcome
    """Not `Committed`."""


@dataclass(frozen=True, slots=True)
class StepFailed:
    """Nothing was committed."""

    why: str
    """What is wrong and what to do, whole sentences."""


StepOutcome: TypeAlias = Changed | NotChanged | StepFailed
"""How a step that changes the row ends."""


def carried_out(
    held: HeldPartitions, partition: ServedPartition, step: Merge | Copy | Retire
) -> StepOutcome:
    """Carry out a step of this look on a held partition.

    Raises InvariantBroken, and Stopped after a signal, while nothing is committed.
    """
    key = partition.look.row.key
    if unread := held.recheck([key]):
        return StepFailed(str(unread[key]))
    if (stale := _stale(held, partition.look)) is not None:
        return stale
    match step:
        case Merge():
            return _merged(held, partition, step)
        case Copy():
            return _copied(held, partition, step)
        case Retire():
            return _retired(held, partition, step)


def note_published(
    held: HeldPartitions, looks: Sequence[Look], at_ms: int
) -> dict[PartitionKey, StepOutcome]:
    """Note in the rows that all their passes are published, unless they say so; one commit.

    `looks`: of which the next step is done, as read back at `at_ms`, epoch milliseconds.
    """

    def published(look: Look) -> Update | None:
        return NotePublished(at_ms=at_ms) if is_unpublished(look.row) else None

    return _noted(held, looks, published)


def note_rebuilt(
    held: HeldPartitions, looks: Sequence[Look], at_ms: int
) -> dict[PartitionKey, StepOutcome]:
    """Note in the rows the metadata topic as it is, unless they note it so; one commit.

    `looks`: by which it names all again, as read back at `at_ms`, epoch milliseconds. Their rows
    note it already; those that the run holds do not.
    """

    def rebuilt_note(look: Look) -> Update | None:
        row, found = held.by_key[look.row.key].row, look.row.cluster
        return None if found is None else rebuilt(row, found, at_ms=at_ms, run=held.context.run)

    return _noted(held, looks, rebuilt_note)


def _noted(
    held: HeldPartitions, looks: Sequence[Look], note: Callable[[Look], Update | None]
) -> dict[PartitionKey, StepOutcome]:
    """Commit the notes together; where there is none, the row is as it should be."""
    outcomes: dict[PartitionKey, StepOutcome] = {}
    proposals = []
    for look in looks:
        if (stale := _stale(held, look)) is not None:
            outcomes[look.row.key] = stale
        elif (update := note(look)) is None:
            outcomes[look.row.key] = Changed(row=look.row, bytes_written=0)
        else:
            proposals.append(_proposal(held, look, update))
    with finishing(COMMITS), held.context.seconds.timed(TimedStage.COMMIT):
        held.commit(proposals)
        held.settle()
    return outcomes | {proposal.key: _settled(held, proposal.key, 0) for proposal in proposals}


def _stale(held: HeldPartitions, look: Look) -> NotChanged | None:
    """The outcome if the row is no longer that of the look, as far as the run knows it."""
    now = held.by_key[look.row.key]
    if not isinstance(now.outcome, Committed):
        return NotChanged(now.outcome)
    if now.row.commit_id != look.row.commit_id:
        return NotChanged(LostRace(found_commit_id=now.row.commit_id))
    return None


def _merged(held: HeldPartitions, partition: ServedPartition, step: Merge) -> StepOutcome:
    context, key = held.context, partition.look.row.key
    view = inspected(context, partition.known)
    if isinstance(view, Refusal):
        return StepFailed(f"{key}: {view.sentence}")
    try:
        plan = merge_plan(view, step)
        if why := unread_beside(plan, partition.look.log_start):
            return StepFailed(f"{key}: {why}. {first_few(view.notes)}.")
        if why := why_not_one(plan):
            return StepFailed(f"{key}: {why}. {_NOT_ONE}")
        if why := lack_of_space(context, plan.sources, partition.known.listed):
            return StepFailed(f"{key}: {why}. {_NO_SPACE}")
        aborted = aborted_in(context, key, plan.sources)
    except Exception as error:  # noqa: BLE001 - it stops this partition alone, and is reported
        return StepFailed(sentence_of(error, str(key)))
    row = _with_sources(held, view, plan.sources)
    if not isinstance(row, PartitionState):
        return row
    work = Round(
        index=0,
        state=row,
        plan=PartitionPlan(key=key, rules=partition.rules, choice=plan, view=view),
        now_ms=context.now_ms,
        hash_key=context.hash_key,
        fingerprint=context.catalog.fingerprint(),
        aborted=aborted,
    )
    with context.seconds.timed(TimedStage.REWRITE):
        rewritten = merged(context.tier, work, check)
    (result,) = check_and_commit(held, [rewritten])
    if result.failure is not None:
        return StepFailed(result.failure)
    return _settled(held, key, result.bytes_written)


def _with_sources(
    held: HeldPartitions, view: PartitionView, sources: tuple[Segment, ...]
) -> PartitionState | NotChanged | StepFailed:
    """The row that has all sources as live; one more claim takes those that it lacks.

    Only a claim takes segments, because only a claim checks that those that overlap agree.
    """
    now = held.by_key[view.key].row
    if now.live_ids.issuperset(segment.segment_id for segment in sources):
        return now
    match held.claim([state_with_new(view)]).get(view.key):
        case None:
            return held.by_key[view.key].row
        case TierfoldError() as error:
            return StepFailed(str(error))
        case Unknown() as outcome:
            return NotChanged(outcome)
    held.recheck([view.key])
    return NotChanged(held.by_key[view.key].outcome)


def _copied(held: HeldPartitions, partition: ServedPartition, step: Copy) -> StepOutcome:
    context, look = held.context, partition.look
    (source,) = (one for one in look.row.segments if one.segment_id == step.segment_id)
    try:
        if why := lack_of_space(context, [source], partition.known.listed):
            return StepFailed(f"{look.row.key}: {why}. {_NO_SPACE}")
        with context.seconds.timed(TimedStage.REWRITE):
            # The copy of what a restore brings back is published in the order of a restore, too.
            is_restored = is_restored_id(source.segment_id)
            copies = copied_segments(context, look.row.key, [source], is_restored=is_restored)
    except Exception as error:  # noqa: BLE001 - it stops this partition alone, and is reported
        return StepFailed(sentence_of(error, str(look.row.key)))
    (copy,) = copies.segments
    spared = tuple(
        replace(one, segment_id=copy.segment_id) if one.segment_id == source.segment_id else one
        for one in look.row.spared
    )
    proposal = _proposal(
        held,
        look,
        RetireSegments(ids=(source.segment_id,), at_ms=context.clock(), run=context.run),
        AddSegments(segments=(copy,)),
        NoteSpared(entries=spared),
    )
    return _committed(held, proposal, copies.stored_bytes)


def _retired(held: HeldPartitions, partition: ServedPartition, step: Retire) -> StepOutcome:
    look, brokers, at_ms = partition.look, partition.known.brokers, held.context.clock()
    segments = tuple(
        noted_segment(look.view.segments[segment_id].added, held.context.run)
        for segment_id in step.segment_ids
    )
    updates: list[Update] = [NoteRetired(segments=segments, at_ms=at_ms, run=held.context.run)]
    if brokers is not None:
        # Once they are listed, nothing says any longer when they were finished.
        updates.append(local_ranges_noted(look.row, brokers, partition.rules, at_ms))
    return _committed(held, _proposal(held, look, *updates))


def _proposal(held: HeldPartitions, look: Look, *updates: Update) -> CommitProposal:
    return proposed(
        look.row, *updates, commit_id=new_commit_id(), at_ms=held.context.clock()
    )


def _committed(
    held: HeldPartitions, proposal: CommitProposal, bytes_written: int = 0
) -> StepOutcome:
    with finishing(COMMITS), held.context.seconds.timed(TimedStage.COMMIT):
        held.commit([proposal])
    return _settled(held, proposal.key, bytes_written)


def _settled(held: HeldPartitions, key: PartitionKey, bytes_written: int) -> StepOutcome:
    """The outcome of the last commit, looked for if it got no answer."""
    held.settle()
    now = held.by_key[key]
    if isinstance(now.outcome, Committed):
        return Changed(row=now.row, bytes_written=bytes_written)
    return NotChanged(now.outcome)

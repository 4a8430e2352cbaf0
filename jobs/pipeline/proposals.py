"""From a round's receipts to the commit the catalog is asked to accept."""

from __future__ import annotations

from collections.abc import Sequence

from tierfold.compaction.commits.commit import (
    AddSegments,
    AdvanceCleanerOffset,
    CommitProposal,
    NoteStrategy,
    ReleaseClaim,
    RetireSegments,
    SegmentsAreLive,
    Update,
    proposed,
)
from tierfold.compaction.commits.receipts import GroupReceipt, GroupResult
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.strategies import latest_strategy, strategy_name
from tierfold.jobs.pipeline.task_assignment import Round


def proposal_of(
    work: Round, receipts: Sequence[GroupReceipt], commit_id: str, at_ms: int
) -> CommitProposal:
    """Sources out, results in, the cleaner offset moved: one atomic step, under our epoch.

    A group that came out unchanged stays live as it is. The claim lasts until the last chunk.
    `at_ms` is the time now, not when the run began: from it on the sources' grace period counts.
    """
    run = work.state.owner_run
    written = [
        (group, receipt)
        for group, receipt in zip(work.groups, receipts, strict=True)
        if receipt.result is GroupResult.WRITTEN
    ]
    sources = tuple(s.segment_id for group, _ in written for s in group.segments)
    added = tuple(r.segment for _, r in written if r.segment is not None)
    swap: tuple[Update, ...] = ()
    if written:
        swap = (
            RetireSegments(ids=sources, at_ms=at_ms, run=run),
            AddSegments(segments=added),
        )
    return proposed(
        work.state,
        *swap,
        AdvanceCleanerOffset(epoch=work.state.epoch, offset=_cleaner_offset(work)),
        *_noted(work),
        *((ReleaseClaim(run=run),) if work.is_last_chunk else ()),
        commit_id=commit_id,
        at_ms=at_ms,
        requires=(SegmentsAreLive(ids=sources),),
    )


def release_of(state: PartitionState, commit_id: str, at_ms: int) -> CommitProposal:
    """The claim given back and nothing else: the run ends before the partition's last chunk."""
    release = ReleaseClaim(run=state.owner_run)
    return proposed(state, release, commit_id=commit_id, at_ms=at_ms)


def _noted(work: Round) -> tuple[NoteStrategy, ...]:
    """A round that only passed horizons call for compares nothing: it notes nothing."""
    name = strategy_name(work.rules)
    is_known = work.is_partial or latest_strategy(work.state) == name
    return () if is_known else (NoteStrategy(name=name),)


def _cleaner_offset(work: Round) -> int:
    """Below it everything is clean: the round's end, but where a person forced a region.

    A forced round that began above what is clean left a stretch uncleaned, so nothing moves: the
    next plain round takes that stretch in, and no tombstone is gone before it. One that ended
    below moves nothing back.
    """
    if work.first_dirty > work.clean_until:
        return work.clean_until
    return max(work.clean_until, work.next_offset)

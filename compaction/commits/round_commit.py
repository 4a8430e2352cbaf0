"""The commit of a round: its receipts become one proposal."""

from __future__ import annotations

from collections.abc import Sequence

from tierfold.compaction.cleaning.rounds import Round
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


def proposal_of(
    work: Round, receipts: Sequence[GroupReceipt], commit_id: str, at_ms: int
) -> CommitProposal:
    """Propose one atomic commit: retire the sources, add the results, move the cleaner offset.

    An unchanged group stays live as it is. The claim lasts until the last chunk. `at_ms` is the
    current time, not the run's start: the sources' grace period starts there.
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
        AdvanceCleanerOffset(epoch=work.state.epoch, offset=work.next_cleaner_offset),
        *_noted(work),
        *((ReleaseClaim(run=run),) if work.compact.is_last else ()),
        commit_id=commit_id,
        at_ms=at_ms,
        requires=(SegmentsAreLive(ids=sources),),
    )


def release_of(state: PartitionState, commit_id: str, at_ms: int) -> CommitProposal:
    """Propose to release the claim only: the run ends before the partition's last chunk."""
    release = ReleaseClaim(run=state.owner_run)
    return proposed(state, release, commit_id=commit_id, at_ms=at_ms)


def _noted(work: Round) -> tuple[NoteStrategy, ...]:
    """Notes a new strategy; a partial round compares no keys, so it notes nothing."""
    name = strategy_name(work.rules)
    is_known = work.compact.is_partial or latest_strategy(work.state) == name
    return () if is_known else (NoteStrategy(name=name),)

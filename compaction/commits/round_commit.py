"""The commit of a round: its receipts become one proposal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tierfold.compaction.cleaning.rounds import Round
from tierfold.compaction.commits.commit import (
    AddSegments,
    AdvanceCleanerOffset,
    CommitProposal,
    NoteDropped,
    NoteRetired,
    NoteSpared,
    NoteStrategy,
    RetireSegments,
    SegmentsAreLive,
    Update,
    proposed,
)
from tierfold.compaction.commits.receipts import GroupReceipt, GroupResult
from tierfold.compaction.commits.seen_by_readers import notes_for_readers
from tierfold.compaction.commits.spared import spared_after
from tierfold.compaction.model.strategies import BY_OFFSET, latest_strategy, strategy_name


def proposal_of(
    work: Round,
    receipts: Sequence[GroupReceipt],
    commit_id: str,
    at_ms: int,
    unread: Mapping[str, int],
) -> CommitProposal:
    """Propose one atomic commit: retire the sources, add the results, move the cleaner offset.

    An unchanged group stays live as it is; a merge cleans nothing. `at_ms` is the current time, not
    the run's start: the sources' grace period starts there. `unread`: as `spared_after` takes it.
    """
    run, strategy = work.state.owner_run, strategy_name(work.rules)
    written = [
        (group, receipt)
        for group, receipt in zip(work.groups, receipts, strict=True)
        if receipt.result is GroupResult.WRITTEN
    ]
    sources = tuple(s.segment_id for group, _ in written for s in group.segments)
    updates: list[Update] = []
    if written:
        added = tuple(one.segment for _, receipt in written for one in receipt.written)
        updates.append(RetireSegments(ids=sources, at_ms=at_ms, run=run))
        updates.append(AddSegments(segments=added))
        if work.state.is_served:
            updates += notes_for_readers(work, receipts, at_ms)
        elif not work.state.has_dropped and any(one.counts.has_dropped for _, one in written):
            updates.append(NoteDropped())
    spared = spared_after(work, receipts, unread)
    if spared != work.state.spared:
        updates.append(NoteSpared(entries=spared))
    if work.compact.is_merge:
        if beside := work.compact.beside:
            updates.append(NoteRetired(segments=beside, at_ms=at_ms, run=run))
    else:
        offset = work.next_cleaner_offset
        updates.append(AdvanceCleanerOffset(epoch=work.state.epoch, offset=offset))
    # A partial round compares no keys, so its strategy decides nothing.
    if not work.compact.is_partial and latest_strategy(work.state) != strategy:
        if work.state.cleaner_offset is not None and not work.state.strategies:
            updates.append(NoteStrategy(name=BY_OFFSET))  # Its earlier rounds noted none.
        updates.append(NoteStrategy(name=strategy))
    return proposed(
        work.state,
        *updates,
        commit_id=commit_id,
        at_ms=at_ms,
        requires=(SegmentsAreLive(ids=sources),),
    )

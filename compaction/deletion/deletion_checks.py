"""Checks of a deletion plan right before its objects are deleted.

    rechecked             the row, read again, or why it forbids the deletion
    deletion_violations   live or unmarked segments that the plan would delete: a bug
    changed_ids           orphans that stay because they changed after the listing
"""

from __future__ import annotations

from collections.abc import Iterable

from tierfold.compaction.commits.commit import CommitProposal, lost, outcome_of
from tierfold.compaction.deletion.deletion_plan import DeletionPlan
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.model.outcomes import Committed, Fenced, LostRace, Unknown
from tierfold.compaction.model.segments import PartitionState


def rechecked(
    deletion: DeletionPlan,
    row: PartitionState | None,
    *,
    held: PartitionState,
    unanswered: CommitProposal | None,
) -> PartitionState | Fenced | LostRace | Unknown | tuple[str, ...]:
    """The row, if it allows the deletion; else an outcome, or violations, a phrase each.

    `row` is the row as it is now; None: it is gone. `held` is the row that this run's claim wrote,
    or the commit after it; `unanswered` is that commit, if it got no answer.
    """
    if row is None:
        return LostRace(found_commit_id="")
    if (row.epoch, row.owner_run) != (held.epoch, held.owner_run):
        return lost(held.epoch, row)
    if unanswered is not None and not isinstance(outcome_of(unanswered, row), Committed):
        return Unknown(commit_id=unanswered.commit_id, cause="it may still take effect")
    return deletion_violations(deletion, row) or row


def deletion_violations(deletion: DeletionPlan, row: PartitionState) -> tuple[str, ...]:
    """Why the present row forbids the deletion, a phrase each; empty: it does not.

    Live segments are never deleted, and retired ones only once the row marks them.
    """
    live = {segment.segment_id for segment in row.segments}
    retired = {entry.segment.segment_id for entry in row.retired}
    marked = retired - {entry.segment.segment_id for entry in row.whole_retired}
    orphans = {orphan.segment_id for orphan in (*deletion.orphans, *deletion.set_apart)}
    to_be_marked = set(deletion.marked_ids)
    return (
        *(f"segment {name} is live" for name in sorted((orphans | to_be_marked) & live)),
        *(f"segment {name} is retired, not an orphan" for name in sorted(orphans & retired)),
        *(
            f"segment {name} is not marked as being deleted"
            for name in sorted(to_be_marked - marked - live)
        ),
    )


def changed_ids(deletion: DeletionPlan, listing: Iterable[ListedSegment]) -> frozenset[str]:
    """Ids of orphans that changed after the first listing, so that they stay.

    An ongoing copy may have added a `.log`. An orphan that is no longer listed has not changed.
    """
    listed = frozenset(listing)
    listed_ids = {segment.segment_id for segment in listed}
    return frozenset(
        orphan.segment_id
        for orphan in (*deletion.orphans, *deletion.set_apart)
        if orphan.segment_id in listed_ids and orphan not in listed
    )

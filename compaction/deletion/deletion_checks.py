"""Whether what was planned to be deleted still may be, right before the deletion."""

from __future__ import annotations

from collections.abc import Iterable

from tierfold.compaction.deletion.deletion_plan import DeletionPlan
from tierfold.compaction.discovery.listing import IncompleteUpload, ListedSegment
from tierfold.compaction.model.segments import PartitionState


def deletion_violations(deletion: DeletionPlan, row: PartitionState) -> tuple[str, ...]:
    """Why the present row forbids the deletion, a phrase each; empty: it does not.

    Live segments are never deleted, and retired ones only once the row marks them.
    """
    live, retired = row.live_ids, row.retired_ids
    orphans = {orphan.segment_id for orphan in (*deletion.orphans, *deletion.set_apart)}
    to_be_marked = set(deletion.marked_ids)
    return (
        *(f"segment {name} is live" for name in sorted((orphans | to_be_marked) & live)),
        *(f"segment {name} is retired, not an orphan" for name in sorted(orphans & retired)),
        *(f"segment {name} is left alone" for name in sorted(orphans & row.left_alone_ids)),
        *(
            f"segment {name} is not marked as being deleted"
            for name in sorted(to_be_marked - row.marked_ids - live)
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


def changed_uploads(
    deletion: DeletionPlan, uploads: Iterable[IncompleteUpload]
) -> frozenset[str]:
    """Keys of unfinished uploads that went on after the first listing, so that they stay."""
    keys = {upload.object_key for upload in deletion.incomplete_uploads}
    changed = frozenset(uploads).difference(deletion.incomplete_uploads)
    return frozenset(upload.object_key for upload in changed if upload.object_key in keys)

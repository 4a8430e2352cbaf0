"""What a restore means for the brokers that serve the row, before anything is claimed.

Rule: PUBLISHING 6.4; docs/publishing.md.
"""

from __future__ import annotations

from typing import Final

from tierfold.compaction.commits.restore import RestorePlan
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.model.segment_ids import is_restored_id
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.strategies import is_by_version
from tierfold.compaction.publishing.batches import updates_max
from tierfold.compaction.publishing.ranges import OffsetRange, joined, overlapping

_BY_VERSION: Final = (
    "versions decided which records stayed, so consumers must see all of it at once"
)
_ONE_GROUP: Final = "consumers must see a group of segments that share offsets at once"
_UNDONE: Final = Refusal(
    reason=RefusalReason.NOT_RESTORABLE,
    detail="it undoes another restore: the groups of a restore descend, so tombstones would go"
    " before the values that they hide, and consumers would read deleted keys",
    remedy="Compact the partition again instead: it ends with the same records.",
)


def offsets_read_again(plan: RestorePlan) -> tuple[OffsetRange, ...]:
    """The offsets that consumers read again as they were, ascending."""
    return joined(OffsetRange(one.start_offset, one.end_offset) for one in plan.back)


def unpublishable_restore(
    plan: RestorePlan, row: PartitionState, batch_bytes_max: int
) -> Refusal | None:
    """The refusal if brokers cannot be sent the restore so that consumers read only what it says.

    It must not undo another restore, and batches must hold it. `batch_bytes_max`: what brokers
    take.
    """
    if _undoes_a_restore(plan, row):
        return _UNDONE
    return refused_by_batches(plan, row, batch_bytes_max)


def refused_by_batches(
    plan: RestorePlan, row: PartitionState, batch_bytes_max: int
) -> Refusal | None:
    """The refusal if one batch of events does not hold what must reach brokers at once.

    By versions that is all of the restore, else each group.
    """
    if is_by_version((*row.strategies, *plan.state.strategies)):
        events, why = len(plan.back) + len(plan.leaving), _BY_VERSION
    else:
        events, why = _largest_group(plan), _ONE_GROUP
    most = updates_max(row.key, batch_bytes_max)
    if events <= most:
        return None
    return Refusal(
        reason=RefusalReason.NOT_RESTORABLE,
        detail=f"{why}: that takes {events} events, and one batch holds {most}",
        remedy="Choose a later state, of which fewer segments come back.",
    )


def _undoes_a_restore(plan: RestorePlan, row: PartitionState) -> bool:
    """Whether something comes back that a restore retired."""
    runs = {one.written_by_run for one in row.named_segments if is_restored_id(one.segment_id)}
    retired_by = {one.segment.segment_id: one.retired_by_run for one in row.retired}
    return any(retired_by.get(one.segment_id) in runs for one in plan.back)


def _largest_group(plan: RestorePlan) -> int:
    """How many events the largest group of segments that share offsets takes."""
    segments = (*plan.back, *plan.leaving)
    groups = overlapping(
        (OffsetRange(one.own_start_offset, one.end_offset), one) for one in segments
    )
    return max(map(len, groups), default=0)

"""What a restore means for the brokers that serve the row, before anything is claimed.

Rule: PUBLISHING 6.4; docs/publishing.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tierfold.compaction.commits.restore import RestorePlan
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.model.strategies import BY_OFFSET
from tierfold.compaction.publishing.batches import updates_max
from tierfold.compaction.publishing.ranges import OffsetRange, joined

_BY_VERSION: Final = (
    "versions decided which records stayed, so consumers must see all of it at once"
)
_ONE_GROUP: Final = "consumers must see a group of segments that share offsets at once"


def offsets_read_again(plan: RestorePlan) -> tuple[OffsetRange, ...]:
    """The offsets that consumers read again as they were, ascending."""
    return joined(OffsetRange(one.start_offset, one.end_offset) for one in plan.back)


def unpublishable_restore(
    plan: RestorePlan, row: PartitionState, batch_bytes_max: int
) -> Refusal | None:
    """The refusal if one batch of events cannot hold what must reach brokers at once.

    By versions that is all of the restore, else each group; `batch_bytes_max`: what brokers take.
    """
    names = {*row.strategies, *plan.state.strategies}
    is_by_version = any(name != BY_OFFSET for name in names)
    events = len(plan.back) + len(plan.leaving) if is_by_version else _largest_group(plan)
    most = updates_max(row.key, batch_bytes_max)
    if events <= most:
        return None
    why = _BY_VERSION if is_by_version else _ONE_GROUP
    return Refusal(
        reason=RefusalReason.NOT_RESTORABLE,
        detail=f"{why}: that takes {events} events, and one batch holds {most}",
        remedy="Choose a later state, of which fewer segments come back.",
    )


def _largest_group(plan: RestorePlan) -> int:
    """How many events the largest group of segments that share offsets takes."""
    segments = (*plan.back, *plan.leaving)
    sizes = (sum(_is_in(one, group) for one in segments) for group in _overlapping(segments))
    return max(sizes, default=0)


def _overlapping(segments: Iterable[Segment]) -> list[OffsetRange]:
    """The ranges of the groups of segments that share offsets, transitively."""
    groups: list[OffsetRange] = []
    for first, last in sorted((one.own_start_offset, one.end_offset) for one in segments):
        if groups and first <= groups[-1].last:
            groups[-1] = OffsetRange(groups[-1].first, max(groups[-1].last, last))
        else:
            groups.append(OffsetRange(first, last))
    return groups


def _is_in(segment: Segment, group: OffsetRange) -> bool:
    return group.first <= segment.own_start_offset <= group.last

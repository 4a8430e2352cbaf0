"""Finds the segments that brokers wrote, from the log start on: live ones and replaced ones.

As long as all of them exist, they define the latest value of every key.
"""

from __future__ import annotations

from collections.abc import Sequence

from tierfold.compaction.discovery.view import PartitionView, first_break
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.jobs.context.run_context import RunContext
from tierfold.storage.tiers.local_tiered_storage import Part


def originals_of(context: RunContext, view: PartitionView) -> tuple[Segment, ...] | str:
    """Return the originals in offset order, or a clause why they do not cover the live range.

    Raises UnreadableObject if the partition cannot be listed.
    """
    originals = _originals(view)
    gone = _gone(context, view.key, originals)
    if gone:
        return f"{gone} of {len(originals)} original segments are gone"
    if not _covers(originals, view):
        return "not all originals are there any more"
    return tuple(originals)


def _originals(view: PartitionView) -> list[Segment]:
    """The uploads of brokers from the log start on, in offset order, except those being deleted.

    Segments below the log start have expired; segments being deleted may vanish during the read.
    """
    retired = view.state.whole_retired if view.state is not None else ()
    known = [*view.segments, *(entry.segment for entry in retired)]
    return sorted(
        (
            segment
            for segment in known
            if not segment.written_by_run and segment.end_offset >= view.log_start_offset
        ),
        key=lambda segment: segment.start_offset,
    )


def _covers(originals: Sequence[Segment], view: PartitionView) -> bool:
    """The originals chain from the first live offset to the last."""
    return (
        bool(originals)
        and originals[0].start_offset == view.segments[0].start_offset
        and originals[-1].end_offset == view.segments[-1].end_offset
        and first_break(originals) is None
    )


def _gone(context: RunContext, key: PartitionKey, segments: Sequence[Segment]) -> int:
    """How many of the segments lack an object that is needed to read their keys."""
    listed = {
        listed_segment.segment_id: listed_segment for listed_segment in context.tier.listing(key)
    }

    def is_there(segment: Segment) -> bool:
        found = listed.get(segment.segment_id)
        needed = [Part.LOG, *([Part.TRANSACTION_INDEX] if segment.has_transaction_index else [])]
        return found is not None and all(found.part_bytes(part) is not None for part in needed)

    return sum(not is_there(segment) for segment in segments)

"""Copies of segments, which become live in the place of the segments themselves. Without Spark.

`restore --copy` makes them of retired segments, a run that publishes of live ones that brokers
deleted. They are made while the partition is claimed. A run that dies meanwhile leaves orphans,
which `vacuum` deletes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tierfold.compaction.commits.receipts import VerifiedParts
from tierfold.compaction.discovery.listing import ListedSegment, corrupted_parts
from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.segment_ids import SegmentMark
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.compaction.model.wording import spaced
from tierfold.jobs.context.byte_progress import Step
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.stopping import check, finishing
from tierfold.storage.kafka.kafka_uuid import new_segment_id
from tierfold.storage.segments.lookahead import mapped_ahead
from tierfold.storage.segments.segment_copy import CopiedSegment, copied_segment

COPIERS: Final = min(8, os.cpu_count() or 1)
"""Segments that are copied in parallel, and compared: kernels release the GIL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentCopies:
    """The copies, in the order of their sources."""

    segments: tuple[Segment, ...] = ()
    objects: int = 0
    stored_bytes: int = 0
    """Bytes of all their objects."""
    verified: VerifiedParts = field(default_factory=VerifiedParts)


def lack_of_space(
    context: RunContext, sources: Iterable[Segment], listed: Iterable[ListedSegment]
) -> str:
    """Why the store has no space for the segments once more, a clause; empty: it has.

    A disk that is filled could take no more uploads. Raises UnreadableObject.
    """
    ids = {source.segment_id for source in sources}
    needed = sum(one.size_bytes for one in listed if one.segment_id in ids)
    free = context.tier.free_bytes()
    if free is None or needed <= free:
        return ""
    return f"the copies take {spaced(needed)} bytes, and the tier has {spaced(free)} free"


def copied_segments(
    context: RunContext, key: PartitionKey, sources: Sequence[Segment], *, is_restored: bool
) -> SegmentCopies:
    """Copy the segments, and verify the copies.

    `is_restored`: whether a restore makes them, which their ids then say. Raises UnreadableObject
    and CorruptLog, Stopped between two segments.
    """
    listed = context.tier.listing(key)
    if corruptions := corrupted_parts(sources, listed, kind="segment"):
        raise CorruptLog(
            corruptions[0],
            where=context.tier_uri,
            remedy="Copy its objects back from a backup.",
        )
    by_id = {segment.segment_id: segment for segment in listed}
    mark = SegmentMark(context.catalog.fingerprint(), is_restored=is_restored)

    def copied(source: Segment) -> CopiedSegment:
        copy = source.copied(new_segment_id(mark), context.run)
        return copied_segment(context.tier, key, by_id[source.segment_id], copy)

    done: list[CopiedSegment] = []
    size_bytes = sum(source.size_bytes for source in sources)
    drops = finishing("the copies at work are finished, and dropped; nothing else changes")
    with drops, Step(context.progress, "copy", size_bytes) as step:
        for source, found in zip(
            sources, mapped_ahead(copied, sources, threads=COPIERS), strict=True
        ):
            done.append(found)
            step.advance(source.size_bytes)
            check()
    return SegmentCopies(
        segments=tuple(one.segment for one in done),
        objects=sum(one.objects for one in done),
        stored_bytes=sum(one.stored_bytes for one in done),
        verified=sum((one.verified for one in done), VerifiedParts()),
    )

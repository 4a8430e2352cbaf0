"""The copies that `restore --copy` makes live instead of retired segments. Without Spark.

They are made while the partition is claimed, under ids that say that a restore made them. A run
that dies meanwhile leaves orphans, which `vacuum` deletes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tierfold.compaction.commits.receipts import VerifiedParts
from tierfold.compaction.discovery.listing import ListedSegment, corrupted_parts
from tierfold.compaction.discovery.view import Refusal, RefusalReason
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
class RestoredCopies:
    """The copies, in the order of their sources."""

    segments: tuple[Segment, ...] = ()
    objects: int = 0
    stored_bytes: int = 0
    """Bytes of all their objects."""
    verified: VerifiedParts = field(default_factory=VerifiedParts)


def lack_of_space(
    context: RunContext, sources: Iterable[Segment], listed: Iterable[ListedSegment]
) -> Refusal | None:
    """The refusal to copy the segments if the store has no space for it; else None.

    A disk that copies have filled could take no more uploads.
    """
    ids = {source.segment_id for source in sources}
    needed = sum(one.size_bytes for one in listed if one.segment_id in ids)
    free = context.tier.free_bytes()
    if free is None or needed <= free:
        return None
    return Refusal(
        reason=RefusalReason.NOT_RESTORABLE,
        detail=f"the copies take {spaced(needed)} bytes, and the tier has {spaced(free)} free",
        remedy="Free space, or choose a later state. Where no broker serves the tier, restore"
        " without --copy: that takes no space.",
    )


def restored_copies(
    context: RunContext, key: PartitionKey, sources: Sequence[Segment]
) -> RestoredCopies:
    """Copy the segments, and verify the copies.

    Raises UnreadableObject and CorruptLog, Stopped between two segments.
    """
    listed = context.tier.listing(key)
    if corruptions := corrupted_parts(sources, listed, kind="segment"):
        raise CorruptLog(
            corruptions[0],
            where=context.tier_uri,
            remedy="Copy its objects back from a backup, or choose another state.",
        )
    by_id = {segment.segment_id: segment for segment in listed}
    mark = SegmentMark(context.catalog.fingerprint(), is_restored=True)

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
    return RestoredCopies(
        segments=tuple(one.segment for one in done),
        objects=sum(one.objects for one in done),
        stored_bytes=sum(one.stored_bytes for one in done),
        verified=sum((one.verified for one in done), VerifiedParts()),
    )

"""What `forget` makes live again as copies: whether that can be done, and the copies.

They are copies as those of `restore --copy`: read before the claim, copied under it, and published
from the end on, by the same code. One that ends where an election cut its source off is rewritten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tierfold.compaction.cleaning.cuts import cut_task
from tierfold.compaction.commits.adoption import Adoption, give_up_below
from tierfold.compaction.commits.published_restore import refused_by_batches
from tierfold.compaction.commits.restore import RestorePlan, unpublished_restore
from tierfold.compaction.discovery.view import Refusal, RefusalReason, first_few
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.publishing.batches import batch_bytes_max
from tierfold.jobs.context.publishing_settings import Publishing
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.stage_seconds import TimedStage
from tierfold.jobs.context.stopping import check
from tierfold.jobs.pipeline.known_partition import KnownPartition, refusal_of
from tierfold.jobs.pipeline.merging import NOTHING_SUPERSEDED
from tierfold.jobs.publishing.segment_copies import SegmentCopies, copied_segments, lack_of_space
from tierfold.jobs.settings.resolution import Settings
from tierfold.jobs.verbs.restore_check import corruptions_in
from tierfold.storage.kafka.compression import PLAIN_BYTES_MAX
from tierfold.storage.segments.group_rewrite import rewrite_group
from tierfold.storage.segments.segment_metadata import read_aborted

_COPY_BACK: Final = "Copy its objects back from a backup."


def refused_copies(
    context: RunContext, settings: Settings, known: KnownPartition, taken: Adoption
) -> Refusal | None:
    """The refusal if copies could not be made, or brokers would not be sent them as they must be.

    None also where nothing comes back.
    """
    row = known.state
    if row is None or not taken.back:
        return None
    is_taken_out = not settings.rules_for(known.key.topic).publish
    if context.publishing_state is not Publishing.ON or is_taken_out:
        return unpublished_restore(row, is_taken_out=is_taken_out)
    try:
        most = batch_bytes_max(context.metadata_configs)
        too_large = refused_by_batches(restore_of(row, taken), row, most)
        if too_large is not None:
            above = max(segment.next_offset for segment in taken.back)
            return replace(too_large, remedy=give_up_below(above))
        why = lack_of_space(context, taken.back, known.listed)
    except TierfoldError as error:
        return refusal_of(error, str(known.key))
    if not why:
        return None
    return Refusal(
        reason=RefusalReason.NOT_RESTORABLE, detail=why, remedy="Free space, then run again."
    )


def restore_of(row: PartitionState, taken: Adoption) -> RestorePlan:
    """What comes back and what goes, as a restore has it."""
    back = {segment.segment_id for segment in taken.back}
    live = {segment.segment_id for segment in taken.live} - back
    return RestorePlan(
        state=row,
        segments=taken.live,
        back=taken.back,
        leaving=tuple(one for one in row.segments if one.segment_id not in live),
        spared=(),
    )


def unreadable_copies(context: RunContext, row: PartitionState, taken: Adoption) -> Refusal | None:
    """The refusal if a segment that comes back is corrupt; each is read completely.

    Raises Stopped between two segments.
    """
    whole = {segment.segment_id: segment for segment in row.named_segments}
    sources = replace(taken, back=tuple(whole[one.segment_id] for one in taken.back))
    with context.seconds.timed(TimedStage.CHECK):
        corruptions = corruptions_in(context, row.key, restore_of(row, sources))
    if not corruptions:
        return None
    return Refusal(
        reason=RefusalReason.DATA_GONE, detail=first_few(corruptions), remedy=_COPY_BACK
    )


def live_with_copies(
    context: RunContext, row: PartitionState, taken: Adoption
) -> tuple[tuple[Segment, ...], SegmentCopies]:
    """What is live, with a copy in place of each segment that comes back, and the copies.

    `row`: claimed. Raises UnreadableObject and CorruptLog, Stopped between two segments.
    """
    if not taken.back:
        return taken.live, SegmentCopies()
    with context.seconds.timed(TimedStage.REWRITE):
        if taken.back[-1].segment_id in row.live_ids:
            copies = _cut_copy(context, row, taken.back[-1])
        else:
            copies = copied_segments(context, row.key, taken.back, is_restored=True)
    instead: Mapping[str, Segment] = {
        source.segment_id: copy
        for source, copy in zip(taken.back, copies.segments, strict=True)
    }
    return tuple(instead.get(one.segment_id, one) for one in taken.live), copies


def _cut_copy(context: RunContext, row: PartitionState, source: Segment) -> SegmentCopies:
    """A copy of a live segment that ends where `source` does, before the segment itself.

    Raises UnreadableObject and CorruptLog.
    """
    aborted = read_aborted(context.tier, row.key, source)
    task = cut_task(row, source, aborted, context.catalog.fingerprint())
    task = replace(task, batch_bytes_max=PLAIN_BYTES_MAX)
    receipt = rewrite_group(context.tier, task, lambda _: NOTHING_SUPERSEDED, proceed=check)
    (written,) = receipt.written
    return SegmentCopies(
        segments=(written.segment,),
        objects=len(written.stored),
        stored_bytes=sum(size for _, size in written.stored),
        verified=written.verified,
    )

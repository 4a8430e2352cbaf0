"""Whether the tier has what a restore brings back, before anything is claimed. Without Spark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from tierfold.compaction.commits.restore import RestorePlan
from tierfold.compaction.discovery.listing import corrupted_parts
from tierfold.compaction.discovery.view import Refusal, RefusalReason, first_few
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.jobs.context.byte_progress import Step
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.stopping import check
from tierfold.jobs.pipeline.known_partition import refusal_of
from tierfold.jobs.publishing.segment_copies import lack_of_space
from tierfold.storage.kafka.compression import PLAIN_BYTES_MAX
from tierfold.storage.segments.lookahead import mapped_ahead
from tierfold.storage.segments.segment_check import CheckOrder, read_and_check

CHECKERS: Final = min(8, os.cpu_count() or 1)
"""Segments that are read in parallel: kernels release the GIL."""

_INDEX_INTERVAL_BYTES: Final = 4096
"""Only used to compare an index with the one that tierfold would build; ignored here."""


def refused_by_tier(
    context: RunContext, key: PartitionKey, restore_plan: RestorePlan, *, is_copy: bool
) -> Refusal | None:
    """The refusal if the listing lacks what comes back, or the tier space for copies of it."""
    try:
        listed = context.tier.listing(key)
        if corruptions := corrupted_parts(restore_plan.segments, listed, kind="segment"):
            return corrupt(corruptions)
        why = lack_of_space(context, restore_plan.back, listed) if is_copy else ""
        return _without_space(why) if why else None
    except TierfoldError as error:
        return refusal_of(error, str(key))


def _without_space(why: str) -> Refusal:
    return Refusal(
        reason=RefusalReason.NOT_RESTORABLE,
        detail=why,
        remedy="Free space, or choose a later state. Where no broker serves the tier, restore"
        " without --copy: that takes no space.",
    )


def corruptions_in(
    context: RunContext, key: PartitionKey, restore_plan: RestorePlan
) -> tuple[str, ...]:
    """Corruptions of the segments that come back; each is read completely, as by `verify`.

    Raises Stopped between two segments.
    """
    if not restore_plan.back:
        return ()
    last_id = restore_plan.segments[-1].segment_id

    def checked(segment: Segment) -> tuple[str, ...]:
        order = CheckOrder(
            key=key,
            segment=segment,
            is_live=True,
            is_last=segment.segment_id == last_id,
            index_interval_bytes=_INDEX_INTERVAL_BYTES,
            buckets=1,
            aborted_now=None,
            aborted_before=None,
            hash_key=context.hash_key,
            # A run has read it before, under a setting that a restore is not given.
            batch_bytes_max=PLAIN_BYTES_MAX,
        )
        try:
            return read_and_check(context.tier, order, check).checked.corruptions
        except TierfoldError as error:
            return (str(error),)

    corruptions: list[str] = []
    bytes_total = sum(segment.size_bytes for segment in restore_plan.back)
    with Step(context.progress, "check", bytes_total) as step:
        results = mapped_ahead(checked, restore_plan.back, threads=CHECKERS)
        for segment, found in zip(restore_plan.back, results, strict=True):
            corruptions += found
            step.advance(segment.size_bytes)
    return tuple(corruptions)


def corrupt(corruptions: Sequence[str]) -> Refusal:
    """The refusal of a state of which segments are corrupt or missing."""
    return Refusal(
        reason=RefusalReason.DATA_GONE,
        detail=first_few(corruptions),
        remedy="If objects are missing or corrupt, copy them back from a backup, or choose another"
        " state. Nothing was changed.",
    )

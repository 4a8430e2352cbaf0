"""Reads a sample of the partitions that a run would compact, and estimates what would go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from tierfold.compaction.estimation.estimate import Estimate, NotEstimated, estimated
from tierfold.compaction.estimation.indexed import indexed_window, segments_to_ask
from tierfold.compaction.estimation.sample import Sample, SampledWindow
from tierfold.compaction.estimation.sources import Sources, sources_of
from tierfold.compaction.estimation.windows import PlannedSample, SampleBound, planned_sample
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.compaction.model.units import NO_HORIZON
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.skipping.key_index import KeyIndex
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.pipeline.discovery import aborted_in
from tierfold.jobs.pipeline.known_partition import refusal_of
from tierfold.jobs.pipeline.survey import READERS
from tierfold.storage.segments.log_sample import LegacyBatches, SampleOrder, read_window
from tierfold.storage.tiers.remote_tier import Part, address_of

SAMPLE_BOUND: Final = SampleBound()
"""What is read of one partition."""

_MEASURED: Final = 16
"""In so many windows the rewritten bytes are measured, which costs more than reading them."""


def estimates_of(
    context: RunContext, plans: Iterable[PartitionPlan], bound: SampleBound = SAMPLE_BOUND
) -> Mapping[PartitionKey, Estimate | NotEstimated]:
    """Return an estimate of each partition that is due, or that only its dirty ratio holds back.

    An error in one partition is its reason for having none.
    """
    found: dict[PartitionKey, Estimate | NotEstimated] = {}
    with ThreadPoolExecutor(READERS) as pool:
        for plan in plans:
            sources = sources_of(plan)
            if sources is None:
                continue
            try:
                found[plan.key] = _estimate(context, plan, sources, bound, pool)
            except Exception as error:  # noqa: BLE001 - it stops this estimate alone
                reason = refusal_of(error, str(plan.key)).sentence
                found[plan.key] = NotEstimated(reason=reason)
    return found


def _estimate(
    context: RunContext,
    plan: PartitionPlan,
    sources: Sources,
    bound: SampleBound,
    pool: ThreadPoolExecutor,
) -> Estimate | NotEstimated:
    access = context.tier.access(address_of(plan.key, sources.segments[0]), Part.LOG)
    if access.is_in_order:
        return NotEstimated(reason="its logs are stored in chunks too large to be read in part")
    unit_bytes = access.unit_bytes
    planned = planned_sample(sources, bound, unit_bytes)
    indexes = [] if planned.has_all else _indexes(context, plan, sources)
    if indexes:
        planned = planned_sample(sources, bound, unit_bytes, knows_clean=True)
    windows = _read(context, plan, sources, planned, pool)
    read = [window for window in windows if isinstance(window, SampledWindow)]
    if any(isinstance(window, LegacyBatches) for window in windows):
        return NotEstimated(reason="it has messages of magic 0 or 1, which become larger")
    if not any(len(window.offset) for window in read):
        return NotEstimated(reason="no whole batch lies in what was read of it")
    by_index = [indexed_window(found.segment, found.key_index, read) for found in indexes]
    every = sorted((*read, *by_index), key=lambda window: window.start_offset)
    sample = Sample(windows=tuple(every), competes_from=sources.competes_from)
    estimate = estimated(sample, planned, sources)
    return replace(
        estimate,
        read_bytes=estimate.read_bytes + sum(found.size_bytes for found in indexes),
        ranges=estimate.ranges + len(indexes),
    )


class _Indexed(NamedTuple):
    segment: Segment
    key_index: KeyIndex
    size_bytes: int


def _indexes(context: RunContext, plan: PartitionPlan, sources: Sources) -> list[_Indexed]:
    """The key indexes of some clean segments, if any record may supersede them."""
    is_asked = sources.compares_keys and bool(sources.dirty)
    stored = context.worker_opener().key_indexes() if is_asked else None
    if stored is None:
        return []
    found: list[_Indexed] = []
    for segment, bytes_max in segments_to_ask(sources, context.now_ms):
        index, size_bytes = stored.index_of(plan.key, segment, bytes_max)
        if isinstance(index, KeyIndex):
            found.append(_Indexed(segment, index, size_bytes))
    return found


def _read(
    context: RunContext,
    plan: PartitionPlan,
    sources: Sources,
    planned: PlannedSample,
    pool: ThreadPoolExecutor,
) -> list[SampledWindow | LegacyBatches | None]:
    """The windows; also the transaction index of each segment that has one of them."""
    segments = {window.segment.segment_id: window.segment for window in planned.windows}
    listed = pool.map(lambda one: aborted_in(context, plan.key, [one]), segments.values())
    order = SampleOrder(
        aborted=tuple(transaction for each in listed for transaction in each),
        expired_until_ms=context.now_ms if sources.drops_expired else NO_HORIZON,
        batch_bytes_max=context.batch_bytes_max(plan.key.topic),
    )
    every = max(1, len(planned.windows) // _MEASURED)
    read = partial(read_window, context.tier, plan.key)
    orders = (
        replace(order, measures_rewrites=number % every == 0)
        for number in range(len(planned.windows))
    )
    return list(pool.map(read, planned.windows, orders))

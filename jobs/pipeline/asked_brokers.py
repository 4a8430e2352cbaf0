"""Adds what brokers have to partitions whose rows and listings were read.

    rows → listings → the metadata topic to its end → offsets → missing objects listed again

In any other order, an upload or an expiry in between looks as if something were wrong. A segment
that was uploaded after the first listing is found by the second one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.brokers.events import SegmentState
from tierfold.jobs.context.run_cluster import RunCluster
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.pipeline.known_partition import KnownPartition, refusal_of
from tierfold.storage.tiers.remote_tier import Listing


def with_brokers(
    context: RunContext, cluster: RunCluster, known: Sequence[KnownPartition]
) -> list[KnownPartition]:
    """Return the partitions with what brokers have of them; raises as `cluster_view`."""
    asked_by = context.catalog.fingerprint() if context.catalog.exists() else None
    look = cluster.look(
        context.progress, {one.key: _ids(one) for one in known}, asked_by=asked_by
    )
    seen = [replace(one, brokers=look.partitions[one.key]) for one in known]
    incomplete = [one.key for one in seen if one.refusal is None and _unlisted(one)]
    again = context.tier.listings(incomplete)
    return [_with_listing(one, again.get(one.key)) for one in seen]


def _ids(known: KnownPartition) -> set[str]:
    """The ids of which it must be known whether the topic ever named them."""
    named = frozenset[str]() if known.state is None else known.state.named_ids
    return {listed.segment_id for listed in known.listed} | named


def _finished(brokers: BrokerPartition | None) -> set[str]:
    found = () if brokers is None else brokers.view.in_state(SegmentState.COPY_FINISHED)
    return {segment.added.segment_id for segment in found}


def _unlisted(known: KnownPartition) -> set[str]:
    """Ids of whole segments that the listing lacks, or has in part."""
    whole = {listed.segment_id for listed in known.listed if listed.is_complete}
    return _finished(known.brokers) - whole


def _with_listing(known: KnownPartition, again: Listing | Exception | None) -> KnownPartition:
    """Take from the second listing only what the first one lacks of the whole segments.

    Whatever else was written since, the replay has not seen.
    """
    if again is None:
        return known
    if isinstance(again, Exception):
        return replace(known, refusal=refusal_of(again, str(known.key)))
    late = _unlisted(known)
    kept = [listed for listed in known.listed if listed.segment_id not in late]
    new = [listed for listed in again if listed.segment_id in late]
    return replace(known, listed=(*kept, *new))

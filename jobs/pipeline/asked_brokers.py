"""Adds what brokers have to partitions whose rows and listings were read.

    rows → listings → the metadata topic to its end → offsets → missing objects listed again

In any other order, an upload or an expiry in between looks as if something were wrong. A segment
that was uploaded after the first listing is found by the second one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.brokers.preconditions import topic_notes
from tierfold.compaction.brokers.topic_retention import retentions
from tierfold.compaction.deletion.deletion_plan import GRACE_MS
from tierfold.compaction.discovery.broker_refusals import setup_refusal
from tierfold.compaction.discovery.identity import OfCluster, of_cluster
from tierfold.compaction.model.bindings import Binding, ServedBy
from tierfold.compaction.planning.outlook import outlook
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.planning.plan import Compact
from tierfold.jobs.context.run_cluster import RunCluster
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.tier_identity import place_of
from tierfold.jobs.pipeline.known_partition import KnownPartition, refusal_of
from tierfold.jobs.settings.resolution import Settings
from tierfold.storage.tiers.remote_tier import Listing


def with_brokers(
    context: RunContext, cluster: RunCluster, known: Sequence[KnownPartition]
) -> list[KnownPartition]:
    """Return the partitions with what brokers have of them; raises as `cluster_view`."""
    asked_by = context.catalog.fingerprint() if context.catalog.exists() else None
    look = cluster.look(
        context.progress, {one.key: _ids(one) for one in known}, asked_by=asked_by
    )
    seen = [_seen(one, look.partitions[one.key], look.cluster_id) for one in known]
    incomplete = [one.key for one in seen if one.refusal is None and _unlisted(one)]
    again = context.tier.listings(incomplete)
    return [_with_listing(one, again.get(one.key)) for one in seen]


def _seen(known: KnownPartition, brokers: BrokerPartition, cluster_id: str) -> KnownPartition:
    whose = of_cluster(known.state, cluster_id, has_topic=brokers.has_topic)
    return replace(known, brokers=brokers, is_left_alone=whose is OfCluster.LEFT_ALONE)


def binding_of_run(context: RunContext, settings: Settings) -> Binding:
    """Return who serves the tier, as the run knows it: the cluster that it asked, if any."""
    look = context.cluster_view
    if look is None:
        return settings.binding
    return ServedBy(look.serving(place_of(context)), is_moved=settings.has_moved)


def beside_cluster(
    context: RunContext, plan: PartitionPlan, settings: Settings
) -> PartitionPlan:
    """Return a plan with what it means for brokers, or refused for how they are set up.

    The plan is unchanged if the run asked none, or nothing of the partition was inspected.
    """
    look = context.cluster_view
    if look is None or plan.view is None:
        return plan
    declared = settings.cluster.kafka_version
    refusal = setup_refusal(look, plan.key, plan.rules, declared=declared, grace_ms=GRACE_MS)
    if refusal is not None:
        return replace(plan, choice=refusal)
    topic, choice = look.topics[plan.key.topic], plan.choice
    if not isinstance(choice, Compact) or not isinstance(topic.configs, Mapping):
        return plan
    return replace(
        plan,
        choice=replace(choice, notes=(*choice.notes, *topic_notes(topic, look.setup, plan.rules))),
        outlook=outlook(choice, retentions(topic.configs, look.setup.brokers)),
    )


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

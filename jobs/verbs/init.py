"""`tierfold init`: what a first settings file says of each topic; nothing is changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tierfold.compaction.estimation.estimate import Estimate, NotEstimated
from tierfold.compaction.model.segments import PartitionKey
from tierfold.jobs.context.run_cluster import RunCluster
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.run_progress import RunProgress
from tierfold.jobs.context.scope import EVERYTHING, Listed, Scope
from tierfold.jobs.settings.resolution import Settings
from tierfold.jobs.verbs.plan import plan_with_estimates


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTopic:
    """A topic in a tier or on a cluster, of any policy."""

    name: str
    partitions: int
    segments: int
    size_bytes: int
    """Of all objects in the tier; on a cluster alone, of the logs."""
    sampled: PartitionKey | None = None
    """The partition that was sampled: its largest; None: no tier was given."""
    estimate: Estimate | NotEstimated | None = None
    """What compaction would remove of it; None: nothing could go now."""
    reason: str = ""
    """Why there is no estimate, if the partition cannot be planned."""


def topics_of_tier(context: RunContext, settings: Settings) -> list[FoundTopic]:
    """List all partitions, and read a sample of the largest one of each topic.

    Raises UnreadableObject if the tier or the catalog cannot be read.
    """
    listings = context.tier.listings(context.tier.partitions())
    sizes = {
        key: [] if isinstance(found, Exception) else [one.size_bytes for one in found]
        for key, found in listings.items()
    }
    topics = _by_topic(sizes)
    largest = [max(keys, key=lambda key: sum(sizes[key])) for keys in topics.values()]
    listed = frozenset(Listed(key.topic, key.partition, key.topic_id) for key in largest)
    reports = plan_with_estimates(context, settings.if_compacted(), Scope(listed=listed))
    by_topic = {report.key.topic: report for report in reports}
    return [
        FoundTopic(
            name=name,
            partitions=len(keys),
            segments=sum(len(sizes[key]) for key in keys),
            size_bytes=sum(sum(sizes[key]) for key in keys),
            sampled=by_topic[name].key,
            estimate=by_topic[name].estimate,
            reason=by_topic[name].reason,
        )
        for name, keys in topics.items()
    ]


def topics_of_cluster(cluster: RunCluster, progress: RunProgress) -> list[FoundTopic]:
    """Return the topics of which brokers have segments in a tier; raises as `cluster_view`."""
    look = cluster.look(progress, scope=EVERYTHING)
    sizes = {
        key: [segment.added.size_bytes for segment in found.view.segments.values()]
        for key, found in look.partitions.items()
        if found.has_topic
    }
    return [
        FoundTopic(
            name=name,
            partitions=len(keys),
            segments=sum(len(sizes[key]) for key in keys),
            size_bytes=sum(sum(sizes[key]) for key in keys),
        )
        for name, keys in _by_topic(sizes).items()
    ]


def _by_topic(keys: Iterable[PartitionKey]) -> Mapping[str, list[PartitionKey]]:
    found: dict[str, list[PartitionKey]] = defaultdict(list)
    for key in sorted(keys):
        found[key.topic].append(key)
    return found

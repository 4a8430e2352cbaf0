"""Remarks that only a run's look at its cluster can show."""

from __future__ import annotations

from tierfold.compaction.brokers.cluster_view import ClusterView
from tierfold.compaction.brokers.preconditions import cluster_notes as notes_on_setup
from tierfold.compaction.brokers.preconditions import cluster_preconditions
from tierfold.compaction.deletion.deletion_plan import GRACE_MS
from tierfold.jobs.context.run_cluster import RunCluster
from tierfold.jobs.settings.cluster_settings import settings_beside
from tierfold.jobs.settings.remarks import notes_on_cluster
from tierfold.jobs.settings.resolution import Settings


def setup_warnings(look: ClusterView | None, settings: Settings) -> tuple[str, ...]:
    """What is wrong with the cluster for every topic, for a verb that refuses no partition for it.

    A sentence for each.
    """
    if look is None:
        return ()
    declared = settings.cluster.kafka_version
    found = cluster_preconditions(look.setup, declared=declared, grace_ms=GRACE_MS)
    return tuple(f"{one.detail} [{one.code}]. {one.remedy}" for one in found)


def cluster_notes(settings: Settings, cluster: RunCluster | None) -> tuple[str, ...]:
    """What publishing needs and is missing; where settings of compacted topics differ there."""
    look = None if cluster is None else cluster.view
    if look is None:
        return ()
    beside = settings_beside(settings, cluster)
    topics = [name for name in look.topics if beside.rules_for(name).is_compacted]
    if not topics:
        return ()
    return (*notes_on_setup(look.setup), *notes_on_cluster(beside, topics))

"""Runs that have looked at a cluster, without one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.compaction.builders import CLUSTER
from tierfold.compaction.brokers.cluster_facts import ClusterSetup, MetadataTopic
from tierfold.compaction.brokers.cluster_view import ClusterView
from tierfold.jobs.context.run_cluster import RunCluster
from tierfold.jobs.context.run_context import RunContext, run_context
from tierfold.storage.brokers.client_settings import ClientSettings

_TOPIC: Final = MetadataTopic(
    topic_id=CLUSTER.metadata_topic_id, partitions=CLUSTER.metadata_partitions
)


def beside(tier: Path) -> RunContext:
    """A run on the tier that has looked at `CLUSTER`, which has no topic."""
    cluster = RunCluster(ClientSettings(servers=("b:1",), timeout_ms=1, options={}))
    cluster.view = ClusterView(
        cluster_id=CLUSTER.cluster_id,
        setup=ClusterSetup(server="b:1", metadata_topic=_TOPIC, metadata_configs={}, brokers={}),
        records=0,
        partitions={},
        topics={},
    )
    return replace(run_context(str(tier)), cluster=cluster)

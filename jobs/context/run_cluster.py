"""The cluster whose brokers a run asks, and what its look at them showed."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tierfold.compaction.brokers.cluster_view import ClusterView
from tierfold.compaction.model.segments import PartitionKey
from tierfold.jobs.context.run_progress import RunProgress
from tierfold.jobs.context.scope import EVERYTHING, Scope
from tierfold.storage.brokers.client_settings import ClientSettings


class RunCluster:
    """The cluster of a run; one look per run, as brokers go on."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self.view: ClusterView | None = None
        """What the look showed; None: there was none yet."""

    def look(
        self,
        progress: RunProgress,
        listed: Mapping[PartitionKey, Collection[str]] | None = None,
        scope: Scope = EVERYTHING,
        asked_by: int | None = None,
    ) -> ClusterView:
        """Look at these partitions; arguments and errors as of `cluster_view`."""
        # Imported here: the client is loaded only where brokers are named.
        from tierfold.jobs.context.cluster_look import cluster_view
        from tierfold.storage.brokers.connection import connected

        with connected(self.settings) as connection:
            self.view = cluster_view(connection, progress, listed, scope, asked_by=asked_by)
        return self.view

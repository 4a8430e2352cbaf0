"""The cluster whose brokers a run asks, and what its looks at them showed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tierfold.compaction.brokers.cluster_view import ClusterView
from tierfold.jobs.context.beside_tier import BesideTier
from tierfold.jobs.context.run_progress import RunProgress
from tierfold.jobs.context.scope import EVERYTHING, Scope
from tierfold.storage.brokers.client_settings import ClientSettings


class RunCluster:
    """The cluster of a run."""

    def __init__(
        self,
        settings: ClientSettings,
        needs_settings: Callable[[str], bool] = lambda _topic: False,
    ) -> None:
        self.settings = settings
        self._needs_settings = needs_settings
        """Whether the verb needs what the cluster has for a topic."""
        self.view: ClusterView | None = None
        """What the looks showed, of each partition the newest; None: there was none yet."""

    def look(
        self,
        progress: RunProgress,
        beside: BesideTier | None = None,
        scope: Scope = EVERYTHING,
    ) -> ClusterView:
        """Look at these partitions; arguments and errors as of `cluster_view`."""
        # Imported here: the client is loaded only where brokers are named.
        from tierfold.jobs.context.cluster_look import cluster_view
        from tierfold.storage.brokers.connection import connected

        with connected(self.settings) as connection:
            found = cluster_view(connection, progress, beside, scope, self._needs_settings)
        self.view = found if self.view is None else _with_newer(self.view, found)
        return found


def _with_newer(view: ClusterView, newer: ClusterView) -> ClusterView:
    return replace(
        newer,
        partitions={**view.partitions, **newer.partitions},
        topics={**view.topics, **newer.topics},
    )

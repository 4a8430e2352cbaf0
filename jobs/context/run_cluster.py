"""The cluster whose brokers a run asks, and what its looks at them showed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tierfold.compaction.brokers.cluster_view import ClusterView
from tierfold.compaction.model.segments import PartitionKey
from tierfold.jobs.context.beside_tier import BesideTier
from tierfold.jobs.context.run_progress import RunProgress
from tierfold.jobs.context.scope import EVERYTHING, Scope
from tierfold.storage.brokers.client_settings import ClientSettings

if TYPE_CHECKING:  # The client is loaded only where brokers are named.
    from tierfold.jobs.context.metadata_replay import MetadataReplay
    from tierfold.storage.brokers.connection import Connection


class RunCluster:
    """The cluster of a run: connected at its first look, and until the run ends."""

    def __init__(
        self,
        settings: ClientSettings,
        needs_settings: Callable[[str], bool] = lambda _topic: False,
    ) -> None:
        self.settings = settings
        self.others: Scope | None = None
        """See `BesideTier`; a verb sets it before the first look."""
        self._needs_settings = needs_settings
        """Whether the verb needs what the cluster has for a topic."""
        self.view: ClusterView | None = None
        """What the looks showed, of each partition the newest; None: there was none yet."""
        self._connection: Connection | None = None
        self._replays: dict[PartitionKey, MetadataReplay] = {}

    @property
    def connection(self) -> Connection:
        """The connection; raises as `Connection` if it cannot be made."""
        from tierfold.storage.brokers.connection import Connection

        if self._connection is None:
            self._connection = Connection(self.settings)
        return self._connection

    def look(
        self,
        progress: RunProgress,
        beside: BesideTier | None = None,
        scope: Scope = EVERYTHING,
    ) -> ClusterView:
        """Look at these partitions, the metadata topic from offset 0; raises as `cluster_view`."""
        from tierfold.jobs.context.cluster_look import LookRequest, cluster_view

        request = LookRequest(beside=beside, scope=scope, needs_settings=self._needs_settings)
        view, replay = cluster_view(self.connection, progress, request)
        self._replays |= dict.fromkeys(view.partitions, replay)
        return self._noted(view)

    def look_again(self, progress: RunProgress, beside: BesideTier) -> ClusterView:
        """Look once more at partitions that an earlier look has shown, and read what is new.

        Raises as `cluster_view`, and KeyError for a partition that no look has shown.
        """
        from tierfold.jobs.context.cluster_look import LookRequest, cluster_view

        shown: ClusterView | None = None
        for replay in dict.fromkeys(self._replays[key] for key in beside.listed):
            listed = {
                key: ids for key, ids in beside.listed.items() if self._replays[key] is replay
            }
            part = replace(beside, listed=listed)
            request = LookRequest(beside=part, needs_settings=self._needs_settings)
            view, _ = cluster_view(self.connection, progress, request, replay)
            shown = view if shown is None else _with_newer(shown, view)
        if shown is None:
            raise ValueError("a look shows at least one partition")
        return self._noted(shown)

    def _noted(self, newest: ClusterView) -> ClusterView:
        self.view = newest if self.view is None else _with_newer(self.view, newest)
        return newest


def _with_newer(view: ClusterView, newer: ClusterView) -> ClusterView:
    return replace(
        newer,
        partitions={**view.partitions, **newer.partitions},
        topics={**view.topics, **newer.topics},
    )

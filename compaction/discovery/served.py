"""Refuses to change a partition whose row names a cluster that the run does not know."""

from __future__ import annotations

from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.model.bindings import Binding, Detached, ServedBy
from tierfold.compaction.model.segments import PartitionState


def served_refusal(binding: Binding, row: PartitionState | None) -> Refusal | None:
    """Why the run's binding does not allow it to change this partition; None: it does.

    Brokers would not learn of the change, and what `vacuum` deletes they could no longer read.
    """
    cluster = None if row is None or not row.is_served else row.cluster
    match binding:
        case Detached(is_insisted=True):
            return None
        case ServedBy(cluster=known) if known == cluster:
            return None
    if cluster is None:
        return None
    return Refusal(
        reason=RefusalReason.SERVED,
        detail=f"the catalog says that cluster {cluster.cluster_id} serves it from {cluster.place}",
        remedy="Only a tierfold that publishes to that cluster may change it. If the cluster is no"
        " more, set tier.binding=abandoned: the catalog records it.",
    )

"""Refuses to change a partition whose row names a cluster that the run does not know."""

from __future__ import annotations

from tierfold.compaction.discovery.identity import (
    ABANDON,
    COPY_OR_MOVED,
    NAME_BROKERS,
    identity_of,
)
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.model.bindings import Binding, Detached, ServedBy
from tierfold.compaction.model.segments import PartitionState


def served_refusal(
    binding: Binding, row: PartitionState | None, place: str
) -> Refusal | None:
    """Why the run's binding does not allow it to change this partition; None: it does.

    Brokers would not learn of the change, and what `vacuum` deletes they could no longer read.
    `place`: TIER, as `TierPlace` prints it. Where the row says another, the tier is a copy, and the
    user's word that no broker serves it is enough.
    """
    cluster = None if row is None or not row.is_served else row.cluster
    if cluster is None:
        return None
    is_here = cluster.place == place
    match binding:
        case Detached(is_insisted=is_insisted) if is_insisted or not is_here:
            return None
        case ServedBy(cluster=found, is_moved=is_moved):
            identity = identity_of(row, found, is_moved=is_moved)
            return identity if isinstance(identity, Refusal) else None
    where = cluster.place if is_here else f"{cluster.place}, and TIER is {place}"
    return Refusal(
        reason=RefusalReason.SERVED if is_here else RefusalReason.ANOTHER_PLACE,
        detail=f"the catalog says that cluster {cluster.cluster_id} serves it from {where}",
        remedy=f"{NAME_BROKERS} {ABANDON}" if is_here else COPY_OR_MOVED,
    )

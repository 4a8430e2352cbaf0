"""Whether a cluster, a catalog and a tier are those that were noted before anything was published.

    identity_of       a row and the cluster as it was found
    of_cluster        a topic that the cluster may not have
    service_refusal   the tier's own note, and the catalog that wants to delete from it
    settings_refusal  the place in the properties of brokers, and the place given as TIER

Every other rule here believes the brokers' view. If it is that of another cluster, or of a copy,
what is deleted by it is lost.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from tierfold.compaction.brokers.events import METADATA_TOPIC
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.model.bindings import Binding, Detached, ServedBy
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.serving import NO_TOPIC, ServingCluster
from tierfold.compaction.model.tier_service import TierPlace, TierService, fingerprint_text

NAME_BROKERS: Final = "Name its brokers with --bootstrap-server HOST:PORT."
ABANDON: Final = (
    "If the cluster is no more, set tier.binding=abandoned: the catalog records it."
)
COPY_OR_MOVED: Final = (
    "If this is a copy that no broker serves, set tier.binding=detached. If the tier moved, or is"
    " mounted elsewhere, name its brokers with --bootstrap-server and set tier.binding=moved:"
    " `tierfold vacuum` then notes the new place, and deletes nothing before."
)
REBUILD_SHOWS: Final = (
    "`tierfold rebuild TIER`, with the same brokers, shows what is lost and what can be done, and"
    ' changes nothing without --publish (docs/kafka.md, "The metadata topic was lost")'
)
REMEMBERED: Final = (
    f"what a running broker remembers, a restarted one does not. {REBUILD_SHOWS}"
)
LOST_METADATA: Final = (
    f"Do not restart a broker, nor another one if one has restarted: {REMEMBERED}."
)


class Identity(StrEnum):
    """What a row says of the cluster that was found."""

    SAME = "same"
    NOT_NOTED = "not noted"
    """The row names no cluster, or one that a person gave up: the cluster is only read."""
    MOVED = "moved"
    """The tier stood elsewhere, and a person says that it moved: to be noted before any send."""


class OfCluster(StrEnum):
    """Whether a partition is one of the cluster that is asked."""

    ITS_OWN = "its own"
    LEFT_ALONE = "left alone"
    """A copy, or another cluster's: no verb changes it, and it is noted nowhere."""
    DELETED = "deleted"
    """The row names the cluster, which has the topic no more: only `vacuum` changes it."""


def of_cluster(
    row: PartitionState | None, cluster_id: str, *, has_topic: bool
) -> OfCluster:
    """Whether the cluster that is asked has or had the partition.

    `has_topic`: whether it has the topic of this id, not only of this name; a missing right is no
    answer. One that it lacks was deleted there only if the row names this cluster.
    """
    if has_topic:
        return OfCluster.ITS_OWN
    names_it = row is not None and row.cluster is not None and row.cluster.cluster_id == cluster_id
    return OfCluster.DELETED if names_it else OfCluster.LEFT_ALONE


def identity_of(
    row: PartitionState | None, found: ServingCluster, *, is_moved: bool = False
) -> Identity | Refusal:
    """Whether the row names this cluster; `found.place` is the place given as TIER.

    `is_moved`: a person says that the tier now stands there.
    """
    noted = None if row is None or not row.is_served else row.cluster
    if noted is None:
        return Identity.NOT_NOTED
    if found.cluster_id != noted.cluster_id:
        return Refusal(
            reason=RefusalReason.ANOTHER_CLUSTER,
            detail=f"the catalog says that cluster {noted.cluster_id} serves it, and the brokers"
            f" given are those of cluster {found.cluster_id}",
            remedy=f"{NAME_BROKERS} {ABANDON}",
        )
    of_cluster = f"of cluster {noted.cluster_id}, {METADATA_TOPIC}"
    if found.metadata_topic_id != noted.metadata_topic_id:
        return Refusal(
            reason=RefusalReason.ANOTHER_METADATA_TOPIC,
            detail=f"{of_cluster} has the id {found.metadata_topic_id}, and the catalog noted"
            f" {_noted_topic(noted)}",
            remedy=LOST_METADATA,
        )
    if found.metadata_partitions != noted.metadata_partitions:
        return Refusal(
            reason=RefusalReason.METADATA_PARTITIONS,
            detail=f"{of_cluster} has {found.metadata_partitions} partitions, and the catalog"
            f" noted {noted.metadata_partitions}: events of one partition may now be in two",
            remedy=LOST_METADATA,
        )
    if found.place == noted.place:
        return Identity.SAME
    if is_moved:
        return Identity.MOVED
    return Refusal(
        reason=RefusalReason.ANOTHER_PLACE,
        detail=f"the catalog says that cluster {noted.cluster_id} serves it from {noted.place},"
        f" and TIER is {found.place}",
        remedy=COPY_OR_MOVED,
    )


def _noted_topic(noted: ServingCluster) -> str:
    if noted.metadata_topic_id == NO_TOPIC:
        return "none yet: a `tierfold rebuild` has begun, and has not named all that was lost"
    return f"{noted.metadata_topic_id}: it was deleted and made again"


def settings_refusal(place: TierPlace, of_brokers: TierPlace | None) -> Refusal | None:
    """Why the properties of brokers are not those of this tier; None: they are, or say no place."""
    if of_brokers is None or place.is_same(of_brokers):
        return None
    return Refusal(
        reason=RefusalReason.ANOTHER_PLACE,
        detail=f"--rsm-config says that brokers write to {of_brokers}, and TIER is {place}",
        remedy="Name the brokers' own place as TIER. If this is a copy that no broker serves, leave"
        " out --bootstrap-server.",
    )


def service_refusal(
    note: TierService | None,
    binding: Binding,
    row: PartitionState | None,
    *,
    fingerprint: int | None,
    place: str,
) -> Refusal | None:
    """Why the tier's note does not let this catalog delete there; None: it does, or there is none.

    `fingerprint`: this catalog's, None: it does not exist yet. `place`: TIER, as `TierPlace` prints
    it. Where the note says another place, the tier is a copy, which may be detached; unless a
    person says that it moved.
    """
    if note is None:
        return None
    is_here = note.place == place
    is_moved = isinstance(binding, ServedBy) and binding.is_moved
    match binding:
        case Detached() if not is_here:
            return None
        case _ if not is_here and not is_moved:
            return Refusal(
                reason=RefusalReason.ANOTHER_PLACE,
                detail=f"the tier's note says that cluster {note.cluster_id} serves it from"
                f" {note.place}, and TIER is {place}",
                remedy=COPY_OR_MOVED,
            )
        case _ if note.fingerprint != fingerprint:
            return _another_catalog(note, fingerprint)
        case Detached(is_insisted=True):
            return None
        case ServedBy(cluster=found) if found.cluster_id == note.cluster_id:
            return None
        case ServedBy(cluster=found):
            return Refusal(
                reason=RefusalReason.ANOTHER_CLUSTER,
                detail=f"the tier's note says that cluster {note.cluster_id} serves it, and the"
                f" brokers given are those of cluster {found.cluster_id}",
                remedy=f"{NAME_BROKERS} {ABANDON}",
            )
    if row is not None and row.served_by and not row.is_served:
        return None
    return Refusal(
        reason=RefusalReason.SERVED,
        detail=f"the tier's note says that cluster {note.cluster_id} serves it from {note.place}",
        remedy=f"{NAME_BROKERS} {ABANDON}",
    )


def _another_catalog(note: TierService, fingerprint: int | None) -> Refusal:
    return Refusal(
        reason=RefusalReason.ANOTHER_CATALOG,
        detail=f"the tier's note says that cluster {note.cluster_id} serves it, and that the"
        f" catalog {fingerprint_text(note.fingerprint)} publishes there; this catalog is"
        f" {fingerprint_text(fingerprint)}",
        remedy="Use that catalog (--catalog). If it is lost, `tierfold forget` with the brokers"
        " takes over what they have, and the note. If its cluster is no more either, move the"
        " folder of the note, _tierfold_served_by, out of the tier and keep it.",
    )

"""What a metadata topic that has lost records no longer says of a partition.

    metadata_lost     whether it has lost records since the row noted it
    topic_deleted     the error if there is none where rows noted one
    partitions_refusal  whether it was made again with another number of partitions
    is_known_since    whether "never named" shows that brokers were never sent a segment
    perhaps_named     segments of runs that it may have named, where no row says what they are

Rule: PUBLISHING 2.2, 2.3, 2.8, 6.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.brokers.events import METADATA_TOPIC
from tierfold.compaction.brokers.preconditions import SENT_AGO_MAX_MS
from tierfold.compaction.discovery.facts import PartitionFacts
from tierfold.compaction.discovery.identity import LOST_METADATA, REBUILD_SHOWS
from tierfold.compaction.discovery.view import Refusal, RefusalReason, first_few
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.serving import ServingCluster

NO_METADATA_TOPIC: Final = "no_metadata_topic"
"""The code of the error that a cluster has no metadata topic."""


def metadata_lost(row: PartitionState | None, brokers: BrokerPartition) -> bool:
    """Whether the metadata topic has lost events since the row named it, and none named them again.

    What it says is then not all that brokers have (PUBLISHING 2.2). Of a row that was never
    published, brokers have what they uploaded, and each object of that must be named.
    """
    cluster = None if row is None else row.cluster
    return cluster is not None and brokers.metadata_start > cluster.metadata_start


def topic_deleted(
    rows: Iterable[PartitionState], cluster_id: str, server: str
) -> UnreadableObject | None:
    """The error if this cluster has no metadata topic, and rows noted one; None: no row did."""
    for row in rows:
        if row.cluster is not None and row.is_served and row.cluster.cluster_id == cluster_id:
            create = _creation(server, row.cluster.metadata_partitions)
            return UnreadableObject(
                f"this cluster has no topic {METADATA_TOPIC}, and the catalog has noted one: it was"
                " deleted",
                where=f"broker {server}",
                remedy=f"Do not restart a broker. Create the topic as it was: {create}. Then"
                f" {REBUILD_SHOWS}.",
                code=RefusalReason.METADATA_LOST.code,
            )
    return None


def partitions_refusal(
    row: PartitionState | None, found: ServingCluster, server: str
) -> Refusal | None:
    """The refusal if the metadata topic has another number of partitions than the row noted.

    Brokers are configured with a number: they look for an event in the partition that it gives, and
    after a restart they read no topic with another one.

    Rule: Kafka 4.4 `TopicBasedRemoteLogMetadataManager`.
    """
    noted = None if row is None else row.cluster
    if noted is None or noted.cluster_id != found.cluster_id:
        return None
    if noted.metadata_partitions == found.metadata_partitions:
        return None
    create = _creation(server, noted.metadata_partitions)
    return Refusal(
        reason=RefusalReason.METADATA_PARTITIONS,
        detail=f"{METADATA_TOPIC} has {found.metadata_partitions} partitions, and had"
        f" {noted.metadata_partitions}: brokers would not find what is written to it, and would not"
        " read it after a restart",
        remedy=f"Do not restart a broker. Delete the topic, and create it as it was: {create}. Then"
        " run this again.",
    )


def _creation(server: str, partitions: int) -> str:
    """The command that creates the metadata topic as brokers do."""
    return (
        f"`kafka-topics.sh --bootstrap-server {server} --create --topic {METADATA_TOPIC}"
        f" --partitions {partitions} --replication-factor N --config cleanup.policy=delete"
        f" --config retention.ms=-1 --config message.timestamp.before.max.ms={SENT_AGO_MAX_MS}`,"
        " where N is what brokers have as remote.log.metadata.topic.replication.factor (Kafka's"
        " default is 3)"
    )


def lost_refusal(facts: PartitionFacts, brokers: BrokerPartition) -> Refusal | None:
    """The refusal if the metadata topic has lost records since; None: it has not."""
    if not metadata_lost(facts.state, brokers):
        return None
    return Refusal(
        reason=RefusalReason.METADATA_LOST,
        detail=f"{METADATA_TOPIC} begins at offset {brokers.metadata_start} where it should have"
        " what brokers said of this partition: earlier records are lost",
        remedy=LOST_METADATA,
    )


def is_known_since(row: PartitionState | None, metadata_start: int, made_ms: int) -> bool:
    """Whether the metadata topic says all that brokers were ever sent of what a run made then.

    `metadata_start`: where its partition begins. Above 0, or where the row was rebuilt, earlier
    records are lost, and a rebuild has not named again what no row names.
    """
    rebuilt_at_ms = -1 if row is None else row.rebuilt_at_ms
    is_whole = metadata_start == 0 and rebuilt_at_ms < 0
    return is_whole or 0 <= rebuilt_at_ms < made_ms


def perhaps_named(
    facts: PartitionFacts, brokers: BrokerPartition, row: PartitionState | None
) -> Refusal | None:
    """Whole segments of runs that a truncated metadata topic may have named: they may be live."""
    named = frozenset[str]() if row is None else row.named_ids
    found = [
        one.listed
        for one in facts.left_alone
        if one.is_ours
        and one.listed.is_complete
        and one.listed.segment_id not in named
        and not is_known_since(row, brokers.metadata_start, one.listed.modified_ms)
    ]
    if not found:
        return None
    return Refusal(
        reason=RefusalReason.METADATA_LOST,
        detail=f"{METADATA_TOPIC} has lost earlier records, and may have named"
        f" {first_few([str(one) for one in found])}, whole and written by runs of tierfold:"
        " nothing else may have their records",
        remedy="Bring back the catalog that names them; then `tierfold rebuild TIER`, with the same"
        " brokers. If you know that runs which died left them, move them out of the tier and keep"
        " them; then run this again.",
    )

"""Says whether the metadata topic of a cluster is one that can be trusted.

What tierfold believes about brokers is what this topic says, so it must be whole and be the one
that brokers read: `TopicBasedRemoteLogMetadataManager`, nothing ever deleted or compacted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tierfold.compaction.brokers.cluster_facts import MetadataTopic
from tierfold.compaction.brokers.events import METADATA_TOPIC
from tierfold.compaction.model.errors import BadSettings, UnreadableObject
from tierfold.storage.brokers.connection import Connection
from tierfold.storage.brokers.facts import broker_settings, topic_facts, topic_settings

_MANAGER: Final = "remote.log.metadata.manager.class.name"
_TOPIC_BASED: Final = (
    "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"
)
_WANTED: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""A topic with another policy has keyed records (KIP-1266); with retention it forgets segments."""


def metadata_topic(connection: Connection) -> MetadataTopic:
    """The cluster's metadata topic.

    Raises BadSettings if there is none, or one that cannot be trusted; UnreadableObject if no
    broker answers or a right is missing: Describe and DescribeConfigs on the topic, DescribeConfigs
    on the cluster.
    """
    found = topic_facts(connection, [METADATA_TOPIC]).get(METADATA_TOPIC)
    settings = topic_settings(connection, [METADATA_TOPIC]).get(METADATA_TOPIC)
    if isinstance(found, UnreadableObject):
        raise found
    if found is None or settings is None:
        raise BadSettings(
            f"this cluster has no topic {METADATA_TOPIC}, so its brokers have tiered nothing",
            where=f"broker {connection.server}",
            remedy="Name the cluster whose brokers serve this tier.",
        )
    check_settings(settings, broker_settings(connection))
    return MetadataTopic(topic_id=found.topic_id, partitions=found.partitions)


def check_settings(
    topic: Mapping[str, str], brokers: Mapping[int, Mapping[str, str]]
) -> None:
    """Raise BadSettings if the topic may lose records, or a broker reads another place.

    `topic`: settings of the metadata topic; `brokers`: by broker, its settings.
    """
    for broker, settings in brokers.items():
        manager = settings.get(_MANAGER, _TOPIC_BASED)
        if manager != _TOPIC_BASED:
            raise BadSettings(
                f"{_MANAGER} is {manager}, so what this broker believes is not in {METADATA_TOPIC}",
                where=f"broker {broker}",
                remedy="Name no brokers: tierfold can only follow those with Kafka's own manager.",
            )
    for name, wanted in _WANTED.items():
        if topic.get(name) != wanted:
            raise BadSettings(
                f"{name} is {topic.get(name)!r}, but only {wanted} keeps all that brokers said",
                where=f"topic {METADATA_TOPIC}",
                remedy=f"Find out who changed it. `kafka-configs.sh --alter --topic"
                f" {METADATA_TOPIC} --add-config {name}={wanted}` sets it back; what is lost by"
                " then is lost.",
            )

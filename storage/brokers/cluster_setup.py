"""Asks how a cluster and its topics are set up.

What tierfold believes about brokers is what their metadata topic says, so it must be the one that
they read: that of `TopicBasedRemoteLogMetadataManager`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin import AclOperation

from tierfold.compaction.brokers.cluster_configs import Configs
from tierfold.compaction.brokers.cluster_facts import ClusterSetup, MetadataTopic, TopicSetup
from tierfold.compaction.brokers.events import METADATA_TOPIC
from tierfold.compaction.model.errors import BadSettings, MissingRight, UnreadableObject
from tierfold.storage.brokers.broker_errors import Resource, Right, lacking
from tierfold.storage.brokers.connection import Connection
from tierfold.storage.brokers.facts import broker_configs, topic_configs, topic_facts

_MANAGER: Final = "remote.log.metadata.manager.class.name"
_TOPIC_BASED: Final = (
    "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"
)


def cluster_setup(connection: Connection) -> ClusterSetup:
    """How the cluster and its metadata topic are set up.

    Raises BadSettings if there is no metadata topic, or brokers do not read it; UnreadableObject if
    no broker answers or a right is missing: Describe and DescribeConfigs on the topic,
    DescribeConfigs on the cluster.
    """
    found = topic_facts(connection, [METADATA_TOPIC]).get(METADATA_TOPIC)
    configs = topic_configs(connection, [METADATA_TOPIC]).get(METADATA_TOPIC)
    if isinstance(found, UnreadableObject):
        raise found
    if isinstance(configs, UnreadableObject):
        raise configs
    if found is None or configs is None:
        raise BadSettings(
            f"this cluster has no topic {METADATA_TOPIC}, so its brokers have tiered nothing",
            where=f"broker {connection.server}",
            remedy="Name the cluster whose brokers serve this tier.",
            code="no_metadata_topic",
        )
    brokers = broker_configs(connection)
    check_manager(brokers)
    return ClusterSetup(
        server=connection.server,
        metadata_topic=MetadataTopic(topic_id=found.topic_id, partitions=found.partitions),
        metadata_configs=configs,
        brokers=brokers,
        lacks_write=_lacks_write(connection),
    )


def _lacks_write(connection: Connection) -> MissingRight | None:
    """The right to produce to the metadata topic, if it is missing."""
    asked = connection.admin.describe_topics(
        TopicCollection([METADATA_TOPIC]),
        include_authorized_operations=True,
        request_timeout=connection.timeout_s,
    )
    answer = connection.answer(asked[METADATA_TOPIC])
    if isinstance(answer, KafkaError):
        raise connection.refusal(answer)
    if AclOperation.WRITE in (answer.authorized_operations or ()):
        return None
    right = Right(operation="Write", resource=Resource.TOPIC, name=METADATA_TOPIC)
    return lacking(right, connection.server)


def topic_setups(connection: Connection, topics: Iterable[str]) -> dict[str, TopicSetup]:
    """By name, how topics are set up, also of those that the cluster does not have.

    Needs Describe and DescribeConfigs on each. Raises UnreadableObject if no broker answers.
    """
    names = sorted(set(topics))
    facts, configs = topic_facts(connection, names), topic_configs(connection, names)
    return {
        name: TopicSetup(name=name, facts=facts.get(name), configs=configs.get(name))
        for name in names
    }


def check_manager(brokers: Mapping[int, Configs]) -> None:
    """Raise BadSettings if what a broker believes is in another place."""
    for broker, configs in brokers.items():
        manager = configs.get(_MANAGER)
        if manager is not None and manager.text != _TOPIC_BASED:
            raise BadSettings(
                f"{_MANAGER} is {manager.text}, so what this broker believes is not in"
                f" {METADATA_TOPIC}",
                where=f"broker {broker}",
                remedy="Leave out --bootstrap-server: tierfold can only follow brokers with Kafka's"
                " own manager.",
                code="metadata_manager",
            )

"""Asks how a cluster and its topics are set up.

What tierfold believes about brokers is what their metadata topic says, so it must be the one that
they read: that of `TopicBasedRemoteLogMetadataManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin import AclOperation

from tierfold.compaction.brokers.cluster_configs import Configs
from tierfold.compaction.brokers.cluster_facts import (
    ClusterSetup,
    MetadataTopic,
    TopicFacts,
    TopicSetup,
)
from tierfold.compaction.brokers.events import METADATA_TOPIC
from tierfold.compaction.brokers.missing_rights import lacking
from tierfold.compaction.discovery.metadata_loss import NO_METADATA_TOPIC
from tierfold.compaction.model.errors import BadSettings, MissingRight, UnreadableObject
from tierfold.compaction.model.rights import DESCRIBE_CONFIGS, Resource, Right
from tierfold.storage.brokers.connection import Connection
from tierfold.storage.brokers.facts import broker_configs, topic_configs, topic_facts

_MANAGER: Final = "remote.log.metadata.manager.class.name"
_TOPIC_BASED: Final = (
    "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"
)


def cluster_setup(connection: Connection) -> ClusterSetup:
    """How the cluster and its metadata topic are set up.

    Raises BadSettings if there is no metadata topic, or brokers do not read it; UnreadableObject if
    no broker answers; MissingRight with all that are missing: Read and DescribeConfigs on the
    topic, DescribeConfigs on the cluster.
    """
    found = topic_facts(connection, [METADATA_TOPIC]).get(METADATA_TOPIC)
    configs = topic_configs(connection, [METADATA_TOPIC]).get(METADATA_TOPIC)
    brokers = _broker_configs(connection)
    allowed = _allowed(connection) if isinstance(found, TopicFacts) else None
    if allowed is not None and AclOperation.READ not in allowed:
        found = lacking([_on_metadata("Read")], connection.server)
    if rights := _rights_in(found, configs, brokers):
        raise lacking(rights, connection.server)
    if isinstance(found, UnreadableObject):
        raise found
    if isinstance(configs, UnreadableObject):
        raise configs
    if isinstance(brokers, UnreadableObject):
        raise brokers
    if found is None or configs is None:
        raise BadSettings(
            f"this cluster has no topic {METADATA_TOPIC}: its brokers have tiered nothing, or it"
            " was deleted",
            where=f"broker {connection.server}",
            remedy="Name the cluster whose brokers serve this tier. If it is this one, do not"
            ' restart a broker (docs/kafka.md, "The metadata topic was lost").',
            code=NO_METADATA_TOPIC,
        )
    check_manager(brokers)
    is_allowed = allowed is not None and AclOperation.WRITE in allowed
    return ClusterSetup(
        server=connection.server,
        metadata_topic=MetadataTopic(topic_id=found.topic_id, partitions=found.partitions),
        metadata_configs=configs,
        brokers=brokers,
        lacks_write=None if is_allowed else lacking([_on_metadata("Write")], connection.server),
    )


def _broker_configs(connection: Connection) -> dict[int, Configs] | MissingRight:
    try:
        return broker_configs(connection)
    except MissingRight as error:
        return error


def _rights_in(*answers: object) -> list[Right]:
    denied = (answer for answer in answers if isinstance(answer, MissingRight))
    return [right for error in denied for right in error.rights]


def _on_metadata(operation: str) -> Right:
    return Right(operation=operation, resource=Resource.TOPIC, name=METADATA_TOPIC)


def _allowed(
    connection: Connection, topic: str = METADATA_TOPIC
) -> Collection[AclOperation] | None:
    """What the user may do with a topic; None: brokers do not say it."""
    asked = connection.admin.describe_topics(
        TopicCollection([topic]),
        include_authorized_operations=True,
        request_timeout=connection.timeout_s,
    )
    answer = connection.answer(asked[topic])
    if isinstance(answer, KafkaError):
        right = Right(operation="Describe", resource=Resource.TOPIC, name=topic)
        raise connection.refusal(answer, right)
    allowed: Collection[AclOperation] | None = answer.authorized_operations
    return allowed


def may_read(connection: Connection, topic: str) -> bool:
    """Whether the user may consume a topic, as far as brokers say it; raises UnreadableObject."""
    allowed = _allowed(connection, topic)
    return allowed is None or AclOperation.READ in allowed


def missing_rights(
    connection: Connection, topics: Iterable[str], needs_settings: Callable[[str], bool]
) -> tuple[Right, ...]:
    """The rights on topics that are missing; raises UnreadableObject if no broker answers.

    `needs_settings`: whether a topic's settings are needed, besides its offsets.
    """
    found = topic_setups(connection, topics).values()
    return tuple(
        right
        for setup in found
        for right in setup.missing_rights
        if right.operation != DESCRIBE_CONFIGS or needs_settings(setup.name)
    )


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

"""Asks a cluster for its topics, settings and offsets, as they are now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from confluent_kafka import IsolationLevel, KafkaError, TopicCollection, Uuid
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import (
    AclOperation,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka.admin import ConfigSource as AnsweredSource

from tierfold.compaction.brokers.cluster_configs import Configs, ConfigSource, ConfigValue
from tierfold.compaction.brokers.cluster_facts import PartitionOffsets, TopicFacts
from tierfold.compaction.brokers.events import METADATA_TOPIC
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.rights import DESCRIBE_CONFIGS, Resource, Right
from tierfold.storage.brokers.connection import Connection

_NO_TOPIC: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID})

_TOPICS_MAX: Final = 500
"""In one request; a topic's answer is about 4 kB, and a broker holds it in memory."""
_SOURCES: Final = {
    AnsweredSource.DYNAMIC_TOPIC_CONFIG: ConfigSource.TOPIC,
    AnsweredSource.DYNAMIC_BROKER_CONFIG: ConfigSource.BROKER,
    AnsweredSource.DYNAMIC_DEFAULT_BROKER_CONFIG: ConfigSource.DEFAULT_BROKER,
    AnsweredSource.STATIC_BROKER_CONFIG: ConfigSource.STATIC_BROKER,
    AnsweredSource.DEFAULT_CONFIG: ConfigSource.KAFKA_DEFAULT,
}

_URL_SAFE: Final = str.maketrans("+/", "-_")

TopicPartition: TypeAlias = tuple[str, int]
"""A topic's name and a partition's number."""


def topic_facts(
    connection: Connection, topics: Iterable[str]
) -> dict[str, TopicFacts | UnreadableObject]:
    """By name the topics that the cluster has, or why one is not known, such as a missing right.

    Needs Describe on each, which Read includes. Raises UnreadableObject if no broker answers.
    """
    names = sorted(set(topics))
    if not names:
        return {}
    asked = connection.admin.describe_topics(
        TopicCollection(names),
        include_authorized_operations=True,
        request_timeout=connection.timeout_s,
    )
    found: dict[str, TopicFacts | UnreadableObject] = {}
    for name, future in asked.items():
        answer = connection.answer(future)
        if not isinstance(answer, KafkaError):
            allowed = answer.authorized_operations
            found[name] = TopicFacts(
                name=name,
                topic_id=topic_id_text(answer.topic_id),
                partitions=len(answer.partitions),
                lacks_read=allowed is not None and AclOperation.READ not in allowed,
                lacks_delete=allowed is not None and AclOperation.DELETE not in allowed,
            )
        elif answer.code() not in _NO_TOPIC:
            found[name] = connection.refusal(answer, _describe(name))
    return found


def topic_configs(
    connection: Connection, topics: Iterable[str]
) -> dict[str, Configs | UnreadableObject]:
    """By topic its effective settings, or why they are not known, such as a missing right.

    A topic that is not there has no entry. Needs DescribeConfigs on each. Raises UnreadableObject
    if no broker answers.
    """
    names = sorted(set(topics))
    found: dict[str, Configs | UnreadableObject] = {}
    for first in range(0, len(names), _TOPICS_MAX):
        wanted = names[first : first + _TOPICS_MAX]
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in wanted]
        for resource, answer in _described(connection, resources):
            name = resource.name
            if not isinstance(answer, KafkaError):
                found[name] = answer
            elif answer.code() not in _NO_TOPIC:
                right = Right(operation=DESCRIBE_CONFIGS, resource=Resource.TOPIC, name=name)
                found[name] = connection.refusal(answer, right)
    return found


def broker_configs(connection: Connection) -> dict[int, Configs]:
    """By broker that runs: its settings, those of plugins masked.

    Needs DescribeConfigs on the cluster; raises UnreadableObject.
    """
    right = Right(operation=DESCRIBE_CONFIGS, resource=Resource.CLUSTER)
    found: dict[int, Configs] = {}
    for broker in connection.brokers:
        # librdkafka takes one broker in a request, and sends it to that one.
        resources = [ConfigResource(ResourceType.BROKER, str(broker))]
        for _, answer in _described(connection, resources):
            if isinstance(answer, KafkaError):
                raise connection.refusal(answer, right)
            found[broker] = answer
    return found


def _described(
    connection: Connection, resources: list[ConfigResource]
) -> Iterator[tuple[ConfigResource, Configs | KafkaError]]:
    asked = connection.admin.describe_configs(resources, request_timeout=connection.timeout_s)
    for resource, future in asked.items():
        answer = connection.answer(future)
        if isinstance(answer, KafkaError):
            yield resource, answer
        else:
            yield resource, {name: _config_value(entry) for name, entry in answer.items()}


def _config_value(entry: ConfigEntry) -> ConfigValue:
    # Of an answer, it is the number that Kafka sent.
    source = _SOURCES.get(AnsweredSource(entry.source), ConfigSource.UNKNOWN)
    return ConfigValue(entry.value or "", source)


def partition_offsets(
    connection: Connection, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, PartitionOffsets | UnreadableObject]:
    """By partition its offsets, or why they are not known, such as without a leader.

    Needs Describe on each topic. Raises UnreadableObject if no broker answers.
    """
    wanted = sorted(set(partitions))
    starts = _listed(connection, wanted, OffsetSpec.earliest())
    ends = _listed(connection, wanted, OffsetSpec.latest())
    stable = _listed(connection, wanted, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
    found: dict[TopicPartition, PartitionOffsets | UnreadableObject] = {}
    for one in wanted:
        start, end, last_stable = starts[one], ends[one], stable[one]
        if isinstance(start, int) and isinstance(end, int) and isinstance(last_stable, int):
            found[one] = PartitionOffsets(
                log_start=start, high_watermark=end, last_stable=last_stable
            )
        else:
            errors = (start, end, last_stable)
            found[one] = next(error for error in errors if not isinstance(error, int))
    return found


def _listed(
    connection: Connection,
    partitions: Iterable[TopicPartition],
    spec: OffsetSpec,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[TopicPartition, int | UnreadableObject]:
    asked = {Partition(topic, number): spec for topic, number in partitions}
    if not asked:
        return {}
    futures = connection.admin.list_offsets(
        asked, isolation_level=isolation, request_timeout=connection.timeout_s
    )
    found: dict[TopicPartition, int | UnreadableObject] = {}
    for one, future in futures.items():
        answer = connection.answer(future)
        found[one.topic, one.partition] = (
            _refusal(connection, answer, one.topic)
            if isinstance(answer, KafkaError)
            else answer.offset
        )
    return found


def _refusal(connection: Connection, error: KafkaError, topic: str) -> UnreadableObject:
    """Why offsets are refused; librdkafka does not say it itself where the right is missing."""
    if error.code() == KafkaError._NOENT:  # noqa: SLF001
        facts = topic_facts(connection, [topic]).get(topic)
        if isinstance(facts, UnreadableObject):
            return facts
    return connection.refusal(error, _describe(topic))


def topic_id_text(topic_id: Uuid) -> str:
    """The id as Kafka prints it; librdkafka prints it with `+` and `/`."""
    return str(topic_id).translate(_URL_SAFE)


def _describe(topic: str) -> Right:
    """What a client needs to see a topic's id and offsets; the metadata topic is also read."""
    operation = "Read" if topic == METADATA_TOPIC else "Describe"
    return Right(operation=operation, resource=Resource.TOPIC, name=topic)

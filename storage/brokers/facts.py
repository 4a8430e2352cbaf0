"""Asks a cluster for its topics, settings and offsets, as they are now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from confluent_kafka import IsolationLevel, KafkaError, TopicCollection, Uuid
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import ConfigResource, OffsetSpec, ResourceType

from tierfold.compaction.brokers.cluster_facts import PartitionOffsets, TopicFacts
from tierfold.compaction.brokers.events import METADATA_TOPIC
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.brokers.broker_errors import Resource, Right
from tierfold.storage.brokers.connection import Connection

_NO_TOPIC: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID})

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
        TopicCollection(names), request_timeout=connection.timeout_s
    )
    found: dict[str, TopicFacts | UnreadableObject] = {}
    for name, future in asked.items():
        answer = connection.answer(future)
        if not isinstance(answer, KafkaError):
            found[name] = TopicFacts(
                name=name,
                topic_id=topic_id_text(answer.topic_id),
                partitions=len(answer.partitions),
            )
        elif answer.code() not in _NO_TOPIC:
            found[name] = connection.refusal(answer, _describe(name))
    return found


def topic_settings(
    connection: Connection, topics: Iterable[str]
) -> dict[str, Mapping[str, str]]:
    """By topic its effective settings by name; a topic that is not there has none.

    Needs DescribeConfigs on each; raises UnreadableObject.
    """
    found: dict[str, Mapping[str, str]] = {}
    for name in sorted(set(topics)):
        right = Right(operation="DescribeConfigs", resource=Resource.TOPIC, name=name)
        resource = ConfigResource(ResourceType.TOPIC, name)
        settings = _settings(connection, resource, right)
        if settings is not None:
            found[name] = settings
    return found


def broker_settings(connection: Connection) -> dict[int, Mapping[str, str]]:
    """By broker that runs: its settings by name, those of plugins masked.

    Needs DescribeConfigs on the cluster; raises UnreadableObject.
    """
    right = Right(operation="DescribeConfigs", resource=Resource.CLUSTER)
    found: dict[int, Mapping[str, str]] = {}
    for broker in connection.brokers:
        resource = ConfigResource(ResourceType.BROKER, str(broker))
        found[broker] = _settings(connection, resource, right) or {}
    return found


def _settings(
    connection: Connection, resource: ConfigResource, right: Right
) -> dict[str, str] | None:
    asked = connection.admin.describe_configs([resource], request_timeout=connection.timeout_s)
    answer = connection.answer(asked[resource])
    if not isinstance(answer, KafkaError):
        return {name: entry.value or "" for name, entry in answer.items()}
    if answer.code() in _NO_TOPIC:
        return None
    raise connection.refusal(answer, right)


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

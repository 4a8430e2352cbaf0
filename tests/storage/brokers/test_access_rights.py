"""Each right that is missing is named, with the command that grants it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from tests.brokers.cluster import METADATA_PARTITIONS
from tests.storage.brokers.secured import PASSWORD, USER, SecuredCluster, client
from tierfold.compaction.brokers.events import METADATA_TOPIC
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.brokers.connection import Connection, connected
from tierfold.storage.brokers.facts import PartitionOffsets, partition_offsets, topic_facts
from tierfold.storage.brokers.metadata_reader import read_metadata
from tierfold.storage.brokers.metadata_topic import metadata_topic

pytestmark = pytest.mark.jvm

TOPIC: Final = "guarded"
LOGIN: Final = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": USER,
    "sasl.password": PASSWORD,
}
OPERATIONS: Final = {
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
    "Read": AclOperation.READ,
}
COMMAND: Final = re.compile(r"`kafka-acls\.sh --bootstrap-server (\S+) ([^`]+)`")
ALL: Final = dict.fromkeys(range(METADATA_PARTITIONS), 0)


def offsets_of(connection: Connection) -> PartitionOffsets:
    found = partition_offsets(connection, [(TOPIC, 0)])[TOPIC, 0]
    if isinstance(found, UnreadableObject):
        raise found
    return found


STEPS: Final[tuple[tuple[Callable[[Connection], object], tuple[str, ...]], ...]] = (
    (
        metadata_topic,
        (
            f"Describe on topic {METADATA_TOPIC}",
            f"DescribeConfigs on topic {METADATA_TOPIC}",
            "DescribeConfigs on cluster",
        ),
    ),
    (lambda connection: list(read_metadata(connection, ALL)), (f"Read on topic {METADATA_TOPIC}",)),
    (offsets_of, (f"Describe on topic {TOPIC}",)),
)
"""What a reader does, and the rights that it lacks one after the other."""


def test_each_right_is_named_until_it_is_granted(secured: SecuredCluster) -> None:
    topic = secured.create(TOPIC)
    for value in (b"1", b"2"):
        topic.append([(b"key", value)])
    topic.wait_until_tiered()
    lacked = []
    server = secured.server("SASL")

    def done(step: Callable[[Connection], object]) -> None:
        # By a new client: one keeps a refusal for a while.
        with connected(client(server, LOGIN)) as connection:
            step(connection)

    for step, rights in STEPS:
        for right in rights:
            with pytest.raises(UnreadableObject) as caught:
                done(step)
            sentence = str(caught.value)
            assert f"broker {server}: the right {right} is missing. Grant it with" in sentence
            grant(secured, sentence, is_by_tool=right.endswith("cluster"))
            lacked.append(right)
        done(step)
    done(lambda connection: topic_facts(connection, [TOPIC])[TOPIC])
    assert len(lacked) == 5


def grant(kafka: SecuredCluster, sentence: str, *, is_by_tool: bool) -> None:
    """Grant what the command in the sentence grants: by Kafka's own tool, or as it would."""
    found = COMMAND.search(sentence)
    assert found is not None
    arguments = found[2].replace("User:NAME", f"User:{USER}").split()
    if is_by_tool:
        kafka.run_tool("org.apache.kafka.tools.AclCommand", *arguments)
        return
    adds, principal, operation, topic = arguments[:1], arguments[1:3], arguments[3:5], arguments[5:]
    assert (adds, principal) == (["--add"], ["--allow-principal", f"User:{USER}"])
    assert (operation[0], topic[0]) == ("--operation", "--topic")
    kafka.grant(ResourceType.TOPIC, topic[1], OPERATIONS[operation[1]])

"""Each right that is missing is named, with the command that grants it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from tests.brokers.access import PASSWORD, USER, Right, granted
from tests.brokers.cluster import METADATA_PARTITIONS, KafkaCluster
from tests.brokers.topics import Topic
from tests.jobs.commands import ALWAYS, tierfold
from tests.storage.brokers.secured import client
from tierfold.compaction.brokers.cluster_facts import TopicFacts
from tierfold.compaction.brokers.events import METADATA_TOPIC
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.brokers.cluster_setup import cluster_setup
from tierfold.storage.brokers.connection import Connection, connected
from tierfold.storage.brokers.facts import partition_offsets, topic_facts
from tierfold.storage.brokers.metadata_reader import read_metadata

pytestmark = pytest.mark.jvm

TOPIC: Final = "guarded"
LOGIN: Final = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": USER,
    "sasl.password": PASSWORD,
}
COMMAND: Final = re.compile(r"`kafka-acls\.sh --bootstrap-server (\S+) ([^`]+)`")
ALL: Final = dict.fromkeys(range(METADATA_PARTITIONS), 0)

READ_METADATA: Final = Right(AclOperation.READ, METADATA_TOPIC)
METADATA_SETTINGS: Final = Right(AclOperation.DESCRIBE_CONFIGS, METADATA_TOPIC)
BROKER_SETTINGS: Final = Right(
    AclOperation.DESCRIBE_CONFIGS, "kafka-cluster", ResourceType.BROKER
)
TOPIC_OFFSETS: Final = Right(AclOperation.DESCRIBE, TOPIC)
LEAST: Final = (READ_METADATA, METADATA_SETTINGS, BROKER_SETTINGS, TOPIC_OFFSETS)
"""Those of docs/kafka.md."""


@pytest.fixture(scope="module")
def topic(kafka: KafkaCluster) -> Topic:
    kafka.broker(2)
    topic = kafka.create(TOPIC, replicas=[2, 1])  # The metadata topic is on both brokers.
    for value in (b"1", b"2"):
        topic.append([(b"key", value)])
    topic.wait_until_tiered()
    return topic


def everything(connection: Connection) -> None:
    """Whatever a reader asks."""
    assert cluster_setup(connection).metadata_topic.partitions == METADATA_PARTITIONS
    assert any(read_metadata(connection, ALL))
    (offsets,) = partition_offsets(connection, [(TOPIC, 0)]).values()
    if isinstance(offsets, UnreadableObject):
        raise offsets
    assert offsets.high_watermark == 2
    facts = topic_facts(connection, [TOPIC])[TOPIC]
    assert isinstance(facts, TopicFacts)
    assert facts.partitions == 1


def lacks(kafka: KafkaCluster, rights: set[Right]) -> str:
    """What a user with these rights has to grant, as the arguments of kafka-acls.sh."""
    server = kafka.servers_of("SASL")
    with (
        granted(kafka, *rights),
        connected(client(server, LOGIN)) as connection,
        pytest.raises(UnreadableObject) as caught,
    ):
        everything(connection)
    found = COMMAND.search(str(caught.value))
    assert found is not None, str(caught.value)
    first, *_ = server.split(",")
    assert str(caught.value).startswith(f"broker {first}: the right ")
    assert found[1] == first
    return found[2]


def test_the_rights_of_the_guide_are_enough(
    kafka: KafkaCluster, topic: Topic, tmp_path: Path
) -> None:
    server = kafka.servers_of("SASL")
    properties = tmp_path / "client.properties"
    properties.write_text("".join(f"{name}={text}\n" for name, text in LOGIN.items()))
    status = ("status", kafka.tier, "--topic", TOPIC, "--bootstrap-server", server)
    with granted(kafka, *LEAST), connected(client(server, LOGIN)) as connection:
        everything(connection)
        assert tierfold(*status, "--command-config", properties).code == 0
    refused = tierfold(*status, "--command-config", properties)
    assert (refused.code, COMMAND.search(refused.stderr) is not None) == (3, True)


def test_a_plan_also_needs_the_settings_of_its_topics(
    kafka: KafkaCluster, topic: Topic, tmp_path: Path
) -> None:
    server = kafka.servers_of("SASL")
    properties = tmp_path / "client.properties"
    properties.write_text("".join(f"{name}={text}\n" for name, text in LOGIN.items()))
    plan = ("plan", kafka.tier, "--topic", TOPIC, *ALWAYS, "--bootstrap-server", server)
    plan = (*plan, "--set", "tail.margin.segments=0", "--command-config", properties, "--json")
    with granted(kafka, *({*LEAST} - {TOPIC_OFFSETS})):
        (entry,) = tierfold(*plan).entries
    assert entry["reason"].endswith("know tierfold by. Then run again."), entry
    with granted(kafka, *LEAST):
        (entry,) = tierfold(*plan).entries
    assert (entry["outcome"], "[right_missing]" in entry["reason"]) == ("refused", True)
    found = COMMAND.search(entry["reason"])
    assert found is not None
    arguments = f"--add --allow-principal User:NAME --operation DescribeConfigs --topic {TOPIC}"
    assert found[2] == arguments
    with granted(kafka, *LEAST, Right(AclOperation.DESCRIBE_CONFIGS, TOPIC)):
        ran = tierfold(*plan)
    assert ran.entries[0]["outcome"] != "refused"
    (note,) = ran.document["notes"]
    assert f"--operation Write --topic {METADATA_TOPIC}" in note


@pytest.mark.parametrize(
    ("right", "arguments"),
    [
        (READ_METADATA, f"--operation Read --topic {METADATA_TOPIC}"),
        (METADATA_SETTINGS, f"--operation DescribeConfigs --topic {METADATA_TOPIC}"),
        (BROKER_SETTINGS, "--operation DescribeConfigs --cluster"),
        (TOPIC_OFFSETS, f"--operation Describe --topic {TOPIC}"),
    ],
    ids=["read", "topic settings", "broker settings", "offsets"],
)
def test_a_right_that_is_missing_is_named(
    kafka: KafkaCluster, topic: Topic, right: Right, arguments: str
) -> None:
    found = lacks(kafka, {*LEAST} - {right})
    assert found == f"--add --allow-principal User:NAME {arguments}"


def test_the_right_to_describe_is_not_enough_to_read(kafka: KafkaCluster, topic: Topic) -> None:
    describe = Right(AclOperation.DESCRIBE, METADATA_TOPIC)
    found = lacks(kafka, {*LEAST, describe} - {READ_METADATA})
    assert found.endswith(f"--operation Read --topic {METADATA_TOPIC}")


@pytest.mark.parametrize("right", [BROKER_SETTINGS, TOPIC_OFFSETS], ids=["cluster", "topic"])
def test_the_command_grants_the_right(kafka: KafkaCluster, topic: Topic, right: Right) -> None:
    arguments = lacks(kafka, {*LEAST} - {right}).replace("User:NAME", f"User:{USER}")
    server = kafka.servers_of("SASL")
    with granted(kafka, *({*LEAST} - {right})):
        kafka.run_tool("org.apache.kafka.tools.AclCommand", *arguments.split())
        with connected(client(server, LOGIN)) as connection:
            everything(connection)

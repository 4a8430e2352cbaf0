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
    assert f"--operation Describe --operation DescribeConfigs --topic {TOPIC}`" in entry["reason"]
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
        # A run that publishes does not begin without what it needs for that.
        for canary, reads in (("borders", True), ("off", False)):
            words = ("--publish", "--canary", canary, "--engine", "local")
            (entry,) = tierfold("compact", *plan[1:], *words).entries
            assert (entry["outcome"], entry["epoch"]) == ("refused", 0)
            assert f"--operation Write --topic {METADATA_TOPIC}`" in entry["reason"]
            assert (f"--operation Read --topic {TOPIC}`" in entry["reason"]) is reads


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


def logged_in(folder: Path, kafka: KafkaCluster) -> tuple[str | Path, ...]:
    """The options with which a command is `USER`."""
    properties = folder / "client.properties"
    properties.write_text("".join(f"{name}={text}\n" for name, text in LOGIN.items()))
    server = kafka.servers_of("SASL")
    return ("--bootstrap-server", server, "--command-config", properties)


def granting(sentence: str) -> list[str]:
    """What every kafka-acls.sh of a message grants, sorted."""
    commands = (found[2] for found in COMMAND.finditer(sentence))
    return sorted(command.partition("User:NAME ")[2] for command in commands)


def carry_out_all(kafka: KafkaCluster, sentence: str) -> list[str]:
    """Run every kafka-acls.sh of a message, and return what they grant."""
    for found in COMMAND.finditer(sentence):
        arguments = found[2].replace("User:NAME", f"User:{USER}").split()
        kafka.run_tool("org.apache.kafka.tools.AclCommand", *arguments)
    return granting(sentence)


def test_all_rights_that_are_missing_are_said_and_granted_at_once(
    kafka: KafkaCluster, topic: Topic, tmp_path: Path
) -> None:
    other = kafka.create("guarded-too")
    other.append([(b"key", b"1")])
    other.append([(b"key", b"2")])
    other.wait_until_tiered()
    topics = ("--topic", TOPIC, "--topic", other.name)
    plan = ("plan", kafka.tier, *topics, *ALWAYS, *logged_in(tmp_path, kafka))
    verify = ("verify", *plan[1:6], *logged_in(tmp_path, kafka))
    of_topics = f"--operation Describe --operation DescribeConfigs {' '.join(topics)}"
    of_cluster = [
        "--operation DescribeConfigs --cluster",
        f"--operation Read --operation DescribeConfigs --topic {METADATA_TOPIC}",
    ]
    with granted(kafka, Right(AclOperation.DESCRIBE, METADATA_TOPIC)):
        assert granting(tierfold(*plan).stderr) == [of_topics, *of_cluster]
        # `verify` needs no settings of topics.
        describe = f"--operation Describe {' '.join(topics)}"
        assert granting(tierfold(*verify).stderr) == [describe, *of_cluster]
    with granted(kafka):
        refused = tierfold(*plan)
        assert refused.code == 3
        assert carry_out_all(kafka, refused.stderr) == [of_topics, *of_cluster]
        kafka.wait(lambda: tierfold(*plan).code == 0, "the rights that were granted")

    # Without those of topics alone, others would go on; one line has the command for both.
    with granted(kafka, READ_METADATA, METADATA_SETTINGS, BROKER_SETTINGS):
        refused = tierfold(*plan)
        assert refused.code == 3
        assert refused.stdout.count("kafka-acls.sh") == 1
        (entry, twin) = tierfold(*plan, "--json").entries
        assert [part["code"] for part in entry["refusals"]] == ["right_missing"]
        assert entry["refusals"] == twin["refusals"]
        # That is no corruption.
        verified = tierfold(*verify)
        assert verified.code == 3
        assert "not verified: 2 of 2 partitions" in verified.stdout
        assert "corruption" not in verified.stdout
        assert granting(verified.stdout) == [describe]
        assert carry_out_all(kafka, refused.stdout) == [of_topics]
        kafka.wait(lambda: tierfold(*plan).code == 0, "the rights that were granted")


def test_config_says_all_rights_at_once(
    kafka: KafkaCluster, topic: Topic, tmp_path: Path
) -> None:
    config = ("config", TOPIC, *logged_in(tmp_path, kafka))
    with granted(kafka, READ_METADATA, METADATA_SETTINGS, BROKER_SETTINGS):
        refused = tierfold(*config)
        assert carry_out_all(kafka, refused.stderr) == [
            f"--operation Describe --operation DescribeConfigs --topic {TOPIC}"
        ]
        kafka.wait(lambda: tierfold(*config).code == 0, "the rights that were granted")

"""Each precondition is provoked on a real broker, and the command that is printed mends it."""

from __future__ import annotations

import itertools
import re
import time
from random import Random
from typing import Final

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (
    AclOperation,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.brokers.access import PASSWORD, USER, Right, granted
from tests.brokers.altered_settings import TOOLS, alter, carry_out, set_as_printed
from tests.brokers.cluster import KafkaCluster
from tests.brokers.topics import CALL_S, METADATA_TOPIC, Topic
from tests.compaction.topic_settings import drawn, kafka_takes
from tests.jobs.commands import tierfold
from tests.storage.brokers.secured import client
from tierfold.compaction.brokers.broker_versions import KafkaVersion, at_least
from tierfold.compaction.brokers.cluster_configs import ConfigSource
from tierfold.compaction.brokers.cluster_facts import ClusterSetup
from tierfold.compaction.brokers.preconditions import (
    PreconditionCode,
    cluster_notes,
    cluster_preconditions,
    topic_notes,
    topic_preconditions,
)
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.compaction.model.rules import DAY_MS, Rules
from tierfold.storage.brokers.cluster_setup import cluster_setup, topic_setups
from tierfold.storage.brokers.connection import connected
from tierfold.storage.brokers.facts import topic_configs

pytestmark = pytest.mark.jvm

COMPACT: Final = Rules(cleanup_policy=frozenset({"compact"}))
COMPACT_DELETE: Final = Rules(
    cleanup_policy=frozenset({"compact", "delete"}), retention_written=frozenset({"retention_ms"})
)
READ_METADATA: Final = Right(AclOperation.READ, METADATA_TOPIC)
METADATA_SETTINGS: Final = Right(AclOperation.DESCRIBE_CONFIGS, METADATA_TOPIC)
BROKER_SETTINGS: Final = Right(
    AclOperation.DESCRIBE_CONFIGS, "kafka-cluster", ResourceType.BROKER
)
MINUTE_MS: Final = 60_000
WEEK: Final = "604800000"
LOGIN: Final = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": USER,
    "sasl.password": PASSWORD,
}
NUMBERS: Final = itertools.count()
CHANGES_MAX: Final = 4

BYTES, TIME, LOCAL, NOT_TIERED = (
    PreconditionCode.RETENTION_BYTES,
    PreconditionCode.RETENTION_MS,
    PreconditionCode.LOCAL_RETENTION,
    PreconditionCode.NOT_TIERED,
)


def of_topic(kafka: KafkaCluster, topic: Topic, rules: Rules) -> tuple[RefusalPart, ...]:
    with connected(client(kafka.servers, {})) as connection:
        (found,) = topic_setups(connection, [topic.name]).values()
        return topic_preconditions(found, cluster_setup(connection), rules)


def setup_of(kafka: KafkaCluster) -> ClusterSetup:
    with connected(client(kafka.servers, {})) as connection:
        return cluster_setup(connection)


@pytest.mark.parametrize(
    ("changes", "rules", "codes"),
    [
        ({"retention.bytes": "1000000000"}, COMPACT, {BYTES}),
        ({"retention.bytes": "1000000000"}, COMPACT_DELETE, {BYTES}),
        ({"retention.ms": WEEK}, COMPACT, {TIME}),
        ({"retention.ms": None}, COMPACT, {TIME}),
        ({"cleanup.policy": "", "retention.ms": WEEK}, COMPACT, {TIME}),
        ({"retention.ms": WEEK, "local.retention.ms": None}, COMPACT, {TIME}),
        ({"local.retention.ms": None}, COMPACT, {LOCAL}),
        ({"local.retention.ms": "-1"}, COMPACT_DELETE, {LOCAL}),
        (
            {"local.retention.ms": None, "retention.bytes": "1000000000"},
            COMPACT,
            {BYTES},
        ),
        (
            {
                "retention.bytes": "1000000000",
                "retention.ms": WEEK,
                "local.retention.ms": None,
                "remote.log.copy.disable": "true",
            },
            COMPACT,
            {BYTES, TIME},
        ),
        (
            {"remote.log.copy.disable": "true", "local.retention.ms": "-2"},
            COMPACT,
            {LOCAL},
        ),
        (
            {"remote.log.delete.on.disable": "true", "remote.storage.enable": "false"},
            COMPACT,
            {NOT_TIERED},
        ),
        (
            {
                "remote.log.delete.on.disable": "true",
                "remote.storage.enable": "false",
                "retention.ms": WEEK,
                "local.retention.ms": None,
            },
            COMPACT,
            {NOT_TIERED, TIME},
        ),
        (
            {
                "remote.log.delete.on.disable": "true",
                "remote.storage.enable": "false",
                "cleanup.policy": "compact,delete",
            },
            COMPACT,
            {NOT_TIERED},
        ),
    ],
    ids=lambda value: (
        ",".join(f"{name}={text}" for name, text in value.items())
        if isinstance(value, dict)
        else None
    ),
)
def test_the_command_of_a_topics_refusal_leads_out(
    kafka: KafkaCluster,
    changes: dict[str, str | None],
    rules: Rules,
    codes: set[PreconditionCode],
) -> None:
    topic = kafka.create(f"setup-{next(NUMBERS)}")
    assert of_topic(kafka, topic, rules) == ()
    alter(kafka, topic.name, changes)
    found = of_topic(kafka, topic, rules)
    assert {one.code for one in found} == codes
    (command,) = {one.command for one in found}
    # The tool itself once, for the longest command.
    (carry_out if len(changes) == CHANGES_MAX else set_as_printed)(kafka, command)
    kafka.wait(lambda: of_topic(kafka, topic, rules) == (), "the settings that were altered")


def test_kafka_takes_settings_by_the_rules_that_commands_follow(kafka: KafkaCluster) -> None:
    topic = kafka.create("checked")
    rng = Random(2026)
    taken = 0
    admin = kafka.admin()
    for _ in range(150):
        values = drawn(rng) | {"remote.storage.enable": "true"}
        resource = ConfigResource(
            ResourceType.TOPIC,
            topic.name,
            incremental_configs=[
                ConfigEntry(name, text, incremental_operation=AlterConfigOpType.SET)
                for name, text in values.items()
            ],
        )
        asked = admin.incremental_alter_configs([resource], validate_only=True)
        error = asked[resource].exception(CALL_S)
        assert (error is None) == kafka_takes(values), (values, error)
        taken += error is None
    assert 20 < taken < 130


def test_a_limit_of_local_bytes_is_enough_and_its_consequence_is_said(kafka: KafkaCluster) -> None:
    topic = kafka.create("by-size")
    alter(kafka, topic.name, {"local.retention.ms": "-1", "local.retention.bytes": "1"})
    assert of_topic(kafka, topic, COMPACT) == ()
    with connected(client(kafka.servers, {})) as connection:
        setup = cluster_setup(connection)
        (found,) = topic_setups(connection, [topic.name]).values()
    (note,) = topic_notes(found, setup, COMPACT)
    assert "by-size: only local.retention.bytes" in note
    assert topic_notes(found, setup, Rules()) == ()


@pytest.mark.soak
def test_a_setting_that_all_brokers_have_counts(kafka: KafkaCluster) -> None:
    topic = kafka.create("by-default")
    alter(kafka, topic.name, {"retention.bytes": None})
    everyone = ("--alter", "--entity-type", "brokers", "--entity-default")
    tool = TOOLS["kafka-configs.sh"]
    kafka.run_tool(tool, *everyone, "--add-config", "log.retention.bytes=1000000000")
    try:
        kafka.wait(lambda: bool(of_topic(kafka, topic, COMPACT)), "the setting of all brokers")
        (found,) = of_topic(kafka, topic, COMPACT)
        assert "retention.bytes is 1000000000 (default broker)" in found.detail
        carry_out(kafka, found.command)
        assert of_topic(kafka, topic, COMPACT) == ()
    finally:
        kafka.run_tool(tool, *everyone, "--delete-config", "log.retention.bytes")


def test_the_metadata_topics_settings_are_mended_by_their_commands(kafka: KafkaCluster) -> None:
    harmless: dict[str, str | None] = {
        "cleanup.policy": "",
        "retention.ms": WEEK,
        "retention.bytes": "1000000000",
    }
    before = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": None}
    added = dict.fromkeys(("message.timestamp.before.max.ms", "message.timestamp.type"))
    try:
        unlimited = {"message.timestamp.before.max.ms": str(2**63 - 1)}
        by_broker = {"message.timestamp.type": "LogAppendTime"}
        alter(kafka, METADATA_TOPIC, harmless | unlimited | by_broker)
        found = cluster_preconditions(setup_of(kafka), declared=None, grace_ms=DAY_MS)
        assert {one.code for one in found} == {
            PreconditionCode.METADATA_SETTINGS,
            PreconditionCode.LATE_SENDS,
        }
        for tier in ([], [kafka.tier]):
            ran = tierfold("status", *tier, "--bootstrap-server", kafka.servers, "--json")
            warnings = ran.document["warnings"]
            assert len(warnings) == len(found)
            assert all(one.command in said for one, said in zip(found, warnings, strict=True))
        for one in found:
            carry_out(kafka, one.command)
        mended = setup_of(kafka)
        assert cluster_preconditions(mended, declared=None, grace_ms=DAY_MS) == ()
        # It fits the shortest grace period of a served tier, too.
        assert cluster_preconditions(mended, declared=None, grace_ms=60 * MINUTE_MS) == ()
        (late,) = cluster_preconditions(mended, declared=None, grace_ms=59 * MINUTE_MS)
        assert late.code == PreconditionCode.LATE_SENDS
    finally:
        alter(kafka, METADATA_TOPIC, before | added)


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_only_with_times_of_producers_a_broker_refuses_a_late_send(
    kafka: KafkaCluster, kind: str
) -> None:
    topic = kafka.create(
        f"late-{kind}", message_timestamp_type=kind, message_timestamp_before_max_ms="60000"
    )
    errors: list[KafkaError | None] = []
    producer = Producer(kafka.client_settings())
    for age_ms in (0, 10 * MINUTE_MS):
        producer.produce(
            topic.name,
            b"event",
            timestamp=time.time_ns() // 1_000_000 - age_ms,
            on_delivery=lambda error, _: errors.append(error),
        )
        assert producer.flush(CALL_S) == 0
    codes = [error and error.code() for error in errors]
    refused = KafkaError.INVALID_TIMESTAMP if kind == "CreateTime" else None
    assert codes == [None, refused]


@pytest.mark.parametrize("missing", [AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS])
def test_a_right_that_is_missing_is_granted_by_the_command(
    kafka: KafkaCluster, missing: AclOperation
) -> None:
    topic = kafka.create(f"rights-{missing.name}")
    setup = setup_of(kafka)
    # DescribeConfigs includes Describe.
    given = {AclOperation.DESCRIBE} - {missing}
    server = kafka.servers_of("SASL")

    def refusals() -> tuple[RefusalPart, ...]:
        with connected(client(server, LOGIN)) as connection:
            (found,) = topic_setups(connection, [topic.name]).values()
        return topic_preconditions(found, setup, COMPACT)

    with granted(kafka, *(Right(operation, topic.name) for operation in given)):
        (found,) = refusals()
        assert found.code == PreconditionCode.RIGHT_MISSING
        carry_out(kafka, found.command.replace("User:NAME", f"User:{USER}"))
        kafka.wait(lambda: refusals() == (), "the rights that were granted")


def test_the_right_to_publish_is_noted_until_it_is_granted(kafka: KafkaCluster) -> None:
    def notes() -> tuple[str, ...]:
        with connected(client(kafka.servers_of("SASL"), LOGIN)) as connection:
            return cluster_notes(cluster_setup(connection))

    with granted(kafka, READ_METADATA, METADATA_SETTINGS, BROKER_SETTINGS):
        (note,) = notes()
        command = re.search(r"`(kafka-acls[^`]+)`", note)
        assert command is not None
        carry_out(kafka, command[1].replace("User:NAME", f"User:{USER}"))
        kafka.wait(lambda: notes() == (), "the right that was granted")


def test_the_newest_broker_proves_its_version(kafka: KafkaCluster) -> None:
    setup = setup_of(kafka)
    major, minor, _ = kafka.version.split(".")
    bound = at_least(setup.brokers[1])  # Other tests may have started more of the same version.
    assert bound is not None
    assert bound.version == (int(major), int(minor))
    older = KafkaVersion(bound.version.major, bound.version.minor - 1)
    (wrong,) = cluster_preconditions(setup, declared=older, grace_ms=DAY_MS)
    assert wrong.code == PreconditionCode.KAFKA_VERSION_WRONG
    declared = re.search(r'"kafka.version" = "(\d+)\.(\d+)"', wrong.remedy)
    assert declared is not None
    right = KafkaVersion(int(declared[1]), int(declared[2]))
    assert cluster_preconditions(setup, declared=right, grace_ms=DAY_MS) == ()


def test_thousands_of_topics_take_few_requests(kafka: KafkaCluster) -> None:
    topic = kafka.create("one-of-many")
    others = [f"none-{number}" for number in range(1200)]
    with connected(client(kafka.servers, {})) as connection:
        asked = []
        describe = connection.admin.describe_configs

        def counted(resources: list[ConfigResource], **options: float) -> object:
            asked.append(len(resources))
            return describe(resources, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(connection.admin, "describe_configs", counted)
            found = topic_configs(connection, [*others, topic.name])
    assert asked == [500, 500, 201]
    assert list(found) == [topic.name]
    configs = found[topic.name]
    assert not isinstance(configs, UnreadableObject)
    assert configs["segment.ms"] == ("60000", ConfigSource.TOPIC)

"""Changes settings of a topic, and carries out commands that tierfold prints."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.brokers.cluster import KafkaCluster
from tests.brokers.topics import CALL_S

TOOLS: Final = {
    "kafka-configs.sh": "org.apache.kafka.tools.ConfigCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-get-offsets.sh": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
}


def alter(kafka: KafkaCluster, topic: str, changes: Mapping[str, str | None]) -> None:
    """Set these settings of a topic in one request; None: as if it had none of its own."""
    entries = [
        ConfigEntry(
            name,
            text,
            incremental_operation=AlterConfigOpType.DELETE
            if text is None
            else AlterConfigOpType.SET,
        )
        for name, text in changes.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = kafka.admin()
    admin.incremental_alter_configs([resource])[resource].result(CALL_S)


def carry_out(kafka: KafkaCluster, command: str) -> None:
    """What a printed command does, by Kafka's own tools."""
    program, bootstrap, server, *arguments = shlex.split(command)
    assert bootstrap == "--bootstrap-server"
    assert server in f"{kafka.servers},{kafka.servers_of('SASL')}".split(",")
    kafka.run_tool(TOOLS[program], *arguments)


def set_as_printed(kafka: KafkaCluster, command: str) -> None:
    """What a printed kafka-configs.sh command for a topic does, without the 0.8 s of the tool."""
    words = shlex.split(command)
    before = ["kafka-configs.sh", "--bootstrap-server", kafka.servers.partition(",")[0]]
    topics = ["--alter", "--entity-type", "topics", "--entity-name"]
    assert words[:7] == before + topics
    name, option, settings = words[7:]
    assert option == "--add-config"
    alter(kafka, name, dict(one.split("=") for one in settings.split(",")))

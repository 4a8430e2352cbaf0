"""Kafka Streams restores a table from a changelog that tierfold compacted and published."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.brokers.broker import QUICK_START
from tests.brokers.cluster import KafkaCluster
from tests.brokers.test_status_of_brokers import tierfold
from tests.brokers.topics import Topic
from tests.jobs.commands import ALWAYS
from tests.oracle.kafka_jars import streams_class_path, tool

CALLS = 6
KEYS = 40
DELETED = range(30, KEYS)


def table_of(kafka: KafkaCluster, topic: Topic, folder: Path) -> dict[str, Any]:
    """What `TableApplication` prints once it has taken all that the topic has."""
    java = [tool("java"), *QUICK_START, "-cp", streams_class_path(kafka.version)]
    _, end = topic.offsets()
    arguments = ["TableApplication", kafka.servers, topic.name, str(end), str(folder)]
    ran = subprocess.run([*java, *arguments], capture_output=True, text=True, check=False)
    assert ran.stdout, ran.stderr
    printed: dict[str, Any] = json.loads(ran.stdout)
    return printed


@pytest.mark.soak
def test_a_table_is_restored_from_its_compacted_changelog(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    topic = kafka.create("changelog")
    for turn in range(CALLS):
        topic.append([(b"%d" % key, b"%d of turn %d" % (key, turn)) for key in range(KEYS)])
    topic.append([(b"%d" % key, None) for key in DELETED])
    topic.append([(b"0", b"newest")])
    topic.wait_until_tiered()
    _, end = topic.offsets()
    newest = {str(key): f"{key} of turn {CALLS - 1}" for key in range(KEYS) if key not in DELETED}
    newest["0"] = "newest"

    first = table_of(kafka, topic, tmp_path / "streams")
    assert first == {"table": newest, "restores": [[0, 0, 0]], "errors": []}

    scope = ("--catalog", tmp_path / "catalog", "--topic", topic.name)
    ran = tierfold(kafka, "compact", kafka.tier, *ALWAYS, *scope, "--publish", "--json")
    (entry,) = ran.entries
    assert (entry["outcome"], entry["publishing"]) == ("compacted", "published"), ran
    topic.append([(b"1", b"later")])

    # Its state was in memory and in a folder that it empties, so it restores from the log start.
    second = table_of(kafka, topic, tmp_path / "streams")
    assert second["errors"] == []
    assert second["table"] == newest | {"1": "later"}
    # Once, and what the compaction left: each key's latest record, and the newest segment.
    assert second["restores"] == [[0, end, KEYS + 1]]

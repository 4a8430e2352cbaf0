"""`config` shows what a real broker says of a topic, from each of its sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.brokers.cluster import KafkaCluster
from tests.jobs.commands import Ran, tierfold

pytestmark = pytest.mark.jvm


def config(kafka: KafkaCluster, *arguments: str | Path) -> Ran:
    return tierfold("config", *arguments, "--bootstrap-server", kafka.servers, "--json")


def by_name(entries: list[dict[str, Any]]) -> dict[str, tuple[Any, str]]:
    return {one["name"]: (one["value"], one["source"]) for one in entries}


def test_each_value_has_the_source_that_the_broker_says(kafka: KafkaCluster) -> None:
    kafka.create("sources", delete_retention_ms="1000", compression_type="zstd")
    everyone = ("--alter", "--entity-type", "brokers", "--entity-default")
    tool = "org.apache.kafka.tools.ConfigCommand"
    name = "log.cleaner.min.compaction.lag.ms"
    kafka.run_tool(tool, *everyone, "--add-config", f"{name}=77")
    try:

        def settings() -> dict[str, tuple[Any, str]]:
            return by_name(config(kafka, "sources").document["settings"])

        wanted = (77, "cluster: default broker")
        kafka.wait(lambda: settings()["min.compaction.lag.ms"] == wanted, "the brokers' setting")
        ran = config(
            kafka, "sources", "--set", "cleanup.policy=compact", "--set", "segment.ms=5000"
        )
    finally:
        kafka.run_tool(tool, *everyone, "--delete-config", name)
    found = by_name(ran.document["settings"])
    assert found["min.compaction.lag.ms"] == wanted
    assert found["delete.retention.ms"] == (1000, "cluster: topic")
    assert found["segment.bytes"] == (1073741824, "cluster: Kafka's default")
    assert found["cleanup.policy"] == ("compact", "--set cleanup.policy")
    assert found["segment.ms"] == (5000, "--set segment.ms")
    # The broker's topic has retention.ms=-1, which is no policy of ours.
    assert found["retention.ms"] == (604800000, "default")
    brokers = {one["name"]: one for one in ran.document["brokers"]}
    assert brokers["retention.ms"]["use"] == "set in tierfold only"
    assert (brokers["compression.type"]["value"], brokers["compression.type"]["use"]) == (
        "zstd",
        "of brokers only",
    )
    assert brokers["segment.ms"]["use"] == "overridden"
    assert ran.document["notes"] == [
        "topic sources: segment.ms is 5000 (--set segment.ms), but 60000 on the brokers"
        " (cluster: topic)"
    ]
    assert {
        *("message.timestamp.type", "max.message.bytes", "max.decompressed.message.bytes"),
        *("compression.gzip.level", "compression.lz4.level", "compression.zstd.level"),
        *("local.retention.ms", "remote.storage.enable", "max.compaction.lag.ms"),
    } <= brokers.keys()
    assert [brokers[name]["source"] for name in ("retention.ms", "max.message.bytes")] == [
        "topic",
        "Kafka's default",
    ]


def test_the_table_shows_both(kafka: KafkaCluster) -> None:
    kafka.create("tabled", segment_bytes="2000000")
    ran = tierfold("config", "tabled", "--bootstrap-server", kafka.servers)
    assert ran.code == 0
    ours, theirs = ran.stdout.split("tabled on its brokers")
    assert "2000000" in ours
    assert "cluster: topic" in ours
    assert "2000000" in theirs


def test_a_topic_that_the_cluster_does_not_have_is_refused(kafka: KafkaCluster) -> None:
    config(kafka, "no-such-topic").refuses("the cluster has no topic no-such-topic")

"""Brokers of older versions tier and serve as the newest does; `make soak` has all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.brokers.cluster import KafkaCluster
from tests.brokers.topics import METADATA_TOPIC
from tests.brokers.versions import smoke_versions

pytestmark = pytest.mark.jvm


@pytest.mark.parametrize("broker_version", smoke_versions())
def test_a_broker_tiers_and_serves(tmp_path: Path, broker_version: str) -> None:
    with KafkaCluster(tmp_path, broker_version) as kafka:
        assert METADATA_TOPIC in kafka.admin().list_topics(timeout=30).topics
        topic = kafka.create("tiered")
        for value in (b"1", b"2", b"3"):
            topic.append([(b"key", value)])
        topic.wait_until_tiered()
        assert len(topic.logs()) == 3
        kafka.restart(kafka.brokers[0])
        assert [record.value for record in topic.read()] == [b"1", b"2", b"3"]

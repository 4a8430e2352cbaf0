"""Brokers of older versions tier and serve as the newest does; `make soak` has all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.brokers.cluster import KafkaCluster
from tests.brokers.topics import METADATA_TOPIC
from tests.brokers.versions import SOAK
from tests.storage.brokers.secured import client
from tierfold.compaction.brokers.broker_versions import at_least
from tierfold.compaction.brokers.epoch_ends import EpochEnd, UnknownEpoch
from tierfold.compaction.brokers.preconditions import cluster_preconditions
from tierfold.compaction.model.rules import DAY_MS
from tierfold.storage.brokers.cluster_setup import cluster_setup
from tierfold.storage.brokers.connection import connected
from tierfold.storage.brokers.epoch_ends import epoch_ends

pytestmark = pytest.mark.jvm


@pytest.mark.parametrize("broker_version", SOAK)
def test_a_broker_tiers_serves_and_proves_its_version(tmp_path: Path, broker_version: str) -> None:
    with KafkaCluster(tmp_path, broker_version) as kafka:
        assert METADATA_TOPIC in kafka.admin().list_topics(timeout=30).topics
        topic = kafka.create("tiered")
        for value in (b"1", b"2", b"3"):
            topic.append([(b"key", value)])
        topic.wait_until_tiered()
        assert len(topic.logs()) == 3
        with connected(client(kafka.servers, {})) as connection:
            setup = cluster_setup(connection)
        (bound,) = map(at_least, setup.brokers.values())
        major, minor, _ = broker_version.split(".")
        assert bound is not None
        assert bound.version == (int(major), int(minor))
        assert cluster_preconditions(setup, declared=bound.version, grace_ms=DAY_MS) == ()
        kafka.restart(kafka.brokers[0])
        with connected(client(kafka.servers, {})) as connection:
            (answers,) = epoch_ends(connection, {("tiered", 0): (0, 99)}).values()
        assert answers == {0: EpochEnd(epoch=0, end_offset=3), 99: UnknownEpoch()}
        assert [record.value for record in topic.read()] == [b"1", b"2", b"3"]

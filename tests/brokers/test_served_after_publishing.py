"""What was compacted and published is what consumers read, also after the broker's restart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.brokers.cluster import KafkaCluster
from tests.brokers.consumer_reads import Isolation
from tests.brokers.filled_topic import Filling, create_filled, fill
from tests.brokers.scans import scanning
from tests.brokers.served_reads import assert_served_as
from tests.brokers.test_status_of_brokers import brokers_of, differing, tierfold
from tests.brokers.topics import Topic
from tests.brokers.uploaded_log import Expected, UploadedLog
from tests.jobs.commands import ALWAYS
from tests.oracle.kafka_lab import KafkaLab

FIRST = Filling(seed=1, records=900, keys=120)
SECOND = Filling(seed=2, records=600, keys=120)
"""In another leader epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    topic: Topic
    expected: Expected
    entry: Mapping[str, Any]
    scope: tuple[str, ...]
    problems: list[str]
    """Of the scans while it was compacted and published."""


@pytest.fixture(scope="module")
def published(
    kafka: KafkaCluster, kafka_tools: KafkaLab, tmp_path_factory: pytest.TempPathFactory
) -> Published:
    """A topic with all kinds of records and two leader epochs, compacted by one command."""
    folder = tmp_path_factory.mktemp("published")
    topic = create_filled(kafka, "published", FIRST)
    topic.wait_until_tiered()
    kafka.restart(kafka.brokers[0])
    fill(kafka, topic, SECOND)
    topic.wait_until_tiered()
    log = UploadedLog(topic.folder(), kafka_tools, folder)
    log.collect()
    scope = ("--catalog", str(folder / "catalog"), "--topic", topic.name)
    # What is aborted hides records from others until it is compacted.
    with scanning(kafka, topic, isolations=[Isolation.READ_COMMITTED]) as scans:
        ran = tierfold(kafka, "compact", kafka.tier, *ALWAYS, *scope, "--publish", "--json")
    assert ran.code == 0, ran
    (entry,) = ran.entries
    at_ms = ran.document["started_at_ms"]
    return Published(
        topic=topic,
        expected=log.expected(cleaned_below=entry["next_offset"], passes_ms=(at_ms,)),
        entry=entry,
        scope=scope,
        problems=scans.problems(),
    )


def test_consumers_read_what_kafkas_cleaner_leaves(
    kafka: KafkaCluster, kafka_tools: KafkaLab, published: Published
) -> None:
    epochs = published.topic.logs()[-1].with_suffix(".leader_epoch_checkpoint")
    assert len(epochs.read_text().splitlines()) >= 2 + 2  # A version, a count, two leaders.
    left = published.expected.records[Isolation.READ_COMMITTED]
    assert len(left) < (FIRST.records + SECOND.records) / 2
    assert published.problems == []
    assert_served_as(kafka, kafka_tools, published.topic, published.expected)


def test_brokers_have_what_the_catalog_has(kafka: KafkaCluster, published: Published) -> None:
    ran = tierfold(kafka, "status", kafka.tier, *published.scope, "--json")
    assert differing(brokers_of(ran, published.topic.name)) == {}


def test_consumers_read_the_same_after_a_restart(
    kafka: KafkaCluster, kafka_tools: KafkaLab, published: Published
) -> None:
    kafka.restart(kafka.brokers[0])
    assert_served_as(kafka, kafka_tools, published.topic, published.expected)

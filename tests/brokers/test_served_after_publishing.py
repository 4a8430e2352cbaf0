"""What was compacted and published is what consumers read, also after the broker's restart.

The tests go on from each other: one restart is enough for a second leader epoch, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
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

FIRST = Filling(seed=1, records=800, keys=120)
SECOND = Filling(seed=2, records=300, keys=120)
"""In another leader epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A topic that is compacted and published once, and can be again."""

    kafka: KafkaCluster
    topic: Topic
    log: UploadedLog
    scope: tuple[str | Path, ...]

    def compacted(self) -> Expected:
        """Compact and publish what is tiered, and return what consumers should read then."""
        self.topic.wait_until_tiered()
        self.log.collect()
        arguments = (self.kafka.tier, *ALWAYS, *self.scope, "--publish", "--json")
        # What is aborted hides records from others until it is compacted.
        with scanning(self.kafka, self.topic, isolations=[Isolation.READ_COMMITTED]) as scans:
            ran = tierfold(self.kafka, "compact", *arguments)
        assert ran.code == 0, ran
        assert scans.problems() == []
        (entry,) = ran.entries
        assert (entry["outcome"], entry["publishing"]) == ("compacted", "published")
        at_ms = ran.document["started_at_ms"]
        return self.log.expected(cleaned_below=entry["next_offset"], passes_ms=(at_ms,))

    def status(self) -> Mapping[str, Any]:
        """What brokers have beside the catalog, and locally."""
        ran = tierfold(self.kafka, "status", self.kafka.tier, *self.scope, "--json")
        return brokers_of(ran, self.topic.name) | {"local": ran.entries[0]["local"]}


@pytest.fixture(scope="module")
def published(
    kafka: KafkaCluster, kafka_tools: KafkaLab, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Published, Expected]:
    """A topic with all kinds of records, compacted and published, and what should be left."""
    folder = tmp_path_factory.mktemp("published")
    topic = create_filled(kafka, "published", FIRST)
    topic.wait_until_tiered()  # Until then it has no folder in the tier.
    log = UploadedLog(topic.folder(), kafka_tools, folder)
    scope = ("--catalog", folder / "catalog", "--topic", topic.name)
    made = Published(kafka=kafka, topic=topic, log=log, scope=scope)
    return made, made.compacted()


def test_consumers_read_what_kafkas_cleaner_leaves(
    kafka: KafkaCluster, kafka_tools: KafkaLab, published: tuple[Published, Expected]
) -> None:
    made, expected = published
    # How many are in the newest segment, which stays as it is, depends on how fast brokers roll.
    assert len(expected.records[Isolation.READ_COMMITTED]) < FIRST.records * 3 / 4
    assert_served_as(kafka, kafka_tools, made.topic, expected)
    status = made.status()
    assert differing(dict(status)) == {}
    # A broker may drop them an hour late, so all that it uploaded counts.
    local = status["local"]
    assert local["can_have"]["segments"] == len(expected.borders)
    assert local["cleaned"]["end_offset"] + 1 == local["cleaner_offset"] <= expected.end


@pytest.mark.soak
def test_consumers_read_the_same_after_a_restart_and_a_later_compaction(
    kafka: KafkaCluster, kafka_tools: KafkaLab, published: tuple[Published, Expected]
) -> None:
    made, expected = published
    kafka.restart(kafka.brokers[0])
    assert_served_as(kafka, kafka_tools, made.topic, expected, starts=4)
    fill(kafka, made.topic, SECOND)
    later = made.compacted()
    assert later.end > expected.end
    epochs = made.topic.logs()[-1].with_suffix(".leader_epoch_checkpoint")
    assert len(epochs.read_text().splitlines()) >= 2 + 2  # A version, a count, two leaders.
    assert_served_as(kafka, kafka_tools, made.topic, later)
    status = made.status()
    assert differing(dict(status)) == {}
    assert status["local"]["cleaner_leader_epoch"] > 0

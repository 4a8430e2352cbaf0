"""docs/kafka.md, what consumers can no longer read: its program saves the records by Spark."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.brokers.cluster import KafkaCluster
from tests.brokers.kafka_page import commands_of, python_of
from tests.brokers.nights import compacted
from tests.brokers.test_at_night import restarted
from tests.brokers.test_rebuild import truncate

pytestmark = [pytest.mark.soak, pytest.mark.jvm]


def test_what_consumers_can_no_longer_read_is_saved(
    own_kafka: KafkaCluster, tmp_path: Path, spark: SparkSession
) -> None:
    night = compacted(own_kafka, tmp_path, "sales-unread")
    before = night.newest()
    truncate(own_kafka)
    restarted(own_kafka)
    _, _, rebuild, _, _ = commands_of("The metadata topic was lost")
    night.fails(rebuild, "brokers have moved the log start")
    assert night.topic.read() == []
    shutil.copytree(own_kafka.tier, saved := tmp_path / "saved")
    there = own_kafka.create("sales-unread-saved")
    (program,) = python_of("What consumers can no longer read")
    exec(night.here(program.replace("/mnt/saved", str(saved))), {})
    assert spark.sparkContext is not None
    assert {one.key: one.value for one in there.read()} == before

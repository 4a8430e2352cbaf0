"""The oracle's JVM and the compacted tiers, once per session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.oracle import growing_run, leaders_run
from tests.oracle.fuzz_run import FuzzedTopic, run_passes, seeds
from tests.oracle.growing_run import Grown, run_rounds
from tests.oracle.kafka_lab import KafkaLab
from tests.oracle.leaders_run import Led, run_leaders


@pytest.fixture(scope="session")
def lab() -> Iterator[KafkaLab]:
    """Kafka's own classes in one JVM, which the first call starts."""
    with KafkaLab() as running:
        yield running


@pytest.fixture(scope="session")
def fuzzed(
    lab: KafkaLab,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[int, FuzzedTopic]:
    """Every seed's log after four passes by tierfold in this process and by Kafka."""
    return run_passes(lab, tmp_path_factory.mktemp("fuzz"), seeds())


@pytest.fixture(scope="session")
def led(spark: SparkSession, lab: KafkaLab, tmp_path_factory: pytest.TempPathFactory) -> Led:
    """Every seed's log as several leaders upload it, after four passes by both."""
    folder = tmp_path_factory.mktemp("leaders")
    return run_leaders(lab, spark, folder, leaders_run.seeds())


@pytest.fixture(scope="session")
def grown(lab: KafkaLab, tmp_path_factory: pytest.TempPathFactory) -> Grown:
    """Every seed's log that grows, after five rounds with and without key indexes."""
    return run_rounds(lab, tmp_path_factory.mktemp("growth"), growing_run.seeds())

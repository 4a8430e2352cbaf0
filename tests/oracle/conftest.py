"""The oracle's JVM and the compacted tiers, made once per session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.oracle import growing_run, leaders_run
from tests.oracle.fuzz_run import FuzzedTopic, run_passes, seeds
from tests.oracle.growing_run import GrowingRun, run_rounds
from tests.oracle.kafka_lab import KafkaLab
from tests.oracle.leaders_run import LeadersRun, run_leaders
from tests.oracle.oracles import Oracles


@pytest.fixture(scope="session")
def oracles() -> Iterator[Oracles]:
    """A JVM per version of Kafka; the first call to each starts it."""
    with Oracles() as running:
        yield running


@pytest.fixture(scope="session")
def lab(oracles: Oracles) -> KafkaLab:
    """The version of Kafka that makes and reads logs."""
    return oracles.lab


@pytest.fixture(scope="session")
def fuzzed(
    oracles: Oracles, tmp_path_factory: pytest.TempPathFactory
) -> dict[int, FuzzedTopic]:
    """Every seed's log after four passes by tierfold in this process and by Kafka."""
    return run_passes(oracles, tmp_path_factory.mktemp("fuzz"), seeds())


@pytest.fixture(scope="session")
def leaders(
    spark: SparkSession, oracles: Oracles, tmp_path_factory: pytest.TempPathFactory
) -> LeadersRun:
    """Every seed's log as several leaders upload it, after four passes by tierfold and Kafka."""
    folder = tmp_path_factory.mktemp("leaders")
    return run_leaders(oracles, spark, folder, leaders_run.seeds())


@pytest.fixture(scope="session")
def grown(oracles: Oracles, tmp_path_factory: pytest.TempPathFactory) -> GrowingRun:
    """Every seed's growing log, after five rounds with and without key indexes, and by Kafka."""
    return run_rounds(oracles, tmp_path_factory.mktemp("growth"), growing_run.seeds())

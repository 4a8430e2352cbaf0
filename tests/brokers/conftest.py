"""Kafka's own classes beside the brokers, and the tier's note."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.brokers.cluster import KafkaCluster
from tests.brokers.versions import NEWEST
from tests.oracle.kafka_lab import KafkaLab
from tierfold.storage.tiers.service_notes import FOLDER


@pytest.fixture(scope="session")
def kafka_tools() -> Iterator[KafkaLab]:
    """A JVM with the classes of the brokers' version; the first call starts it.

    It is not the oracle's fixture: the tests that use that one may run in another process.
    """
    with KafkaLab(NEWEST) as running:
        yield running


@pytest.fixture
def own_note(kafka: KafkaCluster) -> Iterator[None]:
    """For tests with a catalog of their own, which the note of the test before would refuse."""
    yield
    shutil.rmtree(kafka.tier / FOLDER, ignore_errors=True)


@pytest.fixture(scope="module")
def own_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A cluster for one file, whose tests may lose its metadata topic, its catalog or its tier."""
    with KafkaCluster(tmp_path_factory.mktemp("own-kafka")) as kafka:
        yield kafka

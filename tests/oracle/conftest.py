"""The oracle's JVM: one for the whole session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.oracle.kafka_lab import KafkaLab


@pytest.fixture(scope="session")
def lab() -> Iterator[KafkaLab]:
    """Kafka's own classes, in one JVM that the first call starts."""
    with KafkaLab() as running:
        yield running

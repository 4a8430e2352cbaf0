"""Kafka's own classes beside the brokers: its cleaner, and Java's consumer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokers.versions import NEWEST
from tests.oracle.kafka_lab import KafkaLab


@pytest.fixture(scope="session")
def kafka_tools() -> Iterator[KafkaLab]:
    """A JVM with the classes of the brokers' version; the first call starts it.

    It is not the oracle's fixture: the tests that use that one may run in another process.
    """
    with KafkaLab(NEWEST) as running:
        yield running

"""The oracle's JVM and the compacted tier: one of each for the whole session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.oracle.fuzz_run import FuzzedTopic, run_passes, seeds
from tests.oracle.kafka_lab import KafkaLab


@pytest.fixture(scope="session")
def lab() -> Iterator[KafkaLab]:
    """Kafka's own classes, in one JVM that the first call starts."""
    with KafkaLab() as running:
        yield running


@pytest.fixture(scope="session")
def fuzzed(lab: KafkaLab, tmp_path_factory: pytest.TempPathFactory) -> dict[int, FuzzedTopic]:
    """Every seed's log after four passes, by tierfold and by Kafka."""
    return run_passes(lab, tmp_path_factory.mktemp("fuzz"), seeds())

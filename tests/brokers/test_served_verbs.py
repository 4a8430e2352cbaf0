"""Real verbs in random order beside a real broker; `served_verbs_run` plays thousands of steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.brokers.cluster import KafkaCluster
from tests.brokers.served_verbs.served_moves import played


@pytest.mark.soak
def test_consumers_read_the_newest_values_whatever_runs(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    machine = played(kafka, tmp_path, seed=1, steps=40)
    assert machine.counts["compact"] > 5, machine.counts

"""`make demo-kafka` fills a topic and shows what tier and broker have; the rest is `.ci/run`'s."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from scripts import demo_kafka
from tests.brokers.cluster import KafkaCluster


def test_the_demo_shows_the_tier_that_a_broker_filled(
    kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    # Other tests have left partitions in the tier that are refused.
    assert demo_kafka.shown(kafka) in {0, 3}
    printed = capfd.readouterr().out
    assert "20 000 records of 1 000 keys, 5 segments uploaded" in printed
    assert f"$ tierfold status {kafka.tier} --bootstrap-server {kafka.servers}\n" in printed
    assert printed.count("│ orders-0 ") == 2  # In the tier, and of the brokers.
    assert "orders-0: " not in printed

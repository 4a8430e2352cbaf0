"""A metadata topic that takes only small batches: a swap that needs more goes in several."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.brokers.altered_settings import alter
from tests.brokers.cluster import KafkaCluster
from tests.brokers.topics import METADATA_TOPIC
from tests.faults.publishing_kills.served_topic import served_topic
from tests.jobs.commands import tierfold

BATCH_BYTES = 380
"""Enough for each event of a broker alone, and for two or three of a run."""


@pytest.mark.soak  # While it runs, brokers' own events may be too large, those of any topic.
def test_a_swap_that_one_batch_cannot_hold_goes_in_several(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    with served_topic(kafka, tmp_path, "small-batches", 1) as served:
        served.add_round()
        alter(kafka, METADATA_TOPIC, {"max.message.bytes": str(BATCH_BYTES)})
        try:
            ran = tierfold(*served.compacting)
        finally:
            alter(kafka, METADATA_TOPIC, {"max.message.bytes": None})
        assert ran.code == 0, ran
        served.must_be_published()
        served.must_read_alike()

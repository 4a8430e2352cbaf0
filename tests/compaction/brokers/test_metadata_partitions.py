"""The metadata partition of a user partition is the one that Kafka chooses."""

from __future__ import annotations

import pytest

from tierfold.compaction.brokers.metadata_partitions import metadata_partition
from tierfold.compaction.model.segments import PartitionKey


@pytest.mark.parametrize(
    ("topic_id", "partition", "partition_count", "expected"),
    [
        ("_w0h19sLM3d3OKXGdNN_8Q", 1, 50, 48),
        ("OEFGDTtqoeaNaCco9hD7HA", 7, 50, 46),
        ("AHFS3qhlHz_OWXlhaOkziw", 0, 50, 5),
        ("dosNw1fTEcxIHmoS6kKGIw", 2**31 - 1, 50, 31),
        ("WSPUP5lzWwMg2y67opp7Nw", 99, 5, 4),
        ("fsDgcWZcbyB4idohMFF0AA", 0, 2, 1),
        ("qzwKxhnGKTe_48r1N_N_-w", 1, 1000, 896),
        ("RXx2nznYZEGZwOW9vPvIWw", 0, 1, 0),
    ],
)
def test_it_is_the_one_of_kafkas_partitioner(
    topic_id: str, partition: int, partition_count: int, expected: int
) -> None:
    """Made with `RemoteLogMetadataTopicPartitioner` of Kafka 4.3.0 and 4.4.0."""
    key = PartitionKey(topic="any", partition=partition, topic_id=topic_id)
    assert metadata_partition(key, partition_count) == expected

"""Folds the records of `__remote_log_metadata` to a view of each partition, as brokers do.

    fold = MetadataFold(partition_count=50, wanted=keys)
    fold.ask(key, listed_ids)
    fold.apply(records)           # and again, from `fold.next_offset(metadata_partition)` on
    fold.view(key)

Memory grows with the segments that exist: one whose deletion has finished leaves no trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tierfold.compaction.brokers.broker_view import BrokerView, Naming
from tierfold.compaction.model.segments import PartitionKey


class MetadataRecord(NamedTuple):
    """A record of `__remote_log_metadata`."""

    metadata_partition: int
    offset: int
    timestamp_ms: int
    """The record's own, epoch milliseconds."""
    value: bytes | None
    key: bytes | None


class MetadataFold:
    """The views of partitions, as far as the metadata topic was read."""

    def __init__(
        self, partition_count: int, wanted: Iterable[PartitionKey] | None = None
    ) -> None:
        """`partition_count`: of the metadata topic. `wanted`: None: every partition it names."""

    def ask(self, key: PartitionKey, segment_ids: Iterable[str]) -> None:
        """Ask if the topic ever names these segments, such as all of a complete listing.

        To be called before `apply`, if the answer is to hold for the whole topic.
        """

    def apply(self, records: Iterable[MetadataRecord]) -> None:
        """Fold records; those of one metadata partition in offset order, without one left out.

        Raises ValueError if one does not follow the last one of its metadata partition.
        """

    def next_offset(self, metadata_partition: int) -> int:
        """The offset from which on the next reading of a metadata partition goes on."""

    def keys(self) -> tuple[PartitionKey, ...]:
        """The partitions that were wanted, or else that the topic has named, in order."""

    def view(self, key: PartitionKey) -> BrokerView:
        """What brokers have of a partition; raises KeyError if it was not wanted."""

    def naming(self, key: PartitionKey) -> Mapping[str, Naming]:
        """What is known now of each segment that was asked about, by id."""

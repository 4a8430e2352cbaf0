"""The replay of brokers' metadata that a run keeps: from offset 0 once, then onwards."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tierfold.compaction.brokers.metadata_fold import MetadataFold
from tierfold.compaction.brokers.metadata_partitions import metadata_partition
from tierfold.compaction.brokers.metadata_size import MetadataSize
from tierfold.compaction.model.segment_ids import Maker, maker_of
from tierfold.compaction.model.segments import PartitionKey
from tierfold.jobs.context.run_progress import RunProgress
from tierfold.storage.brokers.connection import Connection
from tierfold.storage.brokers.metadata_reader import metadata_starts, read_metadata


class MetadataReplay:
    """What brokers have of partitions, as far as their metadata topic was read."""

    def __init__(
        self,
        partition_count: int,
        listed: Mapping[PartitionKey, Collection[str]] | None,
        *,
        folds_all: bool = False,
    ) -> None:
        """`partition_count`: of the metadata topic. `listed`: as of `BesideTier`; None: of all.

        `folds_all`: whether partitions that are not listed are wanted, too.
        """
        self.fold = MetadataFold(partition_count, None if folds_all else listed)
        self.size = MetadataSize()
        """Of the records that were read."""
        self._numbers = range(partition_count)
        self._starts: dict[int, int] | None = None if listed is not None else {}
        """Where the topic's partitions begin; None: not asked yet. Beside no tier nothing would
        show what is lost, so there each must begin at 0."""

    def ask(
        self, key: PartitionKey, segment_ids: Iterable[str], fingerprint: int | None
    ) -> None:
        """Ask if the topic ever names these segments.

        A segment of this catalog that no earlier look has shown was made since the replay began:
        what was read before cannot name it. `fingerprint`: the catalog's.
        """
        ids = set(segment_ids)
        new = {one for one in ids if maker_of(one, fingerprint) is Maker.THIS_CATALOG}
        self.fold.ask(key, ids - new)
        self.fold.ask_new(key, new)

    def start_of(self, key: PartitionKey) -> int:
        """The first offset of the metadata partition with the partition's events."""
        place = metadata_partition(key, len(self._numbers))
        return (self._starts or {}).get(place, 0)

    def go_on(self, connection: Connection, progress: RunProgress) -> None:
        """Fold the records that were not read yet; raises as `read_metadata`."""
        if self._starts is None:
            self._starts = metadata_starts(connection, self._numbers)
        starts = self._starts
        # Of all partitions: an event in one where Kafka would not put it is found nowhere else.
        first_offsets = {
            number: max(self.fold.next_offset(number), starts.get(number, 0))
            for number in self._numbers
        }
        with progress.replay() as replayed:
            for chunk in read_metadata(connection, first_offsets, replayed, starts=starts):
                self.fold.apply(chunk)
                self.size = self.size.with_chunk(chunk)

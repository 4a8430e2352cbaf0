"""Writes a new segment under a new id: its log as a stream, then the files beside it.

The segment does not count until the catalog names it. Each stretch is parsed and its CRCs are
checked before it is written. Once all objects are written, each is read back from the store and
compared. A local disk may answer from its cache: this does not show what a power cut would leave.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.commits.receipts import StagedObject
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.leader_epochs import merged_epochs
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.compaction.planning.grouping import SegmentGroup
from tierfold.storage.indexes.index_builder import build_indexes
from tierfold.storage.indexes.leader_epoch_checkpoint import read_leader_epoch_checkpoint
from tierfold.storage.indexes.producer_snapshot import read_producer_snapshot
from tierfold.storage.indexes.transaction_index import write_transaction_index
from tierfold.storage.kafka.batch_headers import BatchHeads, read_heads
from tierfold.storage.kafka.checksums import object_crc32c
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage, Part
from tierfold.storage.tiers.object_store import Bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a new segment comes from."""

    key: PartitionKey
    group: SegmentGroup
    """The source segments whose offsets it covers."""
    run: str
    index_interval_bytes: int


class SegmentWriter:
    """A context manager; leaving it with an exception abandons the segment."""

    def __init__(self, tier: LocalTieredStorage, origin: Origin) -> None:
        self._tier = tier
        self._origin = origin
        self._staged = tier.new_segment(origin.key, origin.group.start_offset)
        self._heads: list[BatchHeads] = []
        self._size_bytes = 0
        self._crc32c = 0
        self._objects: list[StagedObject] = []
        self._contexts = ExitStack()
        self._log = self._contexts.enter_context(self._staged.open_log())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._contexts.__exit__(kind, error, trace)

    @property
    def objects(self) -> tuple[StagedObject, ...]:
        """The written objects, in order; complete once `finish` has returned."""
        return tuple(self._objects)

    @property
    def records(self) -> int:
        """Records written so far, control records included, by the batch headers."""
        return sum(int(heads.count.sum(dtype=np.int64)) for heads in self._heads)

    def append(self, data: NDArray[np.uint8]) -> None:
        """Adds whole batches. Raises CorruptLog if they are not, UnreadableObject on the store."""
        if not len(data):
            return
        where = f"new segment {self._staged.segment_id}, after {self._size_bytes} bytes"
        self._heads.append(read_heads(data, where=where))
        self._log.write(data)
        self._size_bytes += len(data)
        self._crc32c = object_crc32c(data, self._crc32c)

    def finish(
        self, listed: tuple[AbortedTransaction, ...], earliest_due_ms: int | None
    ) -> Segment:
        """Closes the log, writes the files beside it, and reads all of them back.

        `listed` are the transactions for the transaction index, by marker offset,
        `earliest_due_ms` (epoch milliseconds) is when something in it may go. The snapshot and
        checkpoint are those of the last source, which ends at the same offset.
        Raises UnreadableObject on the store, also if it returns other bytes than were written, and
        CorruptLog if the source's snapshot or checkpoint cannot be read.
        """
        self._contexts.close()
        self._objects.append(
            StagedObject(part=Part.LOG, size_bytes=self._size_bytes, crc32c=self._crc32c)
        )
        origin, group = self._origin, self._origin.group
        sizes = np.concatenate([heads.size_bytes for heads in self._heads])
        max_timestamps = np.concatenate([heads.max_timestamp_ms for heads in self._heads])
        offset_index, time_index = build_indexes(
            np.cumsum(sizes) - sizes,
            sizes,
            np.concatenate([heads.last_offset for heads in self._heads]),
            max_timestamps,
            start_offset=group.start_offset,
            index_interval_bytes=origin.index_interval_bytes,
        )
        self._put(Part.OFFSET_INDEX, offset_index)
        self._put(Part.TIME_INDEX, time_index)
        if listed:
            self._put(Part.TRANSACTION_INDEX, write_transaction_index(listed))
        self._copy_side_files()
        self._read_back()
        return Segment(
            segment_id=self._staged.segment_id,
            start_offset=group.start_offset,
            end_offset=group.end_offset,
            size_bytes=self._size_bytes,
            offset_index_bytes=len(offset_index),
            time_index_bytes=len(time_index),
            max_timestamp_ms=int(max_timestamps.max()),
            leader_epochs=merged_epochs([segment.leader_epochs for segment in group.segments]),
            has_transaction_index=bool(listed),
            first_timestamp_ms=int(max_timestamps[0]),
            earliest_due_ms=earliest_due_ms,
            written_by_run=origin.run,
        )

    def _copy_side_files(self) -> None:
        """Copy those of the last source after parsing them: a corrupt file must not spread."""
        source = self._origin.group.segments[-1]
        for part, read in _COPIED:
            address = (self._origin.key, source.segment_id, source.own_start_offset, part)
            data = self._tier.read_part(*address)
            read(data, self._tier.uri(*address))
            self._put(part, data.tobytes())

    def _put(self, part: Part, data: bytes) -> None:
        self._staged.put(part, data)
        self._objects.append(_staged(part, data))

    def _read_back(self) -> None:
        """Compares what the store returns with what was written; raises UnreadableObject."""
        segment_id, start_offset = self._staged.segment_id, self._staged.start_offset
        for written in self._objects:
            part = Part(written.part)
            found = _staged(
                part, self._tier.read_part(self._origin.key, segment_id, start_offset, part)
            )
            if found != written:
                raise UnreadableObject(
                    f"{written.size_bytes} bytes with CRC32C {written.crc32c:08x} were written,"
                    f" {found.size_bytes} bytes with {found.crc32c:08x} are read back",
                    where=self._staged.uri(part),
                    remedy="Nothing was committed. Check the disk or store and whether something"
                    " else changes the tier's objects, then run again.",
                )


_COPIED: Final[tuple[tuple[Part, Callable[[Bytes, str], object]], ...]] = (
    (Part.SNAPSHOT, read_producer_snapshot),
    (Part.LEADER_EPOCH_CHECKPOINT, read_leader_epoch_checkpoint),
)
"""Parts that are copied from the last source, and their parsers."""


def _staged(part: Part, data: NDArray[np.uint8] | bytes) -> StagedObject:
    return StagedObject(part=part, size_bytes=len(data), crc32c=object_crc32c(data))

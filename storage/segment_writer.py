"""Writes a new segment under a new id: its log as a stream, then everything that goes with it.

Nothing of it counts before the catalog names it, and what is written is read again on the way: each
stretch handed in is parsed and its CRCs checked before it goes out.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from compaction.aborted import AbortedTransaction
from compaction.grouping import SegmentGroup
from compaction.lineage import merged_epochs
from compaction.segments import PartitionKey, Segment
from storage.batch_heads import BatchHeads, read_heads
from storage.index_builder import build_indexes
from storage.local_tiered_storage import LocalTieredStorage, Part
from storage.transaction_index import write_transaction_index


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a new segment comes from."""

    key: PartitionKey
    group: SegmentGroup
    """The source segments whose offsets it covers."""
    run: str
    index_interval_bytes: int


class SegmentWriter:
    """A context: leaving it with an exception abandons the segment."""

    def __init__(self, tier: LocalTieredStorage, origin: Origin) -> None:
        self._tier = tier
        self._origin = origin
        self._staged = tier.new_segment(origin.key, origin.group.start_offset)
        self._heads: list[BatchHeads] = []
        self._size_bytes = 0
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

    def append(self, data: NDArray[np.uint8]) -> None:
        """Adds whole batches. Raises CorruptLog if they are none, UnreadableObject on the store."""
        if not len(data):
            return
        where = f"new segment {self._staged.segment_id}, after {self._size_bytes} bytes"
        self._heads.append(read_heads(data, where=where))
        self._log.write(data)
        self._size_bytes += len(data)

    def finish(
        self, listed: tuple[AbortedTransaction, ...], earliest_due_ms: int | None
    ) -> Segment:
        """Closes the log and writes the indexes, snapshot and epoch checkpoint beside it.

        `listed` are the transactions for the transaction index, by marker offset,
        `earliest_due_ms` (epoch milliseconds) is when something in it may go. The snapshot and
        checkpoint are those of the last source, which ends at the same offset.
        """
        self._contexts.close()
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
        self._staged.put(Part.OFFSET_INDEX, offset_index)
        self._staged.put(Part.TIME_INDEX, time_index)
        if listed:
            self._staged.put(Part.TRANSACTION_INDEX, write_transaction_index(listed))
        source = group.segments[-1]
        for part in (Part.SNAPSHOT, Part.LEADER_EPOCH_CHECKPOINT):
            data = self._tier.read_part(origin.key, source.segment_id, source.start_offset, part)
            self._staged.put(part, data.tobytes())
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

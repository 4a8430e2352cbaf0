"""Writes a segment as a broker uploads it, for demos and tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.leader_epochs import epochs_in
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.compaction.model.segments import LeaderEpoch, PartitionKey, Segment
from tierfold.storage.indexes.index_builder import build_indexes
from tierfold.storage.indexes.leader_epoch_checkpoint import write_leader_epoch_checkpoint
from tierfold.storage.indexes.producer_snapshot import write_producer_snapshot
from tierfold.storage.indexes.transaction_index import write_transaction_index
from tierfold.storage.kafka.batch_headers import BatchHeads, read_heads
from tierfold.storage.kafka.kafka_uuid import new_kafka_uuid
from tierfold.storage.tiers.remote_tier import Part, RemoteTier, SegmentAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUpload:
    """A segment and the files beside it, as Kafka's `RemoteLogManager` uploads them."""

    start_offset: int
    log: bytes
    """Whole batches."""
    index_interval_bytes: int
    lineage: tuple[LeaderEpoch, ...]
    """The partition's leader epochs up to the segment's end."""
    aborted: tuple[AbortedTransaction, ...] = ()
    producers: tuple[ProducerEntry, ...] = ()

    def parts(self) -> dict[Part, bytes]:
        """Its objects, the log first; raises CorruptLog if `log` is not whole batches."""
        return self._parts(self._heads())

    def _parts(self, heads: BatchHeads) -> dict[Part, bytes]:
        offset_index, time_index = build_indexes(
            heads, start_offset=self.start_offset, index_interval_bytes=self.index_interval_bytes
        )
        parts = {Part.LOG: self.log, Part.OFFSET_INDEX: offset_index, Part.TIME_INDEX: time_index}
        if self.aborted:
            parts[Part.TRANSACTION_INDEX] = write_transaction_index(self.aborted)
        parts[Part.SNAPSHOT] = write_producer_snapshot(self.producers)
        parts[Part.LEADER_EPOCH_CHECKPOINT] = write_leader_epoch_checkpoint(self.lineage)
        return parts

    def put(
        self, tier: RemoteTier, key: PartitionKey, end_offset: int | None = None
    ) -> Segment:
        """Write it under a new id; return its metadata. Raises UnreadableObject.

        `end_offset` is its last offset; None: that of its last batch.
        """
        staged = tier.new_segment(SegmentAddress(key, new_kafka_uuid(), self.start_offset))
        heads = self._heads()
        parts = self._parts(heads)
        for part, content in parts.items():
            staged.put(part, content)
        times_ms = heads.max_timestamp_ms
        end_offset = int(heads.last_offset[-1]) if end_offset is None else end_offset
        segment = Segment(
            segment_id=staged.address.segment_id,
            start_offset=self.start_offset,
            end_offset=end_offset,
            size_bytes=len(self.log),
            offset_index_bytes=len(parts[Part.OFFSET_INDEX]),
            time_index_bytes=len(parts[Part.TIME_INDEX]),
            max_timestamp_ms=int(times_ms.max(initial=-1)),
            leader_epochs=epochs_in(self.lineage, self.start_offset, end_offset),
            has_transaction_index=bool(self.aborted),
            first_timestamp_ms=int(times_ms[0]) if len(times_ms) else -1,
        )
        return staged.finish(segment)

    def _heads(self) -> BatchHeads:
        return read_heads(np.frombuffer(self.log, np.uint8), where="a segment to be uploaded")

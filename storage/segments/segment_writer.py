"""Writes a new segment under a new id: its log as a stream, then the files beside it.

Readers ignore the segment until the catalog names it. All batches are parsed before they are
written; their checksums were compared in the source, or are computed. Once all objects are
written, each part is compared with what the store says of it: with its checksum of the whole object
if it has one, else the part is read back. A part that is stored encoded is always read back, and
decoded. A local disk may answer from its cache, so this does not show what survives a power cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.commits.receipts import StagedPart, VerifiedParts
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.leader_epochs import epochs_in, merged_epochs
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.compaction.model.segments import LeaderEpoch, Segment
from tierfold.compaction.planning.grouping import SegmentGroup
from tierfold.storage.indexes.index_builder import build_indexes
from tierfold.storage.indexes.leader_epoch_checkpoint import (
    read_leader_epoch_checkpoint,
    write_leader_epoch_checkpoint,
)
from tierfold.storage.indexes.producer_snapshot import (
    read_producer_snapshot,
    write_producer_snapshot,
)
from tierfold.storage.indexes.transaction_index import write_transaction_index
from tierfold.storage.kafka.batch_headers import BatchHeads, joined_heads, read_heads
from tierfold.storage.kafka.checksums import object_crc32c
from tierfold.storage.segments.log_windows import stored_object
from tierfold.storage.tiers.object_store import not_as_written
from tierfold.storage.tiers.remote_tier import (
    PART_BYTES_MAX,
    Part,
    RemoteTier,
    SegmentAddress,
    address_of,
)

_WIDER_APART: Final = (
    "index.interval.bytes is {} here. Leave it at its default, or set it to 1024 or more."
)
_FEWER_SOURCES: Final = "Set a smaller segment.bytes, so that fewer segments become one."


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Where a segment ends within its group: a whole one would be too large, or cut off there."""

    end_offset: int
    producers: tuple[ProducerEntry, ...]
    """Their state there."""


class SegmentWriter:
    """Writes the segment that replaces `group`; leaving it with an exception abandons the segment.

    It is a context manager. If the group becomes several segments, each has a writer.
    """

    def __init__(
        self,
        tier: RemoteTier,
        address: SegmentAddress,
        group: SegmentGroup,
        *,
        run: str,
        index_interval_bytes: int,
    ) -> None:
        self._tier = tier
        self._key = address.key
        self._group = group
        self._run = run
        self._index_interval_bytes = index_interval_bytes
        self._start_offset = address.start_offset
        sources = [address_of(address.key, segment) for segment in group.segments]
        self._staged = tier.new_segment(address, sources)
        self._heads: list[BatchHeads] = []
        self._crc32c = 0
        self._parts: list[StagedPart] = []
        self._verified = VerifiedParts()
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
    def parts(self) -> tuple[StagedPart, ...]:
        """The written parts, in order; complete once `finish` has returned."""
        return tuple(self._parts)

    @property
    def objects(self) -> tuple[tuple[str, int], ...]:
        """See `StagedSegment.objects`; complete once `finish` has returned."""
        return self._staged.objects

    @property
    def verified(self) -> VerifiedParts:
        """How the parts were verified; complete once `finish` has returned."""
        return self._verified

    @property
    def size_bytes(self) -> int:
        """Bytes of its `.log` so far."""
        return self._log.size_bytes

    @property
    def records(self) -> int:
        """Records written so far, control records included, by the batch headers."""
        return sum(int(heads.count.sum(dtype=np.int64)) for heads in self._heads)

    def append(self, data: NDArray[np.uint8], heads: BatchHeads | None = None) -> None:
        """Add whole batches; raises CorruptLog if they are not whole, and UnreadableObject.

        `heads`: of just these batches, whose checksums were compared or computed; None: they are
        read here, and the checksums compared.
        """
        if not len(data):
            return
        where = f"new segment {self._staged.address.segment_id}, after {self._log.size_bytes} bytes"
        self._heads.append(read_heads(data, where=where) if heads is None else heads)
        self._log.write(data)
        self._crc32c = object_crc32c(data, self._crc32c)

    def finish(
        self,
        listed: tuple[AbortedTransaction, ...],
        earliest_due_ms: int | None,
        cut: Cut | None = None,
    ) -> Segment:
        """Close the log, write the files beside it, and verify all of them.

        `listed`: the transactions for the transaction index, by marker offset. `earliest_due_ms`
        (epoch milliseconds): when one of its tombstones or markers may go. The snapshot and the
        checkpoint are copied from the last source, which ends at the same offset. With a `cut`, the
        snapshot has its producers, and the checkpoint ends at its offset, as a broker cuts it
        (Kafka `RemoteLogManager.getLeaderEpochCheckpoint`).

        Raises UnreadableObject, also if the store returns other bytes than were written,
        BadSettings if an index would be too large to be read, and CorruptLog if the source's
        snapshot or checkpoint is corrupt, or what was written cannot be decoded.
        """
        start_offset = self._start_offset
        end_offset = self._group.end_offset if cut is None else cut.end_offset
        heads = joined_heads(self._heads)
        indexes = self._indexes(heads, listed)
        self._contexts.close()
        size_bytes = self._log.size_bytes
        self._parts.append(StagedPart(part=Part.LOG, size_bytes=size_bytes, crc32c=self._crc32c))
        for part, data in indexes.items():
            self._put(part, data)
        lineage = self._put_side_files(cut)
        skipped_offsets = max(self._group.start_offset - start_offset, 0)
        segment = Segment(
            segment_id=self._staged.address.segment_id,
            start_offset=start_offset + skipped_offsets,
            end_offset=end_offset,
            size_bytes=size_bytes,
            offset_index_bytes=len(indexes[Part.OFFSET_INDEX]),
            time_index_bytes=len(indexes[Part.TIME_INDEX]),
            max_timestamp_ms=int(heads.max_timestamp_ms.max()),
            leader_epochs=self._epochs(lineage, start_offset, end_offset),
            has_transaction_index=bool(listed),
            first_timestamp_ms=int(heads.max_timestamp_ms[0]),
            earliest_due_ms=earliest_due_ms,
            skipped_offsets=skipped_offsets,
            origin=Compacted(self._run),
            records_max_timestamp_ms=heads.records_max_timestamp_ms,
        )
        segment = self._staged.finish(segment)
        self._verify()
        return segment

    def _indexes(
        self, heads: BatchHeads, listed: tuple[AbortedTransaction, ...]
    ) -> dict[Part, bytes]:
        """The indexes, in the order of `PARTS`; raises BadSettings for one too large to be read.

        That is before the log becomes an object, which would be an orphan.
        """
        interval = self._index_interval_bytes
        offset_index, time_index = build_indexes(
            heads, start_offset=self._start_offset, index_interval_bytes=interval
        )
        indexes = {Part.OFFSET_INDEX: offset_index, Part.TIME_INDEX: time_index}
        if listed:
            indexes[Part.TRANSACTION_INDEX] = write_transaction_index(listed)
        for part, data in indexes.items():
            if len(data) > PART_BYTES_MAX[part]:
                group = self._group
                raise BadSettings(
                    f"the .{part.value} of the new segment would have {len(data)} bytes, and no"
                    f" more than {PART_BYTES_MAX[part]} are read",
                    where=f"{self._key}, offsets {group.start_offset} to {group.end_offset}",
                    remedy=_FEWER_SOURCES
                    if part is Part.TRANSACTION_INDEX
                    else _WIDER_APART.format(interval),
                )
        return indexes

    def _epochs(
        self, lineage: Sequence[LeaderEpoch], start_offset: int, end_offset: int
    ) -> tuple[LeaderEpoch, ...]:
        """The union of the sources' own: a cut one lists only those from its effective start on."""
        group = self._group
        head = epochs_in(lineage, group.own_start_offset, group.start_offset - 1)
        epochs = merged_epochs([head, *(segment.leader_epochs for segment in group.segments)])
        is_whole = (start_offset, end_offset) == (group.own_start_offset, group.end_offset)
        return epochs if is_whole else epochs_in(epochs, start_offset, end_offset)

    def _put_side_files(self, cut: Cut | None) -> tuple[LeaderEpoch, ...]:
        """Copy them from the last source, but parse them first: no corrupt file is copied.

        Returns the last source's checkpoint.
        """
        last = self._group.segments[-1]
        snapshot, where = self._tier.part_of(self._key, last, Part.SNAPSHOT)
        read_producer_snapshot(snapshot, where)
        checkpoint, where = self._tier.part_of(self._key, last, Part.LEADER_EPOCH_CHECKPOINT)
        lineage = read_leader_epoch_checkpoint(checkpoint, where)
        if cut is None:
            self._put(Part.SNAPSHOT, snapshot.tobytes())
            self._put(Part.LEADER_EPOCH_CHECKPOINT, checkpoint.tobytes())
            return lineage
        begun = [entry for entry in lineage if entry.start_offset <= cut.end_offset]
        self._put(Part.SNAPSHOT, write_producer_snapshot(cut.producers))
        self._put(Part.LEADER_EPOCH_CHECKPOINT, write_leader_epoch_checkpoint(begun))
        return lineage

    def _put(self, part: Part, data: bytes) -> None:
        self._staged.put(part, data)
        self._parts.append(staged_part(part, [data]))

    def _verify(self) -> None:
        """Compare what the store keeps with what was written; raises UnreadableObject."""
        address = self._staged.address
        found = (verified_part(self._tier, address, written) for written in self._parts)
        self._verified = sum(found, self._verified)


def verified_part(
    tier: RemoteTier, address: SegmentAddress, written: StagedPart
) -> VerifiedParts:
    """How a written part was compared with what the store keeps; raises UnreadableObject.

    A checksum of the store that differs is no proof: some stores compute wrong ones. Then, and
    where there is none, the object is read back.
    """
    part = Part(written.part)
    stated = tier.stored_checksum(address, part)
    if stated is not None and (stated.size_bytes, stated.crc32c) == (
        written.size_bytes,
        written.crc32c,
    ):
        return VerifiedParts(by_checksum=1)
    found = read_back(tier, address, part, written.size_bytes)
    if found != written:
        raise not_as_written(
            f"{written.size_bytes} bytes with CRC32C {written.crc32c:08x} were written,"
            f" {found.size_bytes} bytes with {found.crc32c:08x} are read back",
            tier.uri(address, part),
        )
    return VerifiedParts(by_reading_back=1)


def read_back(
    tier: RemoteTier, address: SegmentAddress, part: Part, size_bytes: int
) -> StagedPart:
    """A part of so many bytes as the tier has it; raises UnreadableObject and CorruptLog."""
    return staged_part(part, stored_object(tier, address, part, size_bytes).ranges())


def staged_part(part: Part, pieces: Iterable[NDArray[np.uint8] | bytes]) -> StagedPart:
    """The size and the checksum of a part, given piece by piece; raises as the pieces do."""
    size_bytes = crc32c = 0
    for data in pieces:
        size_bytes += len(data)
        crc32c = object_crc32c(data, crc32c)
    return StagedPart(part=part, size_bytes=size_bytes, crc32c=crc32c)

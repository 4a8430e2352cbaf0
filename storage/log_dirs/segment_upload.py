"""Checks a segment of a log directory, and uploads it into a tier.

The log is read twice. First every batch's checksum is compared, and the segment gets its id, a hash
of all its bytes. Then it is written, and compared with what was read first; the system's cache
still has it. The other files are parsed before they are written.

The tier gets what the broker itself would upload: the files as they are, the producers at the
segment's end, and the leader epochs up to there.
Rule: Kafka `RemoteLogManager.RLMCopyTask.copyLogSegment`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from tierfold.compaction.commits.receipts import StagedPart, VerifiedParts
from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.leader_epochs import epochs_in
from tierfold.compaction.model.segment_ids import uploaded_id
from tierfold.compaction.model.segments import LeaderEpoch, PartitionKey, Segment
from tierfold.storage.indexes.leader_epoch_checkpoint import write_leader_epoch_checkpoint
from tierfold.storage.indexes.offset_index import read_offset_index
from tierfold.storage.indexes.producer_snapshot import read_producer_snapshot
from tierfold.storage.indexes.time_index import read_time_index
from tierfold.storage.indexes.transaction_index import read_transaction_index
from tierfold.storage.kafka.checksums import object_crc32c
from tierfold.storage.log_dirs.segment_files import OpenSegment
from tierfold.storage.segments.log_windows import changed, log_windows
from tierfold.storage.segments.segment_writer import staged_part, verified_part
from tierfold.storage.tiers.object_store import as_view
from tierfold.storage.tiers.remote_tier import Part, RemoteTier, SegmentAddress

_REMEDY = (
    "Nothing of this segment was uploaded. Another replica has the same records: upload its log"
    " directory. A broker that starts again after a crash rebuilds its indexes and snapshots."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSegment:
    """An open segment of which every byte was checked."""

    opened: OpenSegment
    digest: bytes
    """16 bytes, a hash of its bytes and of what else its id stands for."""
    crc32c: int
    """Of its `.log`."""
    first_timestamp_ms: int
    """The first batch's max timestamp; −1: it has no batch."""
    checkpoint: bytes
    """The leader epochs up to its end, as a broker uploads them."""

    def parts(self) -> dict[Part, bytes]:
        """What is uploaded beside the `.log`, in the order of `PARTS`."""
        beside = {**self.opened.beside, Part.LEADER_EPOCH_CHECKPOINT: self.checkpoint}
        return {part: beside[part] for part in Part if part in beside}


def checked(
    opened: OpenSegment, key: PartitionKey, lineage: Sequence[LeaderEpoch]
) -> CheckedSegment:
    """Check an open segment; `lineage`: of its log. Raises CorruptLog and UnreadableObject."""
    segment = opened.segment
    begun = [entry for entry in lineage if entry.start_offset <= segment.end_offset]
    checkpoint = write_leader_epoch_checkpoint(begun)
    hashed = blake2b(digest_size=16, person=b"tierfold upload")
    hashed.update(f"{key.topic_id} {key.partition} {segment.end_offset} ".encode())
    crc32c, first_ms, next_offset, size_bytes = 0, -1, segment.start_offset, 0
    for window in log_windows(opened.stored()):
        batches = window.checked()
        if int(batches.heads.base_offset[0]) < next_offset:
            raise _outside(opened)
        first_ms = int(batches.heads.max_timestamp_ms[0]) if not size_bytes else first_ms
        next_offset = int(batches.heads.last_offset[-1]) + 1
        size_bytes += batches.size_bytes
        crc32c = object_crc32c(batches.stored, crc32c)
        hashed.update(as_view(batches.stored))
    if next_offset > segment.end_offset + 1 or size_bytes != segment.size_bytes:
        raise _outside(opened)
    _check_beside(opened)
    for part, data in opened.beside.items():
        hashed.update(f"{part.value} {len(data)} ".encode() + data)
    hashed.update(checkpoint)
    return CheckedSegment(
        opened=opened,
        digest=hashed.digest(),
        crc32c=crc32c,
        first_timestamp_ms=first_ms,
        checkpoint=checkpoint,
    )


def address_of_upload(
    found: CheckedSegment, key: PartitionKey, fingerprint: int, attempt: int = 0
) -> SegmentAddress:
    """Where it is uploaded: the same bytes have the same id under the same catalog.

    `attempt`: how many uploads of it were begun and not finished.
    """
    digest = blake2b(found.digest, digest_size=16, salt=attempt.to_bytes(8, "big")).digest()
    start = found.opened.segment.start_offset
    return SegmentAddress(key, uploaded_id(digest, fingerprint), start)


def metadata_of(
    found: CheckedSegment, lineage: Sequence[LeaderEpoch], address: SegmentAddress
) -> Segment:
    """Its metadata as the catalog describes it, and as a broker would note it."""
    segment, beside = found.opened.segment, found.opened.beside
    return Segment(
        segment_id=address.segment_id,
        start_offset=segment.start_offset,
        end_offset=segment.end_offset,
        size_bytes=segment.size_bytes,
        offset_index_bytes=len(beside[Part.OFFSET_INDEX]),
        time_index_bytes=len(beside[Part.TIME_INDEX]),
        max_timestamp_ms=segment.max_timestamp_ms,
        leader_epochs=epochs_in(lineage, segment.start_offset, segment.end_offset),
        has_transaction_index=Part.TRANSACTION_INDEX in beside,
        first_timestamp_ms=found.first_timestamp_ms,
    )


def uploaded(
    tier: RemoteTier, found: CheckedSegment, address: SegmentAddress, segment: Segment
) -> tuple[Segment, VerifiedParts]:
    """Upload it, and compare each part with what the store keeps.

    Returns `segment`, its metadata, with its stored sizes. Raises UnreadableObject, also if the
    log's bytes are no longer those that were checked, and CorruptLog.
    """
    staged = tier.new_segment(address)
    stored, crc32c, size_bytes = found.opened.stored(), 0, 0
    with staged.open_log() as log:
        for data in stored.ranges():
            log.write(data)
            crc32c = object_crc32c(data, crc32c)
            size_bytes += len(data)
        if (size_bytes, crc32c) != (segment.size_bytes, found.crc32c):
            raise changed(stored.where, 0)
    written = [StagedPart(part=Part.LOG, size_bytes=size_bytes, crc32c=crc32c)]
    for part, content in found.parts().items():
        staged.put(part, content)
        written.append(staged_part(part, [content]))
    segment = staged.finish(segment)
    verified = (verified_part(tier, address, part) for part in written)
    return segment, sum(verified, VerifiedParts())


def _check_beside(opened: OpenSegment) -> None:
    """Parse the files beside the log, each as a whole; raises CorruptLog."""
    beside, start = opened.beside, opened.segment.start_offset
    where = opened.where.removesuffix(".log")
    try:
        read_offset_index(beside[Part.OFFSET_INDEX], start, f"{where}.index")
        read_time_index(beside[Part.TIME_INDEX], start, f"{where}.timeindex")
        read_producer_snapshot(beside[Part.SNAPSHOT], f"{where}: the snapshot of its end")
        if (listed := beside.get(Part.TRANSACTION_INDEX)) is not None:
            read_transaction_index(listed, f"{where}.txnindex")
    except CorruptLog as error:
        raise CorruptLog(error.what, where=error.where, remedy=_REMEDY) from error


def _outside(opened: OpenSegment) -> CorruptLog:
    segment = opened.segment
    return CorruptLog(
        f"its batches are not those of {segment.size_bytes} bytes with offsets"
        f" {segment.start_offset} to {segment.end_offset}",
        where=opened.where,
        remedy=_REMEDY,
    )

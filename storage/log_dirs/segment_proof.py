"""Whether the files of a segment in a log directory are those of a segment in a tier.

A file with the same name and size and sound checksums proves nothing: a broker's cleaner rewrites
logs in place, and after another election other records may have the same offsets. So the topic id,
where the segment begins, where the next one does and the size must agree; and then

    an id that `tierfold upload` made   is a hash of all bytes, which is computed again
    any other                           the offset index and the time index are the tier's, byte by
                                        byte; every batch's checksum is right, and its leader epoch
                                        is that of the catalog; and the whole log's checksum is what
                                        the store says, or, if it says none, no cleaner has been at
                                        work in the segment

Under one leader epoch a log has one record at an offset, and its replicas have the same batches.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from tierfold.compaction.model.segment_ids import mark_of
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.storage.kafka.batch_headers import BatchHeads
from tierfold.storage.kafka.batch_layout import NO_EPOCH
from tierfold.storage.kafka.checksums import object_crc32c
from tierfold.storage.log_dirs.offset_checkpoints import CLEANER_OFFSETS, read_offset_checkpoint
from tierfold.storage.log_dirs.segment_files import OpenSegment
from tierfold.storage.log_dirs.segment_upload import address_of_upload, checked
from tierfold.storage.segments.log_windows import log_windows
from tierfold.storage.segments.segment_metadata import read_checkpoint
from tierfold.storage.tiers.object_store import StoredChecksum
from tierfold.storage.tiers.remote_tier import Part, RemoteTier, address_of

_BEGUN_MAX: Final = 8
"""So many unfinished uploads of the same bytes are thought of: each gave the next another id."""


def is_same(
    files: OpenSegment, directory: Path, tier: RemoteTier, key: PartitionKey, segment: Segment
) -> bool:
    """Whether the open files are those of `segment` in the tier.

    `directory`: the log directory. Their offsets and size are the segment's. Raises CorruptLog,
    UnreadableObject and OSError: then they are not shown to be.
    """
    mark = mark_of(segment.upload_id)
    if mark is not None and mark.is_uploaded:
        found = checked(files, key, read_checkpoint(tier, key, segment))
        ids = (
            address_of_upload(found, key, mark.fingerprint, attempt).segment_id
            for attempt in range(_BEGUN_MAX)
        )
        return segment.upload_id in ids
    for part in (Part.OFFSET_INDEX, Part.TIME_INDEX):
        if tier.part_of(key, segment, part)[0].tobytes() != files.beside[part]:
            return False
    crc32c = _crc32c_of(files, segment)
    if crc32c is None:
        return False
    stated = tier.stored_checksum(address_of(key, segment), Part.LOG)
    if stated is not None:
        return stated == StoredChecksum(size_bytes=segment.log_bytes, crc32c=crc32c)
    if not (directory / CLEANER_OFFSETS).exists():  # A broker makes it as it starts.
        return False
    cleaned = read_offset_checkpoint(directory / CLEANER_OFFSETS)
    return cleaned.get((key.topic, key.partition), 0) <= segment.own_start_offset


def _crc32c_of(files: OpenSegment, segment: Segment) -> int | None:
    """The whole log's checksum; None: some batch is not the segment's. Raises CorruptLog."""
    crc32c, next_offset, size_bytes = 0, segment.own_start_offset, 0
    for window in log_windows(files.stored()):
        batches = window.checked()
        if int(batches.heads.base_offset[0]) < next_offset or not _has_epochs(
            batches.heads, segment
        ):
            return None
        next_offset = int(batches.heads.last_offset[-1]) + 1
        size_bytes += batches.size_bytes
        crc32c = object_crc32c(batches.stored, crc32c)
    is_whole = next_offset <= segment.next_offset and size_bytes == segment.log_bytes
    return crc32c if is_whole else None


def _has_epochs(heads: BatchHeads, segment: Segment) -> bool:
    """Whether each batch bears the leader epoch that the catalog has for its base offset."""
    epochs = sorted(segment.leader_epochs, key=lambda entry: (entry.start_offset, entry.epoch))
    starts = np.array([entry.start_offset for entry in epochs], np.int64)
    numbers = np.array([NO_EPOCH, *(entry.epoch for entry in epochs)], np.int64)
    expected = numbers[np.searchsorted(starts, heads.base_offset, side="right")]
    # The catalog says nothing of what lies below the effective start.
    is_wrong = (heads.leader_epoch != expected) & (heads.base_offset >= segment.start_offset)
    return not is_wrong.any()

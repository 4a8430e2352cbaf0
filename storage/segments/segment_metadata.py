"""Reads the metadata of a newly discovered segment, once; the catalog then keeps it.

Only a few ranges are read: the first batch's header, the log from the last entry of the offset
index on, both indexes and the checkpoint. Batches are decoded and their checksums compared later,
when the segment is read.

The two indexes only save reading. What is corrupt of them is not used: then the headers of the
whole log tell the same, and a rewrite builds both again. An index that promises more than the log
holds is different: the log may have been cut off. The other files beside the log hold what its
batches do not tell, so nothing is read without them: the transaction index the first offsets and
the last stable offset of transactions that began in earlier segments; the snapshot the producers of
the whole log; the checkpoint the leader epochs of the whole log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.errors import (
    CorruptLog,
    TierfoldError,
    UnreadableObject,
    from_backup,
)
from tierfold.compaction.model.leader_epochs import epochs_in
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.compaction.model.segments import LeaderEpoch, PartitionKey, Segment
from tierfold.compaction.model.units import (
    BATCH_HEADER_BYTES,
    NO_TIMESTAMP_MS,
    OFFSET_MAX,
    OFFSET_SPAN_MAX,
)
from tierfold.storage.indexes.leader_epoch_checkpoint import read_leader_epoch_checkpoint
from tierfold.storage.indexes.offset_index import OffsetIndex, wrong_entries
from tierfold.storage.indexes.producer_snapshot import read_producer_snapshot
from tierfold.storage.indexes.time_index import TimeIndex
from tierfold.storage.indexes.transaction_index import read_transaction_index
from tierfold.storage.kafka.batch_layout import BatchHeader, corrupt_batch, read_header
from tierfold.storage.segments.usable_indexes import usable_offsets, usable_times
from tierfold.storage.tiers.remote_tier import Part, RemoteTier, SegmentAddress, address_of

_WINDOW_BYTES: Final = 64 * 1024
"""Read at once while walking: it holds many headers if batches are small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentMetadata:
    """What the objects of a segment contain."""

    segment: Segment
    """As the catalog would describe it."""
    index_corruptions: tuple[str, ...]
    """What is wrong with its offset and its time index, a phrase each; empty: nothing is."""


@dataclass(slots=True, kw_only=True)
class _LogReader:
    """Reads headers of one `.log` through a window over it."""

    tier: RemoteTier
    address: SegmentAddress
    size_bytes: int
    window: NDArray[np.uint8]
    window_start: int = 0

    @property
    def where(self) -> str:
        return self.tier.uri(self.address, Part.LOG)

    def heads(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """The headers from `position` to the log's end, each with its position.

        Raises CorruptLog.
        """
        while position < self.size_bytes:
            head = self.head(position)
            yield position, head
            position += head.size_bytes

    def head(self, position: int) -> BatchHeader:
        """The header of the batch at `position`; raises CorruptLog."""
        at = position - self.window_start
        if at < 0 or at + BATCH_HEADER_BYTES > len(self.window):
            self.window = self.tier.read_range(self.address, Part.LOG, position, _WINDOW_BYTES)
            self.window_start, at = position, 0
        raw = self.window[at : at + BATCH_HEADER_BYTES].tobytes()
        try:
            return read_header(raw, self.size_bytes - position)
        except ValueError as error:
            raise corrupt_batch(f"{error}, at position {position}", self.where) from error

    def corrupt(self, what: str) -> CorruptLog:
        """The error for this log."""
        return corrupt_batch(what, self.where)


def read_segment_metadata(
    storage: RemoteTier,
    key: PartitionKey,
    listed: ListedSegment,
    checkpoint: Sequence[LeaderEpoch],
) -> SegmentMetadata:
    """A newly discovered segment's metadata; `checkpoint` is its `listed_checkpoint`.

    It ends where its objects say or, if they do not, at its last batch; one without a batch then
    ends below its start.

    Raises UnreadableObject if a required part is missing or cannot be read, CorruptLog if the log
    or the checkpoint contradicts the format, or if they or an index contradict each other.
    """
    sizes = _sizes(storage, key, listed)
    log = _log_reader(storage, key, listed, sizes)
    offsets, of_offsets = usable_offsets(storage, log.address)
    times, of_times = usable_times(storage, log.address)
    first_timestamp_ms = _first_timestamp_ms(listed, log)
    entries = len(offsets.offsets) + len(times.timestamps_ms)
    if not log.size_bytes and (entries or of_offsets or of_times):
        # A broker empties the indexes, too.
        raise log.corrupt("the log has 0 bytes, but its indexes have entries: it was cut short")
    end_offset, max_timestamp_ms, of_both = _end_of(log, offsets, times)
    end_offset = _known_end(storage, listed, log, end_offset)
    reach = max(listed.start_offset, end_offset)
    leader_epochs = epochs_in(checkpoint, listed.start_offset, reach)
    if not leader_epochs:
        raise CorruptLog(
            "the leader epoch checkpoint names no epoch for the segment's offsets"
            f" {listed.start_offset} to {reach}",
            where=storage.uri(log.address, Part.LEADER_EPOCH_CHECKPOINT),
            remedy=from_backup("it"),
        )
    segment = Segment(
        segment_id=listed.segment_id,
        start_offset=listed.start_offset,
        end_offset=end_offset,
        size_bytes=log.size_bytes,
        offset_index_bytes=sizes[Part.OFFSET_INDEX],
        time_index_bytes=sizes[Part.TIME_INDEX],
        max_timestamp_ms=max_timestamp_ms,
        leader_epochs=leader_epochs,
        has_transaction_index=Part.TRANSACTION_INDEX in sizes,
        first_timestamp_ms=first_timestamp_ms,
    )
    return SegmentMetadata(
        segment=storage.with_stored_sizes(segment, listed),
        index_corruptions=tuple(filter(None, (of_offsets, of_both, of_times))),
    )


def listed_checkpoint(
    storage: RemoteTier, key: PartitionKey, listed: ListedSegment
) -> tuple[LeaderEpoch, ...]:
    """All epochs of a listed segment's checkpoint; none if it has no checkpoint.

    Raises CorruptLog and UnreadableObject.
    """
    part = Part.LEADER_EPOCH_CHECKPOINT
    if part not in storage.part_sizes(key, listed):
        return ()
    address = address_of(key, listed)
    return read_leader_epoch_checkpoint(
        storage.read_part(address, part), storage.uri(address, part)
    )


def last_offset_seen(storage: RemoteTier, key: PartitionKey, listed: ListedSegment) -> int:
    """The last offset of a corrupt log's batches, up to the first impossible header; -1: none."""
    last_offset = -1
    with suppress(TierfoldError):
        sizes = storage.part_sizes(key, listed)
        for _, head in _log_reader(storage, key, listed, sizes).heads(0):
            is_ahead = head.base_offset >= max(listed.start_offset, last_offset + 1)
            if not is_ahead or head.last_offset > listed.start_offset + OFFSET_SPAN_MAX:
                break
            last_offset = head.last_offset
    return last_offset


def read_snapshot(
    storage: RemoteTier, key: PartitionKey, segment: Segment
) -> tuple[ProducerEntry, ...]:
    """The producers at the segment's end; raises CorruptLog, UnreadableObject."""
    return read_producer_snapshot(*storage.part_of(key, segment, Part.SNAPSHOT))


def has_corrupt_index(
    storage: RemoteTier,
    key: PartitionKey,
    segment: Segment,
    batches: tuple[NDArray[np.int64], NDArray[np.int64]] | None,
) -> bool:
    """Whether the form of a live segment's offset or time index is wrong, or an offset's entry.

    `batches`: position and last offset of all batches, each of shape (batches,), at least one;
    None: they are unknown. Raises UnreadableObject.
    """
    address = address_of(key, segment)
    index, of_offsets = usable_offsets(storage, address)
    _, of_times = usable_times(storage, address)
    if of_offsets or of_times:
        return True
    return batches is not None and bool(wrong_entries(index, *batches).size)


def read_aborted(
    storage: RemoteTier, key: PartitionKey, segment: Segment
) -> tuple[AbortedTransaction, ...]:
    """The aborted transactions whose marker lies in the segment; none if it has no index.

    Where segments overlap, the earlier segment lists those of the overlap.

    Raises CorruptLog, and UnreadableObject, also if the index is gone.
    """
    if not segment.has_transaction_index:
        return ()
    part = Part.TRANSACTION_INDEX
    listed = read_transaction_index(*storage.part_of(key, segment, part))
    return tuple(aborted for aborted in listed if aborted.last_offset >= segment.start_offset)


def read_checkpoint(
    storage: RemoteTier, key: PartitionKey, segment: Segment
) -> tuple[LeaderEpoch, ...]:
    """All epochs from the log's start to the segment's end; raises CorruptLog, UnreadableObject."""
    part = Part.LEADER_EPOCH_CHECKPOINT
    return read_leader_epoch_checkpoint(*storage.part_of(key, segment, part))


def _sizes(
    storage: RemoteTier, key: PartitionKey, listed: ListedSegment
) -> Mapping[Part, int]:
    """The sizes of the parts; raises UnreadableObject if an object is missing."""
    if listed.missing_parts:
        where = storage.uri(address_of(key, listed), Part.LOG)
        raise UnreadableObject(
            f"the segment lacks {listed.lacking}",
            where=where.removesuffix(f".{Part.LOG.value}"),
            remedy="If its upload is still running, run again later; else restore it from a copy.",
        )
    return storage.part_sizes(key, listed)


def _log_reader(
    storage: RemoteTier, key: PartitionKey, listed: ListedSegment, sizes: Mapping[Part, int]
) -> _LogReader:
    return _LogReader(
        tier=storage,
        address=address_of(key, listed),
        size_bytes=sizes.get(Part.LOG, 0),
        window=np.empty(0, np.uint8),
    )


def _first_timestamp_ms(listed: ListedSegment, log: _LogReader) -> int:
    """The first batch's max timestamp; -1: there is no batch. Raises CorruptLog."""
    if not log.size_bytes:
        return NO_TIMESTAMP_MS
    first = log.head(0)
    if first.base_offset < listed.start_offset:
        raise log.corrupt(
            f"the first batch begins at offset {first.base_offset}, below the segment's start"
            f" {listed.start_offset}"
        )
    return first.max_timestamp_ms


def _known_end(
    storage: RemoteTier, listed: ListedSegment, log: _LogReader, last_batch_end: int
) -> int:
    """The segment's end; `last_batch_end` is -1 without a batch. Raises CorruptLog."""
    recorded = storage.recorded_end(log.address)
    end_offset = max(last_batch_end, recorded or 0)
    if end_offset > min(listed.start_offset + OFFSET_SPAN_MAX, OFFSET_MAX):
        raise log.corrupt(
            f"the last batch ends at offset {end_offset}, further from the segment's start"
            f" {listed.start_offset} than an index can tell"
        )
    if recorded is None:
        return last_batch_end if log.size_bytes else listed.start_offset - 1
    if recorded < max(last_batch_end, listed.start_offset):
        found = f"its last batch ends at {last_batch_end}" if log.size_bytes else "it has 0 bytes"
        raise log.corrupt(
            f"its metadata say that it ends at offset {recorded}, but it starts at"
            f" {listed.start_offset} and {found}"
        )
    return recorded


def _end_of(
    log: _LogReader, offsets: OffsetIndex, times: TimeIndex
) -> tuple[int, int, str]:
    """The last offset, the largest timestamp, and what is wrong with the offset index.

    Raises CorruptLog for the log, and if the offset index promises more than the log holds.
    """
    indexed_offset, position, corruption = -1, 0, ""
    if len(offsets.offsets):
        indexed_offset, position = int(offsets.offsets[-1]), int(offsets.positions[-1])
    if log.size_bytes and position >= log.size_bytes:
        raise _cut_off(log, f"points at position {position}, the log has {log.size_bytes} bytes")
    # If the time index is empty, only the batches hold the largest timestamp.
    try:
        walked_from = position if len(times.timestamps_ms) else 0
        end_offset, largest_ms = _walked(log, walked_from, (position, indexed_offset))
    except CorruptLog as error:
        if not position:
            raise
        # Nothing shows yet which of the two is corrupt; the whole log does.
        end_offset, largest_ms = _walked(log, 0, (0, -1))
        corruption = f"the offset index does not fit the log: {error.what}"
    if end_offset < indexed_offset:
        raise _cut_off(log, f"has offset {indexed_offset}, the log ends at {end_offset}")
    if len(times.timestamps_ms):
        largest_ms = max(largest_ms, int(times.timestamps_ms[-1]))
    return end_offset, largest_ms, corruption


def _walked(log: _LogReader, start: int, entry: tuple[int, int]) -> tuple[int, int]:
    """The last offset and the largest timestamp from position `start` on; raises CorruptLog.

    `entry` is a position, and an offset that the index has for it.
    """
    end_offset, largest_ms = -1, NO_TIMESTAMP_MS
    position, indexed_offset = entry
    for at, head in log.heads(start):
        if head.base_offset <= end_offset:
            raise log.corrupt(
                f"offsets out of order: a batch from {head.base_offset} on follows offset"
                f" {end_offset}, at position {at}"
            )
        # Before 4.0 brokers wrote the last offset of an append at the position of its first batch,
        # and their cleaner the last one that it had kept.
        if at == position and 0 <= indexed_offset < head.base_offset:
            raise log.corrupt(
                f"its last entry has offset {indexed_offset} for a later batch, from"
                f" {head.base_offset} on"
            )
        end_offset = head.last_offset
        largest_ms = max(largest_ms, head.max_timestamp_ms)
    return end_offset, largest_ms


def _cut_off(log: _LogReader, what: str) -> CorruptLog:
    return log.corrupt(
        f"the last entry of the offset index {what}: the log was cut off, or the index is another"
        " segment's"
    )

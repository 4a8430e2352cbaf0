"""What a worker reports of a group of segments, and how the report is checked.

A worker returns receipts, never rows: the driver checks them and commits them as data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from tierfold.compaction.cleaning.counts import Counts
from tierfold.compaction.cleaning.group_outcome import RewriteReason
from tierfold.compaction.discovery.listing import (
    LOG_PART,
    TRANSACTION_INDEX_PART,
    ListedSegment,
    stored_sizes,
)
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.planning.grouping import SegmentGroup


class GroupResult(Enum):
    """What became of a group of source segments."""

    WRITTEN = "written"
    """One new segment holds the records that are kept."""
    UNCHANGED = "unchanged"
    """The group is one segment that loses nothing; it stays live as it is."""
    NOT_READ = "not read"
    """As `UNCHANGED`, by what the scan found of the segment: the rewrite did not read it."""
    SKIPPED = "skipped"
    """As `UNCHANGED`, by the segment's key index: it was not read at all."""
    EMPTY = "empty"
    """No batch is kept, and nothing is written: see `compaction.planning.grouping`."""


STAYING: Final = frozenset({GroupResult.UNCHANGED, GroupResult.NOT_READ, GroupResult.SKIPPED})
"""The source segment stays live."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedPart:
    """A part of a new segment, as it was written."""

    part: str
    """Its suffix without the dot, as Kafka names the file."""
    size_bytes: int
    """As Kafka counts them; a layout may store them encoded."""
    crc32c: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedParts:
    """How many written parts were compared with what the store keeps, by the means."""

    by_checksum: int = 0
    """By the checksum of the whole object, which the store computed."""
    by_reading_back: int = 0

    def __add__(self, other: VerifiedParts) -> VerifiedParts:
        return VerifiedParts(
            by_checksum=self.by_checksum + other.by_checksum,
            by_reading_back=self.by_reading_back + other.by_reading_back,
        )

    @property
    def total(self) -> int:
        """All verified parts."""
        return self.by_checksum + self.by_reading_back


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenSegment:
    """A new segment, and what the worker found of its objects."""

    segment: Segment
    staged: tuple[StagedPart, ...]
    """Its parts."""
    verified: VerifiedParts
    """How they were verified once all were written."""
    stored: tuple[tuple[str, int], ...]
    """Its objects: suffix, and stored size in bytes, as a listing shows them."""
    index_bytes: int = 0
    """Bytes of its Bloom filter and key index; 0: it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReceipt:
    """The outcome of one group."""

    group_index: int
    result: GroupResult
    counts: Counts
    bytes_read: int
    bytes_written: int
    records_written: int = 0
    """Counted from the headers of the new segments' batches."""
    written: tuple[WrittenSegment, ...] = ()
    """The new segments, in offset order: one, or several if one would have been too large."""
    found_horizon_ms: int | None = None
    """The earliest delete horizon in sources that brokers wrote; None: they have none."""
    task_ms: int = field(default=0, compare=False)
    """How long the worker took."""

    @property
    def segment(self) -> Segment | None:
        """The last new segment; None: nothing was written."""
        return self.written[-1].segment if self.written else None


def result_of(reason: RewriteReason | None, bytes_kept: int) -> GroupResult:
    """What becomes of a group with this reason for a rewrite and these bytes of kept batches.

    A `.log` of 0 bytes is never written (SEMANTICS 7), where Kafka's `Cleaner.cleanSegments` leaves
    an empty segment.
    """
    if reason is None:
        return GroupResult.UNCHANGED
    return GroupResult.WRITTEN if bytes_kept else GroupResult.EMPTY


def receipt_violations(
    groups: Sequence[SegmentGroup],
    receipts: Sequence[GroupReceipt],
    *,
    records_scanned: int,
    record_bytes_scanned: int,
) -> tuple[str, ...]:
    """How receipts contradict SEMANTICS 10, the planned groups or the scan; empty: they do not.

    `receipts` are in the order of `groups`; bytes are uncompressed, as in `Counts`.
    """
    if len(groups) != len(receipts):
        return (f"{len(groups)} groups were planned, {len(receipts)} receipts came back",)
    pairs = zip(groups, receipts, strict=True)
    found = [what for group, receipt in pairs for what in _group_violations(group, receipt)]
    records_in = sum(receipt.counts.records_in for receipt in receipts)
    if records_in != records_scanned:
        found.append(f"the scan counted {records_scanned} records, the rewrite {records_in}")
    bytes_in = sum(receipt.counts.record_bytes_in for receipt in receipts)
    if bytes_in != record_bytes_scanned:
        found.append(
            f"the scan counted {record_bytes_scanned} record bytes, the rewrite {bytes_in}"
        )
    return tuple(found)


def _group_violations(group: SegmentGroup, receipt: GroupReceipt) -> Iterator[str]:
    name = f"group [{group.start_offset}, {group.end_offset}]"
    if not receipt.counts.adds_up:
        yield f"{name}: the counts do not add up: {receipt.counts}"
    if receipt.result in STAYING and (len(group.segments) != 1 or receipt.counts.removed):
        yield f"{name}: reported as unchanged, but records were removed or segments merged"
    if receipt.result is GroupResult.EMPTY:
        yield f"{name}: no segment was written for its offsets"
    if receipt.result is not GroupResult.WRITTEN:
        return
    if not receipt.written:
        yield f"{name}: written, but no segment is named"
        return
    start_offset, own_start_offset = group.start_offset, group.own_start_offset
    for written in receipt.written:
        segment = written.segment
        is_last = written is receipt.written[-1]
        end_offset = group.end_offset if is_last else segment.end_offset
        if (segment.start_offset, segment.end_offset) != (start_offset, end_offset):
            yield f"{name}: the new segment covers [{segment.start_offset}, {segment.end_offset}]"
        elif segment.own_start_offset != own_start_offset:
            yield f"{name}: the new segment's own range begins at {segment.own_start_offset}"
        if segment.segment_id in {source.segment_id for source in group.segments}:
            yield f"{name}: the new segment has the id of a source"
        yield from (f"{name}: {violation}" for violation in _size_violations(written))
        start_offset = own_start_offset = segment.next_offset
    sizes = [written.segment.size_bytes for written in receipt.written]
    if min(sizes) <= 0 or sum(sizes) != receipt.bytes_written:
        yield f"{name}: {receipt.bytes_written} bytes written, {sum(sizes)} named"
    if receipt.records_written != receipt.counts.kept:
        yield f"{name}: {receipt.counts.kept} records were kept, {receipt.records_written} written"


def _size_violations(written: WrittenSegment) -> Iterator[str]:
    """How a new segment differs from the objects that were written."""
    segment = written.segment
    named = {
        LOG_PART: segment.size_bytes,
        "index": segment.offset_index_bytes,
        "timeindex": segment.time_index_bytes,
    }
    staged = {entry.part: entry.size_bytes for entry in written.staged}
    if not staged:
        yield "no objects were written"
    if written.verified.total != len(staged):
        yield f"{len(staged)} parts were written, {written.verified.total} verified"
    if (TRANSACTION_INDEX_PART in staged) is not segment.has_transaction_index:
        promised = "a" if segment.has_transaction_index else "no"
        yield f"objects {sorted(staged)} were written, {promised} transaction index named"
    for part, size_bytes in named.items():
        if staged.get(part, size_bytes) != size_bytes:
            yield f".{part} of {staged[part]} bytes was written, {size_bytes} named"
    stored = dict(written.stored)
    encoded = {} if segment.stored_log_bytes is None else stored_sizes(segment)
    for suffix, size_bytes in encoded.items():
        if stored.get(suffix) != size_bytes:
            yield f".{suffix} of {stored.get(suffix)} bytes was stored, {size_bytes} named"


def listing_violations(
    receipts: Sequence[GroupReceipt], listed: Sequence[ListedSegment]
) -> tuple[str, ...]:
    """How the listed objects differ from the new segments as written, a phrase each.

    `listed` is the partition's folder, listed after the last receipt.
    """
    by_id = {segment.segment_id: segment for segment in listed}
    found: list[str] = []
    for written in (one for receipt in receipts for one in receipt.written):
        name = f"{written.segment.start_offset:020d}-{written.segment.segment_id}"
        new = by_id.get(written.segment.segment_id)
        sizes = {} if new is None else dict(new.parts)
        stored = dict(written.stored)
        missing = () if new is None else new.missing_parts
        found.extend(f"{name}.{one} was not written" for one in missing if one not in stored)
        for suffix, stored_bytes in stored.items():
            listed_bytes = sizes.get(suffix)
            if listed_bytes != stored_bytes:
                now = "is gone" if listed_bytes is None else f"has {listed_bytes}"
                found.append(f"{name}.{suffix} was {stored_bytes} bytes and {now}")
    return tuple(found)

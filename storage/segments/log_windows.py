"""Reads a segment's log in windows of whole batches, in memory that its size does not change.

    object   |--------- range ---------|--------- range ---------|---- range ----|
    batches  |----|------|----|-----|------|----|--------|----|-----|-----|------|
    windows  |    window      | window |        window        |  window   |window|

A range is fetched while the one before is processed, and at most two are on their way. The batch at
a range's end is completed with the next range. A store that maps ranges gives the whole log as one
range: a mapping is neither copied nor held in memory. If a layout encodes logs in chunks, a range
ends where a chunk does, and is decoded while the one before is processed, too.

Every window's headers are checked before it is returned, and they continue those of the window
before. A window's checksums are compared when it is used: as its records are decoded, so that each
batch is read from memory once, by the thread that decodes it. Those of legacy batches are compared
at once. No batch is skipped, not even where only transaction markers are wanted: the checksum
covers the bits that make a batch transactional, so a flipped bit in a batch that was not fetched
whole could hide a marker, and the data of an aborted transaction would stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.model.errors import CorruptLog, UnreadableObject, from_backup
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.storage.kafka.batch_headers import NO_OFFSET, read_heads, unchecked_heads
from tierfold.storage.kafka.batch_layout import corrupt_batch
from tierfold.storage.kafka.batch_lengths import HEAD_BYTES_MIN, torn_batch, whole_batches_bytes
from tierfold.storage.kafka.compression import USUAL_LIMITS, PlainLimits
from tierfold.storage.kafka.legacy_batches import DecodeLimits, with_inner_heads
from tierfold.storage.kafka.records import windows
from tierfold.storage.segments.lookahead import mapped_ahead
from tierfold.storage.segments.window import LogWindow, UncheckedWindow
from tierfold.storage.tiers.remote_tier import (
    Access,
    Part,
    RemoteTier,
    SegmentAddress,
    address_of,
    counted_from,
)

WINDOW_BYTES: Final = 32 * 2**20
"""How much is decoded at a time, as `kafka.records.windows` counts it: 24 MiB of records of 1 KB, 9
of 100 B, 4 of compressed batches.

Measured, CPU seconds of scan and rewrite: 4 GB of 1 KB values with 8, 16 and 32 MiB of them 4.3,
4.2 and 4.0 (a window costs 0.4 ms), 1 GB of 100 B values with 8 and 16 MiB 3.0 and 3.1, of lz4 with
4 and 8 MiB 1.72 and 2.09. What compresses 40 to 1 takes 630 MB. Outside of Spark's workers, the C
library returns buffers above 32 MiB to the system, which clears them again each time.
"""

_STRETCH_WINDOWS: Final = 2
"""Headers of a mapped log are read this many windows' bytes at a time: with records of 1 KB these
are three windows; the bytes of one would be a large and a small one."""

RANGE_BYTES: Final = 8 * 2**20
"""Bytes of a request: enough that its 2 ms of fixed cost do not count."""

_IN_FLIGHT: Final = 2
_IDENTITY: Final = ("last_offset", "size_bytes", "leader_epoch", "crc")
_LAST_RANGE: Final = 1.25  # The last range may be longer, so that no tiny one follows it.


def unasked() -> None:
    """Go on: nothing asks the reader to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """Bytes `[start, end)` of an object, of which `end` may turn out to be wrong."""

    read: Callable[[int, int], NDArray[np.uint8]]
    """(start, length) → these bytes of the object, fewer at its end."""
    start: int = 0
    end: int
    """Where the object ends, as far as is known."""
    where: str
    """The object's name, for errors; positions in it count from `start` on."""
    is_near: bool = False
    """Whether a file of this machine is read in the object's place."""
    range_bytes: int = RANGE_BYTES
    access: Callable[[], Access] = Access
    """() → how it is best read; raises UnreadableObject and CorruptLog."""
    window_bytes: int = WINDOW_BYTES
    limits: PlainLimits = USUAL_LIMITS
    """What its batches may expand to."""
    proceed: Callable[[], None] = unasked
    """Called before each window; may raise, to end the task after a signal."""

    def ranges(self) -> Iterator[NDArray[np.uint8]]:
        """The bytes from `start` to where the object really ends, in order.

        Raises UnreadableObject and CorruptLog.
        """
        at = self.start
        spans = self._spans(self.access())
        for (_, length), data in zip(spans, self.fetched(spans), strict=True):
            at += len(data)
            if len(data):
                yield data
            if len(data) < length:
                return
        while len(data := self.read(at, self.range_bytes)):  # It is longer than was known.
            at += len(data)
            yield data

    def fetched(self, spans: Sequence[tuple[int, int]]) -> Iterator[NDArray[np.uint8]]:
        """The bytes of each span (start, length), in order, the next one fetched ahead."""
        access = self.access()
        pending = 1 if len(spans) == 1 or access.is_mapped else _IN_FLIGHT
        threads = 1 if access.is_in_order else pending
        return mapped_ahead(
            lambda span: self.read(*span), spans, threads=threads, pending=pending
        )

    def _spans(self, access: Access) -> list[tuple[int, int]]:
        """(start, length) of the ranges; the last one ends a byte behind the known end."""
        at, behind = self.start, self.end + 1
        spans = []
        while at < behind:
            left = behind - at
            is_last = access.is_mapped or left <= self.range_bytes * _LAST_RANGE
            end = behind if is_last else self._unit_end(at, access.unit_bytes)
            spans.append((at, min(end, behind) - at))
            at = end
        return spans

    def _unit_end(self, at: int, unit_bytes: int) -> int:
        """Where the last unit ends that fits a range from `at` on, or that of `at` if none does."""
        end = (at + self.range_bytes) // unit_bytes * unit_bytes
        return end if end > at else (at // unit_bytes + 1) * unit_bytes


def live_log(
    tier: RemoteTier,
    key: PartitionKey,
    segment: Segment,
    batch_bytes_max: int = 0,
    proceed: Callable[[], None] = unasked,
) -> StoredObject:
    """The segment's `.log` from its effective start on."""
    log = _log_of(tier, key, segment)
    start = segment.skipped_bytes
    where = counted_from(log.where, start)
    limits = PlainLimits(batch_bytes_max)
    return replace(log, start=start, where=where, limits=limits, proceed=proceed)


def whole_log(
    tier: RemoteTier,
    key: PartitionKey,
    segment: Segment | ListedSegment,
    batch_bytes_max: int = 0,
) -> StoredObject:
    """The segment's whole `.log`; raises as `RemoteTier.part_sizes` does for one just listed."""
    if isinstance(segment, Segment):
        log = _log_of(tier, key, segment)
    else:
        size_bytes = tier.part_sizes(key, segment).get(Part.LOG, 0)
        log = stored_object(tier, address_of(key, segment), Part.LOG, size_bytes)
    return replace(log, limits=PlainLimits(batch_bytes_max))


def _log_of(tier: RemoteTier, key: PartitionKey, segment: Segment) -> StoredObject:
    """The segment's whole `.log`, read from this machine's file if it has one."""
    near = None if tier.near is None else tier.near.log_of(tier, key, segment)
    if near is None:
        return stored_object(tier, address_of(key, segment), Part.LOG, segment.log_bytes)
    return StoredObject(read=near.read, end=segment.log_bytes, where=near.where, is_near=True)


def stored_object(
    tier: RemoteTier, address: SegmentAddress, part: Part, size_bytes: int
) -> StoredObject:
    """A part of a segment, of that size as far as is known."""

    def read(start: int, length: int) -> NDArray[np.uint8]:
        return tier.read_range(address, part, start, length)

    return StoredObject(
        read=read,
        end=size_bytes,
        where=tier.uri(address, part),
        access=partial(tier.access, address, part),
    )


def log_windows(log: StoredObject) -> Iterator[UncheckedWindow]:
    """The windows of a log, in order, to where it really ends; none for an empty one.

    A window has at most `log.window_bytes`, or one batch. Raises CorruptLog, and UnreadableObject.
    """
    after, records = NO_OFFSET, 0
    for data, origin in _whole_batches(log):
        heads = with_inner_heads(
            data,
            unchecked_heads(data, where=log.where, origin=origin, after=after),
            limits=DecodeLimits(log.window_bytes, log.limits),
            where=log.where,
            origin=origin,
            after=after,
        )
        after = int(heads.last_offset[-1])
        for first, last in windows(
            heads, window_bytes=log.window_bytes, batch_bytes_max=log.limits.batch_bytes
        ):
            log.proceed()
            window = LogWindow(
                data=data,
                heads=heads.slice(first, last),
                origin=origin,
                first_record=records,
                where=log.where,
                limits=log.limits,
            )
            yield UncheckedWindow(window)
            records = window.records_end


def sized_windows(log: StoredObject) -> Iterator[UncheckedWindow]:
    """`log_windows` of a log of the size in the catalog; raises CorruptLog for any other.

    A broker uploads logs of 0 bytes, which its cleaner has emptied.
    """
    size_bytes = 0
    for window in log_windows(log) if log.end == log.start else nonempty_windows(log):
        yield window
        size_bytes += window.size_bytes
    if size_bytes != log.end - log.start:
        raise corrupt_batch(
            f"the log has {size_bytes} bytes, where the catalog says {log.end - log.start}",
            log.where,
        )


def nonempty_windows(log: StoredObject) -> Iterator[UncheckedWindow]:
    """`log_windows` of a log of any size but zero; raises CorruptLog for that."""
    is_empty = True
    for window in log_windows(log):
        is_empty = False
        yield window
    if is_empty:
        raise CorruptLog(
            "the log is empty, 0 bytes: it was cut short",
            where=log.where,
            remedy=from_backup("it"),
        )


def reread(log: StoredObject, passed: Sequence[LogWindow]) -> Iterator[NDArray[np.uint8]]:
    """The stored bytes of windows of the log, whose `data` is no longer held, read again.

    Raises UnreadableObject, also if they are other batches now: by offset, size, leader epoch, and
    by checksum, which covers the rest. The caller compares the checksums with the bytes.
    """
    spans = [(log.start + window.position, window.size_bytes) for window in passed]
    for window, data in zip(passed, log.fetched(spans), strict=True):
        now = read_heads(data, where=log.where, check_crc=False, origin=window.position)
        if not all(
            np.array_equal(getattr(now, name), getattr(window.heads, name)) for name in _IDENTITY
        ):
            raise changed(log.where, window.position)
        yield data


def changed(where: str, position: int) -> UnreadableObject:
    """The error for a log that has other batches than when it was read before."""
    return UnreadableObject(
        f"the bytes from {position} on changed while the log was read",
        where=where,
        remedy="Nothing was committed. Check whether another program changes the tier's"
        " objects, then run again.",
    )


def _whole_batches(log: StoredObject) -> Iterator[tuple[NDArray[np.uint8], int]]:
    """The log's bytes, cut where batches end, each with its position in the log.

    A stretch has at most as much as `_STRETCH_WINDOWS` windows, or one batch. Only the last bytes
    may be torn. Raises CorruptLog and UnreadableObject.
    """
    stretch_bytes = _STRETCH_WINDOWS * log.window_bytes
    torn: list[NDArray[np.uint8]] = []  # Of the batch that the ranges so far end within.
    origin = torn_bytes = needed_bytes = 0
    for data in log.ranges():
        at = 0
        while at < len(data):
            if not torn:
                whole_bytes, needed_bytes = _first_batches(data[at:], stretch_bytes)
                if whole_bytes:
                    yield data[at : at + whole_bytes], origin
                    at, origin = at + whole_bytes, origin + whole_bytes
                    continue
            torn.append(data[at : at + needed_bytes - torn_bytes].copy())
            before_bytes = torn_bytes
            at, torn_bytes = at + len(torn[-1]), torn_bytes + len(torn[-1])
            if torn_bytes == needed_bytes:  # The batch is complete, or its header.
                batch = np.concatenate(torn)
                whole_bytes, needed_bytes = _first_batches(batch, torn_bytes)
                if whole_bytes:
                    yield batch, origin
                    origin, torn_bytes = origin + torn_bytes, 0
                    torn.clear()
                    continue
            if before_bytes < HEAD_BYTES_MIN <= torn_bytes:
                _check_claim(log, origin, needed_bytes)
    if torn:
        yield np.concatenate(torn), origin


def _first_batches(data: NDArray[np.uint8], stretch_bytes: int) -> tuple[int, int]:
    """How many bytes of whole batches to take, and how many the first batch needs if there are 0.

    `stretch_bytes` at most, or one batch.
    """
    size_bytes = min(stretch_bytes, len(data))
    while True:
        whole_bytes, missing_bytes = whole_batches_bytes(data[:size_bytes])
        needed_bytes = size_bytes + missing_bytes
        if whole_bytes or needed_bytes > len(data):
            return whole_bytes, needed_bytes
        size_bytes = needed_bytes


def _check_claim(log: StoredObject, origin: int, claimed_bytes: int) -> None:
    """Check that a batch at `origin` can have so many bytes, before they are collected.

    A wrong length would else collect much of the log in memory. Beyond the log's end there is none,
    and where a large batch ends, another one begins. Raises CorruptLog and UnreadableObject.
    """
    end = origin + claimed_bytes
    beyond_bytes = log.start + end - log.end
    if beyond_bytes > 0:
        if not len(log.read(log.end, 1)):
            raise torn_batch(origin, beyond_bytes, log.where)
    elif claimed_bytes > log.range_bytes:
        head = log.read(log.start + end, HEAD_BYTES_MIN)
        _, missing_bytes = whole_batches_bytes(head)
        if len(head) == HEAD_BYTES_MIN and not missing_bytes:
            read_heads(head, where=log.where, origin=end)  # Raises: no batch begins there.

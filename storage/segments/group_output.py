"""The new segments of a group: one, or several if one would be too large.

A rewrite may enlarge a log: batches may compress worse than their producer's did, and a message of
magic 0 becomes a batch. Kafka's cleaner then fails, every time (KAFKA-20036). Here such a group is
written as several segments, cut between two windows of batches. To keep the source's batches as
they are would be simpler, but not safe: what a round leaves of superseded records comes back once
the tombstones that hide them are gone, in a later round that no longer compares them.

The first try writes one segment, and ends as soon as that is too large; nothing of it stays. The
second one reads all batches of the sources, because each new segment needs a snapshot: the
producers' state at its end. It is replayed from the snapshot of the segment before, as a broker
rebuilds it. So transactions that are open at a cut are known there, as at any other border: all but
those of which an earlier round has left no batch below the cut, so that nothing depends on them.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.counts import Counts
from tierfold.compaction.cleaning.group_outcome import RewriteReason
from tierfold.compaction.cleaning.rounds import GroupTask
from tierfold.compaction.commits.receipts import GroupReceipt, WrittenSegment, result_of
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.compaction.model.segment_ids import SegmentMark
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.model.units import NO_HORIZON
from tierfold.storage.kafka.batch_headers import BatchHeads
from tierfold.storage.kafka.kafka_uuid import new_segment_id
from tierfold.storage.key_indexes.index_folder import KeyIndexes
from tierfold.storage.segments.key_indexing import IndexedWindow, KeyIndexing
from tierfold.storage.segments.producer_replay import ProducerReplay
from tierfold.storage.segments.segment_metadata import read_snapshot
from tierfold.storage.segments.segment_writer import Cut, SegmentWriter
from tierfold.storage.tiers.remote_tier import RemoteTier, SegmentAddress


class TooLarge(Exception):
    """One segment cannot hold the group."""


class GroupOutput:
    """Writes the new segments of a group, in offset order.

    `replay` has the producers' state before the first batch that `write` has not taken yet. None:
    the group must fit one segment.
    """

    def __init__(
        self,
        tier: RemoteTier,
        task: GroupTask,
        contexts: ExitStack,
        key_indexes: KeyIndexes | None,
        replay: ProducerReplay | None,
    ) -> None:
        self.bytes_written = 0
        self.records_written = 0
        self.written: list[WrittenSegment] = []
        self.due_ms: int | None = None
        """The earliest delete horizon in the present segment; None: there is none so far."""
        self._kept_ms: int | None = None
        """As `Segment.kept_for_producer_ms`, of the present segment so far."""
        self.found_horizon_ms: int | None = None
        """The earliest delete horizon in sources that brokers wrote; None: there is none so far."""
        self._tier = tier
        self._task = task
        self._contexts = contexts
        self._key_indexes = key_indexes
        self._replay = replay
        self._writer: SegmentWriter | None = None
        self._indexing = KeyIndexing()
        self._start_offset = task.group.own_start_offset

    def cut_before(self, size_bytes: int, end_offset: int) -> None:
        """End the present segment at `end_offset` if so many more bytes would make it too large.

        Raises TooLarge if the group must fit one segment.
        """
        writer = self._writer
        if writer is None or writer.size_bytes + size_bytes <= self._task.output_bytes_max:
            return
        if self._replay is None:
            raise TooLarge
        self._finish(writer, Cut(end_offset=end_offset, producers=self._replay.entries))
        self._writer, self._start_offset = None, end_offset + 1
        self._indexing, self.due_ms, self._kept_ms = KeyIndexing(), None, None

    def index(
        self, window: IndexedWindow | None, due_ms: int | None, kept_ms: int | None = None
    ) -> None:
        """Take what the key index needs of a window, its earliest delete horizon, and `kept_ms`."""
        self.due_ms = _earlier(self.due_ms, due_ms)
        if kept_ms is not None:
            self._kept_ms = kept_ms if self._kept_ms is None else max(self._kept_ms, kept_ms)
        if self._task.fpp is not None:
            self._indexing.add(window)

    def found(self, horizons_ms: NDArray[np.int64]) -> None:
        """Take the delete horizons of batches that a broker wrote."""
        found_ms = horizons_ms[horizons_ms != NO_HORIZON].tolist()
        if self.found_horizon_ms is not None:
            found_ms.append(self.found_horizon_ms)
        self.found_horizon_ms = min(found_ms, default=None)

    def write(self, data: NDArray[np.uint8], heads: BatchHeads | None = None) -> None:
        """Write whole batches; the first ones open a new segment.

        `heads`: theirs, if their checksums were compared or computed; None: that is done here.
        """
        if not len(data):
            return
        if self._writer is None:
            task = self._task
            mark = SegmentMark(task.fingerprint, is_restored=task.is_restored)
            segment_id = new_segment_id(mark)
            writer = SegmentWriter(
                self._tier.in_classes(task.classes),
                SegmentAddress(task.key, segment_id, self._start_offset),
                task.group,
                run=task.run,
                index_interval_bytes=task.index_interval_bytes,
            )
            self._writer = self._contexts.enter_context(writer)
        self._writer.append(data, heads)
        self.bytes_written += len(data)

    def write_index(self, segment: Segment) -> int:
        """Write the key index of what `index` took, which is all of `segment`; return its bytes."""
        indexes, fpp = self._key_indexes, self._task.fpp
        if indexes is None or fpp is None:
            return 0
        built = self._indexing.built(segment, fpp)
        return 0 if built is None else indexes.write(self._task.key, *built)

    def finish(self, cut: Cut | None = None) -> None:
        """Complete the last segment, if anything was written; `cut`: it ends before the group."""
        if self._writer is not None:
            self._finish(self._writer, cut)

    def receipt(
        self, reason: RewriteReason | None, counts: Counts, bytes_read: int
    ) -> GroupReceipt:
        """The outcome of the group; `reason`: for the rewrite, None: there was none."""
        return GroupReceipt(
            group_index=self._task.group_index,
            result=result_of(reason, self.bytes_written),
            counts=counts,
            bytes_read=bytes_read,
            bytes_written=self.bytes_written,
            records_written=self.records_written,
            written=tuple(self.written),
            found_horizon_ms=self.found_horizon_ms,
        )

    def _finish(self, writer: SegmentWriter, cut: Cut | None) -> None:
        task = self._task
        end_offset = task.group.end_offset if cut is None else cut.end_offset
        listed = tuple(
            transaction
            for transaction in task.listed
            if self._start_offset <= transaction.last_offset <= end_offset
        )
        segment = writer.finish(listed, self.due_ms, cut)
        segment = replace(segment, kept_for_producer_ms=self._kept_ms)
        index_bytes = self.write_index(segment)
        self.records_written += writer.records
        self.written.append(
            WrittenSegment(
                segment=segment,
                staged=writer.parts,
                verified=writer.verified,
                stored=writer.objects,
                index_bytes=index_bytes,
            )
        )


def _earlier(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)


def producers_before(tier: RemoteTier, task: GroupTask) -> tuple[ProducerEntry, ...]:
    """The producers' state before the group, from a snapshot; raises CorruptLog, UnreadableObject.

    If no segment precedes it, those of the first source that were silent in it: the others' states
    are in its batches.
    """
    if task.preceding is not None:
        return read_snapshot(tier, task.key, task.preceding)
    first = task.group.segments[0]
    entries = read_snapshot(tier, task.key, first)
    return tuple(entry for entry in entries if entry.last_data_offset < first.start_offset)

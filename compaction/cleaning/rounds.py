"""A round: one pass of cleaning over one partition, and the groups that it rewrites."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.group_outcome import PlainSegment
from tierfold.compaction.cleaning.record_retention import (
    RoundRules,
    legacy_delete_horizon_ms,
    producer_pairs,
    producer_times,
)
from tierfold.compaction.cleaning.transactions import TransactionStatus
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.model.aborted_transactions import AbortedTransaction, reaching
from tierfold.compaction.model.hash_key import HashKey
from tierfold.compaction.model.rules import RECORD_BYTES_MAX, CompactionStrategy, Rules
from tierfold.compaction.model.segments import PartitionKey, PartitionState, Segment
from tierfold.compaction.model.units import LOG_BYTES_MAX, NO_TIMESTAMP_MS
from tierfold.compaction.model.wording import spaced
from tierfold.compaction.planning.drop_limits import Readers, readers_of
from tierfold.compaction.planning.grouping import SegmentGroup
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.planning.plan import Compact
from tierfold.compaction.planning.storage_classes import classes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One pass over one partition: a chunk of its plan, claimed under this run's epoch."""

    index: int
    """The round's number within the wave."""
    state: PartitionState
    """The row under this run's epoch."""
    plan: PartitionPlan
    """The chunk; it is due."""
    now_ms: int
    hash_key: HashKey
    """What all workers of the run hash record keys with."""
    fingerprint: int
    """The catalog's, which the ids of new segments bear."""
    aborted: tuple[AbortedTransaction, ...] = ()
    """The aborted transactions of every segment in view, from their transaction indexes."""
    has_key_indexes: bool = False
    """Whether this run can read and write key indexes."""
    transactions_end: int | None = None
    """The offset below which all transactions of the round are decided; None: unknown."""
    horizons_from_ms: int | None = None
    """From when new delete horizons count; None: from `now_ms`, as in Kafka."""

    @property
    def key(self) -> PartitionKey:
        """The partition's key."""
        return self.state.key

    @property
    def rules(self) -> Rules:
        """The topic's settings."""
        return self.plan.rules

    @property
    def compact(self) -> Compact:
        """The planned work."""
        return self.plan.compact

    @property
    def stored(self) -> dict[str, ListedSegment]:
        """`PartitionView.stored`, by id."""
        view = self.plan.view
        return {} if view is None else {one.segment_id: one for one in view.stored}

    @property
    def groups(self) -> tuple[SegmentGroup, ...]:
        """The groups to rewrite, in offset order."""
        return self.compact.groups

    @property
    def clean_until(self) -> int:
        """The end of the region that was clean before the round.

        `--first-dirty` does not change it. A stored offset outside the log is ignored: the log was
        truncated after that commit (Kafka `LogCleanerManager.cleanableOffsets`).
        """
        return self._within_log(self.state.cleaner_offset)

    def _within_log(self, stored: int | None) -> int:
        start, end = self.state.log_start_offset, self.state.next_offset
        return stored if stored is not None and start <= stored <= end else start

    @property
    def leaves_superseded(self) -> bool:
        """Whether a record that a tombstone supersedes may survive this round.

        If versions decide, that record may lie above the chunk. In a forced round it may lie in the
        stretch below the first dirty offset that no round has cleaned.
        """
        is_forced_beyond = self.compact.first_dirty > self.clean_until
        return is_forced_beyond or not (self.compact.is_last or self._is_by_offset)

    @property
    def keeps_tombstones(self) -> bool:
        """Whether all tombstones stay.

        They do if the round `leaves_superseded` records. If versions decide, they do on a served
        row in the last of several chunks, too: consumers see all chunks at once, and an earlier
        one may have removed what a tombstone supersedes.
        """
        is_one_of_several = bool(self.compact.chunks_done) and not self._is_by_offset
        return self.leaves_superseded or (self.state.is_served and is_one_of_several)

    @property
    def _is_by_offset(self) -> bool:
        return self.rules.compaction_strategy is CompactionStrategy.OFFSET

    @property
    def readers(self) -> Readers | None:
        """What consumers may still read as it was; None: no broker serves the row.

        What was dirty when the run began may hide a record that it removes.
        """
        earlier = [one for one in self.state.cleaner_offsets if one.epoch < self.state.epoch]
        clean_before = self._within_log(max(earlier).offset if earlier else None)
        return readers_of(
            self.state,
            None if self.plan.view is None else self.plan.view.brokers,
            self.rules,
            clean_until=min(clean_before, self.compact.first_dirty),
            now_ms=self.now_ms,
        )

    @property
    def next_cleaner_offset(self) -> int:
        """The row's cleaner offset after the round: its end, unless the round was forced.

        If a forced round starts above the clean region, a stretch stays uncleaned, so the offset
        does not move. The next ordinary round cleans that stretch, and only then may tombstones be
        removed. A forced round that ends below the offset does not move it back.
        """
        if self.compact.first_dirty > self.clean_until:
            return self.clean_until
        return max(self.clean_until, self.compact.next_offset)

    @property
    def scanned(self) -> tuple[tuple[int, Segment], ...]:
        """The segments that the scan reads, each with its index among the live segments.

        They are the sources, and the segments whose markers decide the sources' transactions.
        """
        end = self.state.next_offset if self.transactions_end is None else self.transactions_end
        return tuple((i, s) for i, s in enumerate(self.state.segments) if s.start_offset < end)

    @property
    def fpp(self) -> float | None:
        """The false positive rate of the Bloom filters that the round makes; None: it makes none.

        If versions decide, a clean record may supersede a dirty one. So its version is always read,
        and an index would not help.
        """
        makes_indexes = self.has_key_indexes and self._is_by_offset
        return float(self.rules.bloom_filter_fpp) if makes_indexes else None

    @property
    def skippable(self) -> tuple[tuple[int, Segment], ...]:
        """The sources that may stay unread, each with its index as in `scanned`.

        They lie wholly below the first dirty offset. A round for a passed delete horizon rewrites
        all its sources.
        """
        if self.fpp is None or self.compact.is_partial:
            return ()
        ids = {segment.segment_id for segment in self.compact.sources}
        return tuple(
            (i, segment)
            for i, segment in self.scanned
            if segment.segment_id in ids and segment.next_offset <= self.compact.first_dirty
        )

    @property
    def scan_bytes(self) -> int:
        """Bytes that the scan reads at most."""
        return sum(segment.size_bytes for _, segment in self.scanned)

    @property
    def size_bytes(self) -> int:
        """Bytes of all source `.log`s."""
        return sum(group.size_bytes for group in self.groups)

    def with_groups(self, groups: tuple[SegmentGroup, ...]) -> Round:
        """The round with other groups over the same sources."""
        return replace(self, plan=replace(self.plan, choice=replace(self.compact, groups=groups)))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTask:
    """Everything that a worker needs to rewrite one group."""

    key: PartitionKey
    group_index: int
    """The group's number in the round."""
    group: SegmentGroup
    rules: RoundRules
    aborted: tuple[AbortedTransaction, ...]
    """Aborted transactions that reach into the group's offsets."""
    discardable: NDArray[np.int64]
    """Base offsets, ascending, of the group's control batches that may be removed."""
    listed: tuple[AbortedTransaction, ...]
    """The transactions that the new transaction index must list, by marker offset."""
    ends_in_batch: bool
    """Whether the group must end in a batch, if need be an empty one. Readers get stuck at a gap at
    the end of the remote range, and a log without a batch is never written."""
    run: str
    fingerprint: int
    """The catalog's, which the ids of new segments bear."""
    index_interval_bytes: int
    plain: PlainSegment | None = None
    """What the scan found of the only segment; None: several, or that is not plain."""
    unscanned: tuple[tuple[str, int], ...] = ()
    """Ids of segments in the group of which no record is superseded, as their key index shows, and
    how many records they have. They were not scanned."""
    fpp: float | None = None
    """The false positive rate of the new segment's Bloom filter; None: it gets no key index."""
    threads: int = 1
    batch_bytes_max: int = 0
    """The rules' `decompressed_batch_max_bytes`; 0: not set."""
    record_bytes_max: int = RECORD_BYTES_MAX
    """The rules' `max_decompressed_message_bytes`."""
    output_bytes_max: int = LOG_BYTES_MAX
    """The most that one new `.log` may have; beyond it, the group becomes several segments."""
    must_be_one: bool = False
    """Whether the group fails instead."""
    is_cut: bool = False
    """Whether the only source has batches behind the group's end, which an election cut off."""
    is_restored: bool = False
    """Whether a restore made one of its sources, so that the new segment's id says so, too."""
    preceding: Segment | None = None
    """The live segment before the group; None: the log starts with the group."""
    partition_index: int = 0
    """The round's number within the wave."""
    classes: tuple[tuple[str, str], ...] = ()
    """Storage classes of the new objects (`planning.storage_classes`)."""
    segment_index: int = 0
    """The index of the group's first segment among the live segments."""

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        """(partition index, segment index) of each of its segments."""
        return tuple(
            (self.partition_index, self.segment_index + i) for i in range(len(self.group.segments))
        )


def group_tasks(
    work: Round,
    transaction_status: TransactionStatus,
    *,
    wanted: Mapping[int, SegmentGroup],
    plain: Mapping[int, PlainSegment],
    unscanned: Mapping[int, int],
    empty: frozenset[int] = frozenset(),
) -> Iterator[GroupTask]:
    """Yield the tasks of the `wanted` groups, by their number in the round.

    By a segment's index among the live segments: `plain`, what the scan found of those that are
    plain; `unscanned`, how many records those have whose keys were not read.
    `empty`: the numbers of the groups of which nothing is left, and that have no neighbour to merge
    with: each keeps its last batch, emptied, as if the remote range ended there.
    """
    whole, stored = round_rules(work), work.stored
    place = {segment.segment_id: i for i, segment in enumerate(work.state.segments)}
    discardable = transaction_status.discardable
    for number, group in wanted.items():
        start, end = group.start_offset, group.end_offset
        first = place[group.segments[0].segment_id]
        first_inside, beyond = np.searchsorted(discardable, (start, end + 1))
        yield GroupTask(
            key=work.key,
            group_index=number,
            group=group,
            rules=replace(whole, remote_end=end + 1) if number in empty else whole,
            aborted=reaching(work.aborted, start, end),
            discardable=discardable[first_inside:beyond],
            listed=tuple(t for t in transaction_status.listed if start <= t.last_offset <= end),
            ends_in_batch=number in empty or end + 1 == work.state.next_offset,
            run=work.state.owner_run,
            fingerprint=work.fingerprint,
            index_interval_bytes=work.rules.index_interval_bytes,
            plain=plain.get(first) if len(group.segments) == 1 else None,
            unscanned=tuple(
                (segment.segment_id, unscanned[i])
                for i, segment in enumerate(group.segments, start=first)
                if i in unscanned
            ),
            fpp=work.fpp,
            batch_bytes_max=work.rules.decompressed_batch_max_bytes or 0,
            record_bytes_max=work.rules.max_decompressed_message_bytes,
            output_bytes_max=_output_bytes_max(group, work.rules),
            preceding=work.state.segments[first - 1] if first else None,
            partition_index=work.index,
            segment_index=first,
            classes=classes_of(stored, group.segments),
        )


def _output_bytes_max(group: SegmentGroup, rules: Rules) -> int:
    """How large one new segment of the group may be.

    A group fits segment.bytes, or is one segment, but a rewrite may enlarge it: batches may
    compress worse than their producer's did (KAFKA-20036), legacy messages become batches, and
    delete horizons take some bytes. Kafka's cleaner fails beyond the format's limit; below it, it
    writes one segment. So up to twice the size that was meant is one here, too: a limit of exactly
    segment.bytes would cut a few kilobytes off each full segment that gets horizons.
    """
    return min(2 * max(rules.segment_bytes, group.size_bytes), LOG_BYTES_MAX)


def round_rules(work: Round) -> RoundRules:
    """The rules of a whole round."""
    readers = work.readers
    data, markers = producer_pairs(
        work.plan.producers,
        now_ms=work.now_ms,
        expiration_ms=work.rules.producer_id_expiration_ms,
    )
    return RoundRules(
        now_ms=work.now_ms,
        horizons_from_ms=work.horizons_from_ms,
        delete_retention_ms=work.rules.delete_retention_ms,
        remote_end=work.state.next_offset,
        last_data_offsets=data,
        marker_epochs=markers,
        producer_times=producer_times(work.plan.producers),
        expired_ms=work.now_ms - work.rules.producer_id_expiration_ms,
        # On a served row a tombstone of magic 0 or 1 gets a horizon, and waits as all others do.
        legacy_delete_horizon_ms=legacy_delete_horizon_ms(
            work.compact.sources, work.compact.first_dirty, work.rules.delete_retention_ms
        )
        if readers is None
        else NO_TIMESTAMP_MS,
        keeps_tombstones=work.keeps_tombstones,
        served=None if readers is None else readers.limits(work.now_ms),
    )


def too_many_keyless(without_key: int, records_in: int, rules: Rules) -> str:
    """Why the round must stop before it rewrites anything, and what to do; empty: it need not.

    Kafka's cleaner drops every such record of a compacted topic. On an event log that is all of
    them, so `compact.keyless.max` limits how many a round may drop.

    `without_key` counts the records without a key except aborted ones, `records_in` all records.
    """
    most = rules.compact_keyless_max
    if most is None or without_key <= most:
        return ""
    have = "has" if without_key == 1 else "have"
    return (
        f"{spaced(without_key)} of {spaced(records_in)} records {have} no key and would be dropped,"
        f" but compact.keyless.max allows {spaced(most)}; nothing was changed. If they may be"
        " dropped, raise compact.keyless.max; if not, remove compact from the topic's"
        " cleanup.policy."
    )

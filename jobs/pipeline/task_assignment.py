"""A round of one partition, and the assignment of rounds to worker tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from tierfold.compaction.cleaning.record_retention import (
    RoundRules,
    legacy_delete_horizon_ms,
    producer_pairs,
)
from tierfold.compaction.cleaning.transactions import TransactionStatus
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.compaction.model.rules import CompactionStrategy, Rules
from tierfold.compaction.model.segments import PartitionKey, PartitionState, Segment
from tierfold.compaction.planning.grouping import SegmentGroup
from tierfold.compaction.planning.load_balancing import assigned, task_count
from tierfold.jobs.pipeline.stages.segment_rows import pickled
from tierfold.storage.indexes.transaction_index import write_transaction_index
from tierfold.storage.segments.group_rewrite import GroupTask

BUCKET_BYTES: Final = 64 * 2**20
"""Log bytes per key bucket; the keys of that much log need a fraction of a worker's memory."""

TASK_BYTES: Final = 64 * 2**20
"""Log bytes per task; a larger segment is still one task."""

REDUCE_TASK_BYTES: Final = 256 * 2**20
"""Log bytes whose keys one task reduces in memory; the keys are a fraction of that."""

THREADS_MAX: Final = 4
"""Maximum threads of a task whose segments exceed its share; small machines have 4 cores."""

TASKS_PER_CORE: Final = 2
"""Minimum number of tasks per core, if there is enough work; it evens out the load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A claimed plan of one partition."""

    index: int
    """The partition's number within the run."""
    state: PartitionState
    """The row under this run's epoch."""
    first_dirty: int
    next_offset: int
    """The first offset beyond the dirty region."""
    groups: tuple[SegmentGroup, ...]
    rules: Rules
    aborted: tuple[AbortedTransaction, ...]
    producers: tuple[ProducerEntry, ...] = field(repr=False)
    now_ms: int
    is_partial: bool = False
    """Each group is a round of its own; the segments between groups stay unchanged."""
    is_last_chunk: bool = True
    """It reaches the end of the region to clean; its commit then releases the claim."""
    transactions_end: int | None = None
    """Transactions that reach into the round are decided below this offset; None: anywhere."""

    @property
    def key(self) -> PartitionKey:
        """The partition's key."""
        return self.state.key

    @property
    def clean_until(self) -> int:
        """The end of the region that was clean before the round.

        A person may force another `first_dirty`. A stored offset outside the log belongs to a log
        that was truncated since and is ignored.
        """
        start, end = self.state.log_start_offset, self.state.next_offset
        stored = self.state.cleaner_offset
        return stored if stored is not None and start <= stored <= end else start

    @property
    def keeps_tombstones(self) -> bool:
        """Whether all tombstones stay, because a record that one supersedes may survive this round.

        That record may lie above the chunk if versions decide. In a forced round it may lie in the
        stretch that is left out, whose tombstones are not in the offset map.
        """
        is_by_offset = self.rules.compaction_strategy is CompactionStrategy.OFFSET
        return self.first_dirty > self.clean_until or not (self.is_last_chunk or is_by_offset)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The source segments in offset order: `[log start, next_offset)`, or a part of it."""
        return tuple(segment for group in self.groups for segment in group.segments)

    @property
    def scanned(self) -> tuple[tuple[int, Segment], ...]:
        """The segments that the scan reads, each with its index among the live segments.

        These are the sources and the segments whose markers decide the sources' transactions.
        """
        transactions_end = (
            self.state.next_offset if self.transactions_end is None else self.transactions_end
        )
        return tuple(
            (i, s) for i, s in enumerate(self.state.segments) if s.start_offset < transactions_end
        )

    @property
    def size_bytes(self) -> int:
        """Bytes of all source logs."""
        return sum(group.size_bytes for group in self.groups)

    @property
    def scan_bytes(self) -> int:
        """Bytes that the scan reads."""
        return sum(segment.size_bytes for _, segment in self.scanned)

    @property
    def reaches_end(self) -> bool:
        """No live segment follows it."""
        return self.next_offset == self.state.next_offset

    @property
    def buckets(self) -> int:
        """How many buckets the partition's keys are split into."""
        return max(1, -(-self.size_bytes // BUCKET_BYTES))


def tasks_for(sizes: Sequence[int], cores: int) -> tuple[list[int], int]:
    """Return the task of each item, and the number of tasks."""
    tasks = task_count(sizes, task_bytes=TASK_BYTES, tasks_min=TASKS_PER_CORE * cores)
    return assigned(sizes, tasks), tasks


def reduce_tasks(rounds: Sequence[Round], cores: int) -> int:
    """Return how many tasks share the buckets of the rounds."""
    sizes = [work.size_bytes // work.buckets for work in rounds for _ in range(work.buckets)]
    return task_count(sizes, task_bytes=REDUCE_TASK_BYTES, tasks_min=cores)


def threads_of(sizes: Sequence[int], placed: Sequence[int], cores: int) -> list[int]:
    """Return how many threads the task of each item should use.

    One, unless the task was assigned more than its share of the bytes: idle cores then help it.
    """
    loads: dict[int, int] = defaultdict(int)
    for size, task in zip(sizes, placed, strict=True):
        loads[task] += size
    share = max(1, sum(sizes) // cores)
    return [max(1, min(THREADS_MAX, -(-loads[task] // share))) for task in placed]


def first_bucket_tasks(rounds: Sequence[Round]) -> dict[int, int]:
    """Return the number of each partition's first bucket among all buckets, by partition index."""
    first: dict[int, int] = {}
    beyond = 0
    for work in rounds:
        first[work.index] = beyond
        beyond += work.buckets
    return first


def reference_rows(rounds: Sequence[Round], cores: int) -> tuple[list[dict[str, Any]], int]:
    """Return rows of `REFERENCE_SCHEMA`, one per scanned segment, and the number of tasks.

    Only the transaction batches of a segment that is not a source are read.
    """
    first_bucket = first_bucket_tasks(rounds)
    numbered = [(work, i, s) for work in rounds for i, s in work.scanned]
    sources = {work.index: {s.segment_id for s in work.segments} for work in rounds}
    sizes = [segment.size_bytes for _, _, segment in numbered]
    placed, tasks = tasks_for(sizes, cores)
    rows = [
        {
            "task": task,
            "partition_index": work.index,
            "segment_index": i,
            "topic": work.key.topic,
            "partition": work.key.partition,
            "topic_id": work.key.topic_id,
            "segment_id": segment.segment_id,
            "own_start_offset": segment.own_start_offset,
            "skipped_bytes": segment.skipped_bytes,
            "size_bytes": segment.size_bytes,
            "first_dirty": work.first_dirty,
            "transactions_only": segment.segment_id not in sources[work.index],
            "buckets": work.buckets,
            "first_bucket_task": first_bucket[work.index],
            "threads": threads,
            "strategy": work.rules.compaction_strategy.value,
            "strategy_header": work.rules.compaction_strategy_header,
            "aborted": write_transaction_index(
                _reaching(work.aborted, segment.start_offset, segment.end_offset)
            ),
        }
        for (work, i, segment), task, threads in zip(
            numbered, placed, threads_of(sizes, placed, cores), strict=True
        )
    ]
    return rows, tasks


def _reaching(
    aborted: Sequence[AbortedTransaction], start_offset: int, end_offset: int
) -> tuple[AbortedTransaction, ...]:
    """The transactions with an offset in `[start_offset, end_offset]`."""
    return tuple(
        transaction
        for transaction in aborted
        if transaction.first_offset <= end_offset and transaction.last_offset >= start_offset
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOrder:
    """A group to rewrite, and its place in the partition."""

    partition_index: int
    segment_index: int
    """The index of its first segment among the live segments."""
    task: GroupTask

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        """(partition index, segment index) of each of its segments."""
        return tuple(
            (self.partition_index, self.segment_index + i)
            for i in range(len(self.task.group.segments))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The task of each rewritten segment."""

    tasks: int
    task_of: dict[tuple[int, int], int]
    """(partition index, segment index) → task."""


def assigned_groups(rounds: Sequence[Round], cores: int) -> Assignment:
    """Assign the planned groups of the rounds to tasks, by their bytes."""
    return _assigned(
        [
            (group.size_bytes, [(work.index, place[s.segment_id]) for s in group.segments])
            for work in rounds
            for place in [{s.segment_id: i for i, s in enumerate(work.state.segments)}]
            for group in work.groups
        ],
        cores,
    )


def assigned_orders(orders: Sequence[GroupOrder], cores: int) -> Assignment:
    """Assign new groups to tasks: those that were merged with an empty neighbour."""
    return _assigned([(order.task.group.size_bytes, order.places) for order in orders], cores)


def _assigned(groups: Sequence[tuple[int, Sequence[tuple[int, int]]]], cores: int) -> Assignment:
    """`groups`: bytes of each, and the (partition index, segment index) of its segments."""
    placed, tasks = tasks_for([size_bytes for size_bytes, _ in groups], cores)
    task_of = {
        place: task for (_, places), task in zip(groups, placed, strict=True) for place in places
    }
    return Assignment(tasks=tasks, task_of=task_of)


def group_rows(
    orders: Sequence[GroupOrder], assigned_to: Assignment, cores: int
) -> list[dict[str, Any]]:
    """Return rows of `GROUP_SCHEMA`, one per source segment."""
    sizes = [order.task.group.size_bytes for order in orders]
    placed = [assigned_to.task_of[order.partition_index, order.segment_index] for order in orders]
    return [
        {
            "task": task,
            "partition_index": order.partition_index,
            "segment_index": order.segment_index + i,
            "payload": pickled(replace(order.task, threads=threads)) if i == 0 else None,
        }
        for order, task, threads in zip(
            orders, placed, threads_of(sizes, placed, cores), strict=True
        )
        for i in range(len(order.task.group.segments))
    ]


def group_orders(
    work: Round,
    transaction_status: TransactionStatus,
    *,
    wanted: Mapping[int, SegmentGroup],
    empty: frozenset[int] = frozenset(),
) -> Iterator[GroupOrder]:
    """Yield orders for the `wanted` groups, by their number in the round.

    `empty`: the numbers of the groups that keep no record and have no neighbour to merge with.
    """
    whole = _round_rules(work)
    place = {segment.segment_id: i for i, segment in enumerate(work.state.segments)}
    discardable = transaction_status.discardable
    for number, group in wanted.items():
        start, end = group.start_offset, group.end_offset
        is_round_of_its_own = work.is_partial or number in empty
        # Readers get stuck at a gap at the end of the remote range.
        is_end = work.reaches_end and end + 1 == work.next_offset
        inside = discardable[
            np.searchsorted(discardable, start) : np.searchsorted(discardable, end, "right")
        ]
        yield GroupOrder(
            partition_index=work.index,
            segment_index=place[group.segments[0].segment_id],
            task=GroupTask(
                key=work.key,
                group_index=number,
                group=group,
                rules=replace(whole, next_offset=end + 1) if is_round_of_its_own else whole,
                aborted=_reaching(work.aborted, start, end),
                discardable=inside,
                listed=tuple(t for t in transaction_status.listed if start <= t.last_offset <= end),
                ends_in_batch=is_round_of_its_own or is_end,
                run=work.state.owner_run,
                index_interval_bytes=work.rules.index_interval_bytes,
            ),
        )


def _round_rules(work: Round) -> RoundRules:
    data, markers = producer_pairs(
        work.producers,
        now_ms=work.now_ms,
        expiration_ms=work.rules.producer_id_expiration_ms,
    )
    return RoundRules(
        now_ms=work.now_ms,
        delete_retention_ms=work.rules.delete_retention_ms,
        next_offset=work.next_offset,
        last_data_offsets=data,
        marker_epochs=markers,
        legacy_delete_horizon_ms=legacy_delete_horizon_ms(
            work.segments, work.first_dirty, work.rules.delete_retention_ms
        ),
        keeps_tombstones=work.keeps_tombstones,
    )

"""Assigns the work of a stage to tasks, by bytes, and turns it into rows."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import exp
from typing import Final

from tierfold.compaction.cleaning.rounds import GroupTask, Round
from tierfold.compaction.model.aborted_transactions import reaching
from tierfold.compaction.model.spared_bytes import spared_sum
from tierfold.compaction.skipping.skip_decision import COMPETING_MAX
from tierfold.jobs.engines.probe import ProbeTask
from tierfold.jobs.engines.rows import Row, RowKind, pickled
from tierfold.jobs.engines.scan import ScanTask
from tierfold.storage.kafka.record_versions import VersionSource
from tierfold.storage.segments.segment_check import CheckOrder
from tierfold.storage.segments.segment_scan import ScanOrder

BUCKET_BYTES: Final = 64 * 2**20
"""Log bytes per key bucket; the keys in them need a fraction of a worker's memory."""

TASK_BYTES: Final = 512 * 2**20
"""Log bytes per task; a larger segment is still one task.

Between two tasks a core waits 10 to 20 ms for Spark. Measured with segments of 256 MiB, each in a
task of its own and two in one: eight partitions of 1 GB 3.8 and 3.4 s, 4 GB of zstd 6.4 and 5.8.
"""

SHUFFLE_PARTITION_BYTES: Final = 512 * 2**20
"""Log bytes whose keys are reduced at a time. A task holds them as blocks, one bucket of them
unpacked, and in the end the ordinals of superseded records: of uncompressed records a fraction of
these bytes, of compressed ones perhaps a multiple.
"""

REDUCE_TASK_BYTES: Final = 2 * 2**30
"""Log bytes whose keys one task reduces, one shuffle partition after the other.

Each task costs some 10 ms, and its result as much again when the rewrite shuffles it. Measured with
a task per shuffle partition and with one per core: 4 GB of 1 KB values 3.37 and 3.25 CPU seconds,
eight partitions of 1 GB 3.6 and 3.35 s elapsed.
"""

THREADS_MAX: Final = 4
"""Maximum threads of a task that exceeds its share of the bytes; small machines have 4 cores."""

TASKS_PER_CORE: Final = 2
"""Minimum number of tasks per core, if there is enough work; more tasks even out the load."""

KEPT_SHARE: Final = 1 / 8
"""The share of a partition's bytes that a rewrite is assumed to keep; it orders the groups."""

READ_COST: Final = 1 / 10
"""The cost of reading a byte, relative to the cost of keeping it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The task of each rewritten segment."""

    tasks: int
    task_of: Mapping[tuple[int, int], int]
    """(partition index, segment index) → task."""

    def fits(self, tasks: Sequence[GroupTask]) -> bool:
        """Whether all segments of each group are in one task."""
        return all(len({self.task_of.get(place) for place in task.places}) == 1 for task in tasks)


def buckets_of(size_bytes: int) -> int:
    """Return how many buckets the keys of a partition are split into, by its log bytes."""
    return max(1, -(-size_bytes // BUCKET_BYTES))


def bucket_sizes(sizes: Sequence[int]) -> list[int]:
    """Return the log bytes of every bucket of partitions of these log bytes."""
    return [
        size // buckets for size in sizes for buckets in [buckets_of(size)] for _ in range(buckets)
    ]


def task_count(sizes: Sequence[int], *, task_bytes: int, tasks_min: int) -> int:
    """Return the number of tasks for items of these `sizes` in bytes.

    One task per `task_bytes`, at least `tasks_min`, and no more tasks than items.
    """
    if not sizes:
        return 0
    by_bytes = -(-sum(sizes) // task_bytes)
    return max(1, min(len(sizes), max(by_bytes, tasks_min)))


def assigned(
    sizes: Sequence[int], tasks: int, costs: Sequence[float] | None = None
) -> list[int]:
    """Return the task of each item: the most expensive goes first, each to the least loaded task.

    Tasks begin in their order, so no long one begins last. `costs`: by default the sizes.
    """
    costs = sizes if costs is None else costs
    loads = [(0, task) for task in range(tasks)]
    placed = [0] * len(sizes)
    for item in sorted(range(len(sizes)), key=lambda i: (-costs[i], i)):
        load, task = heapq.heappop(loads)
        placed[item] = task
        # One byte more per item, or all empty items would go to one task.
        heapq.heappush(loads, (load + sizes[item] + 1, task))
    return placed


def tasks_for(
    sizes: Sequence[int], cores: int, costs: Sequence[float] | None = None
) -> tuple[list[int], int]:
    """Return the task of each item, and the number of tasks; `costs` as in `assigned`."""
    tasks = task_count(sizes, task_bytes=TASK_BYTES, tasks_min=TASKS_PER_CORE * cores)
    return assigned(sizes, tasks, costs), tasks


def rewrite_costs(sizes: Sequence[int], partitions: Sequence[int]) -> list[float]:
    """Return how long the rewrite of each group may take, in bytes that are kept.

    It assumes that keys are updated evenly: the more bytes follow a record, the less likely it is
    kept. `KEPT_SHARE` of a partition's bytes are kept in all. `partitions`: the partition index of
    each group.
    """
    totals: Counter[int] = Counter()
    for size, partition in zip(sizes, partitions, strict=True):
        totals[partition] += size
    costs = []
    before: Counter[int] = Counter()
    for size, partition in zip(sizes, partitions, strict=True):
        kept_bytes = max(1.0, KEPT_SHARE * totals[partition])
        before[partition] += size
        behind = totals[partition] - before[partition]
        kept = exp(-behind / kept_bytes) - exp(-(behind + size) / kept_bytes)
        costs.append(kept_bytes * kept + READ_COST * size)
    return costs


def reduce_split(sizes: Sequence[int], cores: int) -> tuple[int, int]:
    """Return how many shuffle partitions, and how many tasks, share the buckets of partitions.

    `sizes`: their log bytes.
    """
    buckets = bucket_sizes(sizes)
    return (
        task_count(buckets, task_bytes=SHUFFLE_PARTITION_BYTES, tasks_min=cores),
        task_count(buckets, task_bytes=REDUCE_TASK_BYTES, tasks_min=cores),
    )


def compare_tasks(sizes: Sequence[int], cores: int) -> int:
    """Return how many tasks compare the latest values of partitions of these log bytes.

    One per bucket, if there are enough: a task holds the values of its buckets on both sides.
    """
    tasks_min = TASKS_PER_CORE * cores
    return task_count(bucket_sizes(sizes), task_bytes=BUCKET_BYTES, tasks_min=tasks_min)


def threads_of(sizes: Sequence[int], placed: Sequence[int], cores: int) -> list[int]:
    """Return how many threads the task of each item should use, by its bytes.

    One, unless the task was assigned more than its share. Idle cores then help it.
    """
    loads: dict[int, int] = defaultdict(int)
    for size, task in zip(sizes, placed, strict=True):
        loads[task] += size
    share = max(1, sum(sizes) // cores)
    return [max(1, min(THREADS_MAX, -(-loads[task] // share))) for task in placed]


def first_bucket_tasks(sizes: Mapping[int, int]) -> dict[int, int]:
    """Return the task of each partition's first bucket; `sizes`: log bytes by partition index."""
    return dict(zip(sizes, accumulate(map(buckets_of, sizes.values()), initial=0), strict=False))


def scan_rows(
    rounds: Sequence[Round],
    cores: int,
    places: Container[tuple[int, int]] | None = None,
    unindexed: Container[tuple[int, int]] = (),
) -> tuple[list[Row], int]:
    """Return a SCAN row per segment to scan, and the number of tasks.

    Of a segment that is not a source, only the transaction batches are read. `places`: (partition
    index, segment index) of the segments to scan now; None: all. `unindexed`: of clean ones that
    get a key index; a dirty one gets it if it is alone in its group, and loses nothing.
    """
    numbered = [
        (work, i, segment)
        for work in rounds
        for i, segment in work.scanned
        if places is None or (work.index, i) in places
    ]
    skippable = {work.index: {i for i, _ in work.skippable} for work in rounds}
    shares = {work.index: _competing_share(work) for work in rounds}
    sources = {work.index: {s.segment_id for s in work.compact.sources} for work in rounds}
    alone = {work.index: _alone_and_dirty(work) for work in rounds}
    sizes = [segment.size_bytes for *_, segment in numbered]
    placed, tasks = tasks_for(sizes, cores)
    rows = []
    for (work, i, segment), task, threads in zip(
        numbered, placed, threads_of(sizes, placed, cores), strict=True
    ):
        is_source = segment.segment_id in sources[work.index]
        order = replace(
            _scan_order(work, threads),
            competing_max=0 if i in skippable[work.index] else shares[work.index],
            fpp=work.fpp
            if (work.index, i) in unindexed or segment.segment_id in alone[work.index]
            else None,
        )
        scan = ScanTask(
            key=work.key,
            segment=segment,
            aborted=reaching(work.aborted, segment.start_offset, segment.end_offset),
            order=order if is_source else None,
            batch_bytes_max=work.rules.decompressed_batch_max_bytes or 0,
        )
        rows.append(_row(task, work.index, i, RowKind.SCAN, scan))
    return rows, tasks


def _alone_and_dirty(work: Round) -> set[str]:
    """Ids of the dirty segments that are not rewritten if they lose nothing."""
    return {
        group.segments[0].segment_id
        for group in work.groups
        if len(group.segments) == 1 and group.end_offset >= work.compact.first_dirty
    }


def _competing_share(work: Round) -> int:
    """How many competing keys the driver accepts from one dirty segment; 0: it asks for none.

    The driver holds the competing keys of all segments of a round.
    """
    dirty = len(work.compact.sources) - len(work.skippable)
    return max(1, COMPETING_MAX // max(1, dirty)) if work.skippable else 0


def _scan_order(work: Round, threads: int) -> ScanOrder:
    return ScanOrder(
        first_dirty=work.compact.first_dirty,
        buckets=buckets_of(work.size_bytes),
        hash_key=work.hash_key,
        threads=threads,
        versions=VersionSource(
            strategy=work.rules.compaction_strategy,
            header=work.rules.compaction_strategy_header,
        ),
        record_bytes_max=work.rules.max_decompressed_message_bytes,
    )


def probe_rows(rounds: Sequence[Round], cores: int) -> tuple[list[Row], int]:
    """Return a PROBE row per segment that may stay unread, and the number of tasks."""
    numbered = [(work, i, segment) for work in rounds for i, segment in work.skippable]
    placed, tasks = tasks_for([segment.size_bytes for *_, segment in numbered], cores)
    rows = []
    for (work, i, segment), task in zip(numbered, placed, strict=True):
        probe = ProbeTask(
            key=work.key,
            segment=segment,
            rules=work.rules,
            spared_bytes=spared_sum(
                entry
                for entry in work.state.spared
                if entry.segment_id == segment.segment_id
            ),
        )
        rows.append(_row(task, work.index, i, RowKind.PROBE, probe))
    return rows, tasks


def assigned_rounds(rounds: Sequence[Round], cores: int) -> Assignment:
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


def assigned_groups(tasks: Sequence[GroupTask], cores: int) -> Assignment:
    """Assign other groups to tasks: those that were merged with an empty neighbour."""
    return _assigned([(task.group.size_bytes, task.places) for task in tasks], cores)


def _assigned(groups: Sequence[tuple[int, Sequence[tuple[int, int]]]], cores: int) -> Assignment:
    """`groups`: the bytes of each, and the (partition index, segment index) of its segments."""
    sizes = [size_bytes for size_bytes, _ in groups]
    costs = rewrite_costs(sizes, [places[0][0] for _, places in groups])
    placed, tasks = tasks_for(sizes, cores, costs)
    task_of = {
        place: task for (_, places), task in zip(groups, placed, strict=True) for place in places
    }
    return Assignment(tasks=tasks, task_of=task_of)


def rewrite_rows(groups: Sequence[GroupTask], assigned_to: Assignment, cores: int) -> list[Row]:
    """Return a REWRITE row per group, at its first segment."""
    sizes = [group.group.size_bytes for group in groups]
    placed = [assigned_to.task_of[group.places[0]] for group in groups]
    threads = threads_of(sizes, placed, cores)
    if assigned_to.tasks <= TASKS_PER_CORE * cores:
        # The partition's other tasks end early and leave cores idle.
        costs = rewrite_costs(sizes, [group.partition_index for group in groups])
        costliest = {
            groups[i].partition_index: i for i in sorted(range(len(groups)), key=costs.__getitem__)
        }
        for i in costliest.values():
            threads[i] = max(threads[i], min(2, cores))
    return [
        _row(task, *group.places[0], RowKind.REWRITE, replace(group, threads=count))
        for group, task, count in zip(groups, placed, threads, strict=True)
    ]


def check_rows(orders: Sequence[Sequence[CheckOrder]], cores: int) -> tuple[list[Row], int]:
    """Return a CHECK row per segment, and the number of tasks; `orders`: those of each partition.

    A row's `segment_index` is the order's number within its partition.
    """
    numbered = [
        (index, i, order) for index, of_one in enumerate(orders) for i, order in enumerate(of_one)
    ]
    placed, tasks = tasks_for([order.segment.size_bytes for *_, order in numbered], cores)
    rows = [
        _row(task, index, i, RowKind.CHECK, order)
        for (index, i, order), task in zip(numbered, placed, strict=True)
    ]
    return rows, tasks


def _row(
    task: int, partition_index: int, segment_index: int, kind: RowKind, payload: object
) -> Row:
    return Row(
        task=task,
        partition_index=partition_index,
        segment_index=segment_index,
        kind=kind,
        payload=pickled(payload),
    )

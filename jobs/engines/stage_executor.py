"""What runs the stages: Spark, or this process. The order of the stages is the same in both.

    scan      stages 4 and 5 of some rounds: what they hold, and which records are superseded
    rewrite   stage 6: some groups of the rounds that were scanned
    verify    the stages of `verify`

An executor keeps what `scan` found for `rewrite`, until `release`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Generic, TypeVar

from tierfold.compaction.cleaning.rounds import GroupTask, Round
from tierfold.compaction.commits.receipts import GroupReceipt
from tierfold.jobs.engines.check import CheckStage, CompareStage
from tierfold.jobs.engines.reduce import ReduceStage
from tierfold.jobs.engines.rewrite import BIT_OF, MoveStage, RewriteStage
from tierfold.jobs.engines.rows import FOR_DRIVER, Row, RowKind, Stage, unpickled
from tierfold.jobs.engines.scan import ScanStage, ScanSummary, summed
from tierfold.jobs.engines.task_assignment import (
    Assignment,
    assigned_groups,
    assigned_rounds,
    bucket_sizes,
    buckets_of,
    check_rows,
    reduce_tasks,
    rewrite_rows,
    scan_rows,
    tasks_for,
)
from tierfold.storage.segments.segment_check import CheckOrder

RowsT = TypeVar("RowsT")
"""An engine's rows, perhaps not computed yet."""

_BITS = frozenset(BIT_OF)


class WorkersDied(Exception):
    """A stage ended early over some rows, however often it was tried."""

    def __init__(self, cause: str, *, is_over: bool = False, is_bug: bool = False) -> None:
        super().__init__(cause)
        self.cause = cause
        self.is_over = is_over
        """The engine itself is gone, so that a retry cannot succeed."""
        self.is_bug = is_bug
        """An error of our own ended it, not the end of a process."""

    @property
    def sentence(self) -> str:
        """Why a partition stops, for its report."""
        if self.is_bug:
            return f"{self.cause}. This is a bug; please report it. Nothing was committed."
        if self.is_over:
            return (
                f"Spark's own process (java) has died ({self.cause}). The system's log may say why"
                " (dmesg; often memory ran out). Nothing of this chunk was committed; run again."
            )
        return (
            "a Spark worker died over this partition, and so did those that tried again"
            f" ({self.cause}). Its log says more; often it needs more memory. Nothing was"
            " committed."
        )


class StageExecutor(ABC, Generic[RowsT]):
    """Runs the stages over rows that are assigned to tasks."""

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self._scanned: RowsT | None = None
        self._assigned = Assignment(tasks=0, task_of={})

    def scan(self, rounds: Sequence[Round]) -> dict[int, ScanSummary | str]:
        """Scan and reduce rounds; return by index what each holds, or why it stops.

        A round that was scanned before is scanned anew. Raises WorkersDied.
        """
        with self.answering():
            return self._scan(rounds)

    def _scan(self, rounds: Sequence[Round]) -> dict[int, ScanSummary | str]:
        rows, tasks = scan_rows(rounds, self.cores)
        if self._scanned is None:
            self._assigned = assigned_rounds(rounds, self.cores)
        sizes = {work.index: work.size_bytes for work in rounds}
        reduce = ReduceStage(
            buckets={index: buckets_of(size) for index, size in sizes.items()},
            task_of=self._assigned.task_of,
        )
        found = self.run(ScanStage(), self.placed(rows), tasks)
        found = self.kept(self.run(reduce, found, reduce_tasks([*sizes.values()], self.cores)))
        size_bytes = sum(work.scan_bytes for work in rounds)
        summaries = self.taken("scan", size_bytes, self.only(found, FOR_DRIVER))
        if self._scanned is not None:
            others = {
                place: task
                for place, task in self._assigned.task_of.items()
                if place[0] not in sizes
            }
            rest = self.run(MoveStage(task_of=others), self.only(self._scanned, _BITS), None)
            found = self.joined(rest, found)
        self._scanned = found
        return _by_round(summaries)

    def rewrite(self, groups: Sequence[GroupTask]) -> list[tuple[int, GroupReceipt | str]]:
        """Rewrite groups of scanned rounds; return (round index, receipt or why it stops).

        The receipts of a round come in no order. Raises WorkersDied.
        """
        if self._scanned is None or not groups:
            return []
        with self.answering():
            return self._rewrite(groups, self._scanned)

    def _rewrite(
        self, groups: Sequence[GroupTask], scanned: RowsT
    ) -> list[tuple[int, GroupReceipt | str]]:
        bits = self.only(scanned, _BITS)
        assigned_to = self._assigned
        if not assigned_to.fits(groups):
            assigned_to = assigned_groups(groups, self.cores)
            bits = self.run(MoveStage(task_of=assigned_to.task_of), bits, None)
        rows = self.joined(bits, self.placed(rewrite_rows(groups, assigned_to, self.cores)))
        done = self.run(RewriteStage(), rows, assigned_to.tasks)
        size_bytes = sum(task.group.size_bytes for task in groups)
        found = self.taken("rewrite", size_bytes, done)
        return [(row.partition_index, unpickled(row.payload)) for row in found]

    def verify(
        self, orders: Sequence[Sequence[CheckOrder]], passes: Mapping[int, Sequence[int]]
    ) -> list[Row]:
        """Check segments and compare keys; return CHECKED, FAILED and COMPARED rows.

        `orders`: those of each partition, which share their buckets; a row's `segment_index` is the
        order's number within its partition. `passes`: as in `CompareStage`. Raises WorkersDied.
        """
        with self.answering():
            return self._verify(orders, passes)

    def _verify(
        self, orders: Sequence[Sequence[CheckOrder]], passes: Mapping[int, Sequence[int]]
    ) -> list[Row]:
        rows, tasks = check_rows(orders, self.cores)
        totals = [sum(order.segment.size_bytes for order in of_one) for of_one in orders]
        _, compare_tasks = tasks_for(bucket_sizes(totals), self.cores)
        checked = self.run(CheckStage(), self.placed(rows), tasks)
        compared = self.run(CompareStage(passes=dict(passes)), checked, compare_tasks)
        return self.taken("verify", sum(totals), compared)

    def release(self) -> None:
        """Drop what `scan` found."""
        self._scanned = None

    def answering(self) -> AbstractContextManager[None]:
        """Return a context that raises WorkersDied for the engine's own errors."""
        return nullcontext()

    @abstractmethod
    def placed(self, rows: Sequence[Row]) -> RowsT:
        """Hand the driver's rows to the engine."""

    @abstractmethod
    def run(self, stage: Stage, rows: RowsT, tasks: int | None) -> RowsT:
        """Send rows to `tasks` tasks by their `task`, and run the stage; None: where they are."""

    @abstractmethod
    def kept(self, rows: RowsT) -> RowsT:
        """Return the rows, to be computed once and kept until `release`."""

    @abstractmethod
    def only(self, rows: RowsT, kinds: frozenset[RowKind]) -> RowsT:
        """Return the rows of these kinds."""

    @abstractmethod
    def joined(self, rows: RowsT, more: RowsT) -> RowsT:
        """Return both."""

    @abstractmethod
    def taken(self, title: str, size_bytes: int, rows: RowsT) -> list[Row]:
        """Compute the rows and return them to the driver, with a bar of `size_bytes`.

        Raises WorkersDied; Stopped after a signal.
        """


def _by_round(summaries: Sequence[Row]) -> dict[int, ScanSummary | str]:
    found: dict[int, list[ScanSummary]] = defaultdict(list)
    failures: dict[int, str] = {}
    for row in sorted(summaries, key=lambda row: (row.partition_index, row.segment_index)):
        if row.kind is RowKind.FAILED:
            failures.setdefault(row.partition_index, unpickled(row.payload))
        else:
            found[row.partition_index].append(unpickled(row.payload))
    return {index: summed(of_one) for index, of_one in found.items()} | failures

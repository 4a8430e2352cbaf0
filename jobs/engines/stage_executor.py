"""Runs the stages on Spark or in this process, in the same order on both.

    scan      stages 4 and 5 of some rounds: count records and find the superseded ones; clean
              segments are read only if their key indexes do not rule such records out
    rewrite   stage 6: some groups of the scanned rounds
    verify    the stages of `verify`

An executor keeps the result of `scan` for `rewrite`, until `release`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

from tierfold.compaction.cleaning.rounds import GroupTask, Round
from tierfold.compaction.commits.receipts import GroupReceipt
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.jobs.engines.check import CheckStage, CompareStage
from tierfold.jobs.engines.probe import ProbeStage, competing_by_round, sorted_by_answer
from tierfold.jobs.engines.reduce import ReduceStage
from tierfold.jobs.engines.rewrite import FOR_REWRITE, MoveStage, RewriteStage
from tierfold.jobs.engines.rows import FOR_DRIVER, Row, RowKind, Stage, unpickled
from tierfold.jobs.engines.scan import ScanStage, ScanSummary, summed
from tierfold.jobs.engines.task_assignment import (
    Assignment,
    assigned_groups,
    assigned_rounds,
    buckets_of,
    check_rows,
    compare_tasks,
    first_bucket_tasks,
    probe_rows,
    reduce_split,
    rewrite_rows,
    scan_rows,
)
from tierfold.storage.segments.segment_check import CheckOrder

RowsT = TypeVar("RowsT")
"""An engine's rows, which may not be computed yet."""


class WorkersDied(Exception):
    """A stage failed each time: a process died, memory ran out, or a task raised an error."""

    def __init__(self, what: str, *, remedy: str = "Run again.", is_over: bool = False) -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy
        self.is_over = is_over
        """The engine itself is gone, or its workers lack the tier: less data would fail, too."""


class StageExecutor(ABC, Generic[RowsT]):
    """Runs the stages over rows that are assigned to tasks."""

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self._scanned: RowsT | None = None
        self._assigned = Assignment(tasks=0, task_of={})

    def scan(self, rounds: Sequence[Round]) -> dict[int, ScanSummary | RefusalPart]:
        """Scan and reduce rounds; return by index what each holds, or why it stops.

        A round that was scanned before is scanned again. Raises WorkersDied.
        """
        if self._scanned is None:
            self._assigned = assigned_rounds(rounds, self.cores)
        task_of = self._assigned.task_of
        sizes = {work.index: work.size_bytes for work in rounds}
        buckets = {index: buckets_of(size) for index, size in sizes.items()}
        shuffle_partitions, tasks = reduce_split([*sizes.values()], self.cores)
        reduce = ReduceStage(
            buckets=buckets, shuffle_partitions=shuffle_partitions, task_of=task_of
        )
        with self.translated_errors():
            title, found, indexed, scan_bytes = self._keys(rounds)
            reduced = self.run_in_turn(reduce, found, tasks, shuffle_partitions)
            found = self.persisted(reduced)
            summaries = self.collected(title, scan_bytes, self.of_kinds(found, FOR_DRIVER))
            if self._scanned is not None:
                others = {place: task for place, task in task_of.items() if place[0] not in sizes}
                known = self.of_kinds(self._scanned, FOR_REWRITE)
                rest = self.run(MoveStage(task_of=others), known, None)
                found = self.union(rest, found)
        self._scanned = found
        return _by_round([*summaries, *indexed])

    def _keys(self, rounds: Sequence[Round]) -> tuple[str, RowsT, list[Row], int]:
        """Scan the rounds, except clean segments whose key indexes rule out superseded records.

        Return a title for the remaining work; the rows, some not computed yet; a SCANNED row per
        probed segment; and the bytes that are still to be scanned.
        """
        sizes = {(work.index, i): one.size_bytes for work in rounds for i, one in work.scanned}
        probes, probe_tasks = probe_rows(rounds, self.cores)
        places = {row.place for row in probes}
        first = sizes.keys() - places
        found = self._scan(rounds, first)
        if not probes:
            return "scan", found, [], sum(sizes.values())
        found = self.persisted(found)
        kinds = frozenset({RowKind.COMPETING, RowKind.FAILED})
        first_bytes = sum(sizes[place] for place in first)
        scanned = self.collected("scan", first_bytes, self.of_kinds(found, kinds))
        stage = ProbeStage(competing=competing_by_round(rounds, scanned))
        asked = [row for row in probes if row.partition_index in stage.competing]
        probed: list[Row] = []
        if asked:
            run = self.run(stage, None, probe_tasks, asked)
            asked_bytes = sum(sizes[row.place] for row in asked)
            probed = self.collected("indexes", asked_bytes, run)
        sorted_out = sorted_by_answer(probed)
        rest = places - sorted_out.skipped
        if rest:
            found = self.union(found, self._scan(rounds, rest, sorted_out.unindexed))
        rest_bytes = sum(sizes[place] for place in rest)
        return "scan clean", found, sorted_out.summaries, rest_bytes

    def _scan(
        self,
        rounds: Sequence[Round],
        places: AbstractSet[tuple[int, int]],
        unindexed: AbstractSet[tuple[int, int]] = frozenset(),
    ) -> RowsT:
        """Scan the segments at `places`; those of `unindexed` get a key index."""
        rows, tasks = scan_rows(rounds, self.cores, places, unindexed)
        totals = {work.index: work.size_bytes for work in rounds}
        stage = ScanStage(first_bucket_task=first_bucket_tasks(totals))
        return self.run(stage, None, max(1, tasks), rows)

    def rewrite(self, groups: Sequence[GroupTask]) -> list[tuple[int, GroupReceipt | RefusalPart]]:
        """Rewrite groups of scanned rounds; return (round index, receipt or why it stops).

        The receipts of a round are in no order. Raises WorkersDied.
        """
        if self._scanned is None or not groups:
            return []
        size_bytes = sum(task.group.size_bytes for task in groups)
        with self.translated_errors():
            known = self.of_kinds(self._scanned, FOR_REWRITE)
            assigned_to = self._assigned
            if not assigned_to.fits(groups):
                assigned_to = assigned_groups(groups, self.cores)
                known = self.run(MoveStage(task_of=assigned_to.task_of), known, None)
            orders = rewrite_rows(groups, assigned_to, self.cores)
            done = self.run(RewriteStage(), known, assigned_to.tasks, orders)
            found = self.collected("rewrite", size_bytes, done)
        return [(row.partition_index, unpickled(row.payload)) for row in found]

    def verify(
        self, orders: Sequence[Sequence[CheckOrder]], passes: Mapping[int, Sequence[int]]
    ) -> list[Row]:
        """Check segments and compare keys; return CHECKED, FAILED and COMPARED rows.

        `orders`: those of each partition, which share their buckets. A row's `segment_index` is the
        order's number within its partition. `passes`: as in `CompareStage`. Raises WorkersDied.
        """
        rows, tasks = check_rows(orders, self.cores)
        totals = [sum(order.segment.size_bytes for order in of_one) for of_one in orders]
        check = CheckStage(first_bucket_task=first_bucket_tasks(dict(enumerate(totals))))
        with self.translated_errors():
            checked = self.run(check, None, tasks, rows)
            compare = CompareStage(passes=dict(passes))
            compared = self.run(compare, checked, compare_tasks(totals, self.cores))
            return self.collected("verify", sum(totals), compared)

    def release(self) -> None:
        """Drop the result of `scan`."""
        self._scanned = None

    @abstractmethod
    def translated_errors(self) -> AbstractContextManager[None]:
        """Return a context that raises WorkersDied for the engine's own errors."""

    @abstractmethod
    def run(
        self, stage: Stage, rows: RowsT | None, tasks: int | None, orders: Sequence[Row] = ()
    ) -> RowsT:
        """Run the stage on rows of earlier stages, if there are any, and on the driver's `orders`.

        Each goes to the task that its `task` names, of `tasks` tasks, orders first. Without orders,
        `tasks` may be None: then the rows stay where they are.
        """

    @abstractmethod
    def run_in_turn(
        self, stage: Stage, rows: RowsT, tasks: int, shuffle_partitions: int
    ) -> RowsT:
        """Run the stage on rows of earlier stages; each goes to one of `shuffle_partitions`.

        That is the remainder of its `task`. A task takes whole shuffle partitions, one after the
        other. An engine that does not shuffle has a task for each number instead.
        """

    @abstractmethod
    def persisted(self, rows: RowsT) -> RowsT:
        """Return the rows, which are computed once and kept until `release`."""

    @abstractmethod
    def of_kinds(self, rows: RowsT, kinds: frozenset[RowKind]) -> RowsT:
        """Return the rows of these kinds."""

    @abstractmethod
    def union(self, rows: RowsT, more: RowsT) -> RowsT:
        """Return the rows of both."""

    @abstractmethod
    def collected(self, title: str, size_bytes: int, rows: RowsT) -> list[Row]:
        """Compute the rows and return them to the driver, with a bar of `size_bytes`.

        Raises WorkersDied; Stopped after a signal.
        """


def _by_round(summaries: Sequence[Row]) -> dict[int, ScanSummary | RefusalPart]:
    found: dict[int, list[ScanSummary]] = defaultdict(list)
    failures: dict[int, RefusalPart] = {}
    for row in sorted(summaries, key=lambda row: row.place):
        if row.kind is RowKind.FAILED:
            failures.setdefault(row.partition_index, unpickled(row.payload))
        else:
            found[row.partition_index].append(unpickled(row.payload))
    return {index: summed(of_one) for index, of_one in found.items()} | failures

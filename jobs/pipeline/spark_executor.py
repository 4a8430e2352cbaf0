"""Runs stages 4 to 6 of claimed rounds on Spark: scan, reduce, rewrite; then `check_and_commit`.

Nothing is visible before the commit: a run that is killed leaves only orphans. A failure stops its
own partition; the others go on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tierfold.compaction.cleaning.keyless_records import too_many_keyless
from tierfold.compaction.cleaning.transactions import (
    TransactionStatus,
    joined_batches,
    transaction_status,
)
from tierfold.compaction.commits.receipts import GroupReceipt, GroupResult
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.planning.empty_groups import MergedGroups, merge_empty
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.pipeline.check_and_commit import Rewritten, RoundResult, check_and_commit
from tierfold.jobs.pipeline.stages.reduce import ReducePlan, reduced
from tierfold.jobs.pipeline.stages.rewrite import GROUP_SCHEMA, reassigned, rewritten
from tierfold.jobs.pipeline.stages.scan import SegmentScanned, scanned
from tierfold.jobs.pipeline.stages.segment_rows import (
    REFERENCE_SCHEMA,
    Row,
    RowKind,
    rows_of,
    unpickled,
)
from tierfold.jobs.pipeline.task_assignment import (
    Assignment,
    GroupOrder,
    Round,
    assigned_groups,
    assigned_orders,
    group_orders,
    group_rows,
    reduce_tasks,
    reference_rows,
)
from tierfold.jobs.spark.progress import ByteProgress
from tierfold.jobs.spark.session import has_died
from tierfold.storage.catalog.catalog import Catalog


@dataclass(slots=True)
class _Progressing:
    """The state of the rounds so far, by partition index."""

    rounds: dict[int, Round]
    assigned: Assignment
    """The tasks of the planned groups."""
    statuses: dict[int, TransactionStatus] = field(default_factory=dict)
    records: dict[int, int] = field(default_factory=dict)
    record_bytes: dict[int, int] = field(default_factory=dict)
    malformed: dict[int, int] = field(default_factory=dict)
    without_key: dict[int, int] = field(default_factory=dict)
    receipts: dict[int, tuple[GroupReceipt, ...]] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)

    @property
    def working(self) -> list[Round]:
        """The rounds that have not failed."""
        return [work for index, work in self.rounds.items() if index not in self.failures]

    def rewritten(self, index: int) -> Rewritten:
        """Return the outcome of a round so far."""
        found = self.statuses.get(index)
        return Rewritten(
            round=self.rounds[index],
            receipts=self.receipts.get(index, ()),
            records_scanned=self.records.get(index, 0),
            record_bytes_scanned=self.record_bytes.get(index, 0),
            failure=self.failures.get(index),
            unindexed=len(found.unindexed) if found is not None else 0,
            malformed_versions=self.malformed.get(index, 0),
        )


class Pipeline:
    """Runs claimed rounds on one Spark session."""

    def __init__(self, spark: SparkSession, context: RunContext, progress: ByteProgress) -> None:
        self._spark = spark
        self._context = context
        self._tier_uri = context.tier_uri
        self._progress = progress
        self._cores = spark.sparkContext.defaultParallelism
        self._cached: list[DataFrame] = []

    @property
    def has_died(self) -> bool:
        """The session's JVM is gone, so a retry cannot succeed."""
        return has_died(self._spark)

    def run(self, rounds: Sequence[Round], catalog: Catalog) -> list[RoundResult]:
        """Scan, reduce, rewrite, check and commit; return one result per round, in their order."""
        so_far = _Progressing(
            rounds={work.index: work for work in rounds},
            assigned=assigned_groups(rounds, self._cores),
        )
        try:
            superseded = self._scan_and_reduce(so_far, list(rounds))
            superseded = self._scan_again_with_unindexed(so_far, superseded)
            _stop_keyless(so_far)
            self._rewrite_all(so_far, superseded)
        finally:
            while self._cached:
                self._cached.pop().unpersist()
        rewritten = [so_far.rewritten(work.index) for work in rounds]
        return check_and_commit(rewritten, catalog, self._context.tier, self._context.clock)

    def _scan_and_reduce(self, so_far: _Progressing, rounds: list[Round]) -> DataFrame:
        """Stages 4 and 5: store the transactions' status, return superseded records for stage 6."""
        rows, tasks = reference_rows(rounds, self._cores)
        references = self._frame(rows, REFERENCE_SCHEMA)
        superseded = reduced(
            scanned(references, tasks, self._tier_uri, self._progress.bytes_done),
            ReducePlan(
                buckets={work.index: work.buckets for work in rounds},
                tasks=reduce_tasks(rounds, self._cores),
                destinations=so_far.assigned.task_of,
            ),
        ).persist(StorageLevel.MEMORY_AND_DISK)
        self._cached.append(superseded)
        summaries = superseded.where(F.col("kind").isin(int(RowKind.SCANNED), int(RowKind.FAILED)))
        size_bytes = sum(work.scan_bytes for work in rounds)
        table: pa.Table = self._progress.watched("scan", size_bytes, summaries.toArrow)
        self._learn(so_far, rounds, list(rows_of(table.to_batches())))
        return superseded

    @staticmethod
    def _learn(so_far: _Progressing, rounds: list[Round], summaries: list[Row]) -> None:
        by_partition: dict[int, list[SegmentScanned]] = defaultdict(list)
        for row in sorted(summaries, key=lambda row: (row.partition_index, row.segment_index)):
            if row.kind is RowKind.FAILED:
                so_far.failures.setdefault(row.partition_index, unpickled(row.payload))
            else:
                by_partition[row.partition_index].append(unpickled(row.payload))
        for work in rounds:
            if work.index in so_far.failures:
                continue
            found = by_partition[work.index]
            so_far.records[work.index] = sum(segment.records for segment in found)
            so_far.record_bytes[work.index] = sum(segment.record_bytes for segment in found)
            so_far.malformed[work.index] = sum(segment.malformed_versions for segment in found)
            so_far.without_key[work.index] = sum(segment.without_key for segment in found)
            txn_batches = joined_batches([segment.txn_batches for segment in found])
            so_far.statuses[work.index] = transaction_status(txn_batches, work.aborted)
            unexplained = _unexplained(work, so_far.statuses[work.index])
            if unexplained:
                so_far.failures[work.index] = unexplained

    def _scan_again_with_unindexed(self, so_far: _Progressing, superseded: DataFrame) -> DataFrame:
        """Scan partitions with unindexed aborts again, now with these aborts known."""
        doubtful = [work for work in so_far.working if so_far.statuses[work.index].unindexed]
        if not doubtful:
            return superseded
        with_unindexed = [
            replace(work, aborted=_with_unindexed(work, so_far.statuses[work.index]))
            for work in doubtful
        ]
        first_statuses = {work.index: so_far.statuses[work.index] for work in doubtful}
        again = self._scan_and_reduce(so_far, with_unindexed)
        for work in with_unindexed:
            so_far.rounds[work.index] = work
            if work.index not in so_far.failures:
                so_far.statuses[work.index] = replace(
                    so_far.statuses[work.index], unindexed=first_statuses[work.index].unindexed
                )
        indexes = [work.index for work in with_unindexed]
        return superseded.where(~F.col("partition_index").isin(indexes)).unionByName(again)

    def _rewrite_all(self, so_far: _Progressing, superseded: DataFrame) -> None:
        """Stage 6; empty groups are rewritten again, with a neighbour or as one empty batch."""
        orders = [
            order
            for work in so_far.working
            for order in group_orders(
                work,
                so_far.statuses[work.index],
                wanted=dict(enumerate(work.groups)),
            )
        ]
        self._rewrite(so_far, superseded, orders, so_far.assigned)
        orders = []
        for work in so_far.working:
            receipts = so_far.receipts[work.index]
            is_empty = [receipt.result is GroupResult.EMPTY for receipt in receipts]
            if any(is_empty):
                orders += _joined_orders(so_far, work, merge_empty(work.groups, is_empty))
        if orders:
            self._rewrite(so_far, superseded, orders, assigned_orders(orders, self._cores))

    def _rewrite(
        self,
        so_far: _Progressing,
        superseded: DataFrame,
        orders: list[GroupOrder],
        assigned_to: Assignment,
    ) -> None:
        if not orders:
            return
        groups = self._frame(group_rows(orders, assigned_to, self._cores), GROUP_SCHEMA)
        if (
            assigned_to is not so_far.assigned
        ):  # The reduce stage sent the rows to the tasks of the planned groups.
            superseded = reassigned(superseded, groups)
        done = rewritten(
            superseded, groups, assigned_to.tasks, self._tier_uri, self._progress.bytes_done
        )
        size_bytes = sum(order.task.group.size_bytes for order in orders)
        table: pa.Table = self._progress.watched("rewrite", size_bytes, done.toArrow)
        found: dict[int, list[GroupReceipt]] = defaultdict(list)
        for row in rows_of(table.to_batches()):
            if row.kind is RowKind.FAILED:
                so_far.failures.setdefault(row.partition_index, unpickled(row.payload))
            else:
                found[row.partition_index].append(unpickled(row.payload))
        for index, receipts in found.items():
            known = [*so_far.receipts.get(index, ()), *receipts]
            so_far.receipts[index] = tuple(
                sorted(known, key=lambda partition: partition.group_index)
            )

    def _frame(self, rows: list[dict[str, Any]], schema: StructType) -> DataFrame:
        table = pa.Table.from_pylist(rows, schema=to_arrow_schema(schema))
        return self._spark.createDataFrame(table, schema)


def _stop_keyless(so_far: _Progressing) -> None:
    """Stop the rounds that exceed `compact.keyless.max`; nothing of them is written.

    This runs once aborted records are known, because these are dropped anyway.
    """
    for work in so_far.working:
        found = too_many_keyless(
            so_far.without_key[work.index], so_far.records[work.index], work.rules
        )
        if found is not None:
            so_far.failures[work.index] = f"{work.key}: {found.reason}"


def _unexplained(work: Round, found: TransactionStatus) -> str:
    """Why the round stops: a transaction has no marker and no snapshot lists it as open.

    Treated as committed, its record could supersede an older value and be aborted later. Empty: no
    such transaction.
    """
    opened = {
        entry.producer_id
        for entry in work.producers
        if entry.current_txn_first_offset is not None
    }
    for one in found.undecided:
        if one.first_offset < work.next_offset and one.producer_id not in opened:
            return (
                f"{work.key}: the transaction of producer {one.producer_id} from offset "
                f"{one.first_offset} on has no marker in the tier, yet the newest producer "
                "snapshot does not call it open. Compare the newest segment's .snapshot with the "
                "broker's; nothing was committed."
            )
    return ""


def _with_unindexed(
    work: Round, found: TransactionStatus
) -> tuple[AbortedTransaction, ...]:
    """All aborted transactions by marker offset, as an index lists them."""
    return tuple(sorted(work.aborted + found.unindexed, key=lambda entry: entry.last_offset))


def _joined_orders(
    so_far: _Progressing, work: Round, joined: MergedGroups
) -> list[GroupOrder]:
    """Orders for groups that differ from before or stay empty; the others keep their receipts."""
    by_group = dict(zip(work.groups, so_far.receipts[work.index], strict=True))
    kept = {
        number: by_group[group]
        for number, group in enumerate(joined.groups)
        if group in by_group and number not in joined.empty
    }
    so_far.receipts[work.index] = tuple(
        replace(receipt, group_index=number) for number, receipt in kept.items()
    )
    so_far.rounds[work.index] = replace(work, groups=joined.groups)
    wanted = {number: group for number, group in enumerate(joined.groups) if number not in kept}
    return list(
        group_orders(
            so_far.rounds[work.index],
            so_far.statuses[work.index],
            wanted=wanted,
            empty=joined.empty,
        )
    )

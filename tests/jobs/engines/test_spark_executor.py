"""The executor on Spark fulfils the contract, and reports when its workers die."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.jobs.claimed_rounds import claimed_rounds, tasks_of
from tests.jobs.commands import ALWAYS, ON_SPARK, tierfold
from tests.jobs.engines.executor_contract import Executor, ExecutorContract, a_row, death_in
from tests.jobs.tiers import key_of, latest_updates, updated_tier
from tierfold.compaction.cleaning.rounds import Round
from tierfold.compaction.commits.receipts import GroupReceipt
from tierfold.compaction.planning.chunks import UNBOUND
from tierfold.compaction.planning.waves import WaveLimit
from tierfold.jobs.api.frames import read as tierfold_read
from tierfold.jobs.context.byte_progress import unheard
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.engines import engine_choice, spark_executor
from tierfold.jobs.engines.arrow_rows import ROW_SCHEMA, as_batch, rows_of
from tierfold.jobs.engines.rows import Row, RowKind, Stage, Worker
from tierfold.jobs.engines.spark_executor import SparkExecutor
from tierfold.jobs.engines.stage_executor import WorkersDied
from tierfold.jobs.pipeline import run_loop
from tierfold.jobs.pipeline.partition_report import COMPACTED
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.verbs.compact import compact


def on_spark(spark: SparkSession, tier: Path) -> SparkExecutor:
    return SparkExecutor(spark, run_context(str(tier)), unheard)


def passing() -> Stage:
    """A stage that passes its rows on; a closure, because workers cannot import this module."""

    def passed_on(_: Worker, rows: Iterable[Row]) -> Iterator[Row]:
        yield from rows

    return passed_on


class TestSparkExecutor(ExecutorContract):
    """On the one session of the test run."""

    shuffles = True

    @pytest.fixture
    def executor(self, spark: SparkSession, tier: Path) -> Executor:
        return on_spark(spark, tier)

    def bytes_done(self, executor: Executor) -> int:
        assert isinstance(executor, SparkExecutor)
        done: int = executor._progress.bytes_done.value
        return done

    def test_dead_workers_are_reported_and_the_next_scan_succeeds(
        self, executor: Executor, tier: Path
    ) -> None:
        def dying(_: Worker, rows: Iterable[Row]) -> Iterator[Row]:
            yield from rows
            os._exit(1)

        died = death_in(executor, dying, [a_row()])
        assert not died.is_over
        assert died.what.startswith("a Spark worker died, and so did each retry (")
        assert "crashed" in died.what or "exited" in died.what
        assert "more memory" in died.remedy
        _, rounds = claimed_rounds(tier)
        assert set(executor.scan(rounds)) == {0, 1}

    def test_an_error_in_a_stage_is_reported_and_no_worker_died(self, executor: Executor) -> None:
        def failing(_: Worker, rows: Iterable[Row]) -> Iterator[Row]:
            yield from rows
            raise ArithmeticError("7 is not 8")

        died = death_in(executor, failing, [a_row()])
        assert died.what == (
            "a task on a Spark worker failed, and so did each retry (ArithmeticError: 7 is not 8)"
        )
        assert "memory" not in died.remedy
        assert not died.is_over

    @pytest.mark.parametrize("is_empty", [True, False])
    def test_a_folder_that_workers_lack_is_named_once_for_all_rounds(
        self, executor: Executor, tier: Path, *, is_empty: bool
    ) -> None:
        """As on a cluster where only the driver has mounted it."""
        _, rounds = claimed_rounds(tier)
        tier.rename(tier.with_name("elsewhere"))
        if is_empty:
            tier.mkdir()
        with pytest.raises(WorkersDied) as died:
            executor.scan(rounds)
        assert f"{tier}: on this worker (" in died.value.what
        assert "the folder is missing or holds no tier" in died.value.what
        assert "Mount the tier's file system at this path" in died.value.what
        assert "died" not in died.value.what
        assert died.value.is_over

    def test_a_release_unpersists_everything(
        self, executor: Executor, spark: SparkSession, tier: Path
    ) -> None:
        before = spark.sparkContext._jsc.getPersistentRDDs().size()
        _, rounds = claimed_rounds(tier)
        executor.scan(rounds)
        executor.scan(rounds[:1])
        executor.rewrite(tasks_of(rounds[0]))
        assert spark.sparkContext._jsc.getPersistentRDDs().size() > before
        executor.release()
        assert spark.sparkContext._jsc.getPersistentRDDs().size() == before

    def test_after_a_scan_a_worker_freezes_its_objects_for_the_collector(
        self, executor: Executor, spark: SparkSession, tier: Path
    ) -> None:
        executor.scan(claimed_rounds(tier)[1])

        def frozen(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            list(batches)
            yield pa.RecordBatch.from_pydict({"frozen": [gc.get_freeze_count()]})

        counts = spark.range(0, 2, 1, 2).mapInArrow(frozen, "frozen long").toArrow()
        assert max(counts["frozen"].to_pylist()) > 0

    def test_rows_survive_arrow_and_spark(self, executor: Executor) -> None:
        of_superseded = a_row(RowKind.SUPERSEDED_ORDINALS, bytes(range(256)), segment_index=2)
        rows = [
            replace(of_superseded, partition_index=1, bucket=3),
            a_row(RowKind.KEYS, task=5),
        ]
        assert executor.collected("rows", 1, executor.run(passing(), None, 6, rows)) == rows
        assert executor.collected("none", 1, executor.run(passing(), None, 1, [])) == []

    def test_many_orders_are_shuffled(
        self, executor: Executor, rounds: list[Round], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # No orders travel with a stage's code.
        monkeypatch.setattr(spark_executor, "ORDER_BYTES_MAX", 0)
        monkeypatch.setattr(spark_executor, "only_orders", lambda _: rows_of)
        monkeypatch.setattr(spark_executor, "orders_first", lambda _: rows_of)
        assert set(executor.scan(rounds)) == {0, 1}
        receipts = executor.rewrite([task for work in rounds for task in tasks_of(work)])
        assert {index for index, found in receipts if isinstance(found, GroupReceipt)} == {0, 1}

    def test_merged_partitions_are_an_error(self, executor: Executor) -> None:
        rows = executor.run(passing(), None, 2, [a_row(task=1)])
        merged = executor.run(passing(), rows.coalesce(1), None, [a_row(task=0)])
        with pytest.raises(WorkersDied) as died, executor.translated_errors():
            executor.collected("merged", 1, merged)
        assert "a row of task 1 is in partition 0" in str(died.value.__cause__)


def test_a_relative_tier_is_that_of_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's processes stay in the folder where they were started, as those of a cluster do."""
    updated_tier(tmp_path / "tier", (key_of("orders"),), segments=2)
    monkeypatch.chdir(tmp_path)
    ran = tierfold("compact", "tier", *ALWAYS, *ON_SPARK, "--json")
    assert (ran.code, ran.document["tier"]) == (0, "tier"), ran.stderr
    monkeypatch.chdir(tmp_path / "tier")
    assert tierfold("verify", ".", *ON_SPARK, "--second-opinion").code == 0
    found = tierfold_read(".", spark=spark)
    monkeypatch.chdir("/")
    assert found.count() == len(latest_updates(2))


def test_rows_survive_arrow() -> None:
    rows = [a_row(), replace(a_row(), payload=bytes(range(256)), bucket=7)]
    batch = as_batch(rows)
    assert list(rows_of([batch])) == rows
    assert batch.schema.names == ROW_SCHEMA.names
    assert as_batch([]).num_rows == 0


def test_a_wave_takes_two_jobs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that scans and one that rewrites, however many partitions it has."""
    monkeypatch.setattr(run_loop, "FIRST_WAVE_OF_BYTES", WaveLimit(partitions=1, work=2**30))
    tier = updated_tier(tmp_path / "tier", [key_of(f"topic-{i}") for i in range(3)], segments=2)
    tracker = spark.sparkContext.statusTracker()
    before = len(tracker.getJobIdsForGroup())
    settings = resolve(("cleanup.policy=compact", "min.cleanable.dirty.ratio=0"))
    reports = compact(run_context(str(tier)), settings, Scope(), UNBOUND, engine_choice.on_spark)
    assert [report.outcome for report in reports] == [COMPACTED] * 3
    # The second wave has the other two partitions.
    assert len(tracker.getJobIdsForGroup()) - before == 4

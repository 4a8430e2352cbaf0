"""The stages together give the same result however claimed rounds are cut."""

from __future__ import annotations

import io
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from rich.console import Console

from tests.jobs.claimed_rounds import ALWAYS, NOW_MS, claimed_rounds
from tests.jobs.commands import status_of
from tests.jobs.tiers import (
    files_below,
    folder_of,
    key_of,
    put_updates,
    sample_copy,
    updated_tier,
)
from tests.storage.scripted_catalog import ScriptedCatalog
from tests.storage.scripts import Script, at
from tierfold.compaction.model.outcomes import Committed
from tierfold.compaction.planning.chunks import UNBOUND
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.context.stopping import Stopped, stoppable
from tierfold.jobs.pipeline import task_assignment as rounds_module
from tierfold.jobs.pipeline.check_and_commit import RoundResult
from tierfold.jobs.pipeline.partition_report import COMPACTED, LEFT, PartitionReport
from tierfold.jobs.pipeline.run_loop import Waves, results_of
from tierfold.jobs.pipeline.spark_executor import Pipeline
from tierfold.jobs.pipeline.survey import survey
from tierfold.jobs.pipeline.task_assignment import Round
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.spark.progress import ByteProgress
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.segments.segment_reader import read_segment

_T = TypeVar("_T")
ORDERS: Final = key_of("orders")
PAYMENTS: Final = key_of("payments")


class EventfulProgress(ByteProgress):
    """Something happens right before a stage begins, or right after it has ended."""

    def __init__(
        self,
        spark: SparkSession,
        stage: str = "",
        event: Callable[[], None] | None = None,
        *,
        is_after: bool = False,
    ) -> None:
        super().__init__(spark, Console(file=io.StringIO()))
        self.stages: list[str] = []
        self._stage = stage
        self._event = event
        self._is_after = is_after

    def watched(self, title: str, bytes_total: int, action: Callable[[], _T]) -> _T:
        self.stages.append(title)
        event = self._event if title == self._stage else None
        if event is not None and not self._is_after:
            event()
        done = super().watched(title, bytes_total, action)
        if event is not None and self._is_after:
            event()
        return done


class FragilePipeline(Pipeline):
    """Spark's workers die whenever they meet one partition's data."""

    def run(self, rounds: Sequence[Round], catalog: Catalog) -> list[RoundResult]:
        if any(work.key == ORDERS for work in rounds):
            raise Py4JError("job aborted\norg.apache.spark.SparkException: Python worker exited")
        return super().run(rounds, catalog)


def run(
    tier: Path, spark: SparkSession, progress: ByteProgress, *settings: str
) -> list[RoundResult]:
    context, rounds = claimed_rounds(tier, *settings)
    return Pipeline(spark, context, progress).run(rounds, context.catalog)


def overwrite(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def new_logs(tier: Path) -> list[bytes]:
    """The content of what live segments hold, in offset order."""
    (state,) = Catalog(str(tier / "_tierfold")).read().values()
    folder = folder_of(tier, state.key)
    return [
        path.read_bytes()
        for segment in state.segments
        for path in folder.glob(f"*{segment.segment_id}.log")
    ]


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return updated_tier(tmp_path / "tier", (ORDERS, PAYMENTS), segments=2)


def test_an_object_that_vanishes_between_scan_and_rewrite_stops_its_partition_alone(
    spark: SparkSession, tier: Path
) -> None:
    victim = sorted(folder_of(tier, ORDERS).glob("*.log"))[1]
    before = files_below(folder_of(tier, ORDERS))
    progress = EventfulProgress(spark, "rewrite", victim.unlink)
    orders, payments = run(tier, spark, progress)
    assert progress.stages == ["scan", "rewrite"]
    assert orders.failure is not None
    assert str(victim) in orders.failure
    assert "it is not there, or no longer" in orders.failure
    assert orders.outcome is None
    assert isinstance(payments.outcome, Committed)
    states = Catalog(str(tier / "_tierfold")).read()
    assert [segment.written_by_run for segment in states[ORDERS].segments] == ["", ""]
    assert states[ORDERS].retired == ()
    del before[victim.name]
    # The first source had been copied by then; of the new segment nothing is left.
    assert files_below(folder_of(tier, ORDERS)) == before


def test_a_file_that_vanishes_beside_the_log_leaves_an_orphan_that_is_never_live(
    spark: SparkSession, tier: Path
) -> None:
    victim = sorted(folder_of(tier, ORDERS).glob("*.leader_epoch_checkpoint"))[1]
    content = victim.read_bytes()
    progress = EventfulProgress(spark, "rewrite", victim.unlink)
    orders, payments = run(tier, spark, progress)
    assert orders.failure is not None
    assert str(victim) in orders.failure
    assert isinstance(payments.outcome, Committed)
    state = Catalog(str(tier / "_tierfold")).read()[ORDERS]
    assert [segment.written_by_run for segment in state.segments] == ["", ""]
    victim.write_bytes(content)
    (again,) = run(tier, spark, EventfulProgress(spark))
    assert isinstance(again.outcome, Committed)
    orphans = status_of(tier)["orders", 0]["orphans"]
    assert len(orphans) == 1
    assert orphans[0] not in [segment.segment_id for segment in again.round.segments]


def test_a_log_that_changes_between_scan_and_rewrite_is_noticed(
    spark: SparkSession, tier: Path
) -> None:
    victim = sorted(folder_of(tier, ORDERS).glob("*.log"))[0]
    content = bytearray(victim.read_bytes())
    content[-1] ^= 1
    progress = EventfulProgress(spark, "rewrite", lambda: overwrite(victim, content))
    orders, payments = run(tier, spark, progress)
    assert orders.failure is not None
    assert "bad CRC" in orders.failure
    assert isinstance(payments.outcome, Committed)


def test_a_new_object_that_is_cut_before_the_commit_is_not_published(
    spark: SparkSession, tier: Path
) -> None:
    sources = set(folder_of(tier, ORDERS).glob("*.log"))
    cut: list[str] = []

    def cut_the_new_log() -> None:
        (log,) = set(folder_of(tier, ORDERS).glob("*.log")) - sources
        overwrite(log, log.read_bytes()[:-1])
        cut.append(log.name)

    progress = EventfulProgress(spark, "rewrite", cut_the_new_log, is_after=True)
    orders, payments = run(tier, spark, progress)
    assert cut[0] in (orders.failure or "")
    assert orders.outcome is None
    assert isinstance(payments.outcome, Committed)
    live = Catalog(str(tier / "_tierfold")).read()[ORDERS].segments
    assert [segment.written_by_run for segment in live] == ["", ""]


def test_results_that_contradict_the_scan_are_not_published(
    spark: SparkSession, tier: Path
) -> None:
    victim = sorted(folder_of(tier, ORDERS).glob("*.log"))[-1]
    shrunk = victim.read_bytes()[: int(read_segment(victim).heads.position[-1])]
    progress = EventfulProgress(spark, "rewrite", lambda: overwrite(victim, shrunk))
    orders, payments = run(tier, spark, progress)
    assert orders.failure is not None
    assert "the results contradict each other, nothing was committed" in orders.failure
    assert orders.outcome is None
    assert isinstance(payments.outcome, Committed)
    live = Catalog(str(tier / "_tierfold")).read()[ORDERS].segments
    assert [segment.written_by_run for segment in live] == ["", ""]


def test_data_that_take_a_worker_down_stop_their_own_partition_alone(
    spark: SparkSession, tier: Path
) -> None:
    third = key_of("shipments")
    put_updates(tier, third, 0)
    context, rounds = claimed_rounds(tier)
    pipeline = FragilePipeline(spark, context, EventfulProgress(spark))
    results = {result.round.key: result for result in results_of(pipeline, rounds, context.catalog)}
    assert set(results) == {ORDERS, PAYMENTS, third}
    assert isinstance(results[PAYMENTS].outcome, Committed)
    assert isinstance(results[third].outcome, Committed)
    assert results[ORDERS].outcome is None
    assert "a Spark worker died over this partition" in (results[ORDERS].failure or "")
    assert "Python worker exited" in (results[ORDERS].failure or "")


def test_what_one_half_committed_is_reported_when_a_signal_stops_the_other(
    spark: SparkSession, tier: Path
) -> None:
    def ctrl_c() -> None:
        signal.raise_signal(signal.SIGINT)

    context = replace(
        run_context(str(tier), None, NOW_MS),
        catalog=ScriptedCatalog(str(tier / "_tierfold"), Script(at("commit 1", ctrl_c))),
    )
    kept: list[tuple[int, PartitionReport]] = []
    waves = Waves(
        context=context,
        pipeline=FragilePipeline(spark, context, EventfulProgress(spark)),
        budget=UNBOUND,
        started_at_ms=0,
        record=lambda chunks, _began_at_ms: kept.extend(chunks),
    )
    orders, payments = survey(context, resolve(ALWAYS), Scope())
    with pytest.raises(Stopped), stoppable():
        reports = waves.run([payments, orders])
    told = [(report.key, report.outcome) for report in reports]
    assert told == [(PAYMENTS, COMPACTED), (ORDERS, LEFT)]
    assert [(partition.key, partition.outcome) for _, partition in kept] == [(PAYMENTS, COMPACTED)]
    rows = context.catalog.read()
    assert [rows[key].owner_run for key in (PAYMENTS, ORDERS)] == ["", ""]


def test_the_result_is_the_same_however_keys_and_segments_are_assigned(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ("segment.bytes=1500000",)
    (whole,) = run(sample_copy(tmp_path / "1"), spark, EventfulProgress(spark), *settings)
    monkeypatch.setattr(rounds_module, "BUCKET_BYTES", 100_000)
    monkeypatch.setattr(rounds_module, "TASK_BYTES", 100_000)
    (cut,) = run(sample_copy(tmp_path / "2"), spark, EventfulProgress(spark), *settings)
    assert cut.round.buckets > 30
    assert isinstance(cut.outcome, Committed)
    assert new_logs(tmp_path / "1") == new_logs(tmp_path / "2")
    assert [receipt.counts for receipt in cut.receipts] == [
        receipt.counts for receipt in whole.receipts
    ]


def test_all_bytes_are_counted_and_nothing_stays_cached(spark: SparkSession, tier: Path) -> None:
    progress = EventfulProgress(spark)
    before = spark.sparkContext._jsc.getPersistentRDDs().size()
    results = run(tier, spark, progress)
    # Each source is read for its keys, and again to be rewritten.
    assert progress.bytes_done.value == 2 * sum(result.round.size_bytes for result in results)
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == before


def test_aborts_without_an_index_are_scanned_for_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    tier = sample_copy(tmp_path / "tier")
    for index in tier.glob("kafka-tiered-storage/*/*.txnindex"):
        index.unlink()
    progress = EventfulProgress(spark)
    (result,) = run(tier, spark, progress)
    assert progress.stages == ["scan", "scan", "rewrite"]
    assert result.unindexed > 0
    with_index = sample_copy(tmp_path / "with index")
    (expected,) = run(with_index, spark, EventfulProgress(spark))
    assert (expected.unindexed, result.receipts[0].counts) == (0, expected.receipts[0].counts)
    assert new_logs(tier) == new_logs(with_index)

"""Claimed rounds give the same result however they are cut; a failure stops its own partition."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.jobs.claimed_rounds import ALWAYS, NOW_MS, claimed_rounds
from tests.jobs.commands import LOCAL_ENGINE, status_of, told
from tests.jobs.tiers import (
    files_below,
    flip_last_byte,
    folder_of,
    key_of,
    put_updates,
    sample_copy,
    updated_tier,
)
from tests.storage.call_scripts import Script, at
from tests.storage.scripted_catalog import ScriptedCatalog
from tierfold.compaction.cleaning.rounds import Round
from tierfold.compaction.model.outcomes import Committed
from tierfold.compaction.planning.chunks import UNBOUND
from tierfold.jobs.context.byte_progress import unheard
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.context.stopping import Stopped, check, stoppable
from tierfold.jobs.engines import task_assignment
from tierfold.jobs.engines.local_executor import LazyRows, LocalExecutor
from tierfold.jobs.engines.rows import Row
from tierfold.jobs.engines.scan import ScanSummary
from tierfold.jobs.engines.stage_executor import WorkersDied
from tierfold.jobs.engines.task_assignment import buckets_of
from tierfold.jobs.pipeline import check_and_commit, round_execution
from tierfold.jobs.pipeline.partition_report import COMPACTED, LEFT, PartitionReport
from tierfold.jobs.pipeline.round_execution import RoundResult
from tierfold.jobs.pipeline.run_loop import Waves, results_of
from tierfold.jobs.pipeline.survey import survey
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.verbs.compact import compact
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft, write_batch
from tierfold.storage.segments.segment_reader import read_segment
from tierfold.storage.tiers.tier_uris import open_tier

ORDERS: Final = key_of("orders")
PAYMENTS: Final = key_of("payments")
DIED: Final = "{}: Python worker exited. Run again. Nothing of this chunk was committed."


class EventfulExecutor(LocalExecutor):
    """Calls `event` right before or after a stage."""

    def __init__(
        self,
        tier: Path,
        stage: str = "",
        event: Callable[[], None] | None = None,
        *,
        is_after: bool = False,
    ) -> None:
        super().__init__(open_tier(str(tier)), unheard, cores=2)
        self.stages: list[str] = []
        self._stage = stage
        self._event = event
        self._is_after = is_after

    def collected(self, title: str, size_bytes: int, rows: LazyRows) -> list[Row]:
        self.stages.append(title)
        event = self._event if title == self._stage else None
        if event is not None and not self._is_after:
            event()
        done = super().collected(title, size_bytes, rows)
        if event is not None and self._is_after:
            event()
        return done


class FragileExecutor(EventfulExecutor):
    """Its workers die whenever they read the data of orders."""

    def __init__(self, tier: Path, *, is_over: bool = False) -> None:
        super().__init__(tier)
        self.scanned: list[list[int]] = []
        self._is_over = is_over
        self._is_dying = False

    def scan(self, rounds: Sequence[Round]) -> dict[int, ScanSummary | str]:
        self.scanned.append([work.index for work in rounds])
        self._is_dying = any(work.key == ORDERS for work in rounds)
        return super().scan(rounds)

    def collected(self, title: str, size_bytes: int, rows: LazyRows) -> list[Row]:
        if self._is_dying:
            check()
            raise WorkersDied("Python worker exited", is_over=self._is_over)
        return super().collected(title, size_bytes, rows)


def run(tier: Path, executor: LocalExecutor, *settings: str) -> list[RoundResult]:
    held, rounds = claimed_rounds(tier, *settings)
    return list(results_of(executor, rounds, held))


def new_logs(tier: Path) -> list[bytes]:
    """The logs of the live segments, in offset order."""
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


def second_log_vanishes(_: Path, sources: list[Path]) -> str:
    sources[1].unlink()
    return str(sources[1])


def last_byte_changes(_: Path, sources: list[Path]) -> str:
    flip_last_byte(sources[-1])
    return str(sources[-1])


def last_batch_vanishes(_: Path, sources: list[Path]) -> str:
    log = sources[-1]
    log.write_bytes(log.read_bytes()[: int(read_segment(log).heads.position[-1])])
    return str(log)  # The log is valid, but shorter.


def last_batch_loses_records(_: Path, sources: list[Path]) -> str:
    log = sources[-1]
    content = log.read_bytes()
    *_before, last = read_segment(log).batches()
    for padding in range(last.size_bytes):
        record = RecordDraft(
            offset=last.last_offset, timestamp_ms=0, key=b"k", value=b"v" * padding
        )
        made = write_batch(BatchDraft(base_offset=last.base_offset, records=(record,)))
        if len(made) == last.size_bytes:
            log.write_bytes(content[: last.position] + made)
    assert len(log.read_bytes()) == len(content)
    assert log.read_bytes() != content
    return str(log)  # The log is valid; only the counts differ.


def new_log_is_cut(folder: Path, sources: list[Path]) -> str:
    (log,) = set(folder.glob("*.log")) - set(sources)
    log.write_bytes(log.read_bytes()[:-1])
    return log.name


@pytest.mark.parametrize(
    ("change", "is_after", "phrase"),
    [
        (second_log_vanishes, False, "it is not there, or no longer"),
        (last_byte_changes, False, "bad CRC"),
        (last_batch_vanishes, False, "changed while the log was read"),
        (last_batch_loses_records, False, "changed while the log was read"),
        (new_log_is_cut, True, "nothing was committed"),
    ],
)
def test_an_object_that_changes_around_the_rewrite_stops_its_partition_alone(
    tier: Path, change: Callable[[Path, list[Path]], str], is_after: bool, phrase: str
) -> None:
    folder = folder_of(tier, ORDERS)
    sources, before = sorted(folder.glob("*.log")), files_below(folder)
    names: list[str] = []

    def event() -> None:
        names.append(change(folder, sources))

    executor = EventfulExecutor(tier, "rewrite", event, is_after=is_after)
    orders, payments = run(tier, executor)
    assert executor.stages == ["scan", "rewrite"]
    assert not told(orders.failure or "", phrase, *names)
    assert orders.outcome is None
    assert isinstance(payments.outcome, Committed)
    row = Catalog(str(tier / "_tierfold")).read()[ORDERS]
    assert [segment.written_by_run for segment in row.segments] == ["", ""]
    assert row.retired == ()
    if change is second_log_vanishes:
        # The first source was copied by then; nothing of the new segment is left.
        del before[sources[1].name]
        assert files_below(folder) == before


def test_a_file_that_vanishes_beside_the_log_leaves_an_orphan_that_is_never_live(
    tier: Path
) -> None:
    victim = sorted(folder_of(tier, ORDERS).glob("*.leader_epoch_checkpoint"))[1]
    content = victim.read_bytes()
    executor = EventfulExecutor(tier, "rewrite", victim.unlink)
    orders, payments = run(tier, executor)
    assert orders.failure is not None
    assert str(victim) in orders.failure
    assert [part.sentence for part in orders.refusals] == [orders.failure]
    assert isinstance(payments.outcome, Committed)
    state = Catalog(str(tier / "_tierfold")).read()[ORDERS]
    assert [segment.written_by_run for segment in state.segments] == ["", ""]
    victim.write_bytes(content)
    (again,) = run(tier, EventfulExecutor(tier))
    assert isinstance(again.outcome, Committed)
    orphans = status_of(tier)["orders", 0]["orphans"]
    assert len(orphans) == 1
    assert orphans[0] not in [segment.segment_id for segment in again.round.compact.sources]


def test_data_that_kill_workers_stop_their_own_partition_alone(tier: Path) -> None:
    third = key_of("shipments")
    put_updates(tier, third, 0)
    executor = FragileExecutor(tier)
    results = {result.round.key: result for result in run(tier, executor)}
    assert set(results) == {ORDERS, PAYMENTS, third}
    assert isinstance(results[PAYMENTS].outcome, Committed)
    assert isinstance(results[third].outcome, Committed)
    assert results[ORDERS].outcome is None
    assert results[ORDERS].failure == DIED.format(ORDERS)
    # All together, then in halves until the bad one is alone.
    assert executor.scanned == [[0, 1, 2], [0], [1, 2]]


@pytest.mark.parametrize("stage", ["", "scan", "rewrite"])
def test_no_rows_are_kept_after_success_or_failure(tier: Path, stage: str) -> None:
    def die() -> None:
        raise WorkersDied("Python worker exited", is_over=True)

    executor = EventfulExecutor(tier, stage, die, is_after=True)
    assert [result.failure is None for result in run(tier, executor)] == [not stage] * 2
    assert executor._scanned is None


@pytest.mark.parametrize("stage", ["scan", "rewrite"])
def test_running_out_of_memory_fails_with_one_sentence_that_names_spark(
    tier: Path, stage: str
) -> None:
    def run_out() -> None:
        raise MemoryError

    for result in run(tier, EventfulExecutor(tier, stage, run_out)):
        assert result.failure == (
            f"{result.round.key}: this process ran out of memory. Use --engine spark, or choose"
            " less with --topic. Nothing of this chunk was committed."
        )


def test_an_engine_that_has_died_is_not_tried_again(tier: Path) -> None:
    executor = FragileExecutor(tier, is_over=True)
    orders, payments = run(tier, executor)
    assert executor.scanned == [[0, 1]]
    for result in (orders, payments):
        assert result.outcome is None
        assert result.failure == DIED.format(result.round.key)


def test_the_commits_of_one_half_are_reported_when_a_signal_stops_the_other(tier: Path) -> None:
    def ctrl_c() -> None:
        signal.raise_signal(signal.SIGINT)

    context = replace(
        run_context(str(tier), None, NOW_MS),
        catalog=ScriptedCatalog(str(tier / "_tierfold"), Script(at("commit 1", ctrl_c))),
    )
    kept: list[tuple[int, PartitionReport]] = []
    waves = Waves(
        context=context,
        executor=FragileExecutor(tier),
        budget=UNBOUND,
        started_at_ms=0,
        record=lambda chunks, _began_at_ms: kept.extend(chunks),
    )
    orders, payments = survey(context, resolve(ALWAYS), Scope())
    with pytest.raises(Stopped), stoppable():
        reports = waves.run([payments, orders])
    outcomes = [(report.key, report.outcome) for report in reports]
    assert outcomes == [(PAYMENTS, COMPACTED), (ORDERS, LEFT)]
    assert [(partition.key, partition.outcome) for _, partition in kept] == [(PAYMENTS, COMPACTED)]
    rows = context.catalog.read()
    assert [rows[key].owner_run for key in (PAYMENTS, ORDERS)] == ["", ""]


def breaks_for_orders(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with a bug that only orders has."""

    def broken(result: RoundResult, *given: Any) -> Any:
        if result.round.key == ORDERS:
            raise ArithmeticError("7 is not 8")
        return function(result, *given)

    return broken


@pytest.mark.parametrize("step", ["_with_transactions", "_with_merged_groups"])
def test_a_bug_between_two_stages_stops_its_partition_alone(
    tier: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    broken = breaks_for_orders(getattr(round_execution, step))
    monkeypatch.setattr(round_execution, step, broken)
    orders, payments = run(tier, EventfulExecutor(tier))
    assert orders.failure == (
        f"{ORDERS}: unexpected ArithmeticError: 7 is not 8. This is a bug; please report it."
    )
    assert [part.code for part in orders.refusals] == ["error"]
    assert isinstance(payments.outcome, Committed)


def test_a_bug_that_ends_the_run_releases_its_claims(
    tier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ArithmeticError("7 is not 8")

    context = run_context(str(tier), None, NOW_MS)
    monkeypatch.setattr(check_and_commit, "proposal_of", broken)
    with pytest.raises(ArithmeticError):
        compact(context, resolve(ALWAYS), Scope(), engine=LOCAL_ENGINE)
    rows = context.catalog.read()
    assert {rows[key].owner_run for key in (ORDERS, PAYMENTS)} == {""}
    assert {rows[key].epoch for key in (ORDERS, PAYMENTS)} == {1}


def test_the_result_does_not_depend_on_the_assignment_of_keys_and_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ("segment.bytes=1500000",)
    one, other = (sample_copy(tmp_path / name) for name in "12")
    (whole,) = run(one, EventfulExecutor(one), *settings)
    monkeypatch.setattr(task_assignment, "BUCKET_BYTES", 100_000)
    monkeypatch.setattr(task_assignment, "TASK_BYTES", 100_000)
    (cut,) = run(other, EventfulExecutor(other), *settings)
    assert buckets_of(cut.round.size_bytes) > 30
    assert isinstance(cut.outcome, Committed)
    assert new_logs(one) == new_logs(other)
    assert [receipt.counts for receipt in cut.receipts] == [
        receipt.counts for receipt in whole.receipts
    ]


def test_aborts_without_an_index_are_scanned_for_again(tmp_path: Path) -> None:
    tier = sample_copy(tmp_path / "tier")
    for index in tier.glob("kafka-tiered-storage/*/*.txnindex"):
        index.unlink()
    executor = EventfulExecutor(tier)
    (result,) = run(tier, executor)
    assert executor.stages == ["scan", "scan", "rewrite"]
    assert result.unindexed > 0
    with_index = sample_copy(tmp_path / "with index")
    (expected,) = run(with_index, EventfulExecutor(with_index))
    assert (expected.unindexed, result.receipts[0].counts) == (0, expected.receipts[0].counts)
    assert new_logs(tier) == new_logs(with_index)

"""What every engine's executor does, as tests; a subclass starts the executor.

The tiers are small: `orders` has two segments of updates of the same keys, `payments` has one.
"""

from __future__ import annotations

import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import pytest

from tests.compaction.hash_keys import HASH_KEY
from tests.jobs.claimed_rounds import claimed_rounds, tasks_of
from tests.jobs.tiers import (
    RECORDS_PER_SEGMENT,
    folder_of,
    key_of,
    latest_updates,
    put_segment,
    put_updates,
    records_in,
    updated_tier,
)
from tests.storage.live_segments import an_abort, data, marker
from tierfold.compaction.cleaning.rounds import Round
from tierfold.compaction.commits.receipts import GroupReceipt, GroupResult
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.planning.grouping import SegmentGroup
from tierfold.jobs.context.stopping import Stopped, is_stopping, stoppable
from tierfold.jobs.engines.rows import Row, RowKind, Stage, Worker, unpickled
from tierfold.jobs.engines.scan import ScanSummary
from tierfold.jobs.engines.stage_executor import StageExecutor, WorkersDied
from tierfold.jobs.engines.task_assignment import buckets_of
from tierfold.storage.kafka.control_records import ControlType
from tierfold.storage.segments.segment_check import CheckOrder

ORDERS, PAYMENTS = key_of("orders"), key_of("payments")
APART: Final = "segment.bytes=1"
"""Each segment is a group of its own."""

Executor = StageExecutor[Any]


class ExecutorContract(ABC):
    """What callers rely on, whatever engine runs the stages."""

    shuffles: bool
    """Or else it has a task per number instead of shuffle partitions."""

    @abstractmethod
    @pytest.fixture
    def executor(self, tier: Path) -> Executor:
        """An executor over `tier`."""

    @abstractmethod
    def bytes_done(self, executor: Executor) -> int:
        """How many bytes the executor's progress bars have counted."""

    @pytest.fixture
    def tier(self, tmp_path: Path) -> Path:
        """Two segments of orders, one of payments."""
        tier = updated_tier(tmp_path / "tier", (ORDERS,), segments=2)
        put_updates(tier, PAYMENTS, 0)
        return tier

    @pytest.fixture
    def rounds(self, tier: Path) -> list[Round]:
        """A claimed round of orders, and one of payments."""
        return claimed_rounds(tier)[1]

    def test_a_scan_counts_records_and_a_rewrite_keeps_the_latest_of_each_key(
        self, executor: Executor, tier: Path, rounds: list[Round]
    ) -> None:
        found = executor.scan(rounds)
        assert summary_in(found, 0).records == 2 * RECORDS_PER_SEGMENT
        assert summary_in(found, 1).records == RECORDS_PER_SEGMENT
        scanned_bytes = self.bytes_done(executor)
        assert scanned_bytes == sum(work.scan_bytes for work in rounds)
        assert executor.rewrite([]) == []
        receipts = dict(executor.rewrite([task for work in rounds for task in tasks_of(work)]))
        assert kept_by(receipts[0]) == len(latest_updates(2))
        assert kept_by(receipts[1]) == len(latest_updates(1))
        assert written_values(tier, ORDERS, receipts[0]) == latest_updates(2)
        rewritten_bytes = self.bytes_done(executor) - scanned_bytes
        assert rewritten_bytes == sum(work.size_bytes for work in rounds)

    def test_orders_join_the_rows_of_their_task(self, executor: Executor) -> None:
        def to_the_next_task(_: Worker, rows: Iterable[Row]) -> Iterator[Row]:
            yield from (replace(row, task=row.task + 1) for row in rows)

        def listed(_: Worker, rows: Iterable[Row]) -> Iterator[Row]:
            found = [*rows]
            yield from (replace(row, payload=bytes(one.kind for one in found)) for row in found)

        sent = executor.run(to_the_next_task, None, 2, [a_row(task=0), a_row(task=1)])
        orders = [a_row(RowKind.REWRITE, task=task) for task in (2, 3)]
        found = executor.collected("rows", 1, executor.run(listed, sent, 4, orders))
        scan, rewrite = RowKind.SCAN, RowKind.REWRITE
        assert {row.task: [*row.payload] for row in found} == {
            1: [scan],
            2: [rewrite, scan],
            3: [rewrite],
        }

    def test_a_task_gets_one_shuffle_partition_after_the_other(self, executor: Executor) -> None:
        def sixteen(_: Worker, rows: Iterable[Row]) -> Iterator[Row]:
            yield from (replace(row, task=task) for row in rows for task in range(16))

        def passed(_: Worker, rows: Iterable[Row]) -> Iterator[Row]:
            found = [*rows]
            yield replace(found[0], payload=bytes(row.task % 4 for row in found))

        sent = executor.run(sixteen, None, 3, [a_row(task=task) for task in range(3)])
        run = executor.run_in_turn(passed, sent, 2, 4)
        turns = [[p for p, _ in groupby(row.payload)] for row in executor.collected("", 1, run)]
        # No partition is in two tasks, nor twice in one of them.
        of_all = [partition for of_one in turns for partition in set(of_one)]
        assert sum(map(len, turns)) == len(of_all)
        assert (len(turns), len(of_all)) == ((2, 4) if self.shuffles else (16, 16))

    @pytest.mark.parametrize("stage", ["scan", "rewrite"])
    def test_a_missing_log_fails_only_its_round(
        self, executor: Executor, tier: Path, rounds: list[Round], stage: str
    ) -> None:
        victim = logs_of(tier, ORDERS)[1]
        if stage == "scan":
            victim.unlink()
        found = executor.scan(rounds)
        assert (str(victim) in str(found[0])) == (stage == "scan")
        assert summary_in(found, 1).records == RECORDS_PER_SEGMENT
        victim.unlink(missing_ok=True)
        scanned = [work for work in rounds if isinstance(found[work.index], ScanSummary)]
        receipts = dict(executor.rewrite([task for work in scanned for task in tasks_of(work)]))
        assert str(victim) in str(receipts.get(0, found[0]))
        assert kept_by(receipts[1]) == len(latest_updates(1))

    def test_a_second_scan_of_one_round_replaces_only_its_result(
        self, executor: Executor, tier: Path
    ) -> None:
        put_aborted_update(tier)
        _, (orders, payments) = claimed_rounds(tier)
        executor.scan([orders, payments])
        # Only a scan that knows of the abort ignores the aborted update, which is the latest.
        aware = replace(orders, aborted=(an_abort(7, 22, 23),))
        found = executor.scan([aware])
        assert list(found) == [0]
        receipts = dict(executor.rewrite([*tasks_of(aware), *tasks_of(payments)]))
        values = written_values(tier, ORDERS, receipts[0])
        assert {key: value for key, value in values.items() if key} == latest_updates(2)
        assert kept_by(receipts[1]) == len(latest_updates(1))

    def test_merged_groups_from_several_tasks_are_rewritten(
        self, executor: Executor, tier: Path
    ) -> None:
        _, rounds = claimed_rounds(tier, APART)
        orders = rounds[0]
        executor.scan(rounds)
        assert len(executor.rewrite(tasks_of(orders))) == 2
        merged = orders.with_groups((SegmentGroup(segments=orders.compact.sources),))
        assert not executor._assigned.fits(tasks_of(merged))
        ((index, receipt),) = executor.rewrite(tasks_of(merged))
        assert index == 0
        assert written_values(tier, ORDERS, receipt) == latest_updates(2)
        # The first assignment still fits its own groups.
        ((_, of_payments),) = executor.rewrite(tasks_of(rounds[1]))
        assert kept_by(of_payments) == len(latest_updates(1))

    def test_a_released_round_cannot_be_rewritten_until_it_is_scanned_again(
        self, executor: Executor, rounds: list[Round]
    ) -> None:
        executor.scan(rounds)
        executor.release()
        assert executor.rewrite(tasks_of(rounds[0])) == []
        # The same round under another index: the first scan has left nothing.
        other = replace(rounds[0], index=5)
        assert list(executor.scan([other])) == [5]
        ((index, receipt),) = executor.rewrite(tasks_of(other))
        assert (index, kept_by(receipt)) == (5, len(latest_updates(2)))

    def test_verify_checks_each_segment_and_compares_each_key(
        self, executor: Executor, tier: Path, rounds: list[Round]
    ) -> None:
        victim = logs_of(tier, PAYMENTS)[0]
        victim.unlink()
        rows = executor.verify([orders_of(work) for work in rounds], {})
        found = {(*row.place, row.kind): row for row in rows}
        assert len(found) == len(rows)
        assert set(found) == {
            (0, 0, RowKind.CHECKED),
            (0, 1, RowKind.CHECKED),
            (0, 0, RowKind.COMPARED),
            (1, 0, RowKind.FAILED),
        }
        checked = unpickled(found[0, 1, RowKind.CHECKED].payload)
        assert (checked.records, checked.corruptions) == (RECORDS_PER_SEGMENT, ())
        compared = unpickled(found[0, 0, RowKind.COMPARED].payload)
        assert compared.keys == len(latest_updates(2))
        assert str(victim) in unpickled(found[1, 0, RowKind.FAILED].payload).detail
        assert self.bytes_done(executor) == sum(work.size_bytes for work in rounds)

    def test_a_signal_ends_an_endless_stage(
        self, executor: Executor, tmp_path: Path
    ) -> None:
        begun = tmp_path / "begun"

        def endless(worker: Worker, rows: Iterable[Row]) -> Iterator[Row]:
            for row in rows:
                begun.touch()
                while begun.exists():
                    time.sleep(0.01)
                    worker.advance(1)
                yield row

        def ctrl_c_once_begun() -> None:
            while not begun.exists():
                time.sleep(0.01)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        sender = threading.Thread(target=ctrl_c_once_begun, daemon=True)
        threads = {*threading.enumerate()}
        rows = [a_row(task=task) for task in range(4)]
        with pytest.raises(Stopped), stoppable():
            sender.start()
            executor.collected("endless", 4, executor.run(endless, None, 4, rows))
        sender.join()
        assert {*threading.enumerate()} <= threads
        assert not is_stopping()


def death_in(executor: Executor, stage: Stage, rows: Sequence[Row], tasks: int = 1) -> WorkersDied:
    """Run a stage that fails on these rows; return the error."""
    with pytest.raises(WorkersDied) as died, executor.translated_errors():
        executor.collected("fail", 1, executor.run(stage, None, tasks, rows))
    return died.value


def a_row(
    kind: RowKind = RowKind.SCAN, payload: bytes = b"", *, task: int = 0, segment_index: int = 0
) -> Row:
    """A row of the first partition."""
    return Row(
        task=task, partition_index=0, segment_index=segment_index, kind=kind, payload=payload
    )


def put_aborted_update(tier: Path) -> None:
    """A third segment of orders: an update of a key, and the marker that aborts it."""
    batches = [
        data(2 * RECORDS_PER_SEGMENT, (b"k0", b"aborted"), producer_id=7),
        marker(2 * RECORDS_PER_SEGMENT + 1, 7, ControlType.ABORT),
    ]
    put_segment(tier, ORDERS, batches, start_offset=2 * RECORDS_PER_SEGMENT)


def logs_of(tier: Path, key: PartitionKey) -> list[Path]:
    """The logs of a partition's folder, in offset order."""
    return sorted(folder_of(tier, key).glob("*.log"))


def orders_of(work: Round) -> list[CheckOrder]:
    """Checks of the round's segments, as both live and original segments."""
    segments = work.compact.sources
    return [
        CheckOrder(
        hash_key=HASH_KEY,
            key=work.key,
            segment=segment,
            is_live=True,
            is_last=segment is segments[-1],
            index_interval_bytes=50,
            buckets=buckets_of(work.size_bytes),
            aborted_now=(),
            aborted_before=(),
        )
        for segment in segments
    ]


def summary_in(found: dict[int, ScanSummary | str], index: int) -> ScanSummary:
    """The summary of a round that did not fail."""
    summary = found[index]
    assert isinstance(summary, ScanSummary), summary
    return summary


def kept_by(receipt: GroupReceipt | str) -> int:
    """How many records a rewritten group keeps."""
    assert isinstance(receipt, GroupReceipt), receipt
    return receipt.counts.kept


def written_values(
    tier: Path, key: PartitionKey, receipt: GroupReceipt | str
) -> dict[bytes | None, bytes | None]:
    """Key → value in the segment that a group became."""
    assert isinstance(receipt, GroupReceipt), receipt
    assert receipt.result is GroupResult.WRITTEN
    assert receipt.segment is not None
    found = records_in([*folder_of(tier, key).glob(f"*{receipt.segment.segment_id}.log")])
    values = {name: value for _, name, value in found}
    assert len(values) == len(found)
    return values

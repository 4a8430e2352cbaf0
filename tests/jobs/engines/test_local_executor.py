"""The executor of this process keeps the contract, on threads."""

from __future__ import annotations

import io
import signal
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from tests.jobs.engines.executor_contract import Executor, ExecutorContract
from tierfold.jobs.engines.local_executor import LocalExecutor
from tierfold.jobs.engines.rows import Row, RowKind, Worker
from tierfold.jobs.engines.stage_executor import WorkersDied
from tierfold.storage.tiers.tier_uris import open_tier


def on_threads(tier: Path, cores: int | None = 2) -> LocalExecutor:
    return LocalExecutor(open_tier(str(tier)), Console(file=io.StringIO()), cores)


class TestLocalExecutor(ExecutorContract):
    """On two threads."""

    @pytest.fixture
    def executor(self, tier: Path) -> Executor:
        return on_threads(tier)

    def bytes_done(self, executor: Executor) -> int:
        assert isinstance(executor, LocalExecutor)
        return executor._bytes_done


def rows(tasks: int) -> list[Row]:
    return [
        Row(task=task, partition_index=task, segment_index=0, kind=RowKind.SCAN, payload=b"")
        for task in range(tasks)
    ]


def test_as_many_tasks_run_at_once_as_there_are_cores(tmp_path: Path) -> None:
    (tmp_path / "kafka-tiered-storage").mkdir()
    executor = on_threads(tmp_path, cores=2)
    both = threading.Barrier(2, timeout=60)

    def meeting(_: Worker, given: Iterable[Row]) -> Iterator[Row]:
        both.wait()
        yield from given

    found = executor.taken("meet", 1, executor.run(meeting, executor.placed(rows(4)), 4))
    assert found == rows(4)


def test_rows_are_computed_once_where_they_are_kept(tmp_path: Path) -> None:
    (tmp_path / "kafka-tiered-storage").mkdir()
    executor = on_threads(tmp_path)
    calls: list[int] = []

    def counting(_: Worker, given: Iterable[Row]) -> Iterator[Row]:
        calls.append(1)
        yield from given

    kept = executor.kept(executor.run(counting, executor.placed(rows(1)), 1))
    assert calls == []
    for _ in range(2):
        assert executor.taken("twice", 1, kept) == rows(1)
    assert calls == [1]


def test_an_error_in_a_stage_is_called_a_bug(tmp_path: Path) -> None:
    (tmp_path / "kafka-tiered-storage").mkdir()
    executor = on_threads(tmp_path)

    def failing(_: Worker, given: Iterable[Row]) -> Iterator[Row]:
        yield from given
        raise ArithmeticError("7 is not 8")

    with pytest.raises(WorkersDied) as died, executor.answering():
        executor.taken("fail", 1, executor.run(failing, executor.placed(rows(3)), 3))
    assert not died.value.is_over
    assert died.value.sentence.startswith("unexpected ArithmeticError: 7 is not 8. This is a bug")


def test_an_interrupt_outside_a_command_ends_the_stage(tmp_path: Path) -> None:
    """In a notebook Ctrl-C is a KeyboardInterrupt in the main thread, and nothing is deferred."""
    (tmp_path / "kafka-tiered-storage").mkdir()
    executor = on_threads(tmp_path)
    begun = threading.Event()

    def endless(worker: Worker, given: Iterable[Row]) -> Iterator[Row]:
        yield from given
        while True:
            begun.set()
            worker.advance(0)

    def interrupt() -> None:
        if begun.wait(60):
            signal.raise_signal(signal.SIGINT)

    before = threading.active_count()
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            executor.taken("endless", 1, executor.run(endless, executor.placed(rows(2)), 2))
    finally:
        signal.signal(signal.SIGINT, handler)
    interrupting.join()
    assert threading.active_count() == before

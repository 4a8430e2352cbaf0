"""The executor of this process fulfils the contract, on threads."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.jobs.engines.executor_contract import Executor, ExecutorContract, a_row, death_in
from tests.jobs.tiers import made_tier
from tierfold.jobs.context.byte_progress import unheard
from tierfold.jobs.engines.local_executor import LocalExecutor, usable_cores
from tierfold.jobs.engines.rows import REPORT_BUG, USE_SPARK, Row, Worker
from tierfold.storage.tiers.tier_uris import open_tier


def on_threads(tier: Path) -> LocalExecutor:
    return LocalExecutor(open_tier(str(tier)), unheard, cores=2)


class TestLocalExecutor(ExecutorContract):
    """On two threads."""

    shuffles = False

    @pytest.fixture
    def executor(self, tier: Path) -> Executor:
        return on_threads(tier)

    def bytes_done(self, executor: Executor) -> int:
        assert isinstance(executor, LocalExecutor)
        return executor._bytes_done


def rows(tasks: int) -> list[Row]:
    return [a_row(task=task) for task in range(tasks)]


@pytest.fixture
def executor(tmp_path: Path) -> LocalExecutor:
    return on_threads(made_tier(tmp_path))


def test_as_many_tasks_run_at_once_as_there_are_cores(executor: LocalExecutor) -> None:
    both = threading.Barrier(2, timeout=60)

    def meeting(_: Worker, given: Iterable[Row]) -> Iterator[Row]:
        both.wait()
        yield from given

    found = executor.collected("meet", 1, executor.run(meeting, None, 4, rows(4)))
    assert found == rows(4)


def test_the_cores_are_those_of_the_process_or_else_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert usable_cores() == len(os.sched_getaffinity(0))
    # As on macOS, where Python has no such function.
    monkeypatch.delattr(os, "sched_getaffinity")
    assert usable_cores() == os.cpu_count()
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1


def test_persisted_rows_are_computed_once(executor: LocalExecutor) -> None:
    calls: list[int] = []

    def counting(_: Worker, given: Iterable[Row]) -> Iterator[Row]:
        calls.append(1)
        yield from given

    persisted = executor.persisted(executor.run(counting, None, 1, rows(1)))
    assert calls == []
    for _ in range(2):
        assert executor.collected("twice", 1, persisted) == rows(1)
    assert calls == [1]


@pytest.mark.parametrize(
    ("error", "what", "remedy"),
    [
        (ArithmeticError("7 is not 8"), "unexpected ArithmeticError: 7 is not 8", REPORT_BUG),
        (MemoryError(), "this process ran out of memory", USE_SPARK),
    ],
)
def test_an_error_in_a_stage_ends_it_with_one_sentence(
    executor: LocalExecutor, error: Exception, what: str, remedy: str
) -> None:
    def failing(_: Worker, given: Iterable[Row]) -> Iterator[Row]:
        yield from given
        raise error

    died = death_in(executor, failing, rows(3), tasks=3)
    assert (died.what, died.remedy, died.is_over) == (what, remedy, False)


def test_an_interrupt_outside_a_command_ends_the_stage(executor: LocalExecutor) -> None:
    """In a notebook Ctrl-C is a KeyboardInterrupt in the main thread, and nothing is deferred."""
    begun = threading.Event()

    def endless(worker: Worker, given: Iterable[Row]) -> Iterator[Row]:
        yield from given
        while True:
            begun.set()
            worker.advance(0)

    def interrupt() -> None:
        if begun.wait(60):
            signal.raise_signal(signal.SIGINT)

    before = {*threading.enumerate()}  # Threads of other tests may end meanwhile.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            executor.collected("endless", 1, executor.run(endless, None, 2, rows(2)))
    finally:
        signal.signal(signal.SIGINT, handler)
    interrupting.join()
    assert {*threading.enumerate()} <= before

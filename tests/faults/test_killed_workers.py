"""Python workers that die in mid-task: Spark tries again, and what they left is never live."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from tests.end_to_end.processes import (
    awaited,
    python_workers,
    reading,
    signalled,
    with_descendants,
    writing,
)
from tests.faults.killed_checks import unnamed
from tests.faults.killed_logs import LARGE, LARGE_RECORDS, large_newest, put_large
from tests.jobs.commands import ALWAYS, status_of, tierfold, told
from tests.jobs.tiers import folder_of, key_of, made_tier, put_updates

SEGMENTS: Final = 4
STAGES: Final = {"scan": reading, "rewrite": writing}


def one_killed(doing: Callable[[set[int], Path], set[int]], tier: Path) -> int:
    """Kills the first worker of this process's Spark that is found doing so; its process id."""

    def look() -> int | None:
        workers = python_workers(with_descendants(os.getpid()))
        found = sorted(doing(workers, tier))
        return found[0] if found and signalled(found[0], signal.SIGKILL) else None

    return awaited("a worker at work", look, 0.001)


@pytest.mark.parametrize("stage", STAGES)
def test_a_worker_that_dies_in_mid_task_is_replaced_and_nothing_is_published_twice(
    spark: SparkSession, tmp_path: Path, stage: str
) -> None:
    tier = made_tier(tmp_path / "tier")
    newest = put_large(tier, SEGMENTS)
    with ThreadPoolExecutor(1) as pool:
        killing = pool.submit(one_killed, STAGES[stage], tier)
        ran = tierfold("compact", tier, *ALWAYS, "--set", "segment.bytes=1", "--json")
        assert killing.result() > 0
    assert ran.code == 0, ran.stderr
    report = ran.partitions["large", 0]
    # Of the last segment nothing goes, so that it stays as it is.
    assert (report["outcome"], report["objects_written"]) == ("compacted", SEGMENTS - 1)
    tally = report["tally"]
    assert (tally["records_in"], tally["kept"]) == (SEGMENTS * LARGE_RECORDS, len(newest))
    status = status_of(tier)["large", 0]
    assert large_newest(status) == newest
    assert unnamed(tier, LARGE, status) == set(status["orphans"])
    assert tierfold("verify", tier).code == 0


@contextmanager
def whoever_reads_dies(folder: Path) -> Iterator[None]:
    """As where the memory of the machine does not suffice for what lies in the folder."""
    over = threading.Event()

    def kill() -> None:
        while not over.wait(0.001):
            for pid in reading(python_workers(with_descendants(os.getpid())), folder):
                signalled(pid, signal.SIGKILL)

    with ThreadPoolExecutor(1) as pool:
        killing = pool.submit(kill)
        try:
            yield
        finally:
            over.set()
            killing.result()


def test_data_that_take_every_worker_down_stop_their_own_partition_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    tier = made_tier(tmp_path / "tier")
    put_large(tier, SEGMENTS)
    for number in range(2):
        put_updates(tier, key_of("small"), number)
    with whoever_reads_dies(folder_of(tier, LARGE)):
        ran = tierfold("compact", tier, *ALWAYS, "--json")
    assert ran.code == 3, ran.stderr
    assert ran.outcomes == {("large", 0): "failed", ("small", 0): "compacted"}
    reason = ran.partitions["large", 0]["reason"]
    assert not told(reason, "large-0: a Spark worker died", "Python worker exited", "more memory")
    assert status_of(tier)["large", 0]["retired"] == []
    with whoever_reads_dies(folder_of(tier, LARGE)):
        ran = tierfold("verify", tier, "--json")
    assert ran.code == 3
    assert not told(ran.stderr, "Spark's workers died while they read", str(tier), "--topic")
    assert "Traceback" not in ran.stderr
    assert tierfold("verify", tier).code == 0

"""Python workers that die in mid-task: Spark tries again, and what they left is never live."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
from tests.jobs.commands import ALWAYS, status_of, tierfold
from tests.jobs.tiers import folder_of, key_of, live_values, made_tier, put_segment
from tests.storage.live_segments import data

KEY: Final = key_of("large")
SEGMENTS: Final = 4
RECORDS: Final = 16
VALUE: Final = bytes(512 * 1024)
"""So large that a segment is mapped, and takes a while to write."""

STAGES: Final = {"scan": reading, "rewrite": writing}


def name_of(number: int, i: int) -> bytes:
    """Every second key is its segment's own; the others are in all of them."""
    return f"{number if i % 2 else 'all'} {i}".encode()


LATEST: Final = {name_of(n, i): n for n in range(SEGMENTS) for i in range(RECORDS)}


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    """One partition; each segment loses half its records to the last one."""
    tier = made_tier(tmp_path / "tier")
    for number in range(SEGMENTS):
        start, value = number * RECORDS, VALUE + bytes([number])
        batches = [data(start + i, (name_of(number, i), value)) for i in range(RECORDS)]
        put_segment(tier, KEY, batches, start_offset=start)
    return tier


def one_killed(doing: Callable[[set[int], Path], set[int]], tier: Path) -> int:
    """Kills the first worker of this process's Spark that is found doing so; its process id."""

    def look() -> int | None:
        workers = python_workers(with_descendants(os.getpid()))
        found = sorted(doing(workers, tier))
        return found[0] if found and signalled(found[0], signal.SIGKILL) else None

    return awaited("a worker at work", look, 0.001)


@pytest.mark.parametrize("stage", STAGES)
def test_a_worker_that_dies_in_mid_task_is_replaced_and_nothing_is_published_twice(
    spark: SparkSession, tier: Path, stage: str
) -> None:
    with ThreadPoolExecutor(1) as pool:
        killing = pool.submit(one_killed, STAGES[stage], tier)
        ran = tierfold("compact", tier, *ALWAYS, "--set", "segment.bytes=1", "--json")
        assert killing.result() > 0
    assert ran.code == 0, ran.stderr
    report = ran.partitions["large", 0]
    # Of the last segment nothing goes, so that it stays as it is.
    assert (report["outcome"], report["objects_written"]) == ("compacted", SEGMENTS - 1)
    tally = report["tally"]
    assert (tally["records_in"], tally["kept"]) == (SEGMENTS * RECORDS, len(LATEST))
    status = status_of(tier)["large", 0]
    assert {key: (value or b"")[-1] for key, value in live_values(status).items()} == LATEST
    named = {each["id"] for each in (*status["segments"], *status["retired"])}
    assert len(named) == len(status["segments"]) + len(status["retired"])
    there = {path.name[21:43] for path in folder_of(tier, KEY).glob("[0-9]*.log")}
    assert there - named == set(status["orphans"])
    assert tierfold("verify", tier).code == 0

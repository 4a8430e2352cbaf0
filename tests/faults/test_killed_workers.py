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
from tests.faults.killed_checks import unnamed
from tests.faults.killed_logs import LARGE, LARGE_RECORDS, large_newest, put_large
from tests.jobs.commands import ALWAYS, status_of, tierfold
from tests.jobs.tiers import made_tier

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

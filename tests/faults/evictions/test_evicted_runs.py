"""Runs over many partitions that are evicted: each does only what the ones before left."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.faults.evictions.evicted_run import (
    Schedule,
    check_whole,
    evicted_runs,
    many_partitions,
)


@pytest.mark.parametrize(
    ("signum", "evictions"),
    [
        (signal.SIGTERM, 1),
        pytest.param(signal.SIGINT, 1, marks=pytest.mark.soak),
        pytest.param(signal.SIGKILL, 2, marks=pytest.mark.soak),
    ],
)
def test_runs_that_are_evicted_finish_the_tier_together(
    tmp_path: Path, signum: signal.Signals, evictions: int
) -> None:
    # A run's first wave has 16 partitions.
    partitions = 18 * evictions
    schedule = Schedule(engine="local", signum=signum, after_s=None, evictions=evictions)
    with many_partitions(tmp_path, partitions, 2) as (address, catalog):
        runs = [*evicted_runs(address, catalog, schedule)]
        check_whole(address, catalog, partitions)
    assert len(runs) == evictions + 1
    assert all(run.code in {-signum, 128 + signum} for run in runs[:-1])

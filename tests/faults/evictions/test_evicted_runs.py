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

PARTITIONS = 60


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_runs_that_are_evicted_finish_the_tier_together(
    tmp_path: Path, signum: signal.Signals
) -> None:
    schedule = Schedule(engine="local", signum=signum, after_s=None, evictions=2)
    with many_partitions(tmp_path, PARTITIONS, 2) as (address, catalog):
        runs = [*evicted_runs(address, catalog, schedule)]
        check_whole(address, catalog, PARTITIONS)
    assert len(runs) == 3
    assert all(run.code in {-signum, 128 + signum} for run in runs[:-1])

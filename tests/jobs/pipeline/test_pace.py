"""What is left to other runs takes no time, so it says nothing about the size of the next wave."""

from __future__ import annotations

import pytest

from tierfold.compaction.planning.waves import GROWTH_MAX, WAVE_MS, WaveLimit
from tierfold.jobs.pipeline import pace as pace_module
from tierfold.jobs.pipeline.pace import Pace

LIMIT = WaveLimit(partitions=10, work=1000)


def after(monkeypatch: pytest.MonkeyPatch, took_ms: int, left: tuple[int, int]) -> WaveLimit:
    """The limit after a whole wave, of which so many partitions and so much work were left."""
    seconds = iter((0.0, took_ms / 1000))
    monkeypatch.setattr(pace_module, "elapsed_s", lambda: next(seconds))
    pace = Pace(limit=LIMIT, started_at_ms=0, max_duration_ms=None)
    with pace.timed(LIMIT.partitions, LIMIT.work):
        pace.leave(*left)
    return pace.limit


def test_a_wave_that_is_left_alone_changes_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert after(monkeypatch, 3, (10, 1000)) == LIMIT


def test_only_what_was_done_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    # A tenth of a wave in a tenth of the time.
    assert after(monkeypatch, WAVE_MS // 10, (9, 900)) == LIMIT
    assert after(monkeypatch, WAVE_MS // 10, (0, 0)).partitions == GROWTH_MAX * LIMIT.partitions


def test_what_one_wave_left_does_not_count_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter((0.0, 1.0, 1.0, 1 + WAVE_MS / 2000))
    monkeypatch.setattr(pace_module, "elapsed_s", lambda: next(seconds))
    pace = Pace(limit=LIMIT, started_at_ms=0, max_duration_ms=None)
    with pace.timed(10, 1000):
        pace.leave(10, 1000)
    with pace.timed(10, 1000):
        pass
    assert pace.limit.partitions == 2 * LIMIT.partitions

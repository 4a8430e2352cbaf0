"""What compaction removes lies in the interval that `plan --estimate` gave before.

`make soak` does so for 20 seeds of each log, and prints the table of docs/estimates.md.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pytest

import tierfold
from tests.jobs.drawn_logs import LOGS, ORDERS, TIME_MS, DrawnLog, put_drawn
from tierfold.compaction.estimation.estimate import Estimate
from tierfold.compaction.estimation.indexed import INDEX_BYTES_MAX
from tierfold.compaction.estimation.windows import SampleBound
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.survey import survey
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.verbs.estimating import estimates_of
from tierfold.storage.key_indexes.index_folder import FOLDER
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER

SEEDS: Final = 20
HOLDS_MIN: Final = 18
"""Of 20."""
WIDTH_MAX: Final = {
    "none, 1 KB values": 0.35,
    "none, 100 B values": 0.30,
    "lz4, 1 KB text": 0.35,
    "zstd, 1 KB text": 0.33,
    "Zipf": 0.38,
    "CDC": 0.58,
    "loaded, then updated": 0.46,
}
"""The median width of each log's intervals, a share: those of docs/estimates.md and 0.03."""
NOW_MS: Final = TIME_MS + 1000
SETTINGS: Final[dict[str, str]] = {"cleanup.policy": "compact", "tier.binding": "detached"}
ALWAYS: Final = SETTINGS | {"min.cleanable.dirty.ratio": "0"}
BOUND: Final = SampleBound(windows=64, window_bytes=2**14)
SAMPLE_SHARE: Final = 0.05


class Tried(NamedTuple):
    """One estimate, and what compaction then removed, as shares of the log."""

    low: float
    likely: float
    high: float
    removed: float
    sampled: float

    @property
    def holds(self) -> bool:
        """Whether the interval holds what was removed."""
        return self.low <= self.removed <= self.high

    @property
    def width(self) -> float:
        """Of the interval."""
        return self.high - self.low


def tried(folder: Path, log: DrawnLog, seed: int) -> Tried:
    """Estimate from a sample of 5 %, then compact."""
    size_bytes = put_drawn(folder, log, seed)
    window_bytes = round(size_bytes * SAMPLE_SHARE / 64)
    found = estimate_of(folder, SampleBound(windows=64, window_bytes=window_bytes))
    assert not found.is_whole
    assert found.bytes_in == size_bytes
    done = tierfold.compact(folder, engine="local", settings=SETTINGS, now_ms=NOW_MS)
    removed = done.bytes_in - done.bytes_out
    shutil.rmtree(folder)
    ends = (found.low_bytes, found.likely_bytes, found.high_bytes, removed, found.read_bytes)
    return Tried(*(one / size_bytes for one in ends))


def estimate_of(
    folder: Path, bound: SampleBound, settings: dict[str, str] = SETTINGS
) -> Estimate:
    """The estimate of the one partition."""
    context = run_context(str(folder), None, NOW_MS)
    plans = survey(context, resolve([f"{k}={v}" for k, v in settings.items()]), Scope())
    found = estimates_of(context, plans, bound)[ORDERS]
    assert isinstance(found, Estimate), found
    return found


@pytest.mark.parametrize("log", [LOGS[1], LOGS[3], LOGS[5]], ids=lambda log: log.name)
def test_the_interval_holds_and_says_something(log: DrawnLog, tmp_path: Path) -> None:
    found = tried(tmp_path / "tier", log, 0)
    assert found.holds, found
    assert found.width < WIDTH_MAX[log.name] + 0.1, found
    assert found.sampled < SAMPLE_SHARE + 0.01


def test_key_indexes_say_what_new_records_supersede(tmp_path: Path) -> None:
    log, tier = LOGS[4], tmp_path / "tier"
    put_drawn(tier, log, 0, range(9))
    settings = SETTINGS | {"segment.bytes": "100000"}
    tierfold.compact(tier, engine="local", settings=settings, now_ms=NOW_MS)
    put_drawn(tier, log, 0, range(9, 12))
    by_index = estimate_of(tier, BOUND, ALWAYS)
    shutil.copytree(tier, tmp_path / "without")
    shutil.rmtree(tmp_path / "without" / CATALOG_FOLDER / FOLDER)
    without = estimate_of(tmp_path / "without", BOUND, ALWAYS)
    done = tierfold.compact(tier, engine="local", settings=ALWAYS, now_ms=NOW_MS + 60_000)
    removed = done.bytes_in - done.bytes_out
    for found in (by_index, without):
        assert found.low_bytes <= removed <= found.high_bytes
        assert found.read_bytes <= BOUND.size_bytes + INDEX_BYTES_MAX
    assert by_index.ranges > without.ranges  # All windows are for the new records.
    assert width_of(by_index) < width_of(without)


def width_of(found: Estimate) -> float:
    """Of the interval, in bytes."""
    return found.high_bytes - found.low_bytes


@pytest.mark.soak
@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
def test_most_intervals_hold(
    log: DrawnLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [tried(tmp_path / f"{seed}", log, seed) for seed in range(SEEDS)]
    holds = sum(one.holds for one in found)
    width = float(np.median([one.width for one in found]))
    with capsys.disabled():
        names = ("sampled", "removed", "likely", "low", "high")
        medians = (np.median([getattr(one, name) for one in found]) for name in names)
        shares = (f"{100 * median:.0f} %" for median in medians)
        row = (log.name, *shares, f"{100 * width:.0f}", f"{holds} of {SEEDS}")
        sys.stdout.write(f"\n| {' | '.join(row)} |\n")
    assert holds >= HOLDS_MIN, found
    assert width <= WIDTH_MAX[log.name], found

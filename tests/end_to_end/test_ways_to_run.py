"""All three ways to start a run compact the bundled sample."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.jobs.commands import COMPACT, Ran, in_own_process, script, status_of, tierfold
from tests.jobs.tiers import records_in, sample_copy

NOW: Final = ("--now", "1800000000000")
"""So that all ways set the same delete horizons."""

WAYS: Final[dict[str, tuple[str | Path, ...]]] = {
    "tierfold": (script("tierfold"), "compact"),
    "python -m tierfold": (sys.executable, "-m", "tierfold", "compact", "--engine", "local"),
    "spark-submit": (script("spark-submit"), "--master", "local[2,4]", "jobs/compact_job.py"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A finished run, and the live segments after it."""

    ran: Ran
    live: dict[str, Any]
    records: list[tuple[int, bytes | None, bytes | None]]


def done(tier: Path, ran: Ran) -> Done:
    assert ran.code == 0, ran.stderr
    live = status_of(tier)["tiered", 0]
    return Done(
        ran=ran, live=live, records=records_in([segment["log"] for segment in live["segments"]])
    )


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """The result of the command in this process."""
    tier = sample_copy(tmp_path_factory.mktemp("within"))
    return done(tier, tierfold("compact", tier, *COMPACT, *NOW, "--json"))


@pytest.mark.parametrize(
    "way",  # CI has the first one in `make demo`; the second one starts many tests' runs.
    [
        pytest.param("tierfold", marks=pytest.mark.soak),
        pytest.param("python -m tierfold", marks=pytest.mark.soak),
        "spark-submit",
    ],
)
def test_every_way_to_run_leaves_the_same_records(
    way: str, expected: Done, tmp_path: Path
) -> None:
    tier = sample_copy(tmp_path / "tier")
    found = done(tier, in_own_process(*WAYS[way], tier, *COMPACT, *NOW, "--json"))
    assert len(found.records) > 0
    assert found.records == expected.records
    assert [segment["size_bytes"] for segment in found.live["segments"]] == [
        segment["size_bytes"] for segment in expected.live["segments"]
    ]
    # Stdout has only the document; Spark's messages go elsewhere.
    assert json.loads(found.ran.stdout).keys() == expected.ran.document.keys()
    counts = found.ran.partitions["tiered", 0]["counts"]
    assert counts == expected.ran.partitions["tiered", 0]["counts"]


def test_a_wrong_setting_under_spark_submit_prints_no_traceback(tmp_path: Path) -> None:
    tier = sample_copy(tmp_path / "tier")
    # Not the launcher of `compact`, since each verb has its own.
    command = (*WAYS["spark-submit"][:-1], "jobs/verify_job.py")
    ran = in_own_process(*command, tier, "--set", "cleanup.polisy=compact")
    assert ran.code == 2
    # spark-submit sends a script's stderr to its stdout; this run prints no document.
    printed = ran.stdout + ran.stderr
    assert "Did you mean cleanup.policy" in printed
    assert "Traceback" not in printed

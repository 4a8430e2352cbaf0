"""Two runs on one tier, in two processes: started together, or one paused and overtaken."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.processes import Application, awaited, signalled
from tests.faults.kills.killed_checks import (
    Examiner,
    catalog_versions,
    must_commit_each_offset_once,
)
from tests.faults.kills.killed_logs import WrittenTier, written_tier
from tests.faults.kills.killed_run import OPTIONS, started_run
from tests.jobs.commands import status_of, tierfold
from tests.oracle.kafka_lab import KafkaLab
from tierfold.jobs.pipeline.partition_report import (
    COMPACTED,
    FENCED,
    LEFT,
    LOST_RACE,
    NOTHING_TO_DO,
)

SEGMENTS: Final = 3


@pytest.fixture
def written(tmp_path: Path) -> WrittenTier:
    return written_tier(tmp_path / "tier", 3, SEGMENTS)


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[list[Application]]:
    """The runs that a test starts; they are stopped at its end."""
    begun: list[Application] = []
    yield begun
    for run in begun:
        run.stop()


def must_be_finished(written: WrittenTier, lab: KafkaLab, scratch: Path) -> None:
    """Assert that the tier is sound and clean to its end, and each offset was committed once."""
    found = Examiner(written=written, lab=lab, scratch=scratch).examined()
    assert found.violations == ()
    assert found.cleaner_offsets == tuple(written.end_offsets.values())
    must_commit_each_offset_once(written.path / "_tierfold", written.end_offsets)


@pytest.mark.parametrize(
    ("if_held", "expected"),
    [
        ("skip", {COMPACTED, LEFT, NOTHING_TO_DO}),
        pytest.param(
            "take-over",
            {COMPACTED, LEFT, FENCED, LOST_RACE, NOTHING_TO_DO},
            marks=pytest.mark.soak,  # CI has it below, and in the simulation.
        ),
    ],
)
def test_two_runs_started_together_commit_each_chunk_once(
    if_held: str,
    expected: set[str],
    lab: KafkaLab,
    written: WrittenTier,
    runs: list[Application],
    tmp_path: Path,
) -> None:
    options = ("--engine", "local", "--if-held", if_held)
    runs += [started_run(tmp_path, written.path, *options) for _ in range(2)]
    ended = [run.ended() for run in runs]
    for ran in ended:
        outcomes = set(ran.outcomes.values())
        assert outcomes <= expected, ran.stderr
        assert ran.code == (4 if outcomes & {FENCED, LOST_RACE} else 0)
    assert any(ran.code == 0 for ran in ended)
    must_be_finished(written, lab, tmp_path)


def live_ids(tier: Path) -> dict[tuple[str, int], list[str]]:
    """Return the ids of the live segments by partition, in offset order."""
    return {
        place: [segment["id"] for segment in entry["segments"]]
        for place, entry in status_of(tier).items()
    }


@pytest.mark.soak
def test_a_run_that_is_paused_and_overtaken_is_fenced_and_commits_nothing_more(
    lab: KafkaLab,
    written: WrittenTier,
    runs: list[Application],
    tmp_path: Path,
) -> None:
    zombie = started_run(tmp_path, written.path)
    runs.append(zombie)
    # A claim, and the commit of a chunk.
    awaited("a commit", lambda: catalog_versions(written.path) >= 2 or None, 0.005)
    paused = zombie.session
    for pid in paused:
        assert signalled(pid, signal.SIGSTOP)
    overtaking = tierfold("compact", written.path, *OPTIONS)
    assert set(overtaking.outcomes.values()) == {COMPACTED}, overtaking.stderr
    live = live_ids(written.path)
    for pid in paused:
        signalled(pid, signal.SIGCONT)
    ran = zombie.ended()
    assert ran.code == 4, ran.stderr
    assert set(ran.outcomes.values()) == {FENCED}
    for report in ran.entries:
        assert "epoch 2" in report["reason"]
        assert report["epoch"] == 1
    assert live_ids(written.path) == live
    must_be_finished(written, lab, tmp_path)

"""Two runs on one tier, in two processes: started together, or one paused and overtaken."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.processes import Application, awaited, signalled
from tests.faults.kills.killed_checks import Examiner, catalog_versions
from tests.faults.kills.killed_logs import WrittenTier, written_tier
from tests.faults.kills.killed_run import OPTIONS, started_run
from tests.jobs.commands import status_of, tierfold
from tests.oracle.kafka_lab import KafkaLab
from tierfold.jobs.pipeline.partition_report import COMPACTED, FENCED, LOST_RACE, NOTHING_TO_DO
from tierfold.storage.catalog.runs_table import RunsTable

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


def is_whole(written: WrittenTier, lab: KafkaLab, scratch: Path) -> bool:
    """Check the tier; returns whether every partition is clean to its end."""
    left = Examiner(written=written, lab=lab, scratch=scratch).examined()
    assert left.faults == ()
    return left.clean_until == tuple(written.end_offsets.values())


def each_stretch_once(written: WrittenTier) -> bool:
    """Check that the committed chunks of every partition follow one another, whichever run's."""
    rows = RunsTable(str(written.path / "_tierfold")).read()
    for key, end_offset in written.end_offsets.items():
        at = 0
        own = [row for row in rows if (row.topic, row.partition) == (key.topic, key.partition)]
        for row in sorted(own, key=lambda row: row.first_dirty):
            if row.outcome == COMPACTED:
                assert row.first_dirty == at, row
                at = row.next_offset
        assert at == end_offset
    return True


def test_of_two_runs_begun_at_once_each_chunk_is_committed_by_one(
    lab: KafkaLab,
    written: WrittenTier,
    runs: list[Application],
    tmp_path: Path,
) -> None:
    runs += [started_run(tmp_path, written.path, "--engine", "local") for _ in range(2)]
    ended = [run.ended() for run in runs]
    for ran in ended:
        outcomes = set(ran.outcomes.values())
        assert outcomes <= {COMPACTED, FENCED, LOST_RACE, NOTHING_TO_DO}, ran.stderr
        assert ran.code == (4 if outcomes & {FENCED, LOST_RACE} else 0)
    assert any(ran.code == 0 for ran in ended)
    assert is_whole(written, lab, tmp_path)
    assert each_stretch_once(written)


def live_ids(tier: Path) -> dict[tuple[str, int], list[str]]:
    """Return the ids of the live segments by partition, in offset order."""
    return {
        place: [segment["id"] for segment in entry["segments"]]
        for place, entry in status_of(tier).items()
    }


def test_a_run_that_was_paused_and_overtaken_is_fenced_and_publishes_nothing_more(
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
    assert is_whole(written, lab, tmp_path)
    assert each_stretch_once(written)

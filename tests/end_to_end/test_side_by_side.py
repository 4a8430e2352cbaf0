"""Runs of `compact` side by side on one tier, in real processes: no work is thrown away.

Each partition is compacted by one of the runs, and each run says in one sentence what it left to
which other one. A run that was killed keeps its partitions until its sign of life is ten minutes
old.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.processes import Application, awaited, signalled, started
from tests.jobs.commands import ALWAYS, ROOT, Ran, script, status_of, tierfold, users_environment
from tests.jobs.signs import aged, signs_in
from tests.jobs.tiers import key_of, latest_updates, live_values, updated_tier
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER

TOPICS: Final = 40
SEGMENTS: Final = 3
LEFT_TO: Final = re.compile(r"(\d+) partitions? (?:is|are) left to (run \S+) of")


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    keys = [key_of(f"t{number:02d}") for number in range(TOPICS)]
    return updated_tier(tmp_path / "tier", keys, SEGMENTS)


@pytest.fixture
def runs() -> Iterator[list[Application]]:
    """The runs that a test starts; they are stopped at its end."""
    begun: list[Application] = []
    yield begun
    for run in begun:
        run.stop()


def compact(tier: Path, name: str, *options: str) -> Application:
    """Start a run; each chunk is a segment, so that it takes several waves."""
    command = (script("tierfold"), "compact", tier, *ALWAYS, "--set", "chunk.bytes=1", *options)
    environment = users_environment() | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    return started((*command, "--engine", "local"), tier.parent, name, environment)


def must_be_done_without_waste(tier: Path, ended: list[Ran]) -> None:
    assert [ran.code for ran in ended] == [0] * len(ended), ended
    for ran in ended:
        assert "fenced" not in ran.stdout
        runs = [found[1] for found in LEFT_TO.findall(" ".join(ran.stdout.split()))]
        assert len(runs) == len(set(runs)), ran.stdout
        assert ran.stdout.count("since this run planned") <= 1
    status = status_of(tier)
    assert len(status) == TOPICS
    for entry in status.values():
        assert (entry["orphans"], entry["owner_run"]) == ([], "")
        assert live_values(entry) == latest_updates(SEGMENTS)
    rows = RunsTable(str(tier / CATALOG_FOLDER)).read()
    chunks = [(row.topic, row.chunk) for row in rows if row.outcome == "compacted"]
    assert len(chunks) == len(set(chunks)), "a chunk was compacted twice"
    assert signs_in(tier) == []


@pytest.mark.soak
@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.soak)])
def test_runs_side_by_side_share_the_work(
    tier: Path, runs: list[Application], count: int
) -> None:
    runs += [compact(tier, f"run-{number}") for number in range(count)]
    must_be_done_without_waste(tier, [run.ended() for run in runs])


@pytest.mark.soak  # CI has it in one process (test_runs_at_work.py).
def test_a_killed_run_is_left_alone_until_it_was_silent_for_ten_minutes(
    tier: Path, runs: list[Application]
) -> None:
    catalog = Catalog(str(tier / CATALOG_FOLDER))

    def held() -> set[str] | None:
        return {row.key.topic for row in catalog.read().values() if row.owner_run} or None

    run = compact(tier, "killed")
    runs.append(run)
    awaited("a claim", held, 0.005)
    signalled(run.process.pid, signal.SIGKILL)
    run.process.wait()
    (sign,) = signs_in(tier)
    left = held()
    assert left, "the run had released its claims"
    ran = tierfold("compact", tier, *ALWAYS, "--json")
    outcomes = {topic: outcome for (topic, _), outcome in ran.outcomes.items()}
    assert ran.code == 0
    assert {topic for topic, outcome in outcomes.items() if outcome == "left"} == left
    name = sign.name.rpartition(".")[0]
    assert {one["held_by"] for one in ran.entries if one["outcome"] == "left"} == {name}
    aged(sign, 601)
    again = tierfold("compact", tier, *ALWAYS, "--json")
    outcomes = {topic: outcome for (topic, _), outcome in again.outcomes.items()}
    assert (again.code, set(outcomes.values())) == (0, {"compacted", "nothing_to_do"})
    assert {topic for topic, outcome in outcomes.items() if outcome == "compacted"} <= left
    for entry in status_of(tier).values():
        assert live_values(entry) == latest_updates(SEGMENTS)

"""Thirty scenarios violate no invariant, and reach every fault and every outcome."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from tests.faults.simulation.scenario import played
from tests.faults.simulation.simulation_run import Summary, main, summary_of
from tests.faults.simulation.simulation_scheduler import Fault

SEEDS = (*range(20), 25, 40, 62, 108, 141, 142, 337, 343, 381, 393, 103396)
"""The later ones reach what is rare."""


@pytest.fixture(scope="module")
def total() -> Summary:
    return summary_of(played, SEEDS)


def test_no_seed_violates_an_invariant(total: Summary) -> None:
    assert total.seeds == len(SEEDS)
    assert not total.failures, str(total)


def test_a_new_leader_may_upload_during_a_survey() -> None:
    # The survey sees only the `.log` of its segment, whose epoch truncates the old leader's log.
    assert not played(103373).failure


def test_a_partition_can_be_forgotten_after_a_run_died_in_its_upload() -> None:
    # Without the row, the run's objects would count as an incomplete upload of the new leader.
    assert not played(209370).failure


def test_every_fault_happens(total: Summary) -> None:
    others = {"lands", "never lands", "worker died", "Spark died", "task ran twice"}
    kinds = {fault.value for fault in Fault} - {Fault.NONE.value}
    assert kinds | others <= total.faults.keys(), str(total)


def test_every_outcome_happens(total: Summary) -> None:
    rows = {"swap", "release", "log start moved", "deletion started", "deletion ended"}
    rows |= {"forgotten", "restored"}
    owners = {
        f"{how} by a {who}" for how in ("claim", "takeover") for who in ("run", "vacuum", "person")
    }
    answers = {"claim: Committed", "claim: LostRace", "claim: Fenced", "claim: Unknown"}
    answers |= {f"commit: {answer}" for answer in ("Committed", "Fenced", "Unknown")}
    answers |= {"claim of a later wave: Committed", "release by a claim: Committed"}
    ends = {"compacted", "failed", "fenced", "left", "unknown", "survey failed"}
    ends |= {f"refused: {why}" for why in ("gap", "overlap", "partial segment", "unreadable")}
    ends |= {"refused: lineage diverged", "a worker death stops one of two"}
    ends |= {f"vacuum: {how}" for how in ("vacuumed", "left", "refused", "failed", "unknown")}
    ends |= {f"restore: {how}" for how in ("restored", "refused", "nothing_to_do")}
    deleted = {"retired deleted", "orphan deleted", "incomplete deleted", "set apart deleted"}
    uploads = {"our upload aborted", "a broker's upload aborted"}
    uploads |= {"upload completed after its client gave up"}
    signs = {"lost", "late", "unanswered", "not listed", "not read", "stays", "deleted", "forged"}
    signs = {f"sign {how}" for how in (*signs, "unreadable")}
    expected = signs | uploads | rows | owners | answers | ends | deleted
    assert expected <= {what for what, count in total.outcomes.items() if count}, str(total)


def without_process(trace: Sequence[str]) -> list[str]:
    """A sign of life names the process."""
    return [re.sub(r"process \d+", "process", line) for line in trace]


@pytest.mark.soak
def test_a_seed_plays_the_same_scenario_in_another_process() -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as processes:
        elsewhere = processes.submit(played, 11).result()
    here = played(11)
    assert without_process(here.trace) == without_process(elsewhere.trace)
    assert here.outcomes == elsewhere.outcomes


def test_different_seeds_play_different_scenarios() -> None:
    assert played(1).trace != played(2).trace


def test_replay_prints_the_whole_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--replay", "11"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:-1] == list(played(11).trace)

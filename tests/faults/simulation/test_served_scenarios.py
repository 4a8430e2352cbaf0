"""Scenarios of a partition that brokers serve violate nothing, and reach every outcome."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from tests.faults.simulation.served_scenario import played_served
from tests.faults.simulation.simulation_run import Summary, main, summary_of
from tests.faults.simulation.simulation_scheduler import Fault
from tierfold.compaction.publishing.lost_metadata import SafeOrder

SEEDS = (*range(30), 49, 53, 66, 73, 87)
"""The later ones reach what is rare."""


@pytest.fixture(scope="module")
def total() -> Summary:
    return summary_of(played_served, SEEDS)


def test_no_seed_shows_consumers_anything_wrong(total: Summary) -> None:
    assert total.seeds == len(SEEDS)
    assert not total.failures, total.described(" --served")


def test_every_fault_happens(total: Summary) -> None:
    others = {"lands", "never lands", "send delayed"}
    kinds = {fault.value for fault in Fault} - {Fault.NONE.value}
    assert kinds | others <= total.faults.keys(), str(total)


def test_every_outcome_happens(total: Summary) -> None:
    sends = {f"sent: {what}" for what in ("start", "swap", "repair", "gone")}
    readers = {"in time", "too slow for tombstones", "reset", "out of range beside an upload"}
    runs = {"run ended", "run stopped", "run waits", "vacuum ended", "vacuum stopped"}
    rows = {"passes", "merged", "uploads adopted", "the row followed the log start"}
    rows |= {"tombstones dropped", "uploads retired", "segments deleted", "segments forgotten"}
    rows |= {"orphans deleted", "strays given up", "runs moved the log start"}
    brokers = {"uploads", "an upload failed", "elections", "strays", "DeleteRecords"}
    brokers |= {"segments expired", "brokers deleted at the head", "compacted before"}
    races = {"offsets lost beside an upload", "uploads finished over a replacement"}
    rows |= {"restores", "restores seen", "restore refused", "restore stopped"}
    brokers |= {"brokers stopped", "readers without a leader"}
    races |= {"a look grew old", "stopped by a row that had changed"}
    losses = {"the metadata topic was lost", "copying stopped", "moved out of the tier"}
    losses |= {"brokers had not read all that was lost", "reader: read without lost metadata"}
    losses |= {f"rebuild: {order}" for order in SafeOrder}
    ends = ("ended", "stopped", "has nothing to do", "refused by LostAlready")
    losses |= {f"rebuild {how}" for how in ends}
    expected = sends | {f"reader: {how}" for how in readers} | runs | rows | brokers | races
    expected |= losses
    assert expected <= {what for what, count in total.outcomes.items() if count}, str(total)


def test_a_seed_plays_the_same_scenario_in_another_process() -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as processes:
        elsewhere = processes.submit(played_served, 11).result()
    assert elsewhere == played_served(11)


def test_different_seeds_play_different_scenarios() -> None:
    assert played_served(1).trace != played_served(2).trace


def test_replay_prints_the_whole_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--served", "--replay", "11"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:-1] == list(played_served(11).trace)

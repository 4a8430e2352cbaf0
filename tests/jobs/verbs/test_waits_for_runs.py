"""Runs wait for a run at work, or are refused; what they leave costs nothing."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.claims import ORDERS, row_of
from tests.jobs.commands import status_of, tierfold, told
from tests.jobs.elections import histories
from tests.jobs.restores import compacted_once, found_at
from tests.jobs.runs_at_work import (
    ALIVE,
    PAYMENTS,
    both,
    compact,
    freed,
    held,
    poll_fast,
    rows_of,
    soon,
    two_held,
)
from tests.jobs.scripted_runs import scripted
from tests.jobs.signs import aged, alive, signs_in
from tests.jobs.tiers import (
    copied,
    folder_of,
    latest_updates,
    live_values,
    put_updates,
)
from tests.jobs.vacuum_tiers import live_ids, vacuum
from tests.storage.call_scripts import at, fails
from tests.storage.scripted_catalog import rival_claims
from tierfold.compaction.planning.waves import WaveLimit
from tierfold.storage.catalog.sign_folder import SignFolder

two = copied(two_held)


@pytest.fixture(autouse=True)
def _polling_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that wait for a holder look often."""
    poll_fast(monkeypatch)


# wait


def test_a_run_waits_until_the_other_one_is_done_and_plans_again(two: Path) -> None:
    alive(two, "holder")

    def done() -> None:
        put_updates(two, ORDERS, 3)
        freed(two, ORDERS)
        freed(two, PAYMENTS)

    with soon(done):
        ran = compact(two, "--if-held", "wait")
    assert (ran.code, ran.outcomes) == (0, both("compacted"))
    # What came meanwhile is compacted, too.
    assert live_values(status_of(two)["orders", 0]) == latest_updates(4)
    assert [path.name for path in signs_in(two)] == ["holder.1"]


def test_a_run_waits_until_the_other_one_is_silent(two: Path) -> None:
    began_s = time.monotonic()
    alive(two, "holder", age_s=598)
    assert compact(two, "--if-held", "wait").outcomes == both("compacted")
    assert time.monotonic() - began_s >= 1.5


def test_a_run_does_first_what_need_not_wait(two: Path) -> None:
    freed(two, ORDERS)
    alive(two, "holder")
    compacted_at: list[str] = []

    def look() -> None:
        compacted_at.append(row_of(two).owner_run)
        freed(two, PAYMENTS)

    with soon(look, after_s=2):
        ran = compact(two, "--if-held", "wait")
    assert (ran.outcomes, compacted_at) == (both("compacted"), [""])


def test_a_wait_ends_with_the_duration(two: Path) -> None:
    alive(two, "holder")
    ran = compact(two, "--if-held", "wait", "--max-duration", "1s")
    assert (ran.code, ran.outcomes) == (0, both("left"))
    assert not told(ran.entry["reason"], *ALIVE)


@pytest.mark.parametrize("verb", ["compact", "vacuum"])
def test_a_wait_ends_with_a_signal(two: Path, verb: str) -> None:
    alive(two, "holder")
    with soon(lambda: os.kill(os.getpid(), signal.SIGTERM), after_s=1):
        ran = (compact if verb == "compact" else vacuum)(two, "--if-held", "wait")
    assert (ran.code, ran.outcomes) == (143, both("left"))
    assert [path.name for path in signs_in(two)] == ["holder.1"]


def test_what_was_waited_for_counts_as_read(two: Path) -> None:
    freed(two, PAYMENTS)
    alive(two, "holder")
    with soon(lambda: freed(two, ORDERS), after_s=1.5):
        ran = compact(two, "--if-held", "wait", "--max-bytes", "1")
    assert ran.outcomes == {("orders", 0): "left", ("payments", 0): "compacted"}


# restore and forget


def test_a_restore_refuses_a_partition_at_which_a_run_is_at_work(tmp_path: Path) -> None:
    tier = compacted_once(tmp_path / "tier")
    found, before = found_at(tier), live_ids(tier)
    held(tier, ORDERS)
    sign = alive(tier, "holder")
    ran = tierfold("restore", tier, "orders-0", "--to", found, "--json")
    words = (*ALIVE, "nothing was changed", "--if-held wait", "--if-held take-over")
    entry = ran.ends_alone(3, "refused", *words)
    assert (entry["held_by"], entry["notes"]) == ("holder", [])
    assert entry["bytes_read"] == 0, "it refuses before it reads what would come back"
    assert (live_ids(tier), row_of(tier).owner_run) == (before, "holder")
    dry = tierfold("restore", tier, "orders-0", "--to", found, "--dry-run", "--json")
    assert dry.ends_alone(0, "planned")["notes"]
    aged(sign, 601)
    ran = tierfold("restore", tier, "orders-0", "--to", found, "--json")
    ran.ends_alone(0, "restored")


@pytest.mark.parametrize("mode", ["wait", "take-over"])
def test_a_restore_waits_or_takes_over(tmp_path: Path, mode: str) -> None:
    tier = compacted_once(tmp_path / "tier")
    found = found_at(tier)
    held(tier, ORDERS)
    alive(tier, "holder")
    with soon(lambda: freed(tier, ORDERS) if mode == "wait" else None):
        ran = tierfold("restore", tier, "orders-0", "--to", found, "--json", "--if-held", mode)
    ran.ends_alone(0, "restored")


def test_a_restore_that_was_overtaken_by_a_live_run_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tier = compacted_once(tmp_path / "tier")
    found, before = found_at(tier), live_ids(tier)
    alive(tier, "rival")
    with scripted(at("claim", rival_claims(str(tier / "_tierfold"), ORDERS))):
        ran = tierfold("restore", tier, "orders-0", "--to", found, "--json")
    ran.ends_alone(3, "refused", "run rival", "is at work on it")
    assert live_ids(tier) == before


@pytest.mark.parametrize(
    ("mode", "ended"), [("skip", (3, "refused")), ("wait", (0, "forgotten"))]
)
def test_a_forget_refuses_or_waits(tmp_path: Path, mode: str, ended: tuple[int, str]) -> None:
    tier, *_ = histories(tmp_path / "tier")
    held(tier, ORDERS)
    alive(tier, "holder")
    with soon(lambda: freed(tier, ORDERS)):
        ran = tierfold("forget", tier, "orders-0", "--json", "--if-held", mode)
    ran.ends_alone(*ended)


# What was left costs nothing, and is recorded once.


@pytest.mark.parametrize("verb", ["compact", "vacuum"])
def test_what_was_left_is_recorded_once(two: Path, verb: str) -> None:
    alive(two, "holder")
    ran = (compact if verb == "compact" else vacuum)(two)
    rows = rows_of(two, ran)
    assert [(row.topic, row.outcome) for row in rows] == [("orders", "left"), ("payments", "left")]


@pytest.mark.parametrize("verb", ["compact", "vacuum"])
def test_what_was_waited_for_is_recorded_once(two: Path, verb: str) -> None:
    alive(two, "holder")
    with soon(lambda: [freed(two, key) for key in (ORDERS, PAYMENTS)]):
        ran = (compact if verb == "compact" else vacuum)(two, "--if-held", "wait")
    rows = rows_of(two, ran)
    done = "compacted" if verb == "compact" else "vacuumed"
    assert sorted((row.topic, row.outcome) for row in rows) == [
        ("orders", done),
        ("payments", done),
    ]


def test_what_was_left_does_not_spend_the_budget(two: Path) -> None:
    freed(two, PAYMENTS)
    alive(two, "holder")
    ran = compact(two, "--max-bytes", "1")
    assert ran.outcomes == {("orders", 0): "left", ("payments", 0): "compacted"}


@pytest.mark.parametrize("verb", ["compact", "vacuum"])
def test_what_is_done_is_reported_if_the_catalog_vanishes_during_a_wait(
    two: Path, verb: str
) -> None:
    freed(two, ORDERS)
    alive(two, "holder")
    looks = {"compact": ("look 2", "look 3"), "vacuum": ("look 3", "look 4")}[verb]
    with scripted(*map(fails, looks)):
        ran = (compact if verb == "compact" else vacuum)(two, "--if-held", "wait")
    done = "compacted" if verb == "compact" else "vacuumed"
    assert ran.outcomes == {("orders", 0): done, ("payments", 0): "left"}


def test_a_partition_whose_topic_is_deleted_during_a_wait_stays_left(two: Path) -> None:
    alive(two, "holder")

    def deleted() -> None:
        shutil.rmtree(folder_of(two, ORDERS))
        for key in (ORDERS, PAYMENTS):
            freed(two, key)

    with soon(deleted):
        ran = compact(two, "--if-held", "wait")
    assert ran.outcomes == {("orders", 0): "left", ("payments", 0): "compacted"}


@pytest.mark.parametrize("verb", ["compact", "vacuum"])
def test_a_wave_that_is_left_alone_does_not_make_the_next_one_larger(
    two: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive(two, "holder")
    shares: list[float] = []
    size_of_next = WaveLimit.next

    def noted(limit: WaveLimit, *, share: float, **given: Any) -> WaveLimit:
        shares.append(share)
        return size_of_next(limit, share=share, **given)

    monkeypatch.setattr(WaveLimit, "next", noted)
    assert (compact if verb == "compact" else vacuum)(two).outcomes == both("left")
    assert shares == []


@pytest.mark.parametrize("mode", ["skip", "take-over"])
def test_signs_are_read_only_if_they_decide(
    two: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run on partitions that no one holds, or that insists, writes only its first sign."""
    written: list[int] = []
    write = SignFolder.write

    def noted(signs: SignFolder, run: str, number: int, content: dict[str, object]) -> None:
        written.append(number)
        write(signs, run, number, content)

    monkeypatch.setattr(SignFolder, "write", noted)
    if mode == "skip":
        for key in (ORDERS, PAYMENTS):
            freed(two, key)
    assert compact(two, "--if-held", mode).outcomes == both("compacted")
    assert written == [1]

"""Partitions of a run at work: skipped and reported once, waited for, or taken over; never lost."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.claims import ORDERS, catalog_of, row_of
from tests.jobs.commands import ALWAYS, Ran, status_of, tierfold, told
from tests.jobs.elections import histories
from tests.jobs.restores import compacted_once, found_at
from tests.jobs.scripted_runs import scripted
from tests.jobs.signs import aged, alive, signs_in
from tests.jobs.tiers import (
    files_below,
    folder_of,
    key_of,
    latest_updates,
    live_values,
    put_updates,
    updated_tier,
)
from tests.jobs.vacuum_tiers import DETACHED, compacted, live_ids, vacuum
from tests.storage.call_scripts import at, fails
from tests.storage.scripted_catalog import rival_claims
from tierfold.compaction.commits.commit import ReleaseClaim, proposed
from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.planning.waves import WaveLimit
from tierfold.jobs import api
from tierfold.jobs.verbs import waiting
from tierfold.storage.catalog.catalog import new_commit_id
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.catalog.schema import RunRow
from tierfold.storage.catalog.sign_folder import SignFolder

PAYMENTS = key_of("payments")
ALIVE = ("run holder of `compact` on node-7 (process 31) is at work on it", "its last sign of life")


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A tier of two partitions; both were compacted and have more to do, and "holder" has both."""
    tier = compacted(tmp_path / "tier", ORDERS, PAYMENTS, segments=2)
    for key in (ORDERS, PAYMENTS):
        put_updates(tier, key, 2)
        held(tier, key)
    return tier


def held(tier: Path, key: PartitionKey, run: str = "holder") -> None:
    catalog_of(tier).claim([row_of(tier, key)], run, at_ms=1)


def freed(tier: Path, key: PartitionKey) -> None:
    row = row_of(tier, key)
    release = proposed(row, ReleaseClaim(run=row.owner_run), commit_id=new_commit_id(), at_ms=2)
    catalog_of(tier).commit([release])


def compact(tier: Path, *arguments: str) -> Ran:
    return tierfold("compact", tier, *ALWAYS, "--json", *arguments)


def both(outcome: str) -> dict[tuple[str, int], str]:
    return {("orders", 0): outcome, ("payments", 0): outcome}


def rows_of(tier: Path, ran: Ran) -> list[RunRow]:
    run = ran.document["run"]
    return [row for row in RunsTable(str(tier / "_tierfold")).read() if row.run == run]


@contextmanager
def soon(act: Callable[[], object], after_s: float = 0.3) -> Iterator[None]:
    """Do it while the block runs."""
    timer = threading.Timer(after_s, act)
    timer.start()
    yield
    timer.join()


@pytest.fixture(autouse=True)
def _polls_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "POLL_MS", 100)
    monkeypatch.setattr(waiting, "_STEP_MS", 50)


# compact


def test_partitions_of_a_run_at_work_are_left_to_it_and_cost_nothing(two: Path) -> None:
    alive(two, "holder")
    before = files_below(two)
    ran = compact(two)
    assert (ran.code, ran.outcomes) == (0, both("left"))
    for entry in ran.entries:
        assert not told(entry["reason"], "left for the next run", *ALIVE)
        assert entry["held_by"] == "holder"
    assert [row_of(two, key).owner_run for key in (ORDERS, PAYMENTS)] == ["holder"] * 2
    new = files_below(two).keys() - before.keys()
    assert {path for path in new if "/runs/" not in str(path)} == set()
    # Its own sign is gone, that of the other stays.
    assert [path.name for path in signs_in(two)] == ["holder.1"]


def test_one_sentence_says_it_of_all_partitions(two: Path) -> None:
    alive(two, "holder")
    shown = " ".join(tierfold("compact", two, *ALWAYS).stdout.split())
    assert shown.count("is at work") == 1
    words = (
        "2 partitions are left to run holder of `compact` on node-7 (process 31)",
        "--if-held wait",
        "--if-held take-over",
    )
    assert not told(shown, *words), shown
    assert shown.count("left to run holder") == 3  # Two rows, one sentence.


def test_a_silent_run_is_taken_over_at_once(two: Path) -> None:
    alive(two, "holder", age_s=601)
    ran = compact(two)
    assert (ran.code, ran.outcomes) == (0, both("compacted"))
    assert live_values(status_of(two)["orders", 0]) == latest_updates(3)
    # It will be deleted once it is a day old.
    assert [path.name for path in signs_in(two)] == ["holder.1"]


def test_signs_older_than_a_day_are_deleted(two: Path) -> None:
    alive(two, "holder", age_s=86_500)
    alive(two, "other", age_s=86_300)
    assert compact(two).outcomes == both("compacted")
    assert [path.name for path in signs_in(two)] == ["other.1"]


def test_a_run_without_a_sign_is_taken_over(two: Path) -> None:
    alive(two, "another-run")
    assert compact(two).outcomes == both("compacted")


def test_a_person_may_insist(two: Path) -> None:
    alive(two, "holder")
    assert compact(two, "--if-held", "take-over").outcomes == both("compacted")


def test_a_sign_from_the_future_is_none(two: Path) -> None:
    """Forged, or left by a store whose clock was wrong: it must not hold anything for years."""
    alive(two, "holder", age_s=-700)
    assert compact(two).outcomes == both("compacted")


@pytest.mark.parametrize("now", ["2001-09-10T00:00:00Z", "2200-01-01T00:00:00Z"])
@pytest.mark.parametrize(("age_s", "outcome"), [(20.0, "left"), (601.0, "compacted")])
def test_no_clock_of_a_machine_matters(
    two: Path, now: str, age_s: float, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither one that is years off, nor one that stands still."""
    alive(two, "holder", age_s=age_s)
    stands = 10**15 if now.startswith("2001") else 5 * 10**18
    monkeypatch.setattr("tierfold.storage.clock.time.time_ns", lambda: stands)
    assert compact(two).outcomes == both(outcome)


# A claim that another run won since the survey.


def test_a_partition_that_a_live_run_claimed_meanwhile_is_left_to_it(tmp_path: Path) -> None:
    tier = updated_tier(tmp_path / "tier", [ORDERS, PAYMENTS], 2)
    assert compact(tier).outcomes == both("compacted")
    for key in (ORDERS, PAYMENTS):
        put_updates(tier, key, 2)
    alive(tier, "rival")
    rival = rival_claims(str(tier / "_tierfold"), ORDERS)
    with scripted(at("claim", rival)):
        ran = compact(tier)
    assert ran.outcomes["payments", 0] == "compacted"
    ran.ends(0, "left", "run rival", "is at work on it")
    assert ran.entry["held_by"] == "rival"


def test_a_partition_that_changed_meanwhile_is_left_in_one_sentence(two: Path) -> None:
    def rivals() -> None:
        for key in (ORDERS, PAYMENTS):
            held(two, key, "rival")

    with scripted(at("claim", rivals)):
        ran = tierfold("compact", two, *ALWAYS)
    shown = " ".join(ran.stdout.split())
    assert (ran.code, shown.count("since this run planned")) == (0, 1)
    assert "2 partitions were changed by another run" in shown


def test_a_run_that_lost_its_partitions_says_so_once(two: Path) -> None:
    def rivals() -> None:
        for key in (ORDERS, PAYMENTS):
            held(two, key, "rival")

    with scripted(at("commit 1", rivals)):
        ran = tierfold("compact", two, *ALWAYS)
    shown = " ".join(ran.stdout.split())
    assert ran.code == 4
    assert "2 partitions were taken over by run rival:" in shown
    assert shown.count("discarded") == 1


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


# vacuum


def test_a_vacuum_waits(two: Path) -> None:
    alive(two, "holder")
    with soon(lambda: [freed(two, key) for key in (ORDERS, PAYMENTS)]):
        ran = vacuum(two, "--if-held", "wait")
    assert (ran.code, ran.outcomes) == (0, both("vacuumed"))


def test_a_vacuum_takes_over_if_a_person_insists(two: Path) -> None:
    alive(two, "holder")
    assert vacuum(two, "--if-held", "take-over").outcomes == both("vacuumed")


def test_a_vacuum_says_once_which_run_is_at_work(two: Path) -> None:
    alive(two, "holder")
    ran = tierfold("vacuum", two, *DETACHED, "--now", "2028-01-01T00:00:00Z")
    shown = " ".join(ran.stdout.split())
    assert (ran.code, shown.count("is at work")) == (0, 1)
    assert "2 partitions are left to run holder" in shown


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


# Signs that cannot be used stop nothing.


@pytest.mark.parametrize("broken", ["a file", "a link", "unlistable"])
def test_signs_that_cannot_be_written_are_reported_once(
    two: Path, broken: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = two / "_tierfold" / "signs"
    for path in signs_in(two):
        path.unlink()
    place.rmdir()
    if broken == "a link":
        (tmp_path / "there").mkdir()
        place.symlink_to(tmp_path / "there")
    elif broken == "a file":
        place.write_bytes(b"")
    else:
        place.mkdir()
        (place / "holder.1").mkdir()
    assert compact(two).outcomes == both("compacted")
    warned = [one for one in caplog.records if "signs of life" in one.getMessage()]
    assert len(warned) == (0 if broken == "unlistable" else 1)


def test_a_sign_that_says_nothing_still_keeps_its_partitions(two: Path) -> None:
    alive(two, "holder").write_bytes(b"\0")
    ran = compact(two)
    assert ran.outcomes == both("left")
    assert "run holder is at work on it" in ran.entry["reason"]


def test_a_mode_that_does_not_exist_is_refused(two: Path) -> None:
    compact(two, "--if-held", "sometimes").refuses("--if-held", "take-over")
    with pytest.raises(BadSettings, match="'sometimes' is not one of skip, wait, take-over"):
        api.changing.vacuum(two, if_held="sometimes")


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

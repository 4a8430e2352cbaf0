"""Partitions of a run at work are skipped and reported once, or taken over; never lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.claims import ORDERS, row_of
from tests.jobs.commands import ALWAYS, CLOCK, status_of, tierfold, told
from tests.jobs.runs_at_work import (
    ALIVE,
    PAYMENTS,
    both,
    compact,
    freed,
    held,
    poll_fast,
    soon,
    two_held,
)
from tests.jobs.scripted_runs import scripted
from tests.jobs.signs import alive, signs_in
from tests.jobs.tiers import (
    copied,
    files_below,
    latest_updates,
    live_values,
    put_updates,
    updated_tier,
)
from tests.jobs.vacuum_tiers import DETACHED, vacuum
from tests.storage.call_scripts import at
from tests.storage.scripted_catalog import rival_claims
from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs import api

two = copied(two_held)


@pytest.fixture(autouse=True)
def _polling_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that wait for a holder look often."""
    poll_fast(monkeypatch)


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
    assert "has not released its claim" not in shown


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
    assert compact(two, "--clock-is-right").outcomes == both(outcome)


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
    ran = tierfold("vacuum", two, *DETACHED, CLOCK, "1830297600000")
    shown = " ".join(ran.stdout.split())
    assert (ran.code, shown.count("is at work")) == (0, 1)
    assert "2 partitions are left to run holder" in shown


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

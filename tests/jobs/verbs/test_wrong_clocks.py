"""What a verb does if the clocks disagree, or `--now` contradicts them."""

from __future__ import annotations

import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import pytest

from tests.jobs.claims import ORDERS, row_of
from tests.jobs.commands import ALWAYS, CLOCK, Ran, clocks_at, tierfold
from tests.jobs.tiers import copied, files_below, key_of, made_tier, put_segment, updated_tier
from tests.jobs.vacuum_tiers import DETACHED, HOUR_MS, THEN_MS, compacted
from tests.storage.live_segments import data
from tierfold.compaction.model.segments import PartitionKey
from tierfold.storage import clock

MINUTE_MS: Final = 60_000
YEAR_MS: Final = 365 * 24 * HOUR_MS
WRITING: Final = (
    ("compact", *ALWAYS),
    ("vacuum", *DETACHED),
    ("restore", "orders-0", "--to", str(THEN_MS + HOUR_MS)),
    ("forget", "orders-0"),
)
OF_VERB: Final = pytest.mark.parametrize("verb", WRITING, ids=lambda verb: verb[0])


tier = copied(lambda folder: compacted(folder, ORDERS))
"""It was compacted at `THEN_MS`, and can be compacted, vacuumed and restored."""


def with_horizons(folder: Path, *keys: PartitionKey) -> Path:
    """A tier that was compacted at `THEN_MS`, with a tombstone that waits for its horizon."""
    made_tier(folder)
    for key in keys:
        put_segment(folder, key, [data(0, (b"a", b"1"), (b"b", None))], start_offset=0)
        put_segment(folder, key, [data(2, (b"a", b"2"))], start_offset=2)
    assert tierfold("compact", folder, *ALWAYS, CLOCK, str(THEN_MS)).code == 0
    return folder


def ran(verb: tuple[str, ...], tier: Path, *more: str) -> Ran:
    """Run a verb and its arguments on a tier."""
    return tierfold(verb[0], tier, *verb[1:], *more, "--json")


@OF_VERB
def test_a_machine_behind_the_newest_commit_writes_nothing(
    verb: tuple[str, ...], tier: Path
) -> None:
    before = files_below(tier)
    newest_ms = row_of(tier).committed_at_ms
    behind = ran(verb, tier, CLOCK, str(newest_ms - 11 * MINUTE_MS))
    behind.refuses("this machine's clock says", "before the newest commit, of orders-0", "NTP")
    assert files_below(tier) == before
    in_time = ran(verb, tier, CLOCK, str(newest_ms - 9 * MINUTE_MS))
    assert in_time.code in {0, 3}, in_time
    insisting = ran(verb, tier, CLOCK, str(newest_ms - HOUR_MS), "--clock-is-right")
    assert insisting.code in {0, 3}, insisting
    (warning,) = (one for one in insisting.document["warnings"] if "clock" in one)
    assert warning.endswith("--clock-is-right was given, so the run goes on.")


@OF_VERB
def test_a_machine_behind_its_store_writes_nothing(verb: tuple[str, ...], tier: Path) -> None:
    before = files_below(tier)
    now_ms = THEN_MS + HOUR_MS
    with clocks_at(now_ms, store_ms=now_ms + 11 * MINUTE_MS):
        ran(verb, tier).refuses("behind the store's, which says", "--clock-is-right")
    assert files_below(tier) == before
    with clocks_at(now_ms, store_ms=now_ms + 9 * MINUTE_MS):
        assert ran(verb, tier).code in {0, 3}
    with clocks_at(now_ms, store_ms=now_ms + YEAR_MS):
        assert ran(verb, tier, "--clock-is-right").code in {0, 3}


def test_a_real_folder_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Its files have the kernel's time, and this machine says the year 2001.
    machine = SimpleNamespace(time_ns=lambda: 10**18, monotonic=time.monotonic)
    monkeypatch.setattr(clock, "time", machine)
    tier = updated_tier(tmp_path / "tier", (ORDERS,), segments=2)
    tierfold("compact", tier, *ALWAYS).refuses("behind the store's", "2001-09-09")


def test_a_machine_ahead_of_store_and_commits_goes_on(tier: Path) -> None:
    now_ms = THEN_MS + YEAR_MS
    with clocks_at(now_ms, store_ms=THEN_MS):
        found = ran(("compact", *ALWAYS), tier)
    assert (found.code, found.document["warnings"]) == (0, [])


@OF_VERB
def test_now_below_the_newest_commit_writes_nothing(verb: tuple[str, ...], tier: Path) -> None:
    before = files_below(tier)
    newest_ms = row_of(tier).committed_at_ms
    here = (CLOCK, str(newest_ms + HOUR_MS))
    for insists in ((), ("--clock-is-right",)):
        below = ran(verb, tier, *here, "--now", str(newest_ms - 1), *insists)
        below.refuses("--now is", "before the newest commit, of orders-0", "Leave --now out")
    assert files_below(tier) == before
    assert ran(verb, tier, *here, "--now", str(newest_ms)).code in {0, 3}


def test_a_retry_with_the_time_of_a_try_that_has_committed_learns_what_to_do(
    tmp_path: Path,
) -> None:
    tier = updated_tier(tmp_path / "tier", (ORDERS,), segments=2)
    words = ("compact", tier, *ALWAYS, CLOCK, str(THEN_MS), "--now", str(THEN_MS))
    assert tierfold(*words).code == 0
    before = files_below(tier)
    tierfold(*words).refuses("A retry cannot repeat the --now of a try that has committed.")
    assert files_below(tier) == before
    later = str(row_of(tier).committed_at_ms)
    assert tierfold(*words[:-1], later).code == 0


def test_vacuum_refuses_a_time_ahead_of_the_clock(tier: Path) -> None:
    before = files_below(tier)
    here, then = (CLOCK, str(THEN_MS + HOUR_MS)), ("--now", str(THEN_MS + YEAR_MS))
    for insists in ((), ("--clock-is-right",)):
        ahead = ran(("vacuum", *DETACHED), tier, *here, *then, *insists)
        ahead.refuses("--now is", "ahead of this machine's clock", "nothing was deleted")
    assert files_below(tier) == before
    dry = ran(("vacuum", *DETACHED), tier, *here, *then, "--dry-run")
    assert dry.entry["outcome"] == "planned"


def test_compact_says_which_horizons_pass_early(tmp_path: Path) -> None:
    tier = with_horizons(tmp_path / "tier", ORDERS)
    here, later = (CLOCK, str(THEN_MS + HOUR_MS)), str(THEN_MS + 2 * YEAR_MS)
    found = ran(("compact", *ALWAYS), tier, *here, "--now", str(THEN_MS + YEAR_MS))
    (warning,) = (one for one in found.document["warnings"] if "--now" in one)
    assert found.code == 0
    assert "364.9 d ahead of this machine's clock" in warning
    assert "(delete.retention.ms)" in warning
    assert re.search(r"ms\) \(orders-0: 1 segment, the first at 2027-01-[^;() ]+\), and", warning)
    assert "warning: --now is" in tierfold("compact", tier, *ALWAYS, *here, "--now", later).stderr
    again = ran(("compact", *ALWAYS), tier, CLOCK, str(THEN_MS + 2 * HOUR_MS))
    again.refuses("before the newest commit")


def test_compact_also_warns_if_no_horizon_is_known(tmp_path: Path) -> None:
    tier = updated_tier(tmp_path / "tier", (ORDERS,), segments=2)
    here, then = (CLOCK, str(THEN_MS + HOUR_MS)), ("--now", str(THEN_MS + YEAR_MS))
    (warning,) = ran(("compact", *ALWAYS), tier, *here, *then).document["warnings"][:1]
    assert "max.compaction.lag.ms), and runs without --now stop" in warning


def test_many_partitions_whose_horizons_pass_early_are_counted(tmp_path: Path) -> None:
    keys = [key_of("orders", number) for number in range(7)]
    tier = with_horizons(tmp_path / "tier", *keys)
    here, then = (CLOCK, str(THEN_MS + HOUR_MS)), ("--now", str(THEN_MS + YEAR_MS))
    (warning,) = ran(("compact", *ALWAYS), tier, *here, *then).document["warnings"][:1]
    assert "; orders-4: 1 segment, the first at " in warning
    assert "orders-5" not in warning
    assert "; and 2 more)" in warning


@pytest.mark.parametrize("verb", WRITING[2:], ids=lambda verb: verb[0])
def test_a_change_of_a_row_ahead_of_the_clock_warns_of_later_runs(
    verb: tuple[str, ...], tier: Path
) -> None:
    here, then = (CLOCK, str(THEN_MS + HOUR_MS)), ("--now", str(THEN_MS + YEAR_MS))
    found = ran(verb, tier, *here, *then)
    (warning,) = found.document["warnings"]
    assert found.code in {0, 3}
    assert warning.endswith(": runs without --now stop until the clock has reached its commits.")


@pytest.mark.parametrize("verb", ["plan", "status", "verify"])
def test_a_verb_that_reads_takes_any_time(verb: str, tier: Path) -> None:
    given = ("--set", "cleanup.policy=compact") if verb == "plan" else ()
    for time_ms in (THEN_MS - YEAR_MS, THEN_MS + YEAR_MS):
        clocks = (CLOCK, str(THEN_MS), "--now", str(time_ms))
        found = tierfold(verb, tier, *given, "--json", *clocks)
        assert (found.code, found.document["warnings"]) == (0, [])
    assert tierfold(verb, tier, "--json", CLOCK, str(THEN_MS - YEAR_MS)).code == 0


@pytest.mark.parametrize(
    ("ages", "short"),
    [
        ((), []),
        (("--grace-period", "10m"), ["--grace-period is 10 min, below 1 h"]),
        (("--orphan-age", "0s"), ["--orphan-age is 0 ms, below 1 d"]),
    ],
)
def test_without_a_terminal_short_ages_are_reported(
    ages: tuple[str, ...], short: list[str], tier: Path
) -> None:
    here = (CLOCK, str(THEN_MS + HOUR_MS))
    found = ran(("vacuum", *DETACHED), tier, *here, *ages)
    warnings = found.document["warnings"]
    assert (found.code, [one.partition(":")[0] for one in warnings]) == (0, short)
    assert ran(("vacuum", *DETACHED), tier, *here, *ages, "--dry-run").document["warnings"] == []

"""`vacuum` reports what it cannot delete yet, until when, and what changed meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.commands import CLOCK, tierfold
from tests.jobs.elections import FIRST_MS, NEW, merged, old_history
from tests.jobs.elections import upload as elected
from tests.jobs.leaders import adopted, upload
from tests.jobs.scripted_runs import scripted
from tests.jobs.tiers import folder_of, made_tier
from tests.jobs.vacuum_tiers import DETACHED, HOUR_MS, ORDERS, ids_in, vacuum, written
from tests.storage.call_scripts import at


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return made_tier(tmp_path / "tier")


def test_what_got_its_log_after_it_was_looked_at_stays(tier: Path) -> None:
    upload(tier, 0, 10, (3, 0))
    adopted(tier)
    copied = upload(tier, 11, 15, (3, 0))
    (log,) = folder_of(tier, ORDERS).glob(f"*{copied}.log")
    content = log.read_bytes()
    log.unlink()

    def copy_goes_on() -> None:
        log.write_bytes(content)
        written(log, 0)

    with scripted(at("claim", copy_goes_on, is_done=True)):
        assert vacuum(tier, hours=72).code == 0
    assert copied in ids_in(tier)
    assert log.read_bytes() == content
    # Without the copy's end it goes: it holds nothing.
    log.unlink()
    assert vacuum(tier, hours=72).code == 0
    assert copied not in ids_in(tier)


def test_what_is_set_apart_waits_as_long_as_an_orphan_and_is_not_called_kept_when_it_goes(
    tier: Path,
) -> None:
    upload(tier, 0, 10, (3, 0))
    adopted(tier)
    upload(tier, 11, 20, (3, 0), (5, 11))
    late = upload(tier, 11, 15, (3, 0), (4, 11))
    adopted(tier, run="later")
    (entry,) = vacuum(tier, "--diverged", hours=1).entries
    assert "1 segment set apart waits until 20" in entry["reason"]
    assert any(late in note and "kept" in note for note in entry["notes"])
    (entry,) = vacuum(tier, "--diverged", hours=72).entries
    assert late not in ids_in(tier)
    assert not any("kept" in note for note in entry["notes"])


def test_a_partition_that_was_cut_off_says_until_when_what_is_retired_waits(tmp_path: Path) -> None:
    tier = tmp_path / "cut-off"
    old_history(tier)
    merged(tier)
    elected(tier, 6, 9, NEW)
    now = str(FIRST_MS + HOUR_MS)
    ran = tierfold("vacuum", tier, "--json", CLOCK, now, *DETACHED)
    (entry,) = ran.entries
    assert (ran.code, entry["outcome"]) == (3, "refused")
    assert entry["reason"].startswith("2 retired segments wait, the first until 20")
    assert "unclean leader election" in entry["reason"]

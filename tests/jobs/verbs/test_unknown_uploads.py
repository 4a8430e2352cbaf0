"""Uploads without a row are kept or set apart, or the verbs refuse their partition."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.claims import row_of
from tests.jobs.commands import ALWAYS, CLOCK, Ran, status_of, tierfold, told
from tests.jobs.leaders import CHECKPOINT, adopted, cleaned, upload
from tests.jobs.tiers import files_below, made_tier
from tests.jobs.vacuum_tiers import (
    DETACHED,
    HOUR_MS,
    THEN_MS,
    ids_in,
    listed_objects,
    vacuum,
    written,
)
from tierfold.compaction.deletion.deletion_plan import VacuumLimits
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.verbs.vacuum import vacuum as vacuumed

DAYS: float = 72


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return made_tier(tmp_path / "tier")


def plan(tier: Path, *, hours: float = DAYS) -> Ran:
    now_ms = THEN_MS + int(hours * HOUR_MS)
    return tierfold("plan", tier, *ALWAYS, "--json", CLOCK, str(now_ms))


def reason(ran: Ran) -> str:
    return str(ran.entry["reason"])


def given_up(tier: Path, *words: str) -> str:
    """`vacuum` that takes what is set apart, days later; the outcome."""
    now_ms = THEN_MS + int(DAYS * HOUR_MS)
    (report,) = vacuumed(
        run_context(str(tier), None, now_ms),
        resolve([word for word in words if word != "--set"]),
        Scope(),
        VacuumLimits(now_ms=now_ms, takes_set_apart=True),
    )
    return report.outcome


# 1. A log that was cut short may hold what nothing else holds.


@pytest.mark.parametrize("epochs", [((3, 0),), ((3, 0), (4, 11))])
def test_a_log_without_its_checkpoint_that_alone_holds_offsets_stays(
    tier: Path, epochs: tuple[tuple[int, int], ...]
) -> None:
    upload(tier, 0, 10, (3, 0))
    adopted(tier)
    cleaned(tier)
    alone = upload(tier, 8, 15, *epochs, lacking=[CHECKPOINT])
    before = files_below(tier)
    for _ in range(2):
        entry = vacuum(tier, hours=DAYS).entry
        assert entry["objects"] == []
        said = f"segment {alone} (offsets 8 to 15) lacks .leader_epoch_checkpoint"
        assert not told("; ".join(entry["notes"]), said)
    assert given_up(tier, *DETACHED) == "nothing_to_do"
    assert files_below(tier) == before
    assert plan(tier, hours=1).code == 0
    ran = plan(tier)
    assert ran.code == 3
    assert not told(reason(ran), "offset 10", said)


def test_what_a_killed_run_of_ours_left_within_the_live_range_still_goes(tier: Path) -> None:
    live = upload(tier, 0, 10, (3, 0))
    adopted(tier)
    left = upload(tier, 0, 10, (3, 0), lacking=[CHECKPOINT, "snapshot"], offsets=[8, 9, 10])
    half = upload(tier, 0, 4, (3, 0), lacking=["index", "timeindex", "snapshot", CHECKPOINT])
    nothing = upload(tier, 0, 4, (3, 0), lacking=["log"])
    entry = vacuum(tier, hours=DAYS).entry
    assert entry["outcome"] == "vacuumed"
    assert {listed["segment_id"] for listed in entry["objects"]} == {left, half, nothing}
    assert listed_objects(entry, kind="orphan") == listed_objects(entry)
    assert ids_in(tier) == {live}


def test_a_partition_that_stands_still_for_a_day_is_refused(tier: Path) -> None:
    upload(tier, 0, 10, (3, 0))
    adopted(tier)
    cleaned(tier)
    upload(tier, 11, 15, (3, 0), lacking=["index"])
    upload(tier, 16, 23, (3, 0))
    assert plan(tier, hours=23).code == 0
    ran = plan(tier, hours=24)
    assert ran.code == 3
    assert not told(reason(ran), "offset 10", "lacks .index", "offset 11 is missing")


# 2. An unclean election.


def test_a_truncated_log_refuses_the_partition_and_nothing_is_deleted(tier: Path) -> None:
    upload(tier, 0, 10, (3, 0))
    adopted(tier)
    upload(tier, 6, 9, (3, 0), (4, 6))
    before = files_below(tier)
    ran = plan(tier)
    assert ran.code == 3
    assert not told(reason(ran), "leader epoch 4", "offset 6", f"tierfold forget {tier}")
    assert tierfold("status", tier, "--json").code == 3
    vacuum(tier, hours=DAYS).ends(3, "refused")
    assert given_up(tier, *DETACHED) == "refused"
    assert files_below(tier) == before


@pytest.mark.parametrize("lacking", [[CHECKPOINT], [CHECKPOINT, "index"]])
def test_a_truncation_is_found_in_an_upload_without_its_checkpoint(
    tier: Path, lacking: list[str]
) -> None:
    upload(tier, 0, 10, (3, 0))
    adopted(tier)
    upload(tier, 6, 9, (3, 0), (4, 6), lacking=lacking)
    before = files_below(tier)
    assert plan(tier).code == 3
    assert vacuum(tier, hours=DAYS).outcomes["orders", 0] == "refused"
    assert given_up(tier, *DETACHED) == "refused"
    assert files_below(tier) == before


def test_of_a_diverged_partition_what_neither_history_needs_may_go(tier: Path) -> None:
    live = upload(tier, 0, 10, (3, 0))
    adopted(tier)
    current = upload(tier, 6, 9, (3, 0), (5, 6))
    deposed = upload(tier, 8, 12, (3, 0), (4, 8))
    left = upload(tier, 0, 8, (3, 0), lacking=["index"])
    # Where the live one is truncated, only this gives the new history its head.
    head = upload(tier, 0, 4, (3, 0), lacking=["index"])
    entry = vacuum(tier, hours=DAYS).entry
    assert {listed["segment_id"] for listed in entry["objects"]} == {left}
    assert ids_in(tier) == {live, current, deposed, head}
    assert given_up(tier, "--set", "tier.binding=bound") == "refused"
    assert ids_in(tier) == {live, current, deposed, head}
    assert given_up(tier, *DETACHED) == "vacuumed"
    assert ids_in(tier) == {live, current, head}
    assert plan(tier).code == 3


def test_a_late_upload_of_a_deposed_leader_is_set_apart_and_the_partition_goes_on(
    tier: Path,
) -> None:
    first = upload(tier, 0, 10, (3, 0))
    adopted(tier)
    ours = upload(tier, 11, 20, (3, 0), (5, 11))
    late = upload(tier, 11, 15, (3, 0), (4, 11))
    ran = plan(tier)
    ran.ends(0, "planned")
    assert ran.entry["next_offset"] == 21
    assert status_of(tier)["orders", 0]["out_of_lineage"] == [late]
    adopted(tier, run="later")
    entry = vacuum(tier, hours=DAYS).entry
    assert entry["objects"] == []
    assert not told("; ".join(entry["notes"]), f"segment {late}", "set apart", "kept, not read")
    assert ids_in(tier) == {first, ours, late}
    # Only on a detached tier, and only where a person gave it up.
    assert given_up(tier, "--set", "tier.binding=bound") == "nothing_to_do"
    assert ids_in(tier) == {first, ours, late}
    assert given_up(tier, *DETACHED) == "vacuumed"
    assert ids_in(tier) == {first, ours}
    assert [segment.segment_id for segment in row_of(tier).segments] == [first, ours]


def test_the_new_leaders_uploads_stay_after_an_unclean_election(tier: Path) -> None:
    #   row       0 ─ 3 │ 4 ────── 10
    #   epoch 4           4 ── 7 │ 8 ── 12   it begins at 8: 4 to 10 is no part of its log
    upload(tier, 0, 3, (3, 0))
    upload(tier, 4, 10, (3, 0))
    adopted(tier)
    upload(tier, 4, 7, (3, 0))
    upload(tier, 8, 12, (3, 0), (4, 8))
    before = files_below(tier)
    assert vacuum(tier, *DETACHED, hours=DAYS).code == 3
    assert files_below(tier) == before
    ran = tierfold("forget", tier, "orders-0", CLOCK, str(THEN_MS), "--json")
    assert (ran.code, ran.entries[0]["vanishing"]) == (0, [])
    spans = [
        (segment["start_offset"], segment["end_offset"]) for segment in ran.entries[0]["taken"]
    ]
    assert spans == [(0, 3), (4, 7), (8, 12)]


@pytest.mark.parametrize("lacking", [[], [CHECKPOINT]])
@pytest.mark.parametrize(("cut_bytes", "code"), [(7, 3), (7 + 3 * 73, 3), (7 + 4 * 73, 0)])
def test_a_torn_log_that_reaches_beyond_the_live_end_does_not_pass_in_silence(
    tier: Path, lacking: list[str], cut_bytes: int, code: int
) -> None:
    #   row     0 ────────── 10
    #   torn           8 ────── 14, 11 or 10, of 15
    upload(tier, 0, 10, (3, 0))
    adopted(tier)
    cleaned(tier)
    torn = upload(tier, 8, 15, (3, 0), (4, 11), lacking=lacking)
    (log,) = tier.rglob(f"*-{torn}.log")
    log.write_bytes(log.read_bytes()[:-cut_bytes])
    written(log, 0)
    before = files_below(tier)
    assert plan(tier, hours=1).code == 0
    ran = plan(tier)
    assert (ran.code, ".. " in reason(ran)) == (code, False)
    assert torn in ran.stdout
    vacuum(tier, hours=DAYS)
    assert files_below(tier) == before


def test_a_segment_cut_off_inside_is_kept_while_it_alone_has_offsets(tier: Path) -> None:
    upload(tier, 0, 3, (3, 0))
    adopted(tier)
    cleaned(tier)
    cut = upload(tier, 4, 10, (3, 0))
    upload(tier, 7, 12, (3, 0), (4, 8))
    before = files_below(tier)
    assert given_up(tier, *DETACHED) == "nothing_to_do"
    assert files_below(tier) == before
    ran = plan(tier)
    assert ran.code == 3
    assert not told(reason(ran), cut, "part of the log up to offset 7,", "offset 4 is missing")

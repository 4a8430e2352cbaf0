"""`vacuum` deletes what it may of a real tier, once it may, and nothing else (SEMANTICS 9)."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.jobs.claims import catalog_of, row_of
from tests.jobs.commands import CLOCK, tierfold, told
from tests.jobs.signs import aged, alive
from tests.jobs.tiers import (
    copied,
    files_below,
    folder_of,
    key_of,
    latest_updates,
    live_values,
    made_tier,
    put_segment,
    put_updates,
    updated_tier,
)
from tests.jobs.vacuum_tiers import (
    DELETE,
    DETACHED,
    HOUR_MS,
    ORDERS,
    THEN_MS,
    compact,
    compacted,
    ids_in,
    incomplete_upload,
    listed_objects,
    live_ids,
    orphan,
    parts,
    vacuum,
    written,
)
from tests.storage.aged_tables import superseded
from tests.storage.live_segments import data
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.tiers.local_tiered_storage import partition_folder
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER, Part

PAYMENTS = key_of("payments")


tier = copied(lambda folder: compacted(folder, ORDERS, PAYMENTS))


def test_what_was_replaced_stays_for_the_grace_period(tier: Path) -> None:
    before = files_below(tier)
    ran = vacuum(tier, hours=23)
    assert (ran.code, set(ran.outcomes.values())) == (0, {"nothing_to_do"})
    reason = ran.entry["reason"]
    # A day after the commit, which came some seconds or minutes after the run began.
    assert not told(reason, "3 retired segments wait, the first until 2027-01-16T08:")
    assert files_below(tier) == before


def test_what_waits_is_reported_with_its_time_and_what_must_stay_is_not(tier: Path) -> None:
    vacuum(tier)
    assert vacuum(tier).entry["reason"] == "nothing is due"
    orphan(tier, 1, hours=2)
    entry = vacuum(tier, hours=25.5).entry
    assert entry["reason"] == "1 orphan waits until 2027-01-16T10:00:00.000Z"
    kept = vacuum(tier, "--set", "tier.binding=bound", hours=25.5).entry
    assert (kept["reason"], len(kept["notes"])) == ("nothing is due", 1)


def test_after_it_the_replaced_go_and_the_live_stay(tier: Path) -> None:
    live = live_ids(tier)
    values = live_values(tierfold("status", tier, "--json", "--segments").entry)
    ran = vacuum(tier)
    assert (ran.code, ran.outcomes) == (0, {("orders", 0): "vacuumed", ("payments", 0): "vacuumed"})
    assert ids_in(tier) == live
    after = row_of(tier)
    assert (after.retired, after.owner_run, after.epoch, after.log_start_offset) == ((), "", 2, 0)
    status = tierfold("status", tier, "--json", "--segments").entry
    assert live_values(status) == values == latest_updates(3)
    again = vacuum(tier)
    assert set(again.outcomes.values()) == {"nothing_to_do"}
    assert row_of(tier) == after


def test_each_object_is_reported_with_its_bytes_and_a_dry_run_changes_nothing(tier: Path) -> None:
    before = files_below(tier)
    sizes = {
        str(path.relative_to(tier)): path.stat().st_size
        for path in folder_of(tier, ORDERS).iterdir()
        if path.name[21:43] not in live_ids(tier)
    }
    ran = vacuum(tier, "--dry-run")
    entry = ran.entry
    assert (ran.code, entry["outcome"]) == (0, "planned")
    assert listed_objects(entry, kind="retired", is_gone=False) == sizes
    assert entry["object_bytes"] == sum(sizes.values())
    assert files_below(tier) == before
    assert listed_objects(vacuum(tier).entry, is_gone=True) == sizes


def test_the_run_is_recorded(tier: Path) -> None:
    ran = vacuum(tier)
    rows = [line for line in RunsTable(str(tier / CATALOG_FOLDER)).read() if line.topic == "orders"]
    (vacuumed,) = (row for row in rows if row.command == "vacuum")
    assert (vacuumed.outcome, vacuumed.epoch, vacuumed.segments_in, vacuumed.bytes_out) == (
        "vacuumed",
        2,
        3,
        0,
    )
    assert vacuumed.bytes_in == ran.entry["object_bytes"]


@pytest.mark.parametrize("binding", [(), ("--set", "tier.binding=bound")])
def test_where_a_broker_may_serve_the_tier_only_what_we_wrote_goes(
    tier: Path, binding: tuple[str, ...]
) -> None:
    originals = ids_in(tier) - live_ids(tier)
    (ours,) = live_ids(tier)
    put_updates(tier, ORDERS, 3)
    assert compact(tier, hours=1).code == 0
    stray = parts(orphan(tier, 1))
    hidden = incomplete_upload(tier)
    now = (CLOCK, str(THEN_MS + 30 * HOUR_MS))
    ran = tierfold("vacuum", tier, "--json", *now, *binding)
    entry = ran.entry
    assert (ran.code, entry["outcome"]) == (0, "vacuumed")
    assert not told("; ".join(entry["notes"]), "4 retired, 1 orphaned", "detached")
    assert {listed["segment_id"] for listed in entry["objects"]} == {ours, ""}
    assert originals < ids_in(tier)
    assert ours not in ids_in(tier)
    assert all(part.exists() for part in stray)
    assert not hidden.exists()


def test_old_orphans_and_incomplete_uploads_of_dead_runs_are_deleted(tier: Path) -> None:
    whole, young = parts(orphan(tier, 1)), parts(orphan(tier, 2, hours=24))
    *cut, last = parts(orphan(tier, 0))
    last.unlink()
    hidden, at_work = incomplete_upload(tier), incomplete_upload(tier, key=PAYMENTS, hours=24)
    entry = vacuum(tier).entry
    assert len(listed_objects(entry, kind="orphan", is_gone=True)) == len(whole) + len(cut)
    assert len(listed_objects(entry, kind="incomplete", is_gone=True)) == 1
    assert not any(path.exists() for path in (*whole, *cut, hidden))
    assert all(path.exists() for path in (*young, at_work))


def test_an_incomplete_upload_alone_needs_no_claim(tier: Path) -> None:
    vacuum(tier)
    # So it does not matter who holds the partition.
    catalog_of(tier).claim([row_of(tier)], "at-work", at_ms=THEN_MS + 25 * HOUR_MS)
    before = row_of(tier)
    hidden = incomplete_upload(tier)
    assert vacuum(tier).outcomes["orders", 0] == "vacuumed"
    assert not hidden.exists()
    assert row_of(tier) == before


def test_what_reaches_beyond_the_live_end_is_adopted_and_what_cannot_be_read_is_kept(
    tier: Path,
) -> None:
    beyond = put_segment(
        tier, ORDERS, [data(30, *[(b"k", b"v")] * 3), data(33, (b"k", b"v"))], start_offset=30
    )
    torn = orphan(tier, 1)
    shutil.copy(torn.with_suffix(".timeindex"), torn)
    for part in (*parts(beyond), torn):
        written(part, 0)
    entry = vacuum(tier).entry
    notes = "; ".join(entry["notes"])
    assert not told(notes, f"{torn.name[21:43]} (start 11) is kept, not read: {torn}")
    assert entry["outcome"] == "vacuumed"
    assert listed_objects(entry, kind="orphan") == {}
    assert torn.exists()
    newest = row_of(tier).segments[-1]
    assert (newest.segment_id, newest.start_offset, newest.end_offset) == (
        beyond.name[21:43],
        33,
        33,
    )
    assert (newest.skipped_offsets, newest.log_bytes) == (3, beyond.stat().st_size)


def test_a_partition_without_a_row_is_left_alone(tmp_path: Path) -> None:
    tier = updated_tier(tmp_path / "tier", [ORDERS], 1)
    incomplete_upload(tier)
    before = files_below(tier)
    assert vacuum(tier).outcomes == {("orders", 0): "nothing_to_do"}
    assert files_below(tier) == before


def test_expired_segments_are_retired_then_deleted_and_the_log_starts_behind_them(
    tmp_path: Path,
) -> None:
    tier = updated_tier(tmp_path / "tier", [ORDERS], 3)
    stays = str(THEN_MS - 1_700_000_000_000 - 30)
    policy = (*DELETE, "--set", f"retention.ms={stays}")
    entry = vacuum(tier, *policy, hours=0).entry
    assert [expired["reason"] for expired in entry["expired"]] == ["retention.ms"] * 2
    assert (entry["outcome"], entry["log_start_offset"], entry["objects"]) == ("vacuumed", 22, [])
    after = row_of(tier)
    assert (after.log_start_offset, after.owner_run) == (22, "")
    assert (len(after.segments), len(after.retired)) == (1, 2)
    assert len(ids_in(tier)) == 3
    assert vacuum(tier, hours=23).outcomes["orders", 0] == "nothing_to_do"
    assert len(listed_objects(vacuum(tier).entry, is_gone=True)) == 10
    assert ids_in(tier) == live_ids(tier)


def test_all_may_expire_and_what_is_uploaded_behind_is_taken(tmp_path: Path) -> None:
    tier = updated_tier(tmp_path / "tier", [ORDERS], 2)
    assert vacuum(tier, *DELETE, hours=0).code == 0
    assert vacuum(tier, *DELETE).outcomes["orders", 0] == "vacuumed"
    assert (row_of(tier).segments, row_of(tier).next_offset, ids_in(tier)) == ((), 22, set())
    for verb in ("plan", "status", "verify"):
        ran = tierfold(verb, tier, "--json", "--set", "cleanup.policy=compact")
        assert ran.code == 0, ran.stdout
    put_updates(tier, ORDERS, 2)
    put_updates(tier, ORDERS, 3)
    assert compact(tier, hours=25).outcomes["orders", 0] == "compacted"
    assert (row_of(tier).log_start_offset, row_of(tier).next_offset) == (22, 44)
    lives = tierfold("status", tier, "--json", "--segments").entry
    expected = {k: v for k, v in latest_updates(4).items() if k not in {b"own 0", b"own 1"}}
    assert live_values(lives) == expected


def test_a_partition_that_the_tier_lists_no_more_is_forgotten_too(tmp_path: Path) -> None:
    tier = updated_tier(tmp_path / "tier", [ORDERS], 1)
    assert vacuum(tier, *DELETE, hours=0).code == 0
    assert len(row_of(tier).retired) == 1
    # As in a store without folders, once the last object is deleted.
    shutil.rmtree(folder_of(tier, ORDERS))
    assert vacuum(tier, *DELETE).outcomes["orders", 0] == "vacuumed"
    assert row_of(tier).retired == ()


def test_the_largest_logs_shrink_from_their_head(tmp_path: Path) -> None:
    tier = made_tier(tmp_path / "tier")
    sizes = [put_updates(tier, ORDERS, number).stat().st_size for number in range(3)]
    policy = (*DELETE, "--set", "retention.ms=-1", "--set", f"retention.bytes={sum(sizes[1:])}")
    (gone,) = vacuum(tier, *policy).entry["expired"]
    assert (gone["reason"], gone["size_bytes"]) == ("retention.bytes", sizes[0])


def test_a_refused_partition_is_left_alone_and_the_others_go_on(tier: Path) -> None:
    (live,) = row_of(tier).segments
    key = f"{partition_folder(ORDERS)}/{live.start_offset:020d}-{live.segment_id}.{Part.SNAPSHOT}"
    (tier / key).unlink()
    before = files_below(folder_of(tier, ORDERS))
    ran = vacuum(tier)
    assert (ran.code, ran.outcomes) == (3, {("orders", 0): "refused", ("payments", 0): "vacuumed"})
    assert not told(ran.entry["reason"], live.segment_id, "lacks .snapshot")
    assert files_below(folder_of(tier, ORDERS)) == before


def test_a_folder_copied_under_another_name_costs_neither_anything(tier: Path) -> None:
    copied = replace(ORDERS, topic="copied")
    shutil.copytree(folder_of(tier, ORDERS), folder_of(tier, copied))
    before = files_below(folder_of(tier, ORDERS))
    ran = vacuum(tier)
    refused = {("orders", 0): "refused", ("copied", 0): "refused", ("payments", 0): "vacuumed"}
    assert (ran.code, ran.outcomes) == (3, refused)
    assert files_below(folder_of(tier, ORDERS)) == before


def test_a_folder_behind_a_link_is_not_vacuumed(tier: Path, tmp_path: Path) -> None:
    far = Path(shutil.move(folder_of(tier, ORDERS), tmp_path / "far"))
    folder_of(tier, ORDERS).symlink_to(far)
    before = files_below(far)
    ran = vacuum(tier)
    assert (ran.code, ran.outcomes) == (3, {("orders", 0): "failed", ("payments", 0): "vacuumed"})
    assert not told(ran.entry["reason"], "symbolic link", "the catalog lists")
    assert files_below(far) == before
    assert row_of(tier).owner_run == ""


def test_a_run_at_work_is_left_alone_until_it_is_silent(tier: Path) -> None:
    catalog = catalog_of(tier)
    catalog.claim([row_of(tier)], "at-work", at_ms=THEN_MS + 2 * HOUR_MS)
    sign = alive(tier, "at-work")
    before = files_below(tier)
    ran = vacuum(tier)
    assert (ran.code, ran.outcomes) == (0, {("orders", 0): "left", ("payments", 0): "vacuumed"})
    assert not told(ran.entry["reason"], "run at-work of", "node-7", "is at work on it")
    assert ran.entry["held_by"] == "at-work"
    orders = str(folder_of(tier, ORDERS).relative_to(tier))
    assert {k: v for k, v in files_below(tier).items() if orders in k} == {
        k: v for k, v in before.items() if orders in k
    }
    aged(sign, 601)
    assert vacuum(tier).outcomes["orders", 0] == "vacuumed"


@pytest.mark.parametrize(
    "arguments", [("--orphan-age", "2h"), ("--set", "cleanup.policy=delete")], ids=["orphan", "old"]
)
def test_what_may_go_of_a_partition_at_which_a_run_is_at_work_waits(
    tier: Path, arguments: tuple[str, str]
) -> None:
    orphan(tier, 1)
    catalog_of(tier).claim([row_of(tier)], "at-work", at_ms=THEN_MS + 2 * HOUR_MS)
    alive(tier, "at-work")
    before = ids_in(tier), row_of(tier)
    assert vacuum(tier, *arguments, hours=3).outcomes["orders", 0] == "left"
    assert (ids_in(tier), row_of(tier)) == before


def test_times_can_be_said(tier: Path) -> None:
    stray = orphan(tier, 1)
    entry = vacuum(tier, "--orphan-age", "2h", hours=3).entry
    assert {listed["kind"] for listed in entry["objects"]} == {"orphan"}
    assert not stray.exists()
    assert vacuum(tier, "--grace-period", "4h", hours=3).outcomes["payments", 0] == "nothing_to_do"
    assert vacuum(tier, "--grace-period", "2h", hours=3).outcomes["payments", 0] == "vacuumed"
    assert vacuum(tier, "--grace-period", "soon").code == 2


def test_the_catalog_forgets_what_is_older_than_its_memory(tier: Path) -> None:
    folder = tier / CATALOG_FOLDER / "partitions"
    superseded(folder, hours=31 * 24)
    before = set(folder.rglob("*.parquet"))
    people = tierfold("vacuum", tier, *DETACHED, "--dry-run").stdout
    said = "files of the catalog, no longer needed: "
    assert not told(people, f"{said}to delete")
    assert set(folder.rglob("*.parquet")) == before
    # The files have the real clock's time, so this machine is behind the tier's commits.
    real = ("vacuum", tier, *DETACHED, "--clock-is-right")
    assert not told(tierfold(*real).stdout, f"{said}deleted")
    assert set(folder.rglob("*.parquet")) < before
    assert json.loads(tierfold(*real, "--json").stdout)["catalog_files"] == 0

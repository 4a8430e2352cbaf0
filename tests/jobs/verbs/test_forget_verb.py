"""`tierfold forget` reports losses first, names what blocks it, and fences zombie runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.jobs.claims import catalog_of, row_of
from tests.jobs.commands import ALWAYS, CLOCK, COMPACT, Ran, tierfold, told
from tests.jobs.elections import (
    FIRST_MS,
    NEW,
    OLD,
    ORDERS,
    RUN,
    claimed,
    histories,
    ids_of,
    known,
    merged,
    old_history,
    part_of,
    upload,
)
from tests.jobs.scripted_runs import scripted
from tests.jobs.tiers import files_below, folder_of, live_values
from tests.storage.call_scripts import at, changes
from tests.storage.scripted_catalog import rival_claims, unknown
from tierfold.compaction.commits.commit import FinishDeletion, ReleaseClaim, StartDeletion, proposed
from tierfold.compaction.model.outcomes import Committed, Fenced
from tierfold.compaction.model.segments import LeaderEpoch, Segment
from tierfold.storage.catalog.catalog import new_commit_id
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER, Part

DETACHED: Final = ("--set", "tier.binding=detached")
DAY_MS: Final = 86_400_000


Histories = tuple[Path, Segment, Segment, Segment]


@pytest.fixture
def cut_off(tmp_path: Path) -> Histories:
    """A tier whose row has 0–5 and 6–10, and which also has 6–9 of the new leader."""
    return histories(tmp_path / "tier")


def forget(tier: Path, *arguments: str) -> Ran:
    return tierfold("forget", tier, "orders-0", "--json", *arguments)


def plan(tier: Path) -> Ran:
    return tierfold("plan", tier, "--json", *COMPACT)


def segments_of(tier: Path) -> set[str]:
    """Segments of which any object is in the tier."""
    return {path.name[21:43] for path in folder_of(tier, ORDERS).glob("0*")}


def ids(entries: Sequence[dict[str, Any]]) -> list[str]:
    return [entry["id"] for entry in entries]


def test_the_dry_run_shows_what_is_taken_and_what_vanishes_and_changes_nothing(
    cut_off: Histories,
) -> None:
    tier, first, second, newest = cut_off
    assert (plan(tier).code, plan(tier).outcomes) == (3, {("orders", 0): "refused"})
    assert f"`tierfold forget {tier} orders-0 --dry-run`" in plan(tier).entries[0]["reason"]
    before = files_below(tier)
    ran = forget(tier, "--dry-run")
    (entry,) = ran.entries
    assert (ran.code, entry["outcome"], entry["epoch"]) == (0, "planned", row_of(tier).epoch)
    assert ids(entry["forgotten"]) == ids_of([first, second])
    assert ids(entry["taken"]) == ids_of([first, newest])
    assert ids(entry["set_apart"]) == [second.segment_id]
    assert entry["vanishing"] == [{"start_offset": 10, "end_offset": 10}]
    assert files_below(tier) == before


def test_the_row_is_emptied_and_stays_a_fence(cut_off: Histories) -> None:
    tier, first, second, newest = cut_off
    before = row_of(tier)
    files = files_below(folder_of(tier, ORDERS))
    ran = forget(tier)
    ran.ends_alone(0, "forgotten")
    assert ran.entries[0]["vanishing"] == [{"start_offset": 10, "end_offset": 10}]
    row = row_of(tier)
    assert row.is_forgotten
    assert (row.forgotten, row.epoch, row.owner_run) == ((second.segment_id,), before.epoch + 1, "")
    assert files_below(folder_of(tier, ORDERS)) == files
    assert plan(tier).code == 0
    assert forget(tier).outcomes["orders", 0] == "nothing_to_do"
    # The next claim reads the new log, and the consent is used up.
    row = claimed(tier, "next")
    assert ids_of(row.segments) == ids_of([first, newest])
    assert (row.forgotten, row.lineage) == ((), NEW)
    late = proposed(before, ReleaseClaim(run=RUN), commit_id=new_commit_id(), at_ms=1)
    fenced = Fenced(epoch=before.epoch, by_epoch=before.epoch + 2, by_run="next")
    assert catalog_of(tier).commit([late]) == {ORDERS: fenced}


def test_the_run_is_recorded_and_its_clock_is_the_one_given(cut_off: Histories) -> None:
    tier, *_ = cut_off
    assert forget(tier, CLOCK, str(FIRST_MS + DAY_MS)).code == 0
    (run,) = RunsTable(str(tier / CATALOG_FOLDER)).read()
    assert (run.command, run.outcome, run.epoch) == ("forget", "forgotten", 2)
    assert (run.segments_in, run.segments_out) == (2, 2)
    assert 0 <= row_of(tier).committed_at_ms - FIRST_MS - DAY_MS < 600_000


def test_without_a_row_what_alone_holds_offsets_is_given_up_too(tmp_path: Path) -> None:
    tier = tmp_path / "tier"
    _, second = old_history(tier)
    upload(tier, 6, 9, NEW)
    assert plan(tier).code == 3
    (entry,) = forget(tier, "--dry-run").entries
    assert (entry["forgotten"], ids(entry["set_apart"])) == ([], [second.segment_id])
    assert not (tier / CATALOG_FOLDER).exists()
    assert forget(tier).outcomes["orders", 0] == "forgotten"
    row = row_of(tier)
    assert (row.is_forgotten, row.forgotten, row.epoch) == (True, (second.segment_id,), 1)
    assert plan(tier).code == 0
    # Later segments of that log were not accepted.
    third = upload(tier, 11, 12)
    refused = plan(tier)
    assert (refused.code, third.segment_id in refused.entries[0]["reason"]) == (3, True)
    (entry,) = forget(tier).entries
    assert entry["vanishing"] == [{"start_offset": 10, "end_offset": 12}]
    assert set(row_of(tier).forgotten) == {second.segment_id, third.segment_id}


def test_where_nothing_was_cut_off_there_is_nothing_to_forget(tmp_path: Path) -> None:
    tier = tmp_path / "tier"
    old_history(tier)
    known(tier)
    before = files_below(tier)
    forget(tier).ends_alone(0, "nothing_to_do")
    assert files_below(tier) == before


def test_what_is_refused_for_another_reason_is_not_forgotten(tmp_path: Path) -> None:
    tier = tmp_path / "tier"
    first, _ = old_history(tier)
    known(tier)
    part_of(tier, first, Part.OFFSET_INDEX).unlink()
    ran = forget(tier)
    ran.ends_alone(3, "refused", "no unclean leader election", first.segment_id, "lacks .index")
    assert not row_of(tier).is_forgotten


def lost_gap(tier: Path) -> str:
    upload(tier, 12, 13, NEW)
    return "offsets 10 to 11: a hole"


def lost_part(tier: Path) -> str:
    part_of(tier, upload(tier, 10, 11, NEW), Part.SNAPSHOT).unlink()
    return "lacks .snapshot"


def lost_log(tier: Path) -> str:
    part_of(tier, upload(tier, 11, 12, NEW), Part.LOG).write_bytes(b"no batch")
    return ".log"


@pytest.mark.parametrize("corrupt", [lost_gap, lost_part, lost_log])
def test_where_discovery_would_refuse_what_is_left_nothing_is_forgotten(
    cut_off: Histories, corrupt: Callable[[Path], str]
) -> None:
    tier, *_ = cut_off
    why = corrupt(tier)
    forget(tier).ends_alone(3, "refused", "even without its row", why)
    assert not row_of(tier).is_forgotten


def test_an_output_that_only_the_row_identifies_blocks_forget(tmp_path: Path) -> None:
    tier = tmp_path / "tier"
    old_history(tier)
    ours = merged(tier)
    dead = upload(tier, 0, 5)
    upload(tier, 6, 9, NEW)
    before = files_below(tier)
    ran = forget(tier)
    ran.ends_alone(3, "refused")
    reason = ran.entries[0]["reason"]
    named = (ours.segment_id, dead.segment_id)
    # The state "found", in which only uploads are live.
    restore = f"restore {tier} orders-0 --to 2026-11-21T15:30:00.000Z"
    # The borders of the restored uploads tell whether the segment is of the dead run.
    assert not told(reason, *named, restore, "grace period", "the new log may need"), reason
    assert files_below(tier) == before


def test_what_a_dead_run_made_of_a_live_upload_is_in_the_way(tmp_path: Path) -> None:
    tier = tmp_path / "tier"
    old_history(tier)
    known(tier)
    upload(tier, 8, 9, (*OLD, LeaderEpoch(epoch=4, start_offset=8)))
    upload(tier, 6, 7)
    assert forget(tier, "--dry-run").outcomes["orders", 0] == "planned"
    dead = upload(tier, 7, 7, start_offset=6)  # It removed the batches 6 and 8 to 10.
    reason = forget(tier, "--dry-run").entries[0]["reason"]
    assert not told(reason, f"the new log may need them: {dead.segment_id}.", "brokers uploaded")


def test_where_the_originals_are_gone_the_way_out_is_by_hand(tmp_path: Path) -> None:
    tier = tmp_path / "tier"
    old_history(tier)
    ours = merged(tier)
    later = (CLOCK, str(FIRST_MS + 10 * DAY_MS))
    assert tierfold("vacuum", tier, "--json", *DETACHED, *later).code == 0
    newest = upload(tier, 6, 9, NEW)
    reason = forget(tier, *later).entries[0]["reason"]
    assert not told(reason, ours.segment_id, "first compaction can be restored", "out of the tier")
    for part in list(tier.rglob(f"*-{ours.segment_id}.*")):
        part.unlink()
    # The reason names the next step, not the object that the person moved.
    reason = plan(tier).entries[0]["reason"]
    forget_it = f"`tierfold forget {tier} orders-0"
    assert not told(reason, "is gone from the tier", "unclean leader election", forget_it), reason
    ran = forget(tier, *later)
    ran.ends_alone(0, "forgotten")
    (entry,) = ran.entries
    assert ids(entry["taken"]) == [newest.segment_id]
    assert entry["vanishing"] == [
        {"start_offset": 0, "end_offset": 5},
        {"start_offset": 10, "end_offset": 10},
    ]
    assert plan(tier).code == 0


def test_uploads_that_were_retired_count_again_once_their_replacement_is_moved_away(
    tmp_path: Path,
) -> None:
    """No state can be restored, and `vacuum` spares the originals that are left."""
    tier = tmp_path / "tier"
    first, second = old_history(tier)
    ours = merged(tier)
    its_end = (second.segment_id,)
    for update in (StartDeletion(ids=its_end, at_ms=FIRST_MS), FinishDeletion(ids=its_end)):
        row = claimed(tier)
        release = ReleaseClaim(run=row.owner_run)
        gone = proposed(row, update, release, commit_id=new_commit_id(), at_ms=FIRST_MS)
        assert isinstance(catalog_of(tier).commit([gone])[ORDERS], Committed)
    for part in list(tier.rglob(f"*-{second.segment_id}.*")):
        part.unlink()
    newest = upload(tier, 6, 9, NEW)
    assert "before the first compaction can be restored" in forget(tier).entries[0]["reason"]
    for part in list(tier.rglob(f"*-{ours.segment_id}.*")):
        part.unlink()
    ran = forget(tier)
    ran.ends_alone(0, "forgotten")
    (entry,) = ran.entries
    assert ids(entry["taken"]) == [first.segment_id, newest.segment_id]
    assert entry["vanishing"] == [{"start_offset": 10, "end_offset": 10}]


# Who is fenced.


def test_a_run_that_holds_the_partition_is_named_and_fenced(tmp_path: Path) -> None:
    tier = tmp_path / "tier"
    old_history(tier)
    held = claimed(tier, "holder")
    upload(tier, 6, 9, NEW)
    planned = forget(tier, "--dry-run").entries[0]
    words = ("run holder holds it", "2026-11-21T15:30:00.000Z", "`forget` fences it")
    assert not told(planned["notes"][0], *words)
    assert forget(tier).outcomes["orders", 0] == "forgotten"
    late = proposed(held, ReleaseClaim(run="holder"), commit_id=new_commit_id(), at_ms=1)
    fenced = Fenced(epoch=1, by_epoch=2, by_run="")
    assert catalog_of(tier).commit([late]) == {ORDERS: fenced}


def test_one_that_was_overtaken_is_fenced(cut_off: Histories) -> None:
    tier, *_ = cut_off
    rival = rival_claims(str(tier / CATALOG_FOLDER), ORDERS)
    with scripted(at("commit", rival)):
        ran = forget(tier)
    ran.ends_alone(4, "fenced")
    with scripted(at("claim", rival)):
        ran = forget(tier)
    ran.ends_alone(4, "lost_race")
    assert len(row_of(tier).segments) == 2


def test_what_a_run_wrote_before_it_was_fenced_is_not_taken_for_an_upload(
    cut_off: Histories,
) -> None:
    tier, *_ = cut_off
    with scripted(at("claim", lambda: upload(tier, 0, 5))):
        ran = forget(tier)
    ran.ends_alone(4, "lost_race")
    assert "changed since it was read" in ran.entries[0]["reason"]
    assert (len(row_of(tier).segments), row_of(tier).owner_run) == (2, "")
    assert "orphaned" in forget(tier).entries[0]["reason"]


def test_a_commit_without_an_answer_is_found_below_later_ones(cut_off: Histories) -> None:
    tier, *_ = cut_off
    rival = at("commit", rival_claims(str(tier / CATALOG_FOLDER), ORDERS), is_done=True)
    with scripted(rival, changes("commit", unknown)) as script:
        ran = forget(tier)
    ran.ends_alone(0, "forgotten")
    assert (len(script.of("resolve")), row_of(tier).owner_run) == (1, "rival")


# The whole way out.


def test_the_way_out_of_a_compacted_partition(tmp_path: Path) -> None:
    tier = tmp_path / "tier"
    first, second = old_history(tier)
    assert tierfold("compact", tier, *ALWAYS).code == 0
    (ours,) = row_of(tier).segments
    newest = upload(tier, 6, 9, NEW)
    assert plan(tier).code == 3
    now_ms = row_of(tier).committed_at_ms

    def after(days: int) -> tuple[str, str]:
        return CLOCK, str(now_ms + days * DAY_MS)

    def vacuum(days: int, *arguments: str) -> Ran:
        return tierfold("vacuum", tier, "--json", *after(days), *arguments)

    # A nightly vacuum keeps the segments that the way out needs.
    assert vacuum(2, *DETACHED).code == 3
    assert segments_of(tier) == {*ids_of([first, second, ours, newest])}
    reason = forget(tier, *after(2)).entries[0]["reason"]
    timestamp_text = reason.partition("--to ")[2].partition("`")[0]
    assert tierfold("restore", tier, "orders-0", "--to", timestamp_text, *after(2)).code == 0
    assert ids_of(row_of(tier).segments) == ids_of([first, second])
    reason = forget(tier, *after(2)).entries[0]["reason"]
    assert not told(reason, "retired: " + ours.segment_id, "vacuum")
    assert vacuum(4).outcomes["orders", 0] == "vacuumed"
    assert segments_of(tier) == {*ids_of([first, second, newest])}
    assert forget(tier, "--dry-run", *after(4)).outcomes["orders", 0] == "planned"
    assert forget(tier, *after(4)).outcomes["orders", 0] == "forgotten"
    assert plan(tier).outcomes["orders", 0] == "planned"
    assert tierfold("compact", tier, *ALWAYS, *after(4)).code == 0
    assert tierfold("verify", tier).code == 0
    (entry,) = tierfold("status", tier, "--json", "--segments").entries
    assert live_values(entry) == {b"k0": b"4/8", b"k1": b"4/9", b"k2": b"4/6", b"k3": b"4/7"}
    assert entry["out_of_lineage"] == [second.segment_id]
    # Set-apart segments are deleted only with --diverged, and if no broker serves the tier.
    for arguments in (DETACHED, ("--diverged",), (*DETACHED, "--diverged", "--dry-run")):
        vacuum(6, *arguments)
        assert second.segment_id in segments_of(tier)
    assert vacuum(6, *DETACHED, "--diverged").outcomes["orders", 0] == "vacuumed"
    assert second.segment_id not in segments_of(tier)
    assert plan(tier).outcomes["orders", 0] == "nothing_to_do"

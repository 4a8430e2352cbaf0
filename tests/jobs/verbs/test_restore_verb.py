"""`tierfold restore` on real tiers restores segments, refuses what it must and fences others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.compaction.builders import a_chain, a_segment, a_state, retired, segment_id
from tests.jobs.claims import ORDERS, catalog_of, released, row_of
from tests.jobs.commands import ALWAYS, CLOCK, Ran, status_of, tierfold, told
from tests.jobs.scripted_runs import scripted
from tests.jobs.tiers import (
    copied,
    files_below,
    latest_updates,
    made_tier,
    put_segment,
    put_updates,
    records_in,
    sample_copy,
    updated_tier,
)
from tests.storage.call_scripts import at, changes, fails
from tests.storage.live_segments import data
from tests.storage.scripted_catalog import rival_claims, unknown
from tierfold.compaction.commits.commit import (
    CommitIs,
    EpochIs,
    SegmentsAreLive,
    SegmentsAreRetired,
    StartDeletion,
    proposed,
)
from tierfold.compaction.commits.restore import RestorePlan, restore_plan_of
from tierfold.compaction.commits.row_changes import applied
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.outcomes import Fenced
from tierfold.jobs.verbs.restore import restore_proposal
from tierfold.storage.catalog.catalog import new_commit_id
from tierfold.storage.catalog.runs_table import RunsTable

NOW_MS: Final = 1_800_000_000_000
NOW: Final = (CLOCK, str(NOW_MS))


def lines_of(tier: Path, name: str = "orders-0") -> list[dict[str, Any]]:
    """The history, newest first."""
    lines: list[dict[str, Any]] = tierfold("history", tier, name, "--json").entries[0]["history"]
    return lines


def restore(tier: Path, to: str, *arguments: str, name: str = "orders-0") -> Ran:
    return tierfold("restore", tier, name, "--to", to, *arguments, "--json")


def live_ids(tier: Path, topic: str = "orders") -> list[str]:
    return [segment["id"] for segment in status_of(tier)[topic, 0]["segments"]]


def values(tier: Path, topic: str = "orders") -> dict[bytes | None, bytes | None]:
    """The last value of each key in the live segments."""
    logs = [segment["log"] for segment in status_of(tier)[topic, 0]["segments"]]
    return {key: value for _, key, value in records_in(logs)}


def contents(tier: Path, topic: str) -> list[dict[str, bytes]]:
    """Every part of every live segment, without their ids."""
    logs = [Path(segment["log"]) for segment in status_of(tier)[topic, 0]["segments"]]
    return [
        {part.suffix: part.read_bytes() for part in sorted(log.parent.glob(f"{log.stem}.*"))}
        for log in logs
    ]


def compacted_twice(folder: Path) -> Path:
    """Two segments, compacted; then a third, and all compacted again."""
    tier = updated_tier(folder, [ORDERS], 2)
    assert tierfold("compact", tier, *ALWAYS).code == 0
    put_updates(tier, ORDERS, 2)
    assert tierfold("compact", tier, *ALWAYS).code == 0
    return tier


tier = copied(compacted_twice)


def test_the_history_names_every_state(tier: Path) -> None:
    lines = lines_of(tier)
    assert [line["event"] for line in lines] == ["compacted", "claimed", "compacted", "found"]
    assert [line["epoch"] for line in lines] == [2, 2, 1, 1]
    assert [(line["segments_in"], line["segments_out"]) for line in lines] == [
        (2, 1),
        (0, 1),
        (2, 1),
        (0, 2),
    ]
    assert [line["cleaner_offset"] for line in lines] == [33, 22, 22, None]
    assert lines[0]["run"] == lines[1]["run"] != lines[2]["run"] == lines[3]["run"]
    assert [line["is_current"] for line in lines] == [True, False, False, False]
    assert all(line["is_restorable"] and not line["why_not"] for line in lines)
    assert lines[0]["segments"] == live_ids(tier)
    times = [line["committed_at_ms"] for line in lines]
    assert times == sorted(times, reverse=True)


def test_each_state_can_be_restored_by_its_time_in_any_order(tier: Path) -> None:
    lines = lines_of(tier)
    for number in (3, 1, 0, 2, 3):
        timestamp_text = lines[number]["committed_at" if number % 2 else "committed_at_ms"]
        restore(tier, str(timestamp_text)).ends_alone(0, "restored")
        # The later upload stays as it is.
        third = row_of(tier).segments[-1]
        has_third = number < 2
        expected = lines[number]["segments"] + ([] if has_third else [third.segment_id])
        assert live_ids(tier) == expected
        assert has_third or (third.start_offset, third.written_by_run) == (22, "")
        assert values(tier) == latest_updates(3)
        assert row_of(tier).cleaner_offset == (lines[number]["cleaner_offset"] or 0)


def test_a_run_is_named_in_full_or_by_its_begin(tier: Path) -> None:
    first = lines_of(tier)[2]
    assert restore(tier, first["run"]).outcomes["orders", 0] == "restored"
    assert live_ids(tier)[0] == first["segments"][0]
    restore(tier, first["run"][:-2]).ends(0, "nothing_to_do")


def test_the_report_says_what_came_back_and_what_left(tier: Path) -> None:
    newest, _, _, found = lines_of(tier)
    planned = restore(tier, found["committed_at"], "--dry-run").entries[0]
    done = restore(tier, found["committed_at"]).entries[0]
    assert (planned["outcome"], done["outcome"]) == ("planned", "restored")
    for report in (planned, done):
        assert [segment["id"] for segment in report["leaving"]] == newest["segments"]
        assert [segment["start_offset"] for segment in report["back"]] == [0, 11, 22]
        assert (report["segments_in"], report["segments_out"]) == (1, 3)
        assert report["bytes_in"] == newest["live_bytes"]
        assert report["bytes_out"] == sum(segment["size_bytes"] for segment in report["back"])
        assert report["to"]["event"] == "found"
    assert done["epoch"] == 3
    row = RunsTable(str(tier / "_tierfold")).read()[-1]
    assert (row.command, row.outcome, row.epoch) == ("restore", "restored", 3)
    assert (row.segments_in, row.segments_out, row.bytes_out) == (1, 3, done["bytes_out"])


def test_a_dry_run_changes_nothing(tier: Path) -> None:
    before = files_below(tier)
    assert restore(tier, lines_of(tier)[3]["committed_at"], "--dry-run").code == 0
    assert files_below(tier) == before


def test_the_clock_that_is_given_stamps_what_is_written(tier: Path) -> None:
    later_ms = lines_of(tier)[0]["committed_at_ms"] + 10_000_000
    ran = restore(tier, lines_of(tier)[3]["committed_at"], CLOCK, str(later_ms))
    assert ran.code == 0
    newest = lines_of(tier)[0]
    assert newest["event"] == "restored"
    assert 0 <= newest["committed_at_ms"] - later_ms < 600_000
    left = [entry.retired_at_ms for entry in row_of(tier).retired if entry.retired_by_epoch == 3]
    assert left == [newest["committed_at_ms"]]


def test_compact_restore_compact_is_compact(tmp_path: Path) -> None:
    arguments = (*ALWAYS, *NOW)
    alone, undone = (sample_copy(tmp_path / name) for name in ("alone", "undone"))
    for tier in (alone, undone):
        assert tierfold("compact", tier, *arguments).code == 0
    found = lines_of(undone, "tiered-0")[-1]
    assert restore(undone, found["committed_at"], *NOW, name="tiered-0").code == 0
    assert len(live_ids(undone, "tiered")) == 3
    sound = tierfold("verify", undone, "--json")
    assert (sound.code, sound.entries[0]["corruptions"]) == (0, [])
    assert tierfold("compact", undone, *arguments).code == 0
    assert contents(undone, "tiered") == contents(alone, "tiered")
    assert status_of(undone)["tiered", 0]["cleaner_offset"] == 12155
    proven = tierfold("verify", undone, "--json").entries[0]
    assert (proven["corruptions"], proven["keys_compared"]) == ([], 999)


def test_a_tombstone_that_was_dropped_since_still_deletes(tmp_path: Path) -> None:
    tier = made_tier(tmp_path / "tier")
    put_segment(tier, ORDERS, [data(0, (b"k", b"SECRET"), (b"a", b"1"))], start_offset=0)

    def compact(now_ms: int) -> None:
        retention = ("--set", "delete.retention.ms=1000")
        assert tierfold("compact", tier, *ALWAYS, *retention, CLOCK, str(now_ms)).code == 0

    compact(NOW_MS)
    with_secret = lines_of(tier)[0]
    put_segment(tier, ORDERS, [data(2, (b"k", None), (b"b", b"2"))], start_offset=2)
    compact(NOW_MS + 600_000)
    compact(NOW_MS + 1_200_000)
    assert values(tier) == {b"a": b"1", b"b": b"2"}
    assert restore(tier, with_secret["run"], CLOCK, str(NOW_MS + 1_500_000)).code == 0
    # Its own segment is back, with the later tombstone.
    assert values(tier) == {b"k": None, b"a": b"1", b"b": b"2"}
    compact(NOW_MS + 1_800_000)
    compact(NOW_MS + 2_400_000)
    assert values(tier) == {b"a": b"1", b"b": b"2"}


# What is refused.


def start_deletion(tier: Path, ids: Sequence[str]) -> None:
    """A vacuum run starts a deletion and releases its claim before its objects are gone."""
    state = catalog_of(tier).claim([row_of(tier)], "vacuum", at_ms=1)[ORDERS].row
    released(tier, state, StartDeletion(ids=tuple(ids), at_ms=2), at_ms=2)


def test_what_is_being_deleted_is_not_restored(tier: Path) -> None:
    _, _, merged, found = lines_of(tier)
    start_deletion(tier, found["segments"][:1])
    before = files_below(tier)
    ran = restore(tier, found["committed_at"])
    ran.ends(3, "refused", "being deleted", found["segments"][0], "tierfold history")
    assert files_below(tier) == before
    lines = {line["event"]: line for line in lines_of(tier)}
    assert not lines["found"]["is_restorable"]
    assert "being deleted" in lines["found"]["why_not"]
    # An original is gone, but the state with its compacted form is complete.
    assert restore(tier, merged["run"]).outcomes["orders", 0] == "restored"


def test_a_deletion_that_begins_meanwhile_stops_the_restore(tier: Path) -> None:
    found = lines_of(tier)[3]
    with scripted(at("claim", lambda: start_deletion(tier, found["segments"]))):
        ran = restore(tier, found["committed_at"])
    assert ran.code == 4
    assert ran.outcomes["orders", 0] in {"fenced", "lost_race"}
    assert live_ids(tier) == lines_of(tier)[1]["segments"]


def log_of(tier: Path, segment_id: str) -> Path:
    (log,) = tier.rglob(f"*-{segment_id}.log")
    return log


@pytest.mark.parametrize("corrupt", ["gone", "cut", "no index", "flipped", "wrong index"])
def test_what_is_not_whole_is_not_restored(tier: Path, corrupt: str) -> None:
    found = lines_of(tier)[3]
    log = log_of(tier, found["segments"][1])
    match corrupt:
        case "gone":
            for part in log.parent.glob(f"{log.stem}.*"):
                part.unlink()
        case "cut":
            log.write_bytes(log.read_bytes()[:-1])
        case "no index":
            log.with_suffix(".index").unlink()
        case "flipped":
            damaged = bytearray(log.read_bytes())
            damaged[-1] ^= 1
            log.write_bytes(damaged)
        case _:
            log.with_suffix(".index").write_bytes(bytes.fromhex("ffffffff00000000"))
    before = files_below(tier)
    ran = restore(tier, found["committed_at"])
    remedy = "If objects are missing or corrupt, copy them back from a backup"
    ran.ends(3, "refused", found["segments"][1], remedy, "Nothing was changed")
    assert files_below(tier) == before
    is_seen_from_afar = corrupt in {"gone", "cut", "no index"}
    assert restore(tier, found["committed_at"], "--dry-run").code == 3 * is_seen_from_afar


# Who is fenced.


def test_a_restore_asks_for_all_that_it_relies_on() -> None:
    first, second, third = a_chain(10, 10, 10)
    merged = a_segment(0, 19, segment_id=segment_id("merged"), origin=Compacted("a run"))
    row = a_state((merged, third), epoch=4, owner_run="undo", commit_id="claim")
    row = replace(row, retired=(retired(first), retired(second)))
    restore_plan = restore_plan_of(a_state((first, second)), row)
    assert isinstance(restore_plan, RestorePlan)
    proposal = restore_proposal(restore_plan, row, 77)
    assert proposal.requires == (
        EpochIs(epoch=4, owner_run="undo"),
        CommitIs(commit_id="claim"),
        SegmentsAreRetired(ids=(first.segment_id, second.segment_id)),
        SegmentsAreLive(ids=(third.segment_id,)),
    )
    after = applied(proposal, row)
    assert (after.owner_run, after.committed_at_ms) == ("undo", 77)
    assert after.segments == (first, second, third)


def test_a_restore_takes_over_from_a_run_that_holds_the_partition(tier: Path) -> None:
    catalog = catalog_of(tier)
    held = catalog.claim([row_of(tier)], "holder", at_ms=1_700_000_000_000)[ORDERS].row
    found = lines_of(tier)[-1]
    words = ("run holder holds it since 2023-11-14T22:13:20.000Z", "fences")
    planned = restore(tier, found["committed_at"], "--dry-run")
    assert not told(planned.entries[0]["notes"][0], *words)
    assert row_of(tier) == held
    assert restore(tier, found["committed_at"]).outcomes["orders", 0] == "restored"
    late = catalog.commit([proposed(held, commit_id=new_commit_id(), at_ms=3)])[ORDERS]
    assert late == Fenced(epoch=held.epoch, by_epoch=held.epoch + 1, by_run="")


def test_a_restore_that_was_overtaken_is_fenced(tier: Path) -> None:
    before, found = live_ids(tier), lines_of(tier)[3]
    uri = str(tier / "_tierfold")
    with scripted(at("commit", rival_claims(uri, ORDERS))):
        ran = restore(tier, found["committed_at"])
    ran.ends(4, "fenced")
    assert live_ids(tier) == before
    with scripted(at("claim", rival_claims(uri, ORDERS))):
        ran = restore(tier, found["committed_at"])
    assert (ran.code, ran.entries[0]["outcome"]) == (4, "lost_race")
    assert live_ids(tier) == before


@pytest.mark.parametrize(
    ("is_written", "is_claimed_since", "ended"),
    [
        (True, False, (0, "restored")),
        (True, True, (0, "restored")),
        # Unknown: the write may still arrive.
        (False, False, (3, "unknown")),
        # The claim fences it.
        (False, True, (4, "fenced")),
    ],
)
def test_an_answer_that_was_lost_is_read_back(
    tier: Path,
    is_written: bool,
    is_claimed_since: bool,
    ended: tuple[int, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tierfold.jobs.pipeline.held_partitions.READ_BACK_AFTER_MS", (0,))
    found = lines_of(tier)[3]
    claims = at("commit", rival_claims(str(tier / "_tierfold"), ORDERS), is_done=is_written)
    lost = changes("commit", unknown) if is_written else fails("commit")
    with scripted(*[claims] * is_claimed_since, lost) as script:
        ran = restore(tier, found["committed_at"])
    assert script.of("resolve")
    assert (row_of(tier).owner_run == "rival") is is_claimed_since
    assert (ran.code, ran.outcomes["orders", 0]) == ended
    assert (len(live_ids(tier)) == 3) is is_written

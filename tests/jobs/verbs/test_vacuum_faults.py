"""`vacuum` loses nothing when killed, fenced, failed or unanswered at each of its steps."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.claims import row_of
from tests.jobs.commands import CLOCK, tierfold, told
from tests.jobs.scripted_runs import scripted
from tests.jobs.tiers import (
    copied,
    files_below,
    folder_of,
    key_of,
    latest_updates,
    live_values,
    put_updates,
)
from tests.jobs.vacuum_tiers import (
    DETACHED,
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
)
from tests.spread import most_in_soak
from tests.storage.call_scripts import NO_ANSWER, Call, Killed, at, changes, fails, killed
from tests.storage.scripted_catalog import rival_claims
from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.planning.waves import WaveLimit
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER

PAYMENTS = key_of("payments")
# Three originals of five objects each, deleted part by part.
DELETES = 15
FIRST_OF_ALL, IN_A_SEGMENT, LAST_OF_ALL = "delete 1", "delete 8", f"delete {DELETES}"
# Rows are read at the look, and again before anything is deleted.
LOOK, READ_AGAIN = "look 1", "look 2"
START, FINISH, RELEASE = "commit 1", "commit 2", "commit 3"


tier = copied(lambda folder: compacted(folder, ORDERS))


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit without an answer is looked for once."""
    monkeypatch.setattr("tierfold.jobs.pipeline.held_partitions.READ_BACK_AFTER_MS", (0,))


def is_sound(tier: Path) -> bool:
    """Whether the live segments hold the latest value of every key."""
    ran = tierfold("status", tier, "--json", "--segments")
    assert ran.code == 0, ran.stdout
    return live_values(ran.entry) == latest_updates(3)


def test_the_steps_come_in_this_order(tier: Path) -> None:
    with scripted() as script:
        assert vacuum(tier).code == 0
    begun = [str(call) for call in script.calls]
    steps = [str(call) for call in script.of("look", "claim", "commit", "delete", "clean_up")]
    deletes = [f"delete {number + 1}" for number in range(DELETES)]
    # The last look says which key indexes are still needed.
    cleaned = ["clean_up 1", "look 3"]
    assert steps == [LOOK, "claim 1", START, READ_AGAIN, *deletes, FINISH, RELEASE, *cleaned]
    # Looked at before the claim, and once more when all is deleted.
    assert begun.index("list 1") < begun.index("claim 1")
    assert begun.index(LAST_OF_ALL) < begun.index("list 3") < begun.index(FINISH)


@pytest.mark.parametrize(
    ("step", "is_done"),
    most_in_soak(
        [
            ("claim 1", False),
            ("claim 1", True),
            (START, False),
            (START, True),
            (FIRST_OF_ALL, True),
            (IN_A_SEGMENT, False),
            (LAST_OF_ALL, True),
            (FINISH, False),
            (FINISH, True),
            (RELEASE, False),
            (RELEASE, True),
        ],
        4,
        is_unpacked=True,
    ),
)
def test_killed_anywhere_the_next_run_goes_on(tier: Path, step: str, is_done: bool) -> None:
    strays = parts(orphan(tier, 1))
    with scripted(killed(step, is_done=is_done)), pytest.raises(Killed):
        vacuum(tier)
    assert is_sound(tier)
    marked = {retired_segment.segment.segment_id for retired_segment in row_of(tier).retired}
    # What is not marked is whole, and what was listed is not forgotten while it is there.
    assert ids_in(tier) - live_ids(tier) - {strays[0].name[21:43]} <= marked
    for retired in row_of(tier).whole_retired:
        assert len(list(folder_of(tier, ORDERS).glob(f"*{retired.segment.segment_id}*"))) == 5
    is_all_done = row_of(tier).retired == () and row_of(tier).owner_run != ""
    assert is_all_done is ((step, is_done) in {(FINISH, True), (RELEASE, False)})
    # The dead run gives no sign of life, so the next one takes over.
    assert vacuum(tier, hours=26).code == 0
    assert ids_in(tier) == live_ids(tier)
    assert row_of(tier).retired == ()
    # With nothing left to do, no run claims the partition, and the dead run's claim blocks nothing.
    assert (row_of(tier).owner_run != "") is is_all_done
    assert is_sound(tier)


HOLDS, UNTOUCHED, CONTINUES = "run rival holds epoch 3", "nothing was deleted", "the next run cont"


@pytest.mark.parametrize(
    ("fault", "step", "ends", "deletes", "retired"),
    most_in_soak(
        [
            ("rival", "claim 1", (0, "left", "another run changed it", UNTOUCHED), 0, 3),
            ("rival", START, (4, "fenced", HOLDS, UNTOUCHED), 0, 3),
            ("rival", READ_AGAIN, (4, "fenced", HOLDS, UNTOUCHED), 0, 3),
            ("rival", FINISH, (4, "fenced", HOLDS, CONTINUES), 20, 3),
            ("no answer", FIRST_OF_ALL, (3, "failed", "no answer", CONTINUES), 1, 3),
            ("no answer", IN_A_SEGMENT, (3, "failed", "no answer", CONTINUES), 8, 2),
            ("no answer", LAST_OF_ALL, (3, "failed", "no answer", CONTINUES), DELETES, 1),
            ("no answer", "list 3", (3, "failed"), DELETES, 3),
            ("no answer", "unfinished 1", (3, "refused", "no answer"), 0, 3),
            ("no answer", "unfinished 2", (3, "failed"), 0, 3),
            ("no answer", "unfinished 3", (3, "failed"), DELETES + 1, 3),
            ("no answer", START, (3, "unknown", "got no answer", UNTOUCHED), 0, 3),
            ("lost answer", START, (0, "vacuumed"), DELETES, 0),
            ("no answer", "claim 1", (3, "failed", "no answer"), 0, 3),
            ("lost answer", "claim 1", (3, "failed", "no answer"), 0, 3),
            ("no answer", READ_AGAIN, (3, "failed", "no answer"), 0, 3),
            ("no answer", FINISH, (3, "unknown", "no answer"), DELETES, 3),
            ("lost answer", FINISH, (0, "vacuumed"), DELETES, 0),
            # The release is never required.
            ("rival", RELEASE, (0, "vacuumed"), 20, 0),
            ("no answer", RELEASE, (0, "vacuumed"), DELETES, 0),
            ("lost answer", RELEASE, (0, "vacuumed"), DELETES, 0),
        ],
        6,
        is_unpacked=True,
    ),
)
def test_a_fault_at_any_step_loses_nothing_and_a_later_run_finishes(
    tier: Path, fault: str, step: str, ends: tuple[Any, ...], deletes: int, retired: int
) -> None:
    """`deletes` are begun; `retired` segments stay in the row."""
    is_rival = fault == "rival"
    strays = parts(orphan(tier, 1)) if is_rival else []
    if step in {"unfinished 2", "unfinished 3"}:  # Listed again only if one was to be ended.
        incomplete_upload(tier)
    before = ids_in(tier)
    claims = at(step, rival_claims(str(tier / CATALOG_FOLDER), ORDERS))
    with scripted(claims if is_rival else fails(step, is_done=fault == "lost answer")) as script:
        ran = vacuum(tier)
    ran.ends(*ends)
    assert is_rival or NO_ANSWER in {call.error for call in script.of(step.split(maxsplit=1)[0])}
    assert (len(script.of("delete")), len(row_of(tier).retired)) == (deletes, retired)
    assert deletes or ids_in(tier) == before
    if step in {FIRST_OF_ALL, IN_A_SEGMENT, LAST_OF_ALL}:
        # The row lists each segment whose deletion began, unless all its objects are gone.
        listed = {entry.segment.segment_id for entry in row_of(tier).retired}
        assert listed == ids_in(tier) - live_ids(tier)
        assert (row_of(tier).whole_retired, row_of(tier).owner_run) == ((), "")
    assert is_sound(tier)
    vacuum(tier).ends(0, "vacuumed" if retired else "nothing_to_do")
    assert ids_in(tier) == live_ids(tier)
    assert not any(part.exists() for part in strays)


def test_of_two_runs_at_once_one_vacuums(tier: Path) -> None:
    other = []
    with scripted(at("claim 1", lambda: other.append(vacuum(tier)))):
        # Both runs share one script, so the calls of both are counted.
        ran = vacuum(tier)
    assert (ran.code, other[0].code) == (0, 0)
    assert (ran.outcomes["orders", 0], other[0].outcomes["orders", 0]) == ("left", "vacuumed")
    assert ids_in(tier) == live_ids(tier)
    assert is_sound(tier)


def test_a_compaction_takes_over_and_both_end_well(tier: Path) -> None:
    put_updates(tier, ORDERS, 3)
    ran = []

    def taken_over() -> None:
        ran.append(compact(tier, "--if-held", "take-over", hours=25))

    with scripted(at(READ_AGAIN, taken_over)):
        vacuumed = vacuum(tier)
    assert (ran[0].outcomes["orders", 0], vacuumed.outcomes["orders", 0]) == ("compacted", "fenced")
    status = tierfold("status", tier, "--json", "--segments").entry
    assert live_values(status) == latest_updates(4)
    assert vacuum(tier, hours=26).outcomes["orders", 0] == "vacuumed"
    assert vacuum(tier, hours=51).outcomes["orders", 0] == "vacuumed"
    assert ids_in(tier) == live_ids(tier)
    assert tierfold("verify", tier).code == 0


def test_objects_that_somebody_else_deleted_are_gone_which_is_fine(tier: Path) -> None:
    gone: list[str] = []

    def cleaned_up() -> None:
        for path in folder_of(tier, ORDERS).iterdir():
            if path.name[21:43] not in live_ids(tier):
                path.unlink()
                gone.append(path.name)

    with scripted(at(FIRST_OF_ALL, cleaned_up)):
        ran = vacuum(tier)
    assert len(gone) == 15
    ran.ends(0, "vacuumed")
    assert row_of(tier).retired == ()


def test_a_writer_that_goes_on_during_the_deletion_loses_no_log(tier: Path) -> None:
    """It slept for a day between its last write and the next one, and so did `vacuum`."""
    log = orphan(tier, 1)
    log.unlink()
    unfinished = incomplete_upload(tier)
    with scripted(at(FIRST_OF_ALL, lambda: log.write_bytes(b"batches"))) as script:
        ran = vacuum(tier)
    ran.ends(0, "vacuumed")
    assert log.read_bytes() == b"batches", "it was not listed"
    first = script.of("delete")[0].arguments[0]
    assert first.endswith(unfinished.name), "otherwise its writer could still complete it"


def test_an_upload_that_cannot_be_aborted_keeps_orphans_and_no_retired_segment(tier: Path) -> None:
    kept, unfinished = orphan(tier, 1), incomplete_upload(tier)
    with scripted(fails("delete 1")):
        vacuum(tier).ends(3, "failed", "no answer", CONTINUES)
    assert unfinished.exists()
    assert len(parts(kept)) == 5
    assert ids_in(tier) == live_ids(tier) | {kept.name[21:43]}
    assert row_of(tier).retired == ()


def test_a_retired_segment_of_which_nothing_is_left_is_forgotten(tier: Path) -> None:
    for path in folder_of(tier, ORDERS).iterdir():
        if path.name[21:43] not in live_ids(tier):
            path.unlink()
    ran = vacuum(tier)
    assert (ran.code, ran.entry["objects"]) == (0, [])
    assert row_of(tier).retired == ()


def test_a_listing_that_comes_late_leaves_its_marks(tier: Path) -> None:
    gone = ids_in(tier) - live_ids(tier)
    stale: list[object] = []

    def late(call: Call) -> object:
        if call.number == 1:
            stale.extend(call.result)
        return iter(stale)

    with scripted(changes("list", late)):
        ran = vacuum(tier)
    entry = ran.entry
    assert (ran.code, entry["outcome"], listed_objects(entry, is_gone=True)) == (0, "vacuumed", {})
    assert not told("; ".join(entry["notes"]), "3 deleted ones are still listed", "the next run")
    assert ids_in(tier) == live_ids(tier)
    assert {retired_segment.segment.segment_id for retired_segment in row_of(tier).retired} == gone
    assert vacuum(tier).outcomes["orders", 0] == "vacuumed"
    assert row_of(tier).retired == ()


def test_a_row_that_is_gone_meanwhile_is_a_lost_race(tier: Path) -> None:
    before = files_below(folder_of(tier, ORDERS))
    with scripted(at(READ_AGAIN, lambda: shutil.rmtree(tier / CATALOG_FOLDER / "partitions"))):
        ran = vacuum(tier)
    ran.ends(4, "lost_race")
    assert files_below(folder_of(tier, ORDERS)) == before


def test_a_run_whose_record_cannot_be_kept_is_reported_all_the_same(tier: Path) -> None:
    shutil.rmtree(tier / CATALOG_FOLDER / "runs")
    (tier / CATALOG_FOLDER / "runs").write_bytes(b"no folder")
    ran = vacuum(tier)
    ran.ends(0, "vacuumed")
    assert "This run could not be recorded" in ran.stderr


def test_a_catalog_that_cannot_clean_up_gives_a_warning_and_no_failure(tier: Path) -> None:
    with scripted(fails("clean_up 1")):
        ran = vacuum(tier)
    ran.ends(0, "vacuumed")
    assert not told(ran.stderr, "The catalog's old files could not be deleted", "no answer")


def test_many_partitions_are_vacuumed_some_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = WaveLimit(partitions=2, work=100)
    monkeypatch.setattr("tierfold.jobs.verbs.vacuum.FIRST_WAVE_OF_OBJECTS", first)
    keys = [key_of(f"t{number}") for number in range(3)]
    tier = compacted(tmp_path / "tier", *keys, segments=2)
    hidden = incomplete_upload(tier, key=keys[1])
    with scripted() as script:
        ran = tierfold("vacuum", tier, "--json", *DETACHED, CLOCK, str(THEN_MS + 25 * 3_600_000))
    assert set(ran.outcomes.values()) == {"vacuumed"}
    counted = {name: len(script.of(name)) for name in ("claim", "exchange", "look", "commit")}
    # Two waves: each is claimed, started, read again and finished. The second claim releases the
    # first wave. At the end the rows say which key indexes are still needed.
    assert counted == {"claim": 1, "exchange": 1, "look": 1 + 2 + 1, "commit": 2 * 2 + 1}
    assert all(ids_in(tier, key) == live_ids(tier, key) for key in keys)
    assert not hidden.exists()


def test_a_segment_that_turns_live_just_before_deletion_is_kept(tier: Path) -> None:
    before = ids_in(tier)

    def brought_back(call: Call) -> object:
        (state,) = call.result.states
        # No commit can do that, but what is deleted is gone for good.
        live = tuple(retired_segment.segment for retired_segment in state.retired)
        return replace(call.result, states=(replace(state, segments=live, retired=()),))

    with scripted(changes(READ_AGAIN, brought_back)):
        ran = vacuum(tier)
    ran.ends(3, "failed", "is live", "this is a bug")
    assert ids_in(tier) == before


def test_a_row_that_cannot_be_true_stops_its_own_partition(tmp_path: Path) -> None:
    tier = compacted(tmp_path / "tier", ORDERS, PAYMENTS)
    before = ids_in(tier)

    def refused(call: Call) -> object:
        lie = CorruptLog("it cannot be true", where="the row", remedy="Look at it.")
        return replace(call.result, refused={(ORDERS.topic_id, ORDERS.partition): lie})

    with scripted(changes(READ_AGAIN, refused)):
        ran = vacuum(tier)
    assert (ran.code, ran.outcomes) == (3, {("orders", 0): "failed", ("payments", 0): "vacuumed"})
    assert not told(ran.entry["reason"], "cannot be true", "nothing was deleted")
    assert ids_in(tier) == before


def test_without_the_tiers_note_nothing_is_deleted(tier: Path) -> None:
    before = ids_in(tier)
    with scripted(fails("list 2")) as script:  # The note of who serves the tier.
        ran = vacuum(tier)
    assert (ran.code, len(script.of("delete")), ids_in(tier)) == (3, 0, before)
    vacuum(tier).ends(0, "vacuumed")

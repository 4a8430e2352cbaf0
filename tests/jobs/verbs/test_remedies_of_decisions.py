"""Remedies that ask a person to find out, to choose or to give up, carried out as said."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.jobs.claims import ORDERS, released, row_of
from tests.jobs.commands import ALWAYS, CLOCK, Ran, status_of, tierfold, told
from tests.jobs.elections import (
    FIRST_MS,
    NEW,
    claimed,
    histories,
    known,
    merged,
    old_history,
    part_of,
)
from tests.jobs.elections import upload as history_upload
from tests.jobs.leaders import adopted, upload
from tests.jobs.tiers import (
    an_open_producer,
    files_below,
    folder_of,
    key_of,
    latest_updates,
    live_values,
    made_tier,
    put_segment,
    put_updates,
    segment_parts,
)
from tests.jobs.vacuum_tiers import THEN_MS
from tests.storage.live_segments import an_abort, data, marker
from tests.storage.new_ids import foreign_id
from tierfold.compaction.commits.commit import StartDeletion
from tierfold.compaction.model.segments import LeaderEpoch
from tierfold.storage.kafka.control_records import ControlType
from tierfold.storage.segments import segment_writer
from tierfold.storage.tiers.local_store import LocalStore
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER, PART_BYTES_MAX, Part

DAY_MS: Final = 86_400_000
DETACHED: Final = ("--set", "tier.binding=detached")
OLD_4_AT_8: Final = (*NEW[:1], LeaderEpoch(epoch=4, start_offset=8))


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return made_tier(tmp_path / "tier")


def filled(tier: Path) -> None:
    for number in range(2):
        put_updates(tier, ORDERS, number)


def compacted(tier: Path, *options: str) -> Ran:
    return tierfold("compact", tier, *ALWAYS, "--json", *options)


def forget(tier: Path, *options: str) -> Ran:
    return tierfold("forget", tier, "orders-0", "--json", *options)


def moved_out(tier: Path, segment_id: str, kept: Path) -> list[Path]:
    """Move a segment's objects out of the tier; where they are now."""
    kept.mkdir(exist_ok=True)
    paths = list(folder_of(tier, ORDERS).glob(f"*-{segment_id}.*"))
    return [path.rename(kept / path.name) for path in paths]


def brought_back(tier: Path, kept: list[Path]) -> None:
    for path in kept:
        path.rename(folder_of(tier, ORDERS) / path.name)


def is_sound(tier: Path) -> None:
    assert tierfold("verify", tier, "--json").code == 0


# 1. Which of two segments is the log's.


def test_of_uploads_that_disagree_the_one_of_another_log_is_moved_out(
    tier: Path, tmp_path: Path
) -> None:
    upload(tier, 0, 10, (3, 0))
    adopted(tier)
    other = upload(tier, 8, 15, (3, 0), value=b"other")
    upload(tier, 11, 15, (3, 0))
    then = (CLOCK, str(THEN_MS + DAY_MS))
    reason = compacted(tier, *then).ends(3, "refused", other)["reason"]
    said = "find out which (`tierfold dump` shows their batches) and move it out of the tier."
    assert f"One of them is not an upload of this log: {said}" in reason
    (log,) = tier.rglob(f"*-{other}.log")
    assert '"value": "other8"' in tierfold("dump", log).stdout
    moved_out(tier, other, tmp_path / "kept")
    compacted(tier, *then).ends(0, "compacted")
    values = live_values(status_of(tier)["orders", 0])
    assert values == {b"k1": b"v13", b"k2": b"v14", b"k0": b"v15"}
    is_sound(tier)


def test_of_two_folders_of_one_topic_id_the_one_of_no_broker_is_moved_out(
    tier: Path, tmp_path: Path
) -> None:
    put_updates(tier, ORDERS, 0)
    original = folder_of(tier, ORDERS)
    copy = original.with_name(original.name.replace("orders", "orders-backup"))
    shutil.copytree(original, copy)
    said = "Move the folder that no broker wrote out of the tier."
    compacted(tier).ends(3, "refused", "orders-backup-0", said)
    copy.rename(tmp_path / copy.name)
    compacted(tier).ends_alone(0, "compacted")
    assert live_values(status_of(tier)["orders", 0]) == latest_updates(1)


def test_a_snapshot_that_lacks_an_open_transaction_is_compared_with_the_brokers(
    tier: Path,
) -> None:
    put_updates(tier, ORDERS, 0)
    batches = [data(11, (b"k", b"open"), producer_id=7)]
    log = put_segment(tier, ORDERS, batches, start_offset=11)
    reason = compacted(tier).ends(3, "failed", "producer 7 from offset 11 on")["reason"]
    assert "Compare the newest segment's .snapshot with the broker's" in reason
    brokers = segment_parts(batches, start_offset=11, producers=[an_open_producer(7, 11)])
    assert log.with_suffix(".snapshot").read_bytes() != brokers[Part.SNAPSHOT]
    log.with_suffix(".snapshot").write_bytes(brokers[Part.SNAPSHOT])
    compacted(tier).ends(0, "compacted")
    values = live_values(status_of(tier)["orders", 0])
    assert values == latest_updates(1) | {b"k": b"open"}
    is_sound(tier)


# 2. What may be lost, and what is the topic's policy.


def test_a_topic_that_needs_records_without_a_key_is_not_compacted(
    tier: Path, tmp_path: Path
) -> None:
    events = key_of("events")
    put_segment(tier, events, [data(0, (None, b"kept"), (b"k", b"v"))], start_offset=0)
    put_updates(tier, ORDERS, 0)
    most = ("--set", "compact.keyless.max=0")
    reason = compacted(tier, *most).partitions["events", 0]["reason"]
    said = "If they may be dropped, raise compact.keyless.max; if not, remove compact from the"
    assert f"{said} topic's cleanup.policy." in reason
    config = tmp_path / "mine.toml"
    config.write_text('[topics.events]\n"cleanup.policy" = "delete"\n', encoding="utf-8")
    before = files_below(folder_of(tier, events))
    ran = tierfold("compact", tier, *most, "--config", config, "--json")
    assert (ran.code, ran.outcomes["events", 0]) == (0, "nothing_to_do")
    assert files_below(folder_of(tier, events)) == before


def test_an_offset_beyond_the_log_is_replaced_by_one_of_those_that_are_named(tier: Path) -> None:
    filled(tier)
    reason = compacted(tier, "--first-dirty", "99").ends(3, "refused", "above the log's end")
    first, last = re.findall(r"from (\d+) to (\d+)\.", reason["reason"])[0]
    assert compacted(tier, "--first-dirty", last).code == 0
    compacted(tier, "--first-dirty", first).ends(0, "compacted")
    assert live_values(status_of(tier)["orders", 0]) == latest_updates(2)


def test_an_index_of_too_many_aborts_needs_smaller_segments(
    tier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = bytes(700_000)  # So that two segments are larger than the smallest segment.bytes.
    for number in range(3):
        at, producer_id = 3 * number, 7 + number
        batches = [
            data(at, (b"own %d" % number, large)),
            data(at + 1, (b"k", b"aborted"), producer_id=producer_id),
            marker(at + 2, producer_id, ControlType.ABORT),
        ]
        listed = [an_abort(producer_id, at + 1, at + 2)]
        put_segment(tier, ORDERS, batches, start_offset=at, aborted=listed)
    most = {**PART_BYTES_MAX, Part.TRANSACTION_INDEX: 40}
    monkeypatch.setattr(segment_writer, "PART_BYTES_MAX", most)
    said = "Set a smaller segment.bytes, so that fewer segments become one."
    compacted(tier).ends(3, "failed", "the .txnindex of the new segment would have 102", said)
    compacted(tier, "--set", "segment.bytes=1048576").ends(0, "compacted")
    assert set(live_values(status_of(tier)["orders", 0])) == {b"own 0", b"own 1", b"own 2"}
    is_sound(tier)


# 3. What is in the way of `forget`.


def test_orphans_in_the_way_of_forget_are_vacuumed(tmp_path: Path) -> None:
    tier, _, _, newest = histories(tmp_path / "tier")
    orphan = history_upload(tier, 0, 3)
    later = (CLOCK, str(row_of(tier).committed_at_ms + 10 * DAY_MS))
    reason = forget(tier, *later).ends(3, "refused", orphan.segment_id)["reason"]
    assert "it deletes orphans older than --orphan-age." in reason
    assert "Then run `tierfold forget` again." in reason
    for path in tier.rglob(f"*-{orphan.segment_id}.*"):
        path.touch()
    tierfold("vacuum", tier, "--json", *DETACHED, "--orphan-age", "0s", "--yes")
    assert not list(tier.rglob(f"*-{orphan.segment_id}.*"))
    forget(tier, *later).ends(0, "forgotten")
    compacted(tier, *later).ends(0, "compacted")
    assert newest.segment_id not in status_of(tier)["orders", 0]["out_of_lineage"]
    is_sound(tier)


def test_what_another_catalog_wrote_is_moved_out_for_forget(tmp_path: Path) -> None:
    tier, _, _, newest = histories(tmp_path / "tier")
    upload, theirs = history_upload(tier, 0, 3).segment_id, foreign_id()
    for path in tier.rglob(f"*-{upload}.*"):
        path.rename(path.with_name(path.name.replace(upload, theirs)))
    reason = forget(tier).ends(3, "refused", theirs)["reason"]
    assert "Move the segments of another catalog out of the tier while no run of it" in reason
    moved_out(tier, theirs, tmp_path / "kept")
    forget(tier).ends(0, "forgotten")
    compacted(tier).ends(0, "compacted")
    assert newest.segment_id not in status_of(tier)["orders", 0]["out_of_lineage"]
    is_sound(tier)


def test_what_a_dead_run_may_have_written_is_moved_out_for_forget(
    tmp_path: Path,
) -> None:
    tier = tmp_path / "tier"
    old_history(tier)
    known(tier)
    history_upload(tier, 8, 9, OLD_4_AT_8)
    history_upload(tier, 6, 7)
    dead = history_upload(tier, 7, 7, start_offset=6)
    reason = forget(tier).ends(3, "refused", dead.segment_id)["reason"]
    said = "While no run is at work, move them out of the tier, too. Then run `tierfold forget`"
    assert said in reason
    moved_out(tier, dead.segment_id, tmp_path / "kept")
    forget(tier).ends(0, "forgotten")
    compacted(tier).ends(0, "compacted")
    values = live_values(status_of(tier)["orders", 0])
    assert values == {b"k0": b"4/8", b"k1": b"4/9", b"k2": b"3/6", b"k3": b"3/7"}
    is_sound(tier)


def test_an_orphan_of_a_broker_is_brought_back_after_forget(tmp_path: Path) -> None:
    tier = tmp_path / "tier"
    old_history(tier)
    ours = merged(tier)
    later = (CLOCK, str(FIRST_MS + 10 * DAY_MS))
    assert tierfold("vacuum", tier, "--json", *DETACHED, *later).code == 0
    newest = history_upload(tier, 6, 9, NEW)
    brokers = history_upload(tier, 0, 5)
    reason = forget(tier, *later).ends(3, "refused", ours.segment_id, brokers.segment_id)["reason"]
    steps = (
        "Move the objects of these live segments out of the tier and keep them.",
        "move them out of the tier, too. Then run `tierfold forget` again.",
        "Before any other run, bring back those of the orphans that brokers uploaded.",
    )
    assert not told(reason, *steps), reason
    moved_out(tier, ours.segment_id, tmp_path / "ours")
    kept = moved_out(tier, brokers.segment_id, tmp_path / "orphan")
    forget(tier, *later).ends(0, "forgotten")
    brought_back(tier, kept)
    compacted(tier, *later).ends(0, "compacted")
    found = status_of(tier)["orders", 0]
    assert found["segments"][0]["start_offset"] == 0
    assert live_values(found) == {b"k0": b"4/8", b"k1": b"4/9", b"k2": b"4/6", b"k3": b"4/7"}
    assert newest.segment_id not in found["out_of_lineage"]
    is_sound(tier)


def test_objects_that_no_person_moved_for_forget_are_brought_back_first(tmp_path: Path) -> None:
    tier, _, second, _ = histories(tmp_path / "tier")
    log = part_of(tier, second, Part.LOG)
    log.rename(tmp_path / log.name)
    reason = compacted(tier).ends(3, "refused", second.segment_id, "tierfold forget")["reason"]
    said = "If you did not move the missing objects away for it, bring them back from a backup"
    assert f"{said} first." in reason
    (tmp_path / log.name).rename(log)
    assert second.segment_id not in compacted(tier).entry["reason"].partition("leader election")[2]
    forget(tier).ends(0, "forgotten")
    compacted(tier).ends(0, "compacted")
    is_sound(tier)


# 4. Which state is restored.


def restore(tier: Path, to: str, *options: str) -> Ran:
    return tierfold("restore", tier, "orders-0", "--to", to, "--json", *options)


@pytest.fixture
def restorable(tier: Path) -> tuple[Path, str]:
    """A compacted tier, and when its uploads were live."""
    filled(tier)
    assert compacted(tier).code == 0
    history = tierfold("history", tier, "orders-0", "--json").entries[0]["history"]
    return tier, str(history[-1]["committed_at"])


@pytest.mark.parametrize("has_backup", [False, True])
def test_objects_of_a_state_are_copied_back_or_another_state_is_chosen(
    restorable: tuple[Path, str], tmp_path: Path, has_backup: bool
) -> None:
    tier, found = restorable
    (retired, *_) = status_of(tier)["orders", 0]["retired"]
    (log,) = tier.rglob(f"*-{retired['id']}.log")
    log.rename(tmp_path / log.name)
    said = "copy them back from a backup, or choose another state. Nothing was changed."
    restore(tier, found).ends(3, "refused", log.stem[21:], f"missing or corrupt, {said}")
    if has_backup:
        (tmp_path / log.name).rename(log)
        restore(tier, found).ends(0, "restored")
    else:
        newest = tierfold("history", tier, "orders-0", "--json").entries[0]["history"][0]
        restore(tier, str(newest["committed_at"])).ends(0, "nothing_to_do")
    assert row_of(tier).next_offset == 22
    is_sound(tier)


@pytest.mark.parametrize("is_of_state", [False, True])
def test_a_later_state_is_chosen_where_an_upload_is_being_deleted(
    restorable: tuple[Path, str], is_of_state: bool
) -> None:
    tier, found = restorable
    after_first = str(row_of(tier).committed_at_ms)
    put_updates(tier, ORDERS, 2)
    compacted(tier).ends(0, "compacted")
    starts = {entry.segment.start_offset: entry.segment for entry in row_of(tier).whole_retired}
    deleted_id = starts[11 if is_of_state else 22].segment_id
    row = claimed(tier, at_ms=row_of(tier).committed_at_ms)
    start = StartDeletion(ids=(deleted_id,), at_ms=row.committed_at_ms)
    released(tier, row, start, at_ms=row.committed_at_ms)
    if is_of_state:
        said = "being deleted or forgotten", "Choose a later state; `tierfold history` shows which"
    else:
        said = "from offset 22 on no longer exist", "with this one, a deleted key could come back."
    restore(tier, found if is_of_state else after_first).ends(3, "refused", *said)
    lines = tierfold("history", tier, "orders-0", "--json").entries[0]["history"]
    later = next(line for line in lines if line["is_restorable"])
    assert restore(tier, str(later["committed_at_ms"])).code == 0
    assert live_values(status_of(tier)["orders", 0]) == latest_updates(3)
    is_sound(tier)


def test_without_space_for_copies_a_tier_that_no_broker_serves_needs_none(
    restorable: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tier, found = restorable
    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "free_bytes", lambda _: 0)
        said = "Free space, or choose a later state. Where no broker serves the tier, restore"
        restore(tier, found, "--copy").ends(3, "refused", f"{said} without --copy")
        restore(tier, found).ends(0, "restored")
    is_sound(tier)


def test_a_tier_without_space_for_a_chunk_needs_room(
    tier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tier)
    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "free_bytes", lambda _: 0)
        compacted(tier).ends(3, "failed", "0 bytes free. Make room there, then run again.")
    assert not (tier / CATALOG_FOLDER / "partitions").exists()
    compacted(tier).ends(0, "compacted")
    is_sound(tier)
    assert claimed(tier).next_offset == 22

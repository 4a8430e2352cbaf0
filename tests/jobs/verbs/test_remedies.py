"""Remedies of damaged segments, carried out as the message says: each leads out of the refusal.

Those for gaps and elections are in `test_real_logs.py` and `test_held_partitions.py`.
"""

from __future__ import annotations

import os
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path

import google_crc32c
import pytest

from tests.jobs.commands import ALWAYS, CLOCK, Ran, status_of, tierfold, told
from tests.jobs.elections import ORDERS, part_of, upload
from tests.jobs.scripted_runs import scripted
from tests.jobs.tiers import (
    KEYS,
    RECORDS_PER_SEGMENT,
    files_below,
    folder_of,
    key_of,
    latest_updates,
    live_values,
    made_tier,
    put_segment,
    put_updates,
)
from tests.spread import most_in_soak
from tests.storage.call_scripts import at
from tests.storage.live_segments import an_abort, data, log_of, marker
from tests.storage.scripted_store import CORRUPTIONS, rots
from tierfold.compaction.model.segments import LeaderEpoch
from tierfold.storage.kafka.control_records import ControlType
from tierfold.storage.segments import segment_writer
from tierfold.storage.segments.segment_reader import read_segment
from tierfold.storage.tiers.remote_tier import PART_BYTES_MAX, Part

KEY = key_of("orders")
SEGMENTS = 2
ABORTED_AT = SEGMENTS * RECORDS_PER_SEGMENT
"""Where the last segment begins, which only has an aborted transaction."""
BASE_OFFSET, FIRST_BATCH_LENGTH = struct.Struct(">q"), slice(8, 12)


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    """One partition, and a copy of its objects beside the tier."""
    tier = made_tier(tmp_path / "tier")
    for number in range(SEGMENTS):
        put_updates(tier, KEY, number)
    aborted = [(name, b"aborted") for name in KEYS]
    end = ABORTED_AT + len(KEYS)
    batches = [
        data(ABORTED_AT, *aborted[:2], producer_id=7),
        data(ABORTED_AT + 2, *aborted[2:], producer_id=7),
        marker(end, 7, ControlType.ABORT),
    ]
    listed = [an_abort(7, ABORTED_AT, end)]
    put_segment(tier, KEY, batches, start_offset=ABORTED_AT, aborted=listed)
    shutil.copytree(tier, tmp_path / "backup")
    return tier


def disorder(log: Path) -> str:
    """Lower the base offset of the second batch, which no checksum covers."""
    content = bytearray(log.read_bytes())
    second = 12 + int.from_bytes(content[FIRST_BATCH_LENGTH])
    (offset,) = BASE_OFFSET.unpack_from(content, second)
    BASE_OFFSET.pack_into(content, second, offset - 1)
    log.write_bytes(content)
    return f"the batch at byte {second} is out of order: offset"


def renew(log: Path) -> str:
    """Give the snapshot a version that Kafka does not have yet."""
    path = log.with_suffix(".snapshot")
    path.write_bytes(struct.pack(">h", 2) + path.read_bytes()[2:])
    return ".snapshot: the producer snapshot has version 2, and tierfold knows only 1"


def cut_batch(log: Path) -> str:
    """Cut the log before its last batch, to which the offset index points."""
    log.write_bytes(log.read_bytes()[: int(read_segment(log).heads.position[-2])])
    return "the log was cut off, or the index is another segment's"


def forget_epochs(log: Path) -> str:
    """Cut the checkpoint after its count."""
    path = log.with_suffix(".leader_epoch_checkpoint")
    path.write_bytes(b"\n".join(path.read_bytes().split(b"\n")[:2]) + b"\n")
    return "the leader epoch checkpoint is damaged: it announces 1 entries and holds 0"


def outgrow(log: Path) -> str:
    """Enlarge the snapshot to what no broker writes."""
    path = log.with_suffix(f".{Part.SNAPSHOT}")
    os.truncate(path, PART_BYTES_MAX[Part.SNAPSHOT] + 1)
    return f"the .snapshot has more than {PART_BYTES_MAX[Part.SNAPSHOT]} bytes"


def tear_aborts(log: Path) -> str:
    """Cut the transaction index within its only entry."""
    os.truncate(log.with_suffix(".txnindex"), 33)
    return "a transaction index of 33 bytes is torn"


def date_aborts(log: Path) -> str:
    """Give the entry of the transaction index a version that Kafka does not have yet."""
    path = log.with_suffix(".txnindex")
    path.write_bytes(b"\0\1" + path.read_bytes()[2:])
    return "entry 0 of the transaction index has version 1"


def pack_unknown(log: Path) -> str:
    """Give the first batch a codec that Kafka does not have yet, and the checksum of that."""
    content = bytearray(log.read_bytes())
    end = 12 + int.from_bytes(content[FIRST_BATCH_LENGTH])
    content[22] |= 5
    content[17:21] = struct.pack(">I", google_crc32c.value(bytes(content[21:end])))
    log.write_bytes(content)
    return "the batch at byte 0 has the unknown compression codec 5"


def cut(log: Path) -> str:
    """Cut the log within its last batch."""
    os.truncate(log, log.stat().st_size - 1)
    return "torn"


def empty(log: Path) -> str:
    """Cut the log to nothing, beside indexes of what it held."""
    os.truncate(log, 0)
    return "the log has 0 bytes, but its indexes have entries"


def flip(log: Path) -> str:
    """Change a byte that a checksum covers."""
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    return "has a bad CRC"


def renumber(log: Path) -> str:
    """Give the first batch a magic that Kafka does not have yet."""
    content = bytearray(log.read_bytes())
    content[16] = 3
    log.write_bytes(content)
    return "magic 3"


def compacted(tier: Path, *options: str) -> Ran:
    return tierfold("compact", tier, *ALWAYS, "--json", *options)


def last_log(folder: Path) -> Path:
    return max(folder_of(folder, KEY).glob("*.log"))


def differing(tier: Path, backup: Path) -> list[tuple[Path, Path]]:
    """The last segment's objects that are not as in the copy, and those of the copy."""
    log = last_log(tier)
    theirs = folder_of(backup, KEY)
    return [
        (ours, theirs / ours.name)
        for ours in log.parent.glob(f"{log.stem}.*")
        if ours.read_bytes() != (theirs / ours.name).read_bytes()
    ]


def restored(tier: Path, backup: Path) -> None:
    """Compare the segment's objects with the copy, and take those that differ."""
    ((ours, theirs),) = differing(tier, backup)
    shutil.copyfile(theirs, ours)


DAMAGES = [
    pytest.param(cut, "If a backup of the segment has other bytes", id="cut"),
    pytest.param(cut_batch, "If a backup of the segment has other bytes", id="batch"),
    pytest.param(empty, "If a backup of the segment has other bytes", id="empty"),
    pytest.param(flip, "If a backup of the segment has other bytes", id="flip"),
    pytest.param(
        disorder, "Compare the segment with a backup, and take that if it differs.", id="order"
    ),
    pytest.param(
        forget_epochs, "If a backup of it has other bytes", id="checkpoint"
    ),
    pytest.param(tear_aborts, "If a backup of the index has other bytes", id="aborts"),
    pytest.param(outgrow, "If a backup of it has other bytes", id="size"),
    pytest.param(renew, "Otherwise the snapshot is damaged: restore it from a copy.", id="version"),
    pytest.param(
        pack_unknown,
        "Otherwise compare the segment with a backup, and take that if it differs.",
        id="codec",
    ),
]
"""What is done to a segment, and what its message says of a backup."""


@pytest.mark.parametrize(("damage", "remedy"), DAMAGES)
def test_what_a_backup_mends(
    damage: Callable[[Path], str], remedy: str, tier: Path, tmp_path: Path
) -> None:
    said = damage(last_log(tier))
    before = files_below(folder_of(tier, KEY))
    refused = compacted(tier)
    reason = refused.entry["reason"]
    assert refused.code == 3
    assert not told(reason, str(last_log(tier).parent), said, remedy), reason
    assert reason.count("Nothing of this partition was changed.") <= 1
    assert files_below(folder_of(tier, KEY)) == before
    restored(tier, tmp_path / "backup")
    compacted(tier).ends(0, "compacted")
    assert live_values(status_of(tier)["orders", 0]) == latest_updates(SEGMENTS)
    assert tierfold("verify", tier, "--json").code == 0


AT_BROKERS = [disorder, cut, cut_batch, empty, flip, tear_aborts, date_aborts, forget_epochs]
UNKNOWN = [renew, pack_unknown, renumber]


@pytest.mark.parametrize("damage", most_in_soak([*AT_BROKERS, outgrow, *UNKNOWN], 5))
def test_what_no_backup_has_otherwise_is_left_out(
    damage: Callable[[Path], str], tier: Path, tmp_path: Path
) -> None:
    """A broker wrote it so, or damaged it before the copy, or a newer Kafka wrote it."""
    for folder in (tier, tmp_path / "backup"):
        damage(last_log(folder))
        put_updates(folder, key_of("payments"), 0)
    refused = compacted(tier)
    assert (refused.code, refused.outcomes["payments", 0]) == (3, "compacted")
    reason = refused.entry["reason"]
    assert "leave the topic out (name the others with --topic)" in reason
    assert differing(tier, tmp_path / "backup") == []
    put_updates(tier, key_of("payments"), 1)
    before = files_below(folder_of(tier, KEY))
    others = ("--topic", "payments")
    assert compacted(tier, *others).outcomes == {("payments", 0): "compacted"}
    found = status_of(tier, *others)["payments", 0]
    assert live_values(found) == latest_updates(2)
    for verb in ("verify", "plan", "vacuum"):
        assert tierfold(verb, tier, *others, "--json").code == 0
    assert files_below(folder_of(tier, KEY)) == before


# Other programs, and uploads that never end.


def test_after_another_program_changed_an_object_the_next_run_says_what_to_do(
    tier: Path, tmp_path: Path
) -> None:
    log = last_log(tier)

    def other_program() -> None:
        end = int(read_segment(log).heads.position[-1])
        (tmp_path / "new").write_bytes(log.read_bytes()[:end])
        (tmp_path / "new").replace(log)

    def is_scanned(key: str, _start: int, length: int) -> bool:
        return key.endswith(log.name) and length < 2**16  # The survey asks for a window.

    with scripted(at("read_range", other_program, is_done=True).where(is_scanned)):
        failed = compacted(tier)
    said = "Nothing was committed. Check whether another program changes the tier's objects, then"
    failed.ends(3, "failed", "changed while the log was read", f"{said} run again.")
    assert status_of(tier)["orders", 0]["retired"] == []
    # No program changes anything now, but this object stays as it is.
    compacted(tier).ends(3, "refused", log.stem[21:], "Bring the objects back from a backup")
    restored(tier, tmp_path / "backup")
    compacted(tier).ends(0, "compacted")
    assert live_values(status_of(tier)["orders", 0]) == latest_updates(SEGMENTS)
    assert tierfold("verify", tier, "--json").code == 0


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_after_a_new_object_was_changed_a_run_is_enough(tier: Path, corruption: str) -> None:
    with scripted(rots(tier, "log", CORRUPTIONS[corruption])):
        failed = compacted(tier)
    said = "Nothing was committed. Check the disk or store, and whether another program changes the"
    if corruption == "gone":
        said = "List the tier again; if a segment still names it, restore it from a copy."
        (gone,) = failed.entry["reason"].split(".log: ")[:1]
        assert gone not in tierfold("status", tier, "--json", "--segments").stdout
    failed.ends(3, "failed", said)
    compacted(tier).ends(0, "compacted")
    assert live_values(status_of(tier)["orders", 0]) == latest_updates(SEGMENTS)
    assert tierfold("verify", tier, "--json").code == 0


def test_an_upload_whose_log_is_not_its_own_is_restored_or_moved_out(
    tier: Path, tmp_path: Path
) -> None:
    compacted(tier).ends(0, "compacted")
    end = status_of(tier)["orders", 0]["segments"][-1]["end_offset"]
    log = put_segment(tier, KEY, [data(end + 1, (KEYS[0], b"new"))], start_offset=end + 1)
    (whole := tmp_path / "whole").mkdir()
    objects = sorted(log.parent.glob(f"{log.stem}.*"))
    for path in objects:
        shutil.copy(path, whole)
    # Another log, and no checkpoint that would say whose it is.
    log.write_bytes(log_of([data(end, (KEYS[0], b"other"))]))
    log.with_suffix(f".{Part.LEADER_EPOCH_CHECKPOINT}").unlink()
    later = (CLOCK, str(int((time.time() + 30 * 3600) * 1000)))
    refused = compacted(tier, *later).ends(3, "refused", "below the segment's start")
    said = "`tierfold dump` shows its batches. Restore its objects from a copy, or move them out of"
    assert f"{said} the tier and keep them." in refused["reason"]
    assert f'"baseOffset": {end}' in tierfold("dump", log).stdout
    (kept := tmp_path / "kept").mkdir()
    for path in list(log.parent.glob(f"{log.stem}.*")):
        path.rename(kept / path.name)
    compacted(tier, *later).ends(0, "nothing_to_do")
    for path in objects:
        shutil.copy(whole / path.name, path)
    compacted(tier, *later).ends(0, "compacted")
    assert live_values(status_of(tier)["orders", 0])[KEYS[0]] == b"new"


def test_a_segment_that_continues_no_log_is_moved_out_and_kept(tmp_path: Path) -> None:
    tier = made_tier(tmp_path / "tier")
    stray = upload(tier, 0, 9, (LeaderEpoch(epoch=5, start_offset=0),))
    lineage = tuple(LeaderEpoch(epoch=epoch, start_offset=at) for epoch, at in ((3, 10), (6, 12)))
    upload(tier, 10, 19, lineage)
    reason = compacted(tier).ends_alone(
        3, "refused", stray.segment_id, "move the segments that do not continue it out of the tier"
    )["reason"]
    assert "compare their .leader_epoch_checkpoint with the broker's" in reason
    # What the broker has; the stray's epoch 5 at offset 0 is not among them.
    newest = folder_of(tier, ORDERS).glob(f"{10:020}*.leader_epoch_checkpoint")
    brokers = next(newest).read_text().splitlines()
    entries = part_of(tier, stray, Part.LEADER_EPOCH_CHECKPOINT).read_text().splitlines()[2:]
    assert not set(entries) <= set(brokers)
    (kept := tmp_path / "kept").mkdir()
    for path in list(folder_of(tier, ORDERS).glob(f"*-{stray.segment_id}.*")):
        path.rename(kept / path.name)
    compacted(tier).ends_alone(0, "compacted")
    values = live_values(status_of(tier)["orders", 0])
    assert set(values) == {f"k{i}".encode() for i in range(4)}
    assert tierfold("verify", tier, "--json").code == 0


@pytest.mark.parametrize(("part", "size_bytes"), [(Part.OFFSET_INDEX, 24), (Part.TIME_INDEX, 36)])
def test_an_index_that_would_be_too_large_needs_a_larger_interval(
    tier: Path, part: Part, size_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_writer, "PART_BYTES_MAX", {**PART_BYTES_MAX, part: 23})
    before = files_below(folder_of(tier, KEY))
    failed = compacted(tier, "--set", "index.interval.bytes=0")
    said = f"the .{part} of the new segment would have {size_bytes} bytes, and no more than"
    failed.ends(3, "failed", said, "index.interval.bytes is 0 here. Leave it at its default,")
    assert files_below(folder_of(tier, KEY)) == before
    compacted(tier, "--set", "index.interval.bytes=1024").ends(0, "compacted")
    assert live_values(status_of(tier)["orders", 0]) == latest_updates(SEGMENTS)

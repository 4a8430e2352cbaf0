"""Remedies of damaged segments, carried out as the message says: each leads out of the refusal.

Those for gaps and elections are in `test_real_logs.py` and `test_held_partitions.py`.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import google_crc32c
import pytest

from tests.jobs.commands import ALWAYS, Ran, status_of, tierfold, told
from tests.jobs.elections import ORDERS, part_of, upload
from tests.jobs.tiers import (
    files_below,
    folder_of,
    key_of,
    latest_updates,
    live_values,
    made_tier,
    put_updates,
)
from tierfold.compaction.model.segments import LeaderEpoch
from tierfold.storage.tiers.remote_tier import PART_BYTES_MAX, Part

KEY = key_of("orders")
SEGMENTS = 2
BASE_OFFSET, FIRST_BATCH_LENGTH = struct.Struct(">q"), slice(8, 12)


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    """One partition, and a copy of its objects beside the tier."""
    tier = made_tier(tmp_path / "tier")
    for number in range(SEGMENTS):
        put_updates(tier, KEY, number)
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


def forget_epochs(log: Path) -> str:
    """Cut the checkpoint after its count."""
    path = log.with_suffix(".leader_epoch_checkpoint")
    path.write_bytes(b"\n".join(path.read_bytes().split(b"\n")[:2]) + b"\n")
    return "the leader epoch checkpoint is damaged: it announces 1 entries and holds 0"


def outgrow(log: Path) -> str:
    """Enlarge the time index to what no broker writes."""
    path = log.with_suffix(f".{Part.TIME_INDEX}")
    os.truncate(path, PART_BYTES_MAX[Part.TIME_INDEX] + 1)
    return f"the .timeindex has more than {PART_BYTES_MAX[Part.TIME_INDEX]} bytes"


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
    pytest.param(cut, "Take the segment from a backup if that differs", id="cut"),
    pytest.param(empty, "Restore", id="empty"),
    pytest.param(flip, "Take the segment from a backup if that differs", id="flip"),
    pytest.param(
        disorder, "Compare the segment with a backup, and take that if it differs.", id="order"
    ),
    pytest.param(
        forget_epochs, "Restore the checkpoint from a copy of the tier.", id="checkpoint"
    ),
    pytest.param(outgrow, "restore it from a copy, or report the topic's settings", id="size"),
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
    assert files_below(folder_of(tier, KEY)) == before
    restored(tier, tmp_path / "backup")
    compacted(tier).ends(0, "compacted")
    assert live_values(status_of(tier)["orders", 0]) == latest_updates(SEGMENTS)
    assert tierfold("verify", tier, "--json").code == 0


@pytest.mark.parametrize("damage", [disorder, renew, pack_unknown, renumber])
def test_what_no_backup_has_otherwise_is_left_out(
    damage: Callable[[Path], str], tier: Path, tmp_path: Path
) -> None:
    """A broker wrote the offsets twice, or a newer Kafka what tierfold does not know."""
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

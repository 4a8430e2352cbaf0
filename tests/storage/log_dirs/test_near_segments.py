"""Which file of a log directory is read in place of a segment that a broker uploaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.compaction.builders import a_segment
from tests.jobs.log_dirs import WrittenLogDir
from tests.jobs.tiers import flip_last_byte, key_of, made_tier, put_segment
from tests.storage.live_segments import EPOCHS, data
from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.segments import LeaderEpoch, Segment
from tierfold.storage.kafka.checksums import object_crc32c
from tierfold.storage.log_dirs.near_segments import NearSegments, near_segments
from tierfold.storage.log_dirs.offset_checkpoints import CLEANER_OFFSETS
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage
from tierfold.storage.tiers.near_reads import NearReadCounter, NearReads
from tierfold.storage.tiers.object_store import StoredChecksum
from tierfold.storage.tiers.remote_tier import NearLog
from tierfold.storage.tiers.tier_uris import open_tier

ORDERS: Final = key_of("orders")
LENGTH: Final = 10_000
"""More than a log has."""


@dataclass(frozen=True)
class Known:
    """A segment of the offsets 10 to 19 in a tier, and in the log directory of its broker."""

    tier: LocalTieredStorage
    logs: WrittenLogDir
    segment: Segment
    near: NearSegments

    @property
    def log(self) -> Path:
        return self.logs.file(ORDERS, 10, "log")

    def found(self, **fields: Any) -> NearLog | None:
        """The file of the segment, described with these fields."""
        return self.near.log_of(self.tier, ORDERS, replace(self.segment, **fields))


@pytest.fixture
def known(tmp_path: Path) -> Known:
    made = made_tier(tmp_path / "tier")
    batches = [data(10, *[(b"k", b"v")] * 5), data(15, *[(b"k", b"v")] * 5)]
    log = put_segment(made, ORDERS, batches, start_offset=10)
    tier = open_tier(str(made))
    logs = WrittenLogDir(tmp_path / "data").hold(ORDERS, tier)
    segment = a_segment(10, 19, size_bytes=log.stat().st_size, leader_epochs=EPOCHS)
    segment = replace(segment, segment_id=log.stem[21:])
    near = near_segments([str(tmp_path / "none"), str(logs.path)], NearReadCounter())
    return Known(tier=tier, logs=logs, segment=segment, near=near)  # type: ignore[arg-type]


def test_it_is_read_and_counted(known: Known) -> None:
    near, content = known.found(), known.log.read_bytes()
    assert near is not None
    assert near.where == str(known.log)
    assert near.read(0, LENGTH).tobytes() == content
    assert near.read(7, 20).tobytes() == content[7:27]
    assert known.near.counter.sum == NearReads(reads=2, read_bytes=len(content) + 20)
    assert known.near.is_named_by(CorruptLog("it", where=near.where, remedy=""))
    assert not known.near.is_named_by(CorruptLog("it", where=f"{known.logs.path}-1", remedy=""))


def test_it_is_proven_once(known: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    assert known.found() is not None
    monkeypatch.setattr(os, "pread", lambda *_: b"")
    assert known.found() is not None
    os.utime(known.log)
    assert known.found() is None


def test_what_goes_after_it_was_proven_is_read_from_the_tier(known: Known) -> None:
    near, content = known.found(), known.log.read_bytes()
    assert near is not None
    known.log.rename(known.log.with_suffix(".deleted"))
    assert near.read(0, LENGTH).tobytes() == content
    os.truncate(known.log.with_suffix(".deleted"), 10)
    assert near.read(0, LENGTH).tobytes() == content
    assert near.read(5, 10).tobytes() == content[5:15]
    assert known.near.counter.sum.reads == 1


def test_what_a_broker_writes_over_it_after_it_was_proven_is_not_read(known: Known) -> None:
    """As after an unclean election: it truncates the log, and appends other sound batches."""
    near, content = known.found(), known.log.read_bytes()
    assert near is not None
    with known.log.open("r+b") as file:
        file.truncate(0)
        file.write(bytes(len(content) + 1))
    assert near.read(0, LENGTH).tobytes() == content
    assert known.near.counter.sum == NearReads()


def test_each_of_two_directories_is_proven_once(
    known: Known, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them has a file that is not the segment's."""
    other = Path(shutil.copytree(known.logs.path, tmp_path / "other"))
    flip_last_byte(other / known.log.relative_to(known.logs.path))
    near = near_segments([str(other), str(known.logs.path)], known.near.counter)
    assert near.log_of(known.tier, ORDERS, known.segment) is not None
    monkeypatch.setattr(os, "pread", lambda *_: b"")
    assert near.log_of(known.tier, ORDERS, known.segment) is not None


def cut_short(known: Known) -> None:
    known.log.write_bytes(known.log.read_bytes()[:-10])


def of_another_topic(known: Known) -> None:
    other = key_of("orders", incarnation=1).topic_id
    (known.log.parent / "partition.metadata").write_text(f"version: 0\ntopic_id: {other}")


def of_another_leader(known: Known) -> None:
    content = bytearray(known.log.read_bytes())
    content[15] += 1  # No checksum covers it.
    known.log.write_bytes(content)


def beginning_below(known: Known) -> None:
    content = bytearray(known.log.read_bytes())
    content[7] -= 1  # The first offset, which no checksum covers either.
    known.log.write_bytes(content)


def with_another(suffix: str) -> Callable[[Known], None]:
    return lambda known: flip_last_byte(known.log.with_suffix(suffix))


def being_replaced(known: Known) -> None:
    known.log.with_suffix(".log.swap").write_bytes(b"")


def rolled_elsewhere(known: Known) -> None:
    known.logs.file(ORDERS, 15, "log").write_bytes(b"")


def cleaned(known: Known) -> None:
    known.logs.note(CLEANER_OFFSETS, {ORDERS: 11})


def test_a_cleaner_that_ended_below_it_left_it_alone(known: Known) -> None:
    known.logs.note(CLEANER_OFFSETS, {ORDERS: 10})
    assert known.found() is not None


def ending_above(known: Known) -> None:
    content = bytearray(known.log.read_bytes())
    content[len(content) // 2 + 7] += 1  # The first offset of the second of two equal batches.
    known.log.write_bytes(content)


def out_of_order(known: Known) -> None:
    content = known.log.read_bytes()
    half = len(content) // 2
    known.log.write_bytes(content[half:] + content[:half])


@pytest.mark.parametrize(
    "change",
    [
        lambda known: flip_last_byte(known.log),
        *(cut_short, of_another_topic, of_another_leader, beginning_below, ending_above),
        out_of_order,
        *(being_replaced, rolled_elsewhere, cleaned),
        *(with_another(".index"), with_another(".timeindex")),
        lambda known: (known.logs.path / CLEANER_OFFSETS).unlink(),
        lambda known: known.log.unlink(),
    ],
)
def test_another_file_is_not_taken(known: Known, change: Callable[[Known], None]) -> None:
    change(known)
    assert known.found() is None


@pytest.mark.parametrize(
    "fields",
    [
        {"origin": Compacted(run="r")},
        {"end_offset": 18},
        {"end_offset": 20},
        {"size_bytes": 1},
        {"leader_epochs": (*EPOCHS, LeaderEpoch(epoch=4, start_offset=15))},
        {"segment_id": "AAAAAAAAAAAAAAAAAAAAAA"},
    ],
)
def test_another_segment_is_not_taken_for_it(known: Known, fields: dict[str, Any]) -> None:
    assert known.found(**fields) is None


def test_below_the_effective_start_the_catalog_has_no_epochs(known: Known) -> None:
    half = known.segment.size_bytes // 2
    effective = {"start_offset": 15, "skipped_offsets": 5}
    effective |= {"size_bytes": half, "skipped_bytes": half}
    assert known.found(**effective, leader_epochs=(LeaderEpoch(epoch=3, start_offset=15),))


@pytest.mark.parametrize("is_right", [True, False])
def test_a_checksum_of_the_store_decides(known: Known, *, is_right: bool) -> None:
    cleaned(known)
    content = known.log.read_bytes()

    class Stating(LocalTieredStorage):
        """A tier in a store that has checksums."""

        def stored_checksum(self, *_: object) -> StoredChecksum:
            crc32c = object_crc32c(content) ^ (not is_right)
            return StoredChecksum(size_bytes=len(content), crc32c=crc32c)

    tier = Stating(known.tier.store)
    assert (known.near.log_of(tier, ORDERS, known.segment) is not None) is is_right

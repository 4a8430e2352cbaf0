"""An upload that no row names is inspected by its bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.storage.legacy_messages import message, wrapper
from tests.storage.live_segments import (
    INTERVAL_BYTES,
    KEY,
    a_tier,
    data,
    flip_bit,
    log_of,
    part_file,
)
from tests.storage.scripted_store import ScriptedStore
from tierfold.compaction.discovery.candidates import NO_EPOCH, Candidate, EndFrom, EpochStretch
from tierfold.compaction.model.segments import LeaderEpoch, Segment
from tierfold.storage.kafka.batch_draft import BatchDraft
from tierfold.storage.kafka.compression import PLAIN_BYTES_TRUSTED
from tierfold.storage.segments.broker_upload import BrokerUpload
from tierfold.storage.segments.segment_inspection import batches_fit, inspected
from tierfold.storage.tiers.local_tiered_storage import REQUIRED_PARTS, LocalTieredStorage
from tierfold.storage.tiers.remote_tier import Part

LINEAGE = (LeaderEpoch(epoch=3, start_offset=0), LeaderEpoch(epoch=4, start_offset=11))
CHECKPOINT = Part.LEADER_EPOCH_CHECKPOINT


def of(base: int, epoch: int) -> BatchDraft:
    """A batch of two records."""
    return replace(data(base, (b"k", b"v"), (b"l", b"w")), leader_epoch=epoch)


BATCHES = (of(8, 3), replace(of(10, 3), records=of(10, 3).records[:1]), of(11, 4), of(13, 4))


def put(tier: LocalTieredStorage, *batches: BatchDraft | bytes, start: int = 8) -> Segment:
    upload = BrokerUpload(
        start_offset=start,
        log=log_of(batches or BATCHES),
        index_interval_bytes=INTERVAL_BYTES,
        lineage=LINEAGE,
    )
    return upload.put(tier, KEY)


def found(tier: LocalTieredStorage) -> Candidate:
    (listed,) = tier.listing(KEY)
    return inspected(tier, KEY, listed)


def without(tier: LocalTieredStorage, segment: Segment, *parts: str) -> None:
    for part in parts:
        part_file(tier, segment, Part(part)).unlink()


def test_a_complete_segment_is_read_at_its_ends(tier: LocalTieredStorage) -> None:
    segment = put(tier)
    upload = found(tier)
    assert (upload.segment, upload.end_offset, upload.corruption) == (segment, 14, "")
    assert (upload.checkpoint, upload.stretches) == (LINEAGE, ())
    assert (upload.is_readable, upload.end_from) == (True, EndFrom.LAST_BATCH)


def test_only_part_of_a_complete_segments_log_is_read(tmp_path: Path) -> None:
    many = [of(base, 3) for base in range(0, 4000, 2)]
    segment = put(a_tier(tmp_path), *many, start=0)
    store = ScriptedStore(tmp_path)
    assert found(LocalTieredStorage(store)).end_offset == 3999
    assert store.of_part(Part.LOG) < segment.size_bytes


def test_each_side_file_of_a_complete_segment_is_read_at_most_once(tmp_path: Path) -> None:
    put(a_tier(tmp_path))
    store = ScriptedStore(tmp_path)
    tier = LocalTieredStorage(store)
    (listed,) = tier.listing(KEY)
    assert inspected(tier, KEY, listed).is_readable
    read = {part: store.of_part(part) for part, _ in listed.parts if part != Part.LOG}
    assert read == {part: size for part, size in listed.parts if part != Part.LOG} | {"snapshot": 0}


@pytest.mark.parametrize("part", sorted({*REQUIRED_PARTS} - {"log", CHECKPOINT.value}))
def test_an_incomplete_segment_is_read_whole_and_has_its_checkpoint(
    tier: LocalTieredStorage, part: str
) -> None:
    without(tier, put(tier), part)
    upload = found(tier)
    assert (upload.segment, upload.end_offset, upload.corruption) == (None, 14, "")
    assert (upload.checkpoint, upload.stretches) == (LINEAGE, ())


def test_a_wrapper_of_an_incomplete_segment_may_take_what_is_said(
    tier: LocalTieredStorage,
) -> None:
    large = wrapper(8, message(0, b"v" * PLAIN_BYTES_TRUSTED))
    without(tier, put(tier, large), "timeindex", CHECKPOINT)
    assert "set decompressed.batch.max.bytes to the most" in found(tier).remedy
    (listed,) = tier.listing(KEY)
    most = PLAIN_BYTES_TRUSTED + 2**10
    allowed = inspected(tier, KEY, listed, most)
    assert (allowed.corruption, allowed.end_offset) == ("", 8)
    assert batches_fit(tier, KEY, listed, LINEAGE, most)


def test_without_a_checkpoint_its_epochs_come_from_the_batches(tier: LocalTieredStorage) -> None:
    without(tier, put(tier), CHECKPOINT)
    upload = found(tier)
    assert (upload.end_offset, upload.checkpoint) == (14, ())
    assert upload.stretches == (
        EpochStretch(epoch=3, first_offset=8, last_offset=10),
        EpochStretch(epoch=4, first_offset=11, last_offset=13),
    )


def test_batches_without_an_epoch_are_a_stretch_of_their_own(tier: LocalTieredStorage) -> None:
    batches = (of(8, NO_EPOCH), of(10, NO_EPOCH), of(12, 0))
    without(tier, put(tier, *batches), CHECKPOINT)
    assert [(stretch.epoch, stretch.first_offset) for stretch in found(tier).stretches] == [
        (NO_EPOCH, 8),
        (0, 12),
    ]


def test_legacy_batches_have_no_epoch_and_wrappers_begin_at_their_first_message(
    tier: LocalTieredStorage
) -> None:
    inner = b"".join(message(i, b"v") for i in range(4))
    without(tier, put(tier, message(8, b"v"), wrapper(12, inner)), CHECKPOINT)
    upload = found(tier)
    assert (upload.end_offset, upload.corruption) == (12, "")
    assert upload.stretches == (EpochStretch(epoch=NO_EPOCH, first_offset=8, last_offset=9),)


def test_with_an_empty_checkpoint_the_epochs_come_from_the_batches(
    tier: LocalTieredStorage
) -> None:
    segment = put(tier)
    without(tier, segment, "index")
    part_file(tier, segment, CHECKPOINT).write_bytes(b"0\n0\n")
    assert [stretch.epoch for stretch in found(tier).stretches] == [3, 4]


def test_a_segment_without_a_log_is_not_read(tmp_path: Path) -> None:
    tier = a_tier(tmp_path)
    without(tier, put(tier), "log")
    store = ScriptedStore(tmp_path)
    upload = found(LocalTieredStorage(store))
    assert (upload.end_offset, upload.corruption, upload.checkpoint) == (None, "", ())
    assert not upload.is_readable
    assert sum(store.of_part(part) for part in Part) == 0


def corrupt_log(path: Path, corrupt: str) -> None:
    content = path.read_bytes()
    if corrupt == "torn":
        path.write_bytes(content[:-5])
    elif corrupt == "empty":
        path.write_bytes(b"")
    else:
        flip_bit(path)


@pytest.mark.parametrize(
    ("corrupt", "reason"), [("torn", "torn"), ("empty", "empty"), ("bit", "bad crc")]
)
def test_a_log_that_cannot_be_read_to_its_end_is_a_corruption(
    tier: LocalTieredStorage, corrupt: str, reason: str
) -> None:
    segment = put(tier)
    without(tier, segment, CHECKPOINT)
    path = part_file(tier, segment, Part.LOG)
    corrupt_log(path, corrupt)
    upload = found(tier)
    assert upload.corruption.startswith(str(path))
    assert reason in upload.corruption.lower()
    assert (upload.end_offset, upload.segment, upload.is_readable) == (None, None, False)


@pytest.mark.parametrize("corrupt", ["torn", "empty"])
def test_a_complete_segment_with_a_bad_log_is_a_corruption(
    tier: LocalTieredStorage, corrupt: str
) -> None:
    segment = put(tier)
    corrupt_log(part_file(tier, segment, Part.LOG), corrupt)
    upload = found(tier)
    assert upload.corruption
    assert not upload.is_readable


def test_batches_below_the_segments_start_are_a_corruption(tier: LocalTieredStorage) -> None:
    without(tier, put(tier, *BATCHES, start=9), CHECKPOINT)
    assert "begins at offset 8, below the segment's start 9" in found(tier).corruption
    assert not found(tier).is_readable


def test_a_bad_checkpoint_is_a_corruption(tier: LocalTieredStorage) -> None:
    segment = put(tier)
    without(tier, segment, "index")
    path = part_file(tier, segment, CHECKPOINT)
    path.write_bytes(b"what?")
    assert found(tier).corruption.startswith(str(path))


@pytest.mark.parametrize("parts", [(), (CHECKPOINT,)])
def test_the_last_recognisable_batch_of_a_torn_log_is_known(
    tier: LocalTieredStorage, parts: tuple[str, ...]
) -> None:
    segment = put(tier, *BATCHES)
    log = part_file(tier, segment, Part.LOG)
    log.write_bytes(log.read_bytes()[:-1])
    without(tier, segment, *parts)
    torn = found(tier)
    assert (torn.end_offset, torn.seen_offset) == (None, 12)


@pytest.mark.parametrize("base", [2**40, 3])
def test_an_offset_that_cannot_be_true_is_not_returned(tier: LocalTieredStorage, base: int) -> None:
    segment = put(tier, *BATCHES)
    log = part_file(tier, segment, Part.LOG)
    whole = log.read_bytes()
    second = len(log_of(BATCHES[:1]))
    log.write_bytes(whole[:second] + base.to_bytes(8) + whole[second + 8 : -1])
    assert found(tier).seen_offset == 9

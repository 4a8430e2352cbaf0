"""The segment check accepts sound segments and reports each corruption of log and indexes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.storage.kafka_dumps import log_bytes
from tests.storage.live_segments import (
    a_check_order,
    an_abort,
    data,
    flip_bit,
    marker,
    part_file,
    put_segment,
)
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.errors import CorruptLog, UnreadableObject
from tierfold.compaction.model.origins import UPLOADED, Compacted
from tierfold.compaction.model.segments import LeaderEpoch, Segment
from tierfold.compaction.verification.latest_values import LatestValues
from tierfold.storage.kafka.batch_draft import BatchDraft
from tierfold.storage.kafka.control_records import ControlType
from tierfold.storage.segments.segment_check import ReadSegment, read_and_check
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage
from tierfold.storage.tiers.remote_tier import PARTS, Part

LOG = (
    data(100, (b"a", b"1"), (b"b", b"2")),
    data(102, (b"a", b"3"), producer_id=7),
    marker(103, 7, ControlType.ABORT),
    data(104, (b"c", None), (None, b"keyless")),
    data(106, (b"b", b"4"), (b"b", b"5")),
    data(110, (b"d", b"6")),
)
ABORTED = (an_abort(7, 102, 103),)


def put(tier: LocalTieredStorage, **fields: Any) -> Segment:
    return put_segment(
        tier, **{"batches": LOG, "offsets": (100, 110), "aborted": ABORTED, **fields}
    )


def check(tier: LocalTieredStorage, segment: Segment, **how: Any) -> ReadSegment:
    return read_and_check(tier, a_check_order(segment, **how))


def corruptions(tier: LocalTieredStorage, segment: Segment, **how: Any) -> tuple[str, ...]:
    return check(tier, segment, **how).checked.corruptions


def offsets_by_key(blocks: Sequence[tuple[int, LatestValues]]) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    for _, latest in blocks:
        ends = np.cumsum(latest.keys.key_bytes)
        for start, end, offset in zip(
            ends - latest.keys.key_bytes, ends, latest.offset, strict=True
        ):
            key = latest.keys.keys[start:end].tobytes()
            assert key not in found
            found[key] = int(offset)
    return found


def move(tier: LocalTieredStorage, old: Segment, new: Segment) -> None:
    """Rename the objects of `old` to those of `new`."""
    for part in Part:
        path = part_file(tier, old, part)
        if path.exists():
            path.rename(part_file(tier, new, part))


def test_a_sound_segment_has_no_corruptions(tier: LocalTieredStorage) -> None:
    segment = put(tier)
    checked = check(tier, segment).checked
    assert checked.corruptions == ()
    assert (checked.batches, checked.records) == (6, 9)
    assert checked.bytes_read == segment.size_bytes
    assert checked.has_indexes_as_built
    assert checked.index_entries == 2 + 3
    assert checked.txn_batches.last_offset.tolist() == [102, 103]


def test_keys_are_collected_for_each_side_by_its_own_aborts(tier: LocalTieredStorage) -> None:
    found = check(tier, put(tier), aborted_now=ABORTED, aborted_before=())
    assert offsets_by_key(found.now) == {b"a": 100, b"b": 107, b"c": 104, b"d": 110}
    assert offsets_by_key(found.before) == {b"a": 102, b"b": 107, b"c": 104, b"d": 110}


def test_only_the_requested_keys_are_collected(tier: LocalTieredStorage) -> None:
    found = check(tier, put(tier))
    assert (found.now, found.before) == ((), ())


def test_a_flipped_byte_stops_the_segment(tier: LocalTieredStorage) -> None:
    segment = put(tier)
    flip_bit(part_file(tier, segment, Part.LOG))
    with pytest.raises(CorruptLog, match="bad CRC"):
        check(tier, segment)


def test_a_record_that_breaks_its_batch_stops_the_segment(tier: LocalTieredStorage) -> None:
    key, value = b"\x00\x00", b""  # Too short to name a type.
    draft = replace(marker(100, 1, ControlType.COMMIT))
    broken = replace(draft, records=(replace(draft.records[0], key=key, value=value),))
    with pytest.raises(CorruptLog, match="no readable type"):
        check(tier, put(tier, batches=[broken], offsets=(100, 100), aborted=()))


def test_the_largest_timestamp_of_records_is_that_of_the_catalog(
    tier: LocalTieredStorage,
) -> None:
    segment = put(tier)
    found_ms = max(record.timestamp_ms for batch in LOG for record in batch.records)
    stated = replace(segment, records_max_timestamp_ms=found_ms)
    assert corruptions(tier, stated) == ()
    (corruption,) = corruptions(tier, replace(stated, records_max_timestamp_ms=found_ms + 1))
    assert f"a record is {found_ms}, where the catalog says {found_ms + 1}" in corruption


def test_a_missing_log_is_unreadable(tier: LocalTieredStorage) -> None:
    segment = put(tier)
    part_file(tier, segment, Part.LOG).unlink()
    with pytest.raises(UnreadableObject):
        check(tier, segment)


def test_only_a_broker_leaves_a_log_of_0_bytes(tier: LocalTieredStorage) -> None:
    segment = put(tier, batches=[], offsets=(100, 110), aborted=())
    assert corruptions(tier, segment) == ()
    (corruption,) = corruptions(tier, replace(segment, origin=Compacted("run")))
    assert "0 bytes, which only a broker's cleaner leaves" in corruption
    found = corruptions(tier, replace(segment, size_bytes=61))
    assert "0 bytes, where the catalog says 61" in found[0]


@pytest.mark.parametrize(
    ("fields", "batch"),
    [
        ({"start_offset": 101}, "offsets 100 to 101, the segment 101 to 110"),
        ({"end_offset": 109}, "offsets 110 to 110, the segment 100 to 109"),
    ],
)
def test_batches_lie_within_their_segment(
    tier: LocalTieredStorage, fields: dict[str, int], batch: str
) -> None:
    segment = put(tier)
    moved = replace(segment, **fields, leader_epochs=(LeaderEpoch(epoch=3, start_offset=100),))
    move(tier, segment, moved)
    assert any(batch in corruption for corruption in corruptions(tier, moved))


EPOCHS = (LeaderEpoch(epoch=3, start_offset=100), LeaderEpoch(epoch=4, start_offset=106))


@pytest.mark.parametrize(
    ("catalog_has", "sentences"),
    [
        ({"size_bytes": 9}, (".log: {size} bytes, where the catalog says 9",)),
        (
            {"end_offset": 115, "origin": Compacted("run")},
            ("ends at offset 110, the live range at 115: readers get stuck at the gap",),
        ),
        (
            {"leader_epochs": EPOCHS},
            (
                "2 of 6 batches carry another leader epoch",
                "base offset 106): 3, where the catalog says 4",
            ),
        ),
        # No epoch begins at or below offset 100.
        (
            {"leader_epochs": (LeaderEpoch(epoch=3, start_offset=102),)},
            ("base offset 100): 3, where the catalog says -1",),
        ),
    ],
)
def test_a_log_that_differs_from_the_catalog_is_a_corruption(
    tier: LocalTieredStorage, catalog_has: dict[str, Any], sentences: tuple[str, ...]
) -> None:
    segment = put(tier)
    (corruption,) = corruptions(tier, replace(segment, **catalog_has))
    assert ".log: " in corruption
    assert all(part.format(size=segment.size_bytes) in corruption for part in sentences)


def test_only_the_last_live_segment_must_end_in_a_batch(tier: LocalTieredStorage) -> None:
    ours = replace(put(tier), end_offset=115, origin=Compacted("run"))
    assert corruptions(tier, ours, is_last=False) == ()
    # A broker's cleaner leaves a hole there, and tierfold's next round closes it.
    assert corruptions(tier, replace(ours, origin=UPLOADED), is_last=True) == ()


def test_epochs_may_change_within_a_segment(tier: LocalTieredStorage) -> None:
    batches = [*LOG[:-1], replace(LOG[-1], leader_epoch=5)]
    epochs = (LeaderEpoch(epoch=3, start_offset=100), LeaderEpoch(epoch=5, start_offset=108))
    assert corruptions(tier, replace(put(tier, batches=batches), leader_epochs=epochs)) == ()


@pytest.mark.parametrize(
    ("batch", "listed"),
    [
        (marker(103, 7, ControlType.COMMIT), an_abort(7, 102, 103)),
        (marker(103, 7, ControlType.ABORT), an_abort(8, 102, 103)),
        (marker(103, 7, ControlType.ABORT), an_abort(7, 102, 107)),
    ],
)
def test_a_transaction_listed_as_aborted_has_its_marker_in_the_segment(
    tier: LocalTieredStorage, batch: BatchDraft, listed: AbortedTransaction
) -> None:
    batches = [*LOG[:2], batch, *LOG[3:]]
    (corruption,) = corruptions(tier, put(tier, batches=batches, aborted=[listed]))
    assert ".txnindex: entry 0 lists a transaction" in corruption
    assert f"offset {listed.last_offset}, where the log has no such ABORT marker" in corruption


@pytest.mark.parametrize("part", PARTS[1:])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_side_file_that_cannot_be_read_is_one_corruption(
    tier: LocalTieredStorage, part: Part, *, is_there: bool
) -> None:
    segment = put(tier)
    path = part_file(tier, segment, part)
    if is_there:
        path.write_bytes(b"\x7f" * len(path.read_bytes()))
    else:
        path.unlink()
    (corruption,) = corruptions(tier, segment)
    assert path.name in corruption


@pytest.mark.parametrize(("part", "entry_bytes"), [(Part.OFFSET_INDEX, 8), (Part.TIME_INDEX, 12)])
def test_an_index_that_was_cut_is_a_corruption(
    tier: LocalTieredStorage, part: Part, entry_bytes: int
) -> None:
    segment = put(tier)
    path = part_file(tier, segment, part)
    size_bytes = len(path.read_bytes())
    path.write_bytes(path.read_bytes()[entry_bytes:])
    (corruption,) = corruptions(tier, segment)
    assert path.name in corruption
    assert f"{size_bytes - entry_bytes} bytes, where the catalog says {size_bytes}" in corruption


def test_a_wrong_index_entry_is_a_corruption(tier: LocalTieredStorage) -> None:
    segment = put(tier)
    path = part_file(tier, segment, Part.OFFSET_INDEX)
    index = bytearray(path.read_bytes())
    struct.pack_into(">i", index, 4, 5)
    path.write_bytes(index)
    checked = check(tier, segment).checked
    (corruption,) = checked.corruptions
    assert "1 of 2 entries are wrong" in corruption
    assert not checked.has_indexes_as_built


def test_another_interval_is_no_corruption(tier: LocalTieredStorage) -> None:
    checked = check(tier, put(tier, index_interval_bytes=0)).checked
    assert checked.corruptions == ()
    assert not checked.has_indexes_as_built


@pytest.mark.parametrize("name", ["v0gzip", "v1none", "v1lz4"])
def test_legacy_segments_are_checked_too(tier: LocalTieredStorage, name: str) -> None:
    log = log_bytes(name)
    probe = check(tier, put(tier, batches=[log], offsets=(0, 10_000), aborted=()), is_last=False)
    assert probe.checked.corruptions == ()
    assert probe.checked.records > 0


def test_a_legacy_wrapper_begins_at_its_first_record(tier: LocalTieredStorage) -> None:
    segment = put(tier, batches=[log_bytes("v1lz4")], offsets=(0, 10_000), aborted=())
    moved = replace(segment, start_offset=1)
    move(tier, segment, moved)
    assert any(
        " has offsets 0 to " in corruption for corruption in corruptions(tier, moved, is_last=False)
    )


def test_a_retired_segment_is_only_read(tier: LocalTieredStorage) -> None:
    segment = put(tier)
    part_file(tier, segment, Part.SNAPSHOT).unlink()
    found = check(tier, replace(segment, end_offset=200), is_live=False, aborted_before=ABORTED)
    assert found.checked.corruptions == ()
    assert found.checked.index_entries == 0
    assert offsets_by_key(found.before)[b"a"] == 100

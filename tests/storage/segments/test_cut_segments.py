"""Segments with an effective start are read right by every reader.

    before   100 ──── 104
    cut         102 ──[105 ──────── 110]       102 to 104 are the other's
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.storage.legacy_messages import message, wrapper
from tests.storage.live_segments import (
    KEY,
    a_check_order,
    a_group_task,
    an_abort,
    data,
    flip_bit,
    log_of,
    marker,
    move_index,
    offsets_in,
    part_file,
    put_segment,
)
from tests.storage.stored_logs import small_windows
from tierfold.compaction.cleaning.offset_map import SUPERSEDED
from tierfold.compaction.commits.receipts import receipt_violations
from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.segments import LeaderEpoch, Segment
from tierfold.compaction.model.units import OffsetSpan
from tierfold.compaction.planning.grouping import SegmentGroup
from tierfold.storage.indexes.leader_epoch_checkpoint import write_leader_epoch_checkpoint
from tierfold.storage.kafka.batch_draft import BatchDraft, write_batch
from tierfold.storage.kafka.control_records import ControlType
from tierfold.storage.segments.group_rewrite import rewrite_group
from tierfold.storage.segments.log_pieces import pieces_of
from tierfold.storage.segments.log_windows import live_log
from tierfold.storage.segments.segment_check import ReadSegment, read_and_check
from tierfold.storage.segments.segment_metadata import read_aborted, read_checkpoint, read_snapshot
from tierfold.storage.segments.segment_reader import read_segment
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage
from tierfold.storage.tiers.remote_tier import Part

SKIPPED = (
    data(102, (b"a", b"early"), producer_id=7),
    marker(103, 7, ControlType.ABORT),
    data(104, (b"c", b"early")),
)
COUNTED = (
    data(105, (b"a", b"late")),
    data(106, (b"b", b"1"), producer_id=8),
    marker(107, 8, ControlType.ABORT),
    data(108, (b"b", b"2"), (b"c", b"late")),
    data(110, (b"d", b"1")),
)
ABORTED = (an_abort(7, 102, 103), an_abort(8, 106, 107))
BEFORE = (data(100, (b"a", b"0"), (b"z", b"0")), *SKIPPED)


def cut(segment: Segment, start_offset: int, skipped: Sequence[BatchDraft | bytes]) -> Segment:
    """The segment from its effective start on, as the row names it."""
    skipped_bytes = len(log_of(skipped))
    return replace(
        segment,
        start_offset=start_offset,
        skipped_offsets=start_offset - segment.start_offset,
        size_bytes=segment.size_bytes - skipped_bytes,
        skipped_bytes=skipped_bytes,
        leader_epochs=(LeaderEpoch(epoch=3, start_offset=start_offset),),
    )


def put_cut(tier: LocalTieredStorage) -> Segment:
    whole = put_segment(tier, [*SKIPPED, *COUNTED], offsets=(102, 110), aborted=ABORTED)
    return cut(whole, 105, SKIPPED)


def put_before(tier: LocalTieredStorage) -> Segment:
    return put_segment(tier, BEFORE, offsets=(100, 104), aborted=ABORTED[:1])


def counted(tier: LocalTieredStorage, segment: Segment) -> bytes:
    """The bytes of its log that count."""
    return b"".join(data.tobytes() for data in live_log(tier, KEY, segment).ranges())


def test_its_log_is_read_from_the_effective_start_on(tier: LocalTieredStorage) -> None:
    segment = put_cut(tier)
    assert counted(tier, segment) == log_of(COUNTED)


def test_its_side_files_are_found_by_its_own_start(tier: LocalTieredStorage) -> None:
    segment = put_cut(tier)
    assert read_snapshot(tier, KEY, segment) == ()
    assert read_checkpoint(tier, KEY, segment) == (LeaderEpoch(epoch=3, start_offset=0),)


def test_an_aborted_transaction_counts_if_its_marker_does(
    tier: LocalTieredStorage,
) -> None:
    segment = put_cut(tier)
    assert read_aborted(tier, KEY, segment) == ABORTED[1:]
    for start, counted in ((103, ABORTED), (104, ABORTED[1:]), (107, ABORTED[1:]), (108, ())):
        cut_there = replace(segment, start_offset=start, skipped_offsets=start - 102)
        assert read_aborted(tier, KEY, cut_there) == counted


def offsets(
    tier: LocalTieredStorage, segment: Segment, wanted: OffsetSpan, piece_bytes: int
) -> list[int]:
    return offsets_in(tier, pieces_of(tier, KEY, segment, wanted, ABORTED, piece_bytes))


@pytest.mark.parametrize("piece_bytes", [1, 200, 2**30])
def test_the_reader_gives_what_counts_in_pieces_and_whole(
    tier: LocalTieredStorage, piece_bytes: int
) -> None:
    segment = put_cut(tier)
    visible = [105, 108, 109, 110]
    everything = OffsetSpan(start=0, end=2**63 - 1)
    assert offsets(tier, segment, everything, piece_bytes) == visible
    for start in range(100, 112):
        for end in range(start, 112):
            found = offsets(tier, segment, OffsetSpan(start=start, end=end), piece_bytes)
            assert found == [offset for offset in visible if start <= offset < end]


def test_a_whole_cut_segment_is_one_piece_of_the_bytes_that_count(
    tier: LocalTieredStorage,
) -> None:
    segment = put_cut(tier)
    everything = OffsetSpan(start=0, end=2**63 - 1)
    (piece,) = pieces_of(tier, KEY, segment, everything, (), segment.size_bytes)
    assert (piece.start, piece.end) == (segment.skipped_bytes, segment.log_bytes)


def test_a_cut_log_shorter_than_the_catalog_says_is_reported_with_its_size(
    tier: LocalTieredStorage
) -> None:
    segment = put_cut(tier)
    path = part_file(tier, segment, Part.LOG)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptLog, match=f"{segment.log_bytes} are known"):
        offsets(tier, segment, OffsetSpan(start=0, end=200), 2**30)


@pytest.mark.parametrize(("by", "start", "end"), [(-3, 107, 111), (4, 106, 110)])
def test_an_index_that_leads_past_the_wanted_offsets_of_a_cut_segment_is_reported(
    tier: LocalTieredStorage, by: int, start: int, end: int
) -> None:
    segment = put_cut(tier)
    path = part_file(tier, segment, Part.OFFSET_INDEX)
    move_index(path, 102, by)
    with pytest.raises(CorruptLog, match="the offset index leads to offsets"):
        offsets(tier, segment, OffsetSpan(start=start, end=end), 2**30)


def test_a_gap_right_after_the_cut_does_not_corrupt_the_index(tier: LocalTieredStorage) -> None:
    batches = [*SKIPPED, *COUNTED[3:]]  # Nothing is left of 105 to 107.
    segment = cut(put_segment(tier, batches, offsets=(102, 110)), 105, SKIPPED)
    assert offsets(tier, segment, OffsetSpan(start=0, end=200), 2**30) == [108, 109, 110]
    assert offsets(tier, segment, OffsetSpan(start=105, end=200), 1) == [108, 109, 110]


def test_legacy_wrappers_are_cut_too(tier: LocalTieredStorage) -> None:
    inner = b"".join(message(i, b"v") for i in range(3))
    skipped = [message(8, b"v"), wrapper(10, inner[: len(inner) // 3 * 2])]
    batches = [*skipped, wrapper(13, inner), message(14, b"v")]
    segment = cut(put_segment(tier, batches, offsets=(8, 14)), 11, skipped)
    for piece_bytes in (1, 2**30):
        span = OffsetSpan(start=0, end=99)
        assert offsets(tier, segment, span, piece_bytes) == [11, 12, 13, 14]


def check(tier: LocalTieredStorage, segment: Segment, **fields: Any) -> ReadSegment:
    return read_and_check(tier, a_check_order(segment, buckets=1, aborted_now=ABORTED, **fields))


def test_a_sound_cut_segment_has_no_corruptions_and_counts_from_its_effective_start(
    tier: LocalTieredStorage,
) -> None:
    segment = put_cut(tier)
    read = check(tier, segment)
    assert read.checked.corruptions == ()
    assert (read.checked.batches, read.checked.records) == (5, 6)
    assert read.checked.bytes_read == segment.log_bytes
    assert read.checked.has_indexes_as_built
    assert read.checked.txn_batches.last_offset.tolist() == [106, 107]
    collected = {
        pair
        for _, latest in read.now
        for pair in zip(latest.keys.keys.tobytes().decode(), latest.offset.tolist(), strict=True)
    }
    assert collected == {("a", 105), ("b", 108), ("c", 109), ("d", 110)}


def test_verify_reads_the_skipped_part_for_its_checksums(tier: LocalTieredStorage) -> None:
    segment = put_cut(tier)
    path = part_file(tier, segment, Part.LOG)
    flip_bit(path, 70)
    with pytest.raises(CorruptLog, match="bad CRC"):
        check(tier, segment)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"start_offset": 106, "skipped_offsets": 4}, "has offsets 105 to 105, the segment 106 to"),
        ({"size_bytes": 7}, "where the catalog says"),
        ({"leader_epochs": (LeaderEpoch(epoch=4, start_offset=105),)}, "5 of 8 batches carry"),
    ],
)
def test_a_cut_that_the_log_does_not_have_is_a_corruption(
    tier: LocalTieredStorage, change: dict[str, Any], reason: str
) -> None:
    changed = replace(put_cut(tier), **change)
    corruptions = check(tier, changed).checked.corruptions
    assert any(reason in corruption for corruption in corruptions), corruptions


def test_a_cut_within_a_batch_is_a_corruption(tier: LocalTieredStorage) -> None:
    segment = put_cut(tier)
    for by in (-1, 1):
        moved = {"skipped_bytes": segment.skipped_bytes + by, "size_bytes": segment.size_bytes - by}
        corruptions = check(tier, replace(segment, **moved)).checked.corruptions
        assert any("no batch begins at byte" in corruption for corruption in corruptions)


def test_the_index_of_a_cut_segment_is_checked_whole(tier: LocalTieredStorage) -> None:
    segment = put_cut(tier)
    path = part_file(tier, segment, Part.OFFSET_INDEX)
    flip_bit(path, 7)
    assert check(tier, segment).checked.corruptions


def rewritten(
    tier: LocalTieredStorage,
    segments: Sequence[Segment],
    *lost: int,
    is_for_brokers: bool = False,
) -> tuple[Segment, list[tuple[int, bytes | None]]]:
    """The segment that replaces them, and (offset, value) of its records."""

    def bits(segment: Segment) -> np.ndarray:
        offsets_of = [
            record.offset
            for batch in read_segment(counted(tier, segment)).batches()
            for record in batch.records
        ]
        return np.isin(offsets_of, lost) * SUPERSEDED

    group = SegmentGroup(segments=tuple(segments), is_for_brokers=is_for_brokers)
    receipt = rewrite_group(tier, a_group_task(segments, aborted=ABORTED, group=group), bits)
    assert not receipt_violations(
        [group],
        [receipt],
        records_scanned=receipt.counts.records_in,
        record_bytes_scanned=receipt.counts.record_bytes_in,
    )
    new = receipt.segment
    assert new is not None
    content = read_segment(counted(tier, new))
    return new, [
        (record.offset, record.value)
        for batch in content.batches()
        for record in batch.records
        if record.control_type is None
    ]


def test_a_group_with_a_cut_segment_holds_every_offset_once(tier: LocalTieredStorage) -> None:
    new, records = rewritten(tier, [put_before(tier), put_cut(tier)], 100, 104, 108)
    assert records == [(101, b"0"), (105, b"late"), (109, b"late"), (110, b"1")]
    assert (new.start_offset, new.end_offset) == (100, 110)
    assert (new.skipped_offsets, new.skipped_bytes, new.own_start_offset) == (0, 0, 100)


def test_a_group_that_begins_with_a_cut_segment_begins_at_its_effective_start(
    tier: LocalTieredStorage,
) -> None:
    new, records = rewritten(tier, [put_cut(tier)], 105)
    assert records == [(108, b"2"), (109, b"late"), (110, b"1")]
    assert (new.start_offset, new.end_offset, new.own_start_offset) == (105, 110, 105)
    assert new.leader_epochs == (LeaderEpoch(epoch=3, start_offset=105),)
    assert check(tier, new).checked.corruptions == ()
    # Snapshot and checkpoint come from the last source, by its own start.
    assert read_checkpoint(tier, KEY, new) == (LeaderEpoch(epoch=3, start_offset=0),)


def test_for_brokers_it_begins_at_its_own_start_and_skips_no_bytes(
    tier: LocalTieredStorage,
) -> None:
    source = put_cut(tier)
    of_two = (LeaderEpoch(epoch=2, start_offset=90), LeaderEpoch(epoch=3, start_offset=104))
    checkpoint = part_file(tier, source, Part.LEADER_EPOCH_CHECKPOINT)
    checkpoint.write_bytes(write_leader_epoch_checkpoint(of_two))
    new, records = rewritten(tier, [source], 105, is_for_brokers=True)
    assert records == [(108, b"2"), (109, b"late"), (110, b"1")]
    assert (new.start_offset, new.end_offset, new.own_start_offset) == (105, 110, 102)
    assert (new.skipped_offsets, new.skipped_bytes) == (3, 0)
    assert new.leader_epochs == (
        LeaderEpoch(epoch=2, start_offset=102),
        LeaderEpoch(epoch=3, start_offset=104),
    )
    assert part_file(tier, new, Part.LOG).name.startswith(f"{102:020d}-")
    assert check(tier, new).checked.corruptions == ()
    again, same = rewritten(tier, [new], 108, is_for_brokers=True)
    assert same == records[1:]
    assert (again.start_offset, again.own_start_offset) == (105, 102)
    assert again.leader_epochs == new.leader_epochs


def test_for_brokers_only_the_first_of_several_begins_below_what_it_gives(
    tier: LocalTieredStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_windows(monkeypatch, 1)
    source = put_cut(tier)
    group = SegmentGroup(segments=(source,), is_for_brokers=True)
    task = a_group_task([source], group=group, aborted=ABORTED, output_bytes_max=150)
    bits = np.array([SUPERSEDED, *[0] * 5], np.uint8)
    receipt = rewrite_group(tier, task, lambda _: bits)
    found = [
        (one.segment.own_start_offset, one.segment.start_offset, one.segment.end_offset)
        for one in receipt.written
    ]
    assert found == [(102, 105, 107), (108, 108, 109), (110, 110, 110)]
    for one in receipt.written:
        is_last = one is receipt.written[-1]
        assert check(tier, one.segment, is_last=is_last).checked.corruptions == ()


def test_leader_epochs_are_merged_by_effective_offsets(tier: LocalTieredStorage) -> None:
    epochs = (LeaderEpoch(epoch=3, start_offset=100), LeaderEpoch(epoch=4, start_offset=103))
    before = replace(put_before(tier), leader_epochs=epochs)
    after = replace(put_cut(tier), leader_epochs=(LeaderEpoch(epoch=4, start_offset=105),))
    new, _ = rewritten(tier, [before, after], 100)
    assert new.leader_epochs == before.leader_epochs


def test_a_cut_that_leaves_an_earlier_batch_is_reported(tier: LocalTieredStorage) -> None:
    segment = put_cut(tier)
    one = len(write_batch(SKIPPED[2]))
    moved = {"skipped_bytes": segment.skipped_bytes - one, "size_bytes": segment.size_bytes + one}
    wrong = replace(segment, **moved)
    with pytest.raises(CorruptLog, match="offsets 104 to 110, the segment 105 to 110"):
        rewritten(tier, [wrong])

"""The records of a segment within a span, without those of control batches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.storage.live_segments import KEY, an_abort, data, marker, put_segment
from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.units import OffsetSpan
from tierfold.storage.kafka.batch_draft import BatchDraft
from tierfold.storage.kafka.compression import Codec
from tierfold.storage.kafka.control_records import ControlType
from tierfold.storage.segments.written_records import (
    pieces_of_records,
    whole_segment,
    written_records,
)
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage

ALL = OffsetSpan(start=0, end=100)


def batches() -> list[BatchDraft]:
    pairs = ((b"k", b"v" * 40), (None, b""), (b"", None))
    plain = [data(base, *pairs) for base in range(0, 30, 3)]
    return [*plain, data(30, (b"k", b"aborted"), producer_id=5), marker(31, 5, ControlType.ABORT)]


def test_all_data_records_are_read_also_of_aborted_transactions(tier: LocalTieredStorage) -> None:
    aborted = [an_abort(5, 30, 31)]
    segment = put_segment(tier, batches(), offsets=(0, 31), aborted=aborted)
    whole = written_records(tier, KEY, segment, ALL)
    assert whole.offset.tolist() == list(range(31))
    for start, end in ((0, 1), (4, 9), (29, 32), (31, 40), (50, 60)):
        some = written_records(tier, KEY, segment, OffsetSpan(start=start, end=end))
        expected = whole.between(OffsetSpan(start=start, end=end))
        assert some.offset.tolist() == expected.offset.tolist()
        assert (some.content == expected.content).all()


def test_records_are_the_same_however_they_are_stored(tier: LocalTieredStorage) -> None:
    plain = put_segment(tier, batches(), offsets=(0, 31))
    packed = put_segment(
        tier, [replace(batch, codec=Codec.ZSTD) for batch in batches()[:-1]], offsets=(0, 31)
    )
    found = [written_records(tier, KEY, segment, ALL) for segment in (plain, packed)]
    assert (found[0].content == found[1].content).all()
    # Null and empty keys and values differ, and equal records do not.
    first, second, third = found[0].content[:3]
    assert len({tuple(one) for one in (first[1:], second[1:], third[1:])}) == 3
    assert (found[0].content[3][1:] == first[1:]).all()


def test_a_segment_that_gives_a_part_to_the_log_has_the_rest_as_well(
    tier: LocalTieredStorage,
) -> None:
    segment = put_segment(tier, batches(), offsets=(0, 31))
    offset_6 = 2 * segment.log_bytes // 13  # No batch begins there, so nothing else is read.
    part = replace(
        segment,
        start_offset=6,
        skipped_offsets=6,
        skipped_bytes=offset_6,
        size_bytes=segment.log_bytes - offset_6,
    )
    assert written_records(tier, KEY, whole_segment(part), ALL).offset.tolist() == list(range(31))
    beyond = OffsetSpan(start=20, end=23)
    assert written_records(tier, KEY, part, beyond).offset.tolist() == [20, 21, 22]
    assert written_records(tier, KEY, part, OffsetSpan(start=0, end=6)).offset.tolist() == []


def test_pieces_follow_each_other(tier: LocalTieredStorage) -> None:
    segment = put_segment(tier, batches(), offsets=(0, 31))
    pieces = pieces_of_records(tier, KEY, segment, ALL)
    assert [n for piece in pieces for n in piece.offset.tolist()] == list(range(31))


def test_a_batch_expands_to_no_more_than_its_topic_allows(tier: LocalTieredStorage) -> None:
    large = replace(data(0, (b"k", b"\0" * 129 * 2**20)), codec=Codec.ZSTD)
    segment = put_segment(tier, [large], offsets=(0, 0))
    with pytest.raises(CorruptLog, match=r"decompressed\.batch\.max\.bytes"):
        written_records(tier, KEY, segment, ALL)
    assert len(written_records(tier, KEY, segment, ALL, 2**28)) == 1

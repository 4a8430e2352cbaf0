"""Reading a log in pieces yields each wanted record once and reads few other bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.storage.legacy_messages import message, wrapper
from tests.storage.live_segments import (
    KEY,
    a_tier,
    an_abort,
    data,
    flip_bit,
    marker,
    move_index,
    offsets_in,
    part_file,
    put_segment,
)
from tests.storage.scripted_store import ScriptedStore
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.errors import CorruptLog, UnreadableObject
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.model.units import OffsetSpan
from tierfold.storage.indexes.offset_index import OffsetIndex, write_offset_index
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft
from tierfold.storage.kafka.compression import Codec
from tierfold.storage.kafka.control_records import ControlType
from tierfold.storage.segments.log_pieces import LogPiece, pieces_of
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage
from tierfold.storage.tiers.remote_tier import Part

ALL = OffsetSpan(start=0, end=2**63 - 1)
WHOLE = 2**30
BATCHES = 20
PER_BATCH = 3
END = BATCHES * PER_BATCH


def plain_batches(codec: Codec = Codec.NONE) -> list[BatchDraft]:
    return [
        BatchDraft(
            base_offset=base,
            records=tuple(
                RecordDraft(offset=base + i, timestamp_ms=1, key=b"k", value=b"v" * 40)
                for i in range(PER_BATCH)
            ),
            leader_epoch=3,
            codec=codec,
        )
        for base in range(0, END, PER_BATCH)
    ]


def pieces(
    tier: LocalTieredStorage,
    segment: Segment,
    wanted: OffsetSpan = ALL,
    aborted: tuple[AbortedTransaction, ...] = (),
    piece_bytes: int = WHOLE,
) -> list[LogPiece]:
    return list(pieces_of(tier, KEY, segment, wanted, aborted, piece_bytes))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("piece_bytes", [1, 300, 1000, WHOLE])
def test_pieces_of_any_size_hold_every_record_once(
    tier: LocalTieredStorage, piece_bytes: int, codec: Codec
) -> None:
    segment = put_segment(tier, plain_batches(codec), offsets=(0, END - 1))
    found = pieces(tier, segment, piece_bytes=piece_bytes)
    assert [piece.start for piece in found[1:]] == [piece.end for piece in found[:-1]]
    assert (found[0].start, found[-1].end) == (0, segment.size_bytes)
    assert (len(found) == 1) == (piece_bytes == WHOLE)
    assert offsets_in(tier, found) == list(range(END))


@pytest.mark.parametrize("piece_bytes", [1, 700, WHOLE])
def test_every_span_returns_exactly_its_offsets(tier: LocalTieredStorage, piece_bytes: int) -> None:
    segment = put_segment(tier, plain_batches(), offsets=(0, END - 1))
    for start in range(0, END, 4):
        for end in (start, start + 1, start + 7, END + 5):
            found = pieces(tier, segment, OffsetSpan(start=start, end=end), (), piece_bytes)
            assert offsets_in(tier, found) == list(range(start, min(end, END)))


def test_a_span_costs_its_own_bytes_and_the_index(tmp_path: Path) -> None:
    segment = put_segment(a_tier(tmp_path), plain_batches(), offsets=(0, END - 1))
    store = ScriptedStore(tmp_path)
    counted = LocalTieredStorage(store)
    batch_bytes = segment.size_bytes // BATCHES
    found = pieces(counted, segment, OffsetSpan(start=30, end=33))
    assert offsets_in(counted, found) == [30, 31, 32]
    # The batch itself, and up to the next entries of the index before and behind it.
    assert batch_bytes <= store.of_part(Part.LOG) <= 4 * batch_bytes
    assert store.of_part(Part.OFFSET_INDEX) == segment.offset_index_bytes


def test_a_whole_segment_costs_no_index(tmp_path: Path) -> None:
    segment = put_segment(a_tier(tmp_path), plain_batches(), offsets=(0, END - 1))
    store = ScriptedStore(tmp_path)
    counted = LocalTieredStorage(store)
    assert len(offsets_in(counted, pieces(counted, segment))) == END
    assert store.of_part(Part.LOG) == segment.size_bytes
    assert store.of_part(Part.OFFSET_INDEX) == 0


def test_markers_and_aborted_batches_are_left_out(tier: LocalTieredStorage) -> None:
    aborted = (an_abort(7, 2, 5), an_abort(8, 100, 200))
    batches = [
        data(0, (b"a", b"0"), producer_id=7),
        marker(1, 7, ControlType.COMMIT),
        data(2, (b"a", b"1"), (b"b", b"1"), producer_id=7),
        data(4, (b"c", b"1"), producer_id=8),
        marker(5, 7, ControlType.ABORT),
        data(6, (b"d", b"1"), producer_id=7),
    ]
    segment = put_segment(tier, batches, offsets=(0, 6), aborted=aborted[:1])
    assert offsets_in(tier, pieces(tier, segment, aborted=aborted)) == [0, 4, 6]
    assert offsets_in(tier, pieces(tier, segment)) == [0, 2, 3, 4, 6]
    assert pieces(tier, segment, aborted=aborted)[0].aborted == aborted[:1]
    assert offsets_in(tier, pieces(tier, segment, aborted=aborted, piece_bytes=1)) == [0, 4, 6]


@pytest.mark.parametrize("piece_bytes", [1, WHOLE])
def test_a_span_within_an_aborted_transaction_returns_nothing_of_it(
    tier: LocalTieredStorage, piece_bytes: int
) -> None:
    aborted = (an_abort(7, 1, 4),)
    batches = [
        data(0, (b"a", b"1")),
        data(1, (b"b", b"1"), (b"c", b"1"), (b"d", b"1"), producer_id=7),
        marker(4, 7, ControlType.ABORT),
        data(5, (b"e", b"1")),
    ]
    segment = put_segment(tier, batches, offsets=(0, 5), aborted=aborted)
    for start in range(6):
        for end in range(start + 1, 7):
            found = pieces(tier, segment, OffsetSpan(start=start, end=end), aborted, piece_bytes)
            assert offsets_in(tier, found) == [offset for offset in (0, 5) if start <= offset < end]


def test_legacy_wrappers_have_only_their_last_offset(tier: LocalTieredStorage) -> None:
    inner = b"".join(message(i, b"v") for i in range(4))
    log = [message(10, b"v"), wrapper(14, inner), wrapper(18, inner), message(19, b"v")]
    segment = put_segment(
        tier, [*log, *[message(20 + i, b"v" * 30) for i in range(9)]], offsets=(10, 28)
    )
    for start in range(10, 29):
        for end in range(start, 30):
            found = pieces(tier, segment, OffsetSpan(start=start, end=end))
            assert offsets_in(tier, found) == list(range(start, min(end, 29)))


@pytest.mark.parametrize(("by", "start", "end"), [(-30, 10, END), (30, 0, 40)])
def test_an_index_that_leads_past_the_wanted_offsets_is_reported(
    tier: LocalTieredStorage, by: int, start: int, end: int
) -> None:
    segment = put_segment(tier, plain_batches(), offsets=(0, END - 1))
    move_index(part_file(tier, segment, Part.OFFSET_INDEX), 0, by)
    found = pieces(tier, segment, OffsetSpan(start=start, end=end))
    with pytest.raises(CorruptLog, match="the offset index leads to offsets"):
        offsets_in(tier, found)


def test_an_index_beyond_the_log_is_reported(tier: LocalTieredStorage) -> None:
    segment = put_segment(tier, plain_batches(), offsets=(0, END - 1))
    beyond = OffsetIndex(offsets=np.array([5]), positions=np.array([10**6], np.int32))
    part_file(tier, segment, Part.OFFSET_INDEX).write_bytes(write_offset_index(beyond, 0))
    with pytest.raises(CorruptLog, match=r"\.index: it points at bytes 1000000 to"):
        pieces(tier, segment, OffsetSpan(start=20, end=30))


def test_a_log_that_is_too_short_is_reported(tier: LocalTieredStorage) -> None:
    segment = put_segment(tier, plain_batches(), offsets=(0, END - 1))
    path = part_file(tier, segment, Part.LOG)
    # A whole batch is gone, so only the size shows it.
    path.write_bytes(path.read_bytes()[: -segment.size_bytes // BATCHES])
    with pytest.raises(CorruptLog, match=f"{segment.size_bytes} are known"):
        offsets_in(tier, pieces(tier, segment))


def test_a_bad_batch_is_reported_with_the_start_of_its_piece(tier: LocalTieredStorage) -> None:
    segment = put_segment(tier, plain_batches(), offsets=(0, END - 1))
    flip_bit(part_file(tier, segment, Part.LOG))
    found = pieces(tier, segment, piece_bytes=1)
    assert offsets_in(tier, found[:-1]) == list(range(found[-1].wanted.end))[:-PER_BATCH]
    with pytest.raises(CorruptLog, match=rf"from byte {found[-1].start} on: .* bad CRC"):
        offsets_in(tier, found[-1:])


def test_a_missing_log_is_unreadable(tier: LocalTieredStorage) -> None:
    segment = put_segment(tier, plain_batches(), offsets=(0, END - 1))
    part_file(tier, segment, Part.LOG).unlink()
    with pytest.raises(UnreadableObject):
        offsets_in(tier, pieces(tier, segment))

"""The scan of one segment: its keys, those already superseded, its transaction batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.hash_keys import HASH_KEY
from tests.compaction.keyed import keys_of
from tests.pictures.batch_words import draft_of
from tests.storage.corrupted_bytes import patched
from tests.storage.legacy_messages import message, wrapper
from tests.storage.live_segments import an_abort, data, marker
from tests.storage.stored_logs import small_windows, stored
from tierfold.compaction.cleaning.batch_outline import is_worth_sending
from tierfold.compaction.cleaning.group_outcome import PlainSegment
from tierfold.compaction.cleaning.key_blocks import head_of, joined_blocks
from tierfold.compaction.cleaning.offset_map import SUPERSEDED
from tierfold.compaction.cleaning.transactions import ABORT, COMMIT, DATA, EMPTIED
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.errors import CorruptLog
from tierfold.storage.kafka.batch_draft import write_batch
from tierfold.storage.kafka.batch_headers import joined_heads, read_heads
from tierfold.storage.kafka.compression import Codec
from tierfold.storage.kafka.control_records import ControlType
from tierfold.storage.segments import segment_scan
from tierfold.storage.segments.log_windows import sized_windows
from tierfold.storage.segments.segment_scan import (
    ScannedSegment,
    ScanOrder,
    scan_segment,
    scan_transactions,
)

ORDER: Final = ScanOrder(hash_key=HASH_KEY, first_dirty=0, buckets=1)


def log_of(*words: str) -> np.ndarray:
    """A log of the batches that the words draw (`tests.pictures.log_pictures`)."""
    return np.frombuffer(b"".join(write_batch(draft_of(word, 0)) for word in words), np.uint8)


def scanned(
    *words: str,
    first_dirty: int = 0,
    aborted: Sequence[AbortedTransaction] = (),
    buckets: int = 2,
    threads: int = 1,
) -> ScannedSegment:
    order = ScanOrder(hash_key=HASH_KEY, first_dirty=first_dirty, buckets=buckets, threads=threads)
    return scan_segment(stored(log_of(*words)), aborted, order)


def entries(found: ScannedSegment) -> list[tuple[int, bytes]]:
    """(ordinal, key) of everything in the blocks."""
    every = []
    for _, block in found.blocks:
        columns = joined_blocks([block]).columns
        every += zip(columns.ordinal.tolist(), keys_of(columns), strict=True)
    return sorted(every)


def aborted_entry(producer_id: int, first: int, last: int) -> AbortedTransaction:
    return AbortedTransaction(
        producer_id=producer_id, first_offset=first, last_offset=last, last_stable_offset=last
    )


ABORTED_2 = ("P1(0:a=1)", "P2([1:a=2 2:b=2])", "3:P2:A", "P2(4:b=3)")
KEYLESS = ("[0:=1 1:a=1 2:=2]", "P1(3:=3)", "P2(4:=4)", "5:P2:A", "6:L")


@pytest.mark.parametrize(
    ("words", "aborted", "keys", "records", "without_key"),
    [
        (
            ("[0:a=1 1:=2 2:b=]", "5:c=1", "6:''=1"),
            (),
            [(0, b"a"), (2, b"b"), (3, b"c"), (4, b"")],
            5,
            1,
        ),
        (("P1(0:a=1)", "1:P1:C", "2:L", "3:b=1"), (), [(0, b"a"), (3, b"b")], 4, 0),
        (ABORTED_2, (aborted_entry(2, 1, 3),), [(0, b"a"), (4, b"b")], 5, 0),
        (KEYLESS, (aborted_entry(2, 4, 5),), [(1, b"a")], 7, 3),
        (KEYLESS, (), [(1, b"a")], 7, 4),
    ],
    ids=["keys", "control records", "aborted records", "no key, some aborted", "no key"],
)
def test_committed_records_with_a_key_are_scanned(
    words: Sequence[str],
    aborted: Sequence[AbortedTransaction],
    keys: list[tuple[int, bytes]],
    records: int,
    without_key: int,
) -> None:
    found = scanned(*words, aborted=aborted)
    assert entries(found) == keys
    assert (found.records, found.without_key) == (records, without_key)
    assert not found.own_bits.any()


@pytest.mark.parametrize("window_bytes", [1, 10**6])
def test_a_segment_of_values_with_keys_is_plain(
    window_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_windows(monkeypatch, window_bytes)
    sound = ("[3:a=1 4:b=1]", "P1(5:c=1)", "6-9:[7:d=1]")
    found = scanned(*sound)
    assert found.plain == PlainSegment(
        first_offset=3, last_offset=9, records=4, record_bytes=found.record_bytes
    )
    for other in ("10:e=", "10:=1", "10:()", "10:P1:C"):
        assert scanned(*sound, other).plain is None
    assert scanned(*sound, aborted=(aborted_entry(1, 5, 10),)).plain is None
    order = ScanOrder(hash_key=HASH_KEY, first_dirty=0, buckets=1)
    assert scan_segment(stored(legacy_log()), (), order).plain is None


def test_records_superseded_within_the_segment_are_not_shuffled() -> None:
    found = scanned("[0:a=1 1:b=1]", "2:a=2")
    assert found.own_bits.tolist() == [SUPERSEDED, 0, 0]
    assert entries(found) == [(1, b"b"), (2, b"a")]


@pytest.mark.parametrize(
    ("first_dirty", "competes_from"), [(0, 0), (7, 0), (8, 1), (11, 2), (12, 3), (99, 3)]
)
def test_records_compete_from_the_first_one_at_or_above_first_dirty(
    first_dirty: int, competes_from: int
) -> None:
    found = scanned("[7:a=1 9:b=1]", "11:c=1", first_dirty=first_dirty)
    assert {head_of(block).competes_from for _, block in found.blocks} == {competes_from}


def test_transactional_and_control_batches_are_found_in_order() -> None:
    txn_batches = scanned(
        "0:a=1", "P1([1:a=2 2:b=1])", "p3(3:a=3)", "4:P1:A", "5:P2:C", "6:P2:()", "7:L"
    )
    found = txn_batches.txn_batches
    assert found.control_type.tolist() == [DATA, ABORT, COMMIT, EMPTIED, 2]
    assert found.base_offset.tolist() == [1, 4, 5, 6, 7]
    assert found.last_offset.tolist() == [2, 4, 5, 6, 7]
    assert found.producer_id.tolist() == [1, 1, 2, 2, -1]


def test_a_segment_without_keys_has_no_blocks() -> None:
    found = scanned("0:=1", "1:P1:C", "2:()")
    assert (found.blocks, found.own_bits.tolist()) == ((), [0, 0])


WORDS = (
    *("[0:a=1 1:b=1 2:c=1]", "P1(3:a=2)", "[4:=1 5:b=2]", "6:P1:A", "[7:c=2 8:d=1]", "9:a=3"),
    *("[10:d=2 11:d=3]", "[12:a=4 13:d=4]"),  # A key recurs within a later stretch, too.
)
ABORTED = (aborted_entry(1, 3, 6),)


@given(
    window_bytes=st.integers(1, 500),
    keys_max=st.integers(1, 12),
    key_bytes_max=st.integers(1, 12),
    first_dirty=st.integers(0, 15),
    threads=st.sampled_from([1, 1, 3]),
)
def test_the_scan_does_not_depend_on_window_and_batch_sizes(
    window_bytes: int, keys_max: int, key_bytes_max: int, first_dirty: int, threads: int
) -> None:
    whole = scanned(*WORDS, first_dirty=first_dirty, aborted=ABORTED)
    with pytest.MonkeyPatch.context() as small:
        small_windows(small, window_bytes)
        small.setattr(segment_scan, "KEYS_MAX", keys_max)
        small.setattr(segment_scan, "KEY_BYTES_MAX", key_bytes_max)
        pieces = scanned(*WORDS, first_dirty=first_dirty, aborted=ABORTED, threads=threads)
    assert (pieces.records, pieces.without_key) == (whole.records, whole.without_key)
    assert pieces.txn_batches.base_offset.tolist() == whole.txn_batches.base_offset.tolist()
    assert pieces.txn_batches.control_type.tolist() == whole.txn_batches.control_type.tolist()
    # Records that a later stretch supersedes are found by the reduce stage.
    assert not (pieces.own_bits & ~whole.own_bits).any()
    lost = {int(ordinal) for ordinal in np.flatnonzero(pieces.own_bits)}
    left = {int(ordinal) for ordinal in np.flatnonzero(whole.own_bits & ~pieces.own_bits)}
    shuffled = entries(pieces)
    assert shuffled == sorted(entries(whole) + [(at, key) for at, key in shuffled if at in left])
    assert lost.isdisjoint(at for at, _ in shuffled)
    # Each stretch has the same competing records.
    for _, block in pieces.blocks:
        ordinals = joined_blocks([block]).columns.ordinal.tolist()
        competes_from = head_of(block).competes_from
        competing = [at for at in ordinals if at >= competes_from]
        assert competing == [at for at in ordinals if at >= first_dirty]


@pytest.mark.parametrize(("key_bytes_max", "blocks"), [(8, 2), (9, 1)])
def test_no_more_key_bytes_are_held_than_allowed(
    monkeypatch: pytest.MonkeyPatch, key_bytes_max: int, blocks: int
) -> None:
    small_windows(monkeypatch, 1)
    monkeypatch.setattr(segment_scan, "KEY_BYTES_MAX", key_bytes_max)
    found = scanned(*[f"{i}:kkk{i}=x" for i in range(3)], buckets=1)
    lengths = [int(joined_blocks([block]).columns.key_bytes.sum()) for _, block in found.blocks]
    assert (len(lengths), sum(lengths)) == (blocks, 12), lengths


@pytest.mark.parametrize(
    ("words", "first_dirty", "is_indexed", "loses_nothing"),
    [
        (("[0:a=1 1:b=1]", "[2:c=1 3:d=1]"), 0, True, True),
        (("[0:a=1 1:b=1]", "[2:a=2 3:d=1]"), 0, True, False),
        (("[0:a=1 1:a=2]", "[2:c=1 3:d=1]"), 0, False, False),
        (("[0:a=1 1:a=2]", "[2:c=1 3:d=1]"), 9, True, True),
        (("[0:a=1 1:b=]", "[2:c=1 3:d=1]"), 0, False, False),
        (("[0:a=1 1:b=]", "[2:c=1 3:d=1]"), 9, True, False),
    ],
)
def test_no_index_is_made_of_what_surely_changes(
    words: Sequence[str],
    first_dirty: int,
    is_indexed: bool,
    loses_nothing: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small_windows(monkeypatch, 1)
    order = replace(ORDER, first_dirty=first_dirty, fpp=0.01)
    found = scan_segment(stored(log_of(*words)), (), order)
    assert (found.indexing.is_possible, found.loses_nothing) == (is_indexed, loses_nothing)


def test_a_key_falls_into_the_same_bucket_in_every_segment() -> None:
    one = scanned(*[f"{i}:{i}=x" for i in range(30)], buckets=7)
    other = scanned(*[f"{i}:{29 - i}=y" for i in range(30)], buckets=7)
    assert len(one.blocks) > 1
    assert _bucket_by_key(one) == _bucket_by_key(other)


def _bucket_by_key(found: ScannedSegment) -> dict[int, int]:
    return {
        int(hash_): bucket
        for bucket, block in found.blocks
        for hash_ in joined_blocks([block]).columns.hash
    }


def test_a_log_that_was_cut_short_to_nothing_is_refused() -> None:
    cut = replace(stored(b""), end=61)
    with pytest.raises(CorruptLog, match="the log is empty, 0 bytes"):
        scan_transactions(cut)
    with pytest.raises(CorruptLog, match="the log is empty, 0 bytes"):
        scan_segment(cut, (), ORDER)


def test_a_log_that_a_broker_emptied_has_nothing() -> None:
    assert len(scan_transactions(stored(b"")).last_offset) == 0
    found = scan_segment(stored(b""), (), ORDER)
    assert (found.records, found.record_bytes, found.blocks) == (0, 0, ())
    assert (found.plain, len(found.outline)) == (None, 0)
    assert not is_worth_sending(found.outline, 0)


def legacy_log() -> np.ndarray:
    """A lone message, a wrapper of three, a batch of magic 2, another wrapper."""
    lone = message(3, b"x", key=b"a", magic=0)
    three = [message(offset, b"x", key=key) for offset, key in enumerate((b"a", None, b"b"))]
    newer = write_batch(draft_of("8:c=1", 0))
    last = wrapper(9, message(0, None, key=b"a"))
    return np.frombuffer(lone + wrapper(7, b"".join(three)) + newer + last, np.uint8)


def test_the_messages_in_a_wrapper_are_scanned() -> None:
    order = ScanOrder(hash_key=HASH_KEY, first_dirty=0, buckets=2)
    found = scan_segment(stored(legacy_log()), (), order)
    assert found.records == 6
    assert found.own_bits.tolist() == [SUPERSEDED, SUPERSEDED, 0, 0, 0, 0]
    assert entries(found) == [(3, b"b"), (4, b"c"), (5, b"a")]


@pytest.mark.parametrize("window_bytes", [1, 100, 10**6])
def test_heads_hold_what_is_inside_a_wrapper(window_bytes: int) -> None:
    log = stored(legacy_log(), window_bytes=window_bytes)
    heads = joined_heads([window.checked().heads for window in sized_windows(log)])
    assert heads.base_offset.tolist() == [3, 5, 8, 9]
    assert heads.last_offset.tolist() == [3, 7, 8, 9]
    assert heads.count.tolist() == [1, 3, 1, 1]


def test_beyond_the_round_only_transaction_batches_are_read() -> None:
    old = wrapper(1, message(0, b"x") + message(1, b"y"))
    new = b"".join(write_batch(draft_of(word, 0)) for word in ("P1(2:a=1)", "3:P1:C"))
    txn_batches = scan_transactions(stored(old + new))
    assert txn_batches.base_offset.tolist() == [2, 3]
    assert txn_batches.control_type.tolist() == [DATA, COMMIT]


def test_a_wrapper_that_overlaps_the_previous_batch_is_refused() -> None:
    first = wrapper(4, message(0, b"x") + message(1, b"y"))
    inner = message(4, b"x", magic=0) + message(6, b"y", magic=0)
    log = first + wrapper(6, inner, magic=0)
    expected = rf"the message at byte {len(first)} \(offset 6\) begins at offset 4, though offset 4"
    for range_bytes in (1, len(first), 2**30):
        with pytest.raises(CorruptLog, match=expected) as caught:
            scan_transactions(stored(log, window_bytes=1, range_bytes=range_bytes))
        assert "wrote these offsets twice" in caught.value.remedy


@pytest.mark.parametrize("threads", [1, 2])
def test_a_bad_checksum_is_reported_before_what_it_does_to_the_next_batch(threads: int) -> None:
    log = b"".join(write_batch(draft_of(word, 0)) for word in ("0:a=1", "1:b=2", "2:c=3"))
    order = ScanOrder(hash_key=HASH_KEY, first_dirty=0, buckets=1, threads=threads)
    for range_bytes in (1, len(log)):
        stores = stored(
            patched(log, 23, "i", 9), window_bytes=len(log) // 3, range_bytes=range_bytes
        )
        with pytest.raises(CorruptLog, match=r"batch at byte 0 .*bad CRC"):
            scan_segment(stores, (), order)


def test_a_bad_checksum_is_refused() -> None:
    log = log_of("0:a=1", "1:b=2").copy()
    log[-2] ^= 1
    position = int(read_heads(log_of("0:a=1", "1:b=2"), where="").position[1])
    with pytest.raises(CorruptLog, match=f"at byte {position} .*bad CRC"):
        scan_segment(stored(log), (), ScanOrder(hash_key=HASH_KEY, first_dirty=0, buckets=1))


def test_the_scan_leaves_markers_and_aborted_batches_to_the_rewrite() -> None:
    """Kafka's cleaner reads them only if they are not dropped, however large their records are."""
    packed = {"codec": Codec.LZ4}
    aborted = replace(data(0, (b"k", b"v" * 50), producer_id=7), **packed)
    end = replace(marker(1, 7, ControlType.ABORT), **packed)
    log = stored(np.frombuffer(write_batch(aborted) + write_batch(end), np.uint8))
    order = replace(ORDER, record_bytes_max=5)
    assert scan_segment(log, [an_abort(7, 0, 1)], order).records == 2
    with pytest.raises(CorruptLog, match=r"max\.decompressed\.message\.bytes allows 5"):
        scan_segment(log, [], order)

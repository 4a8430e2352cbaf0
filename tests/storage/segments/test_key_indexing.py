"""What a segment's key index has, by its real batches."""

from __future__ import annotations

from dataclasses import fields, replace

import mmh3
import numpy as np
import pytest
from hypothesis import assume, event, given

from tests.compaction.builders import a_segment
from tests.compaction.hash_keys import HASH_KEY
from tests.pictures.batch_words import draft_of
from tests.storage.decoded_logs import WHERE, decoded, written
from tests.storage.drafts import logs
from tests.storage.judged_segments import FPP, scanned_files, segment_of
from tests.storage.legacy_messages import message
from tests.storage.live_segments import KEY, data, log_of, put_segment
from tests.storage.rewrite_decisions import Decision, decisions, rewrite_of
from tests.storage.stored_logs import small_windows, stored
from tierfold.compaction.cleaning.record_retention import BatchRetention
from tierfold.compaction.cleaning.transactions import DATA, TransactionBatches
from tierfold.compaction.model.units import NO_HORIZON
from tierfold.compaction.skipping.key_index import entries_of
from tierfold.compaction.skipping.segment_facts import WatchedBatches
from tierfold.storage.kafka.batch_draft import BatchDraft
from tierfold.storage.kafka.batch_headers import read_heads
from tierfold.storage.kafka.control_records import EMPTIED, ControlType, control_types
from tierfold.storage.segments.key_indexing import (
    RECORDS_MAX,
    IndexedWindow,
    KeyIndexing,
    indexed_batches,
    indexed_rewrite,
    indexed_window,
)
from tierfold.storage.segments.log_windows import live_log, sized_windows
from tierfold.storage.segments.segment_scan import ScanOrder, scan_segment, scan_transactions
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage

MIXED = (
    "[10:a=1 11:b=1]",
    "P1([12:a=1 13:c=]^700)",
    "14:P1:C^900",
    "p2(15-17:())",
    "18:d=",
    "19:P3.4:()",
    "20:L",
    "P1(21:a=1)",
    "22:P1:A",
    "23:e=^400",
)


def window_of(*batches: BatchDraft | bytes | str) -> IndexedWindow | None:
    """What the index needs of these batches, which words may draw, in one window."""
    found = [draft_of(one, 0) if isinstance(one, str) else one for one in batches]
    (unchecked,) = sized_windows(stored(log_of(found)))
    ((window, records),) = unchecked.decoded()
    indexed = indexed_window(window.heads, records, window.control_types(records))
    if not window.heads.is_legacy.any():
        again = indexed_batches(window.data, window.heads, where="a log")
        assert (again is None) is (indexed is None)
    return indexed


def made(*batches: BatchDraft | bytes | str) -> IndexedWindow:
    window = window_of(*batches)
    assert window is not None
    return window


@pytest.mark.parametrize(
    "batches",
    [
        ("[10:a=1 11:=1]",),
        ("10:a=1", "11:=1"),
        ("10:=",),
        ("P1(10:=1)", "11:P1:A"),
        (message(10, b"v"),),
        (message(10, b"v", magic=0),),
    ],
    ids=[
        "one lacks a key",
        "the second batch lacks one",
        "a tombstone lacks one",
        "an undecided record lacks one",
        "magic 1",
        "magic 0",
    ],
)
def test_a_segment_that_is_always_read_has_no_index(
    batches: tuple[str | bytes, ...],
) -> None:
    assert window_of(*batches) is None


def test_an_empty_key_is_a_key() -> None:
    assert len(made("10:''=1").entries) == 1


def test_data_records_have_an_entry_and_all_records_count() -> None:
    window = made(*MIXED)
    keys = [b"a", b"b", b"a", b"c", b"d", b"a", b"e"]
    hashes = np.array([mmh3.hash64(key, signed=False)[0] for key in keys], np.uint64)
    assert window.records == len(keys) + 3
    assert len(window.entries) == len(keys)
    assert (window.entries >> np.uint64(8) == hashes >> np.uint64(8)).all()
    assert (window.first_offset, window.last_offset) == (10, 23)


def test_batches_with_a_tombstone_give_their_horizons() -> None:
    window = made(*MIXED, "24:f=1^300", "25:P1:C^200", "[26:g= 27:h=]^100")
    assert window.tombstone_horizons_ms.tolist() == [700, NO_HORIZON, 400, 100]


def test_transactional_control_and_empty_batches_are_watched() -> None:
    watched = made(*MIXED, "P1(24-29:())").watched
    rows = {name.name: getattr(watched, name.name).tolist() for name in fields(watched)}
    assert rows == {
        "base_offset": [12, 14, 15, 19, 20, 21, 22, 24],
        "last_offset": [13, 14, 17, 19, 20, 21, 22, 29],
        "producer_id": [1, 1, 2, 3, -1, 1, 1, 1],
        "producer_epoch": [0, 0, 0, 4, -1, 0, 0, 0],
        "control_type": [-1, 1, -1, -2, 2, -1, 0, -1],
        "horizon_ms": [700, 900, *[NO_HORIZON] * 6],
        "is_transactional": [True, True, False, True, False, True, True, True],
        "is_control": [False, True, False, True, True, False, True, False],
        "has_records": [True, True, False, False, True, True, True, False],
        "is_emptied": [False, False, True, True, False, False, False, True],
    }


@given(logs())
def test_whatever_a_log_has_is_counted(drafts: tuple[BatchDraft, ...]) -> None:
    window = window_of(*drafts)
    data = [record for draft in drafts if not draft.is_control for record in draft.records]
    if any(record.key is None for record in data):
        assert window is None
        return
    event("it has an index")
    assert window is not None
    hashes = [mmh3.hash64(record.key, signed=False)[0] & ~0xFF for record in data]
    assert (window.entries & ~np.uint64(0xFF)).tolist() == hashes
    assert window.records == sum(len(draft.records) for draft in drafts)
    assert window.first_offset == drafts[0].base_offset
    assert window.last_offset == drafts[-1].last_offset
    assert window.tombstone_horizons_ms.tolist() == [
        NO_HORIZON if draft.delete_horizon_ms is None else draft.delete_horizon_ms
        for draft in drafts
        if any(record.value is None for record in draft.records)
    ]
    watched = [
        draft.base_offset
        for draft in drafts
        if draft.is_transactional or draft.is_control or not draft.records
    ]
    assert window.watched.base_offset.tolist() == watched
    assert_same_batches(
        window.watched.transaction_batches, scan_transactions(stored(log_of(drafts)))
    )


@given(decisions() | decisions(drops_keyless=True))
def test_the_index_of_rewritten_batches_is_that_of_their_bytes(decision: Decision) -> None:
    drafts, retention, keep, horizons = decision
    source = decoded(written(drafts))
    new = rewrite_of(source.log.tobytes(), retention, keep, horizons)
    assume(len(new.data))
    types = control_types(source.records, source.heads, where=WHERE)
    heads = read_heads(new.data, where=WHERE)
    found = indexed_rewrite(heads, source.records, types, new)
    expected = indexed_batches(new.data, heads, where=WHERE)
    assert (found is None) is (expected is None)
    if found is not None and expected is not None:
        event("it has an index")
        assert_same(found, expected)


def test_a_dropped_batch_leaves_the_markers_their_types() -> None:
    drafts = [draft_of(word, 0) for word in ("10:a=1", "P1(11:b=1)", "12:P1:C", "13:P1:A")]
    source = decoded(written(drafts))
    retention = [BatchRetention.DROP, *[BatchRetention.COPY] * 2, BatchRetention.EMPTY]
    new = rewrite_of(source.log.tobytes(), retention, [False, True, True, False], [None] * 4)
    types = control_types(source.records, source.heads, where=WHERE)
    found = indexed_rewrite(read_heads(new.data, where=WHERE), source.records, types, new)
    assert found is not None
    assert found.watched.control_type.tolist() == [DATA, ControlType.COMMIT, EMPTIED]


def assert_same(found: IndexedWindow, expected: IndexedWindow) -> None:
    pairs = [(getattr(found, f.name), getattr(expected, f.name)) for f in fields(IndexedWindow)]
    pairs += [
        (getattr(found.watched, f.name), getattr(expected.watched, f.name))
        for f in fields(WatchedBatches)
    ]
    for one, other in pairs:
        if isinstance(one, np.ndarray):
            assert (one.dtype, one.tolist()) == (other.dtype, other.tolist())
        elif not isinstance(one, WatchedBatches):
            assert one == other


def assert_same_batches(found: TransactionBatches, expected: TransactionBatches) -> None:
    for column in fields(TransactionBatches):
        columns = (getattr(found, column.name), getattr(expected, column.name))
        assert columns[0].tolist() == columns[1].tolist(), column.name


def test_the_sizes_are_those_of_the_records() -> None:
    drafts = [draft_of("[10:a=1 11:b=]", 0), draft_of("12:P1:C", 0)]
    window = made(*drafts)
    order = ScanOrder(hash_key=HASH_KEY, first_dirty=0, buckets=1)
    scanned = scan_segment(stored(log_of(drafts)), (), order)
    assert window.record_bytes == scanned.record_bytes
    assert window.records == scanned.records
    hashes = window.entries & ~np.uint64(0xFF)
    # Length, attributes, deltas, key with its length, value with its length, no headers.
    assert (window.entries == entries_of(hashes, np.array([9, 8]))).all()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("window_bytes", [1, 150, 10**6])
def test_windows_of_any_size_give_the_same_index(
    window_bytes: int,
    threads: int,
    tier: LocalTieredStorage,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    segment = segment_of(tier, MIXED)
    expected = scanned_files(tier, segment)
    assert expected is not None
    small_windows(monkeypatch, window_bytes)
    assert scanned_files(tier, segment, threads=threads) == expected


@pytest.mark.parametrize("keyless", range(3))
def test_one_window_without_an_index_leaves_the_segment_without(
    keyless: int, tier: LocalTieredStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [f"{10 + i}:{'' if i == keyless else 'a'}=1" for i in range(3)]
    small_windows(monkeypatch, 1)
    assert scanned_files(tier, segment_of(tier, words)) is None


@pytest.mark.parametrize("place", [0, 1])
def test_one_legacy_batch_leaves_the_segment_without(
    place: int, tier: LocalTieredStorage
) -> None:
    log: list[BatchDraft | bytes] = [draft_of(f"{11 - place}:a=1", 0)]
    log.insert(place, message(10 + place, b"v"))
    assert scanned_files(tier, put_segment(tier, log, offsets=(10, 11))) is None


def test_a_scan_that_is_not_asked_for_an_index_makes_none(tier: LocalTieredStorage) -> None:
    segment = segment_of(tier, MIXED)
    order = ScanOrder(hash_key=HASH_KEY, first_dirty=0, buckets=1)
    indexing = scan_segment(live_log(tier, KEY, segment), (), order).indexing
    assert indexing.built(segment, FPP) is None
    assert KeyIndexing().built(segment, FPP) is None


def test_the_facts_are_of_all_windows(
    tier: LocalTieredStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = segment_of(tier, MIXED)
    small_windows(monkeypatch, 1)
    order = ScanOrder(hash_key=HASH_KEY, first_dirty=segment.next_offset, buckets=1, fpp=FPP)
    scanned = scan_segment(live_log(tier, KEY, segment), (), order)
    built = scanned.indexing.built(segment, FPP)
    assert built is not None
    facts, index = built[0].facts, built[1]
    assert (facts.segment_id, facts.start_offset) == (segment.segment_id, 10)
    assert (facts.size_bytes, facts.first_offset, facts.last_offset) == (segment.size_bytes, 10, 23)
    assert (facts.records, facts.record_bytes) == (10, scanned.record_bytes)
    assert (facts.tombstones_due_ms, facts.has_undated_tombstones) == (400, True)
    assert facts.due_ms == 400
    assert_same_batches(facts.watched.transaction_batches, scanned.txn_batches)
    assert len(index.sizes) == 7
    assert facts.counts.kept_markers == 4 - 2
    assert facts.counts.adds_up


@pytest.mark.parametrize(
    ("words", "due_ms", "tombstones_ms", "has_undated"),
    [
        (["10:a=1^300"], None, None, False),
        (["10:a="], None, None, True),
        (["10:a=^300"], 300, 300, False),
        (["10:a=^300", "11:b=^200", "12:c=^400"], 200, 200, False),
        (["10:a=^300", "11:b="], 300, 300, True),
        (["10:P1:C^300"], 300, None, False),
        (["10:P1:C", "11:P1:C^300", "12:P1:C^200"], 200, None, False),
        (["10:P1:C^300", "11:a=^400"], 300, 400, False),
        (["10:P1:C^500", "11:a=^400"], 400, 400, False),
        (["P1(10:a=1^300)"], None, None, False),
        (["10:P1:()", "11:()"], None, None, False),
    ],
    ids=str,
)
def test_a_horizon_is_due_if_something_waits_for_it(
    words: list[str],
    due_ms: int | None,
    tombstones_ms: int | None,
    has_undated: bool,
    tier: LocalTieredStorage,
) -> None:
    segment = segment_of(tier, words)
    indexing = KeyIndexing()
    for word in words:
        indexing.add(made(word))
    built = indexing.built(segment, FPP)
    assert built is not None
    facts = built[0].facts
    assert (facts.tombstones_due_ms, facts.has_undated_tombstones) == (tombstones_ms, has_undated)
    assert facts.due_ms == due_ms


@pytest.mark.parametrize("batches", [4096, 4097])
def test_a_segment_with_very_many_batches_to_watch_has_no_index(batches: int) -> None:
    indexing = KeyIndexing()
    indexing.add(made(*(data(i, (b"k", b"v"), producer_id=7) for i in range(batches))))
    segment = replace(a_segment(0, batches - 1), size_bytes=100 * batches)
    assert (indexing.built(segment, FPP) is None) is (batches > 4096)


@pytest.mark.parametrize("size_bytes", [10**6, 10**9])
def test_a_segment_whose_index_would_be_large_beside_it_has_none(size_bytes: int) -> None:
    indexing = KeyIndexing()
    window = made("0:a=1")
    entries = np.arange(50_000, dtype=np.uint64) << np.uint64(40)
    indexing.add(replace(window, entries=entries, records=50_000))
    segment = replace(a_segment(0, 49_999), size_bytes=size_bytes)
    assert (indexing.built(segment, FPP) is None) is (size_bytes == 10**6)


def test_a_segment_of_more_records_than_fit_in_memory_has_no_index() -> None:
    window = made("0:a=1")
    for records, is_made in ((RECORDS_MAX, True), (RECORDS_MAX + 1, False)):
        indexing = KeyIndexing()
        indexing.add(replace(window, records=records))
        built = indexing.built(replace(a_segment(0, 9), size_bytes=10**9), FPP)
        assert (built is not None) is is_made

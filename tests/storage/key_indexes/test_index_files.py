"""Both files of a key index return what was written; any other bytes are refused as unsound."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, Final

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.builders import a_segment, segment_id
from tests.compaction.unread import some_facts, watched
from tierfold.compaction.skipping.bloom_filter import bloom_filter
from tierfold.compaction.skipping.key_index import entries_of, key_index
from tierfold.compaction.skipping.segment_facts import SegmentFacts, WatchedBatches
from tierfold.storage.key_indexes import index_files
from tierfold.storage.key_indexes.index_files import (
    UNPACKED_BYTES_MIN,
    VERSION,
    IndexedSegment,
    UnsoundIndex,
    filter_file,
    index_file,
    read_filter_file,
    read_index_file,
)

SEGMENT: Final = a_segment(0, 9)
HASHES: Final = np.arange(1, 11, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
ROWS: Final = (
    {"base_offset": 2, "last_offset": 3, "producer_id": 2**40, "producer_epoch": 7},
    {"is_control": True, "control_type": 1, "horizon_ms": 2**62, "has_records": False},
    {"is_transactional": False, "is_emptied": True, "control_type": -2},
)
FACTS: Final = some_facts(ROWS, tombstones_due_ms=-7, has_undated_tombstones=True)
INDEXED: Final = IndexedSegment(facts=FACTS, bloom=bloom_filter(HASHES, 0.01))
INDEX: Final = key_index(entries_of(HASHES, np.arange(10, 20)), 3)
FILES: Final[dict[str, tuple[bytes, Callable[..., object]]]] = {
    "filter": (filter_file(INDEXED), read_filter_file),
    "index": (index_file(FACTS, INDEX), read_index_file),
}

each_file = pytest.mark.parametrize(("data", "read"), FILES.values(), ids=FILES)


def same(left: np.ndarray, right: np.ndarray) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and bool((left == right).all())


def assert_same_facts(found: SegmentFacts, expected: SegmentFacts) -> None:
    for column in fields(WatchedBatches):
        name = column.name
        assert same(getattr(found.watched, name), getattr(expected.watched, name)), name
    none = watched()
    assert replace(found, watched=none) == replace(expected, watched=none)


def summed(body: bytes) -> bytes:
    """The bytes with their checksum behind them."""
    return body + struct.pack("<I", google_crc32c.value(body))


def content_of(data: bytes) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """The numbers and the columns of a file."""
    head_end = 4 + struct.unpack_from("<I", data)[0]
    source = pa.BufferReader(zstandard.decompress(data[head_end:-4]))
    texts, types = json.loads(data[4:head_end])
    columns = {
        name: pa.ipc.read_tensor(source).to_numpy().view(kind) for name, kind in types.items()
    }
    return texts, columns


def file_of(texts: object, columns: Mapping[str, np.ndarray], types: object = None) -> bytes:
    """A file of them; `types`: what it says that the columns are."""
    types = {name: column.dtype.str for name, column in columns.items()} if types is None else types
    head = json.dumps([texts, types]).encode()
    sink = pa.BufferOutputStream()
    for column in columns.values():
        pa.ipc.write_tensor(pa.Tensor.from_numpy(column.view(np.uint8)), sink)
    return file_with(head, zstandard.compress(sink.getvalue().to_pybytes()))


def file_with(head: bytes, frame: bytes) -> bytes:
    return summed(struct.pack("<I", len(head)) + head + frame)


def changed(data: bytes, **numbers: Any) -> bytes:
    """The file with other numbers; None: without that."""
    texts, columns = content_of(data)
    values = texts | {name.replace("__", "."): value for name, value in numbers.items()}
    kept = {name: str(value) for name, value in values.items() if value is not None}
    return file_of(kept, columns)


@pytest.mark.parametrize("rows", [(), ROWS[:1], ROWS], ids=["no batches", "one", "three"])
@pytest.mark.parametrize("due_ms", [None, 0, -7, 2**62])
@pytest.mark.parametrize("has_undated", [True, False])
@pytest.mark.parametrize("keys", [0, 1, 10])
def test_a_filter_file_returns_facts_and_filter(
    rows: tuple[dict[str, Any], ...],
    due_ms: int | None,
    has_undated: bool,
    keys: int,
) -> None:
    facts = some_facts(rows, tombstones_due_ms=due_ms, has_undated_tombstones=has_undated)
    bloom = bloom_filter(HASHES[:keys], 0.01)
    found = read_filter_file(filter_file(IndexedSegment(facts=facts, bloom=bloom)), SEGMENT)
    assert_same_facts(found.facts, facts)
    assert same(found.bloom.words, bloom.words)
    assert found.bloom.bits_per_key == bloom.bits_per_key
    assert found.bloom.may_hold(HASHES[:keys]).all()


def test_each_number_of_the_facts_returns_as_itself() -> None:
    numbers = [
        column.name
        for column in fields(SegmentFacts)
        if isinstance(getattr(FACTS, column.name), int) and column.name != "has_undated_tombstones"
    ]
    facts = replace(FACTS, **{name: 1000 + i for i, name in enumerate(numbers)})
    segment = replace(SEGMENT, start_offset=facts.start_offset, size_bytes=facts.size_bytes)
    found = read_filter_file(filter_file(replace(INDEXED, facts=facts)), segment)
    assert_same_facts(found.facts, facts)


@given(
    st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**31)), max_size=60),
    st.integers(1, 4),
)
def test_an_index_file_returns_the_index(records: list[tuple[int, int]], rest: int) -> None:
    hashes = np.array([one for one, _ in records], np.uint64)
    index = key_index(entries_of(hashes, np.array([size for _, size in records], np.int64)), rest)
    found = read_index_file(index_file(FACTS, index), SEGMENT)
    assert same(found.counts, index.counts)
    assert same(found.sizes, index.sizes)
    assert found.rests.tobytes() == index.rests.tobytes()
    asked = np.concatenate([hashes, HASHES])
    assert found.matches(asked) == index.matches(asked)


def test_an_index_without_records_is_sound() -> None:
    none = key_index(np.empty(0, np.uint64), 4)
    found = read_index_file(index_file(FACTS, none), SEGMENT)
    assert found.matches(HASHES).records == 0


@each_file
def test_each_flipped_bit_is_found(data: bytes, read: Callable[..., object]) -> None:
    for at in range(len(data)):
        for bit in (1, 128):
            turned = bytearray(data)
            turned[at] ^= bit
            with pytest.raises(UnsoundIndex):
                read(bytes(turned), SEGMENT)


@each_file
def test_each_truncation_is_found(data: bytes, read: Callable[..., object]) -> None:
    for length in range(len(data)):
        with pytest.raises(UnsoundIndex):
            read(data[:length], SEGMENT)


@each_file
def test_bytes_behind_the_file_are_found(data: bytes, read: Callable[..., object]) -> None:
    for more in (b"\0", b"\0" * 4, data):
        with pytest.raises(UnsoundIndex):
            read(data + more, SEGMENT)


@each_file
@pytest.mark.parametrize(
    "fields_of",
    [{"segment_id": segment_id("x")}, {"start_offset": 1}, {"size_bytes": 999}],
    ids=["another segment", "another start", "another size"],
)
def test_the_file_of_another_segment_is_not_taken(
    data: bytes, read: Callable[..., object], fields_of: dict[str, Any]
) -> None:
    with pytest.raises(UnsoundIndex, match="it belongs to another segment"):
        read(data, replace(SEGMENT, **fields_of))


@each_file
@pytest.mark.parametrize("version", [VERSION + 1, 0, "", "x", None])
def test_another_version_is_not_taken(
    data: bytes, read: Callable[..., object], version: object
) -> None:
    assert read(changed(data), SEGMENT) is not None
    with pytest.raises(UnsoundIndex, match="it has another version"):
        read(changed(data, tierfold__key_index_version=version), SEGMENT)


def test_the_version_is_that_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    assert VERSION == 2
    monkeypatch.setattr(index_files, "VERSION", 3)
    later = filter_file(INDEXED)
    assert read_filter_file(later, SEGMENT) is not None
    monkeypatch.undo()
    with pytest.raises(UnsoundIndex, match="it has another version"):
        read_filter_file(later, SEGMENT)


@each_file
def test_one_file_is_not_taken_for_the_other(data: bytes, read: Callable[..., object]) -> None:
    (other,) = (one for one, _ in FILES.values() if one != data)
    with pytest.raises(UnsoundIndex):
        read(other, SEGMENT)


def an_arrow_file() -> bytes:
    """What version 1 was: an Arrow file."""
    sink = pa.BufferOutputStream()
    row = pa.record_batch({"counts": [[1]]}, metadata={"tierfold.key_index_version": "1"})
    with pa.ipc.new_file(sink, row.schema) as writer:
        writer.write_batch(row)
    return bytes(sink.getvalue())


@each_file
@pytest.mark.parametrize(
    "body",
    [
        b"",
        an_arrow_file(),
        b"nothing of ours" * 20,
        zstandard.compress(b""),
        zstandard.compress(an_arrow_file()),
        file_of({}, {})[:-4],
        file_of([], {})[:-4],
        file_of({}, {}, [])[:-4],
        file_of({}, {"counts": np.ones(1, np.uint8)})[:-4],
        file_with(b"[" * 100_000, zstandard.compress(b""))[:-4],
        file_with(b"", b"")[:-4],
        struct.pack("<I", 2**32 - 1) + b"[[]]",
    ],
    ids=lambda body: f"{len(body)} bytes",
)
def test_sound_bytes_of_something_else_are_not_taken(
    data: bytes, read: Callable[..., object], body: bytes
) -> None:
    assert data[-4:] == struct.pack("<I", google_crc32c.value(data[:-4]))
    with pytest.raises(UnsoundIndex):
        read(summed(body), SEGMENT)


@pytest.mark.parametrize(
    "metadata",
    [
        {"bits_per_key": None},
        {"bits_per_key": "many"},
        {"bits_per_key": 0},
        {"bits_per_key": 2**62},
        {"records": None},
        {"records": "many"},
        {"tombstones_due_ms": "never"},
        {"has_undated_tombstones": None},
        {"more": 1},
    ],
    ids=str,
)
def test_facts_that_are_missing_or_no_numbers_are_not_taken(metadata: dict[str, Any]) -> None:
    with pytest.raises(UnsoundIndex):
        read_filter_file(changed(filter_file(INDEXED), **metadata), SEGMENT)


@pytest.mark.parametrize(
    "columns",
    [
        {"rests": INDEX.rests.ravel()[:-1]},
        {"rests": np.repeat(INDEX.rests.ravel(), 2)},
        {"rests": np.empty(0, np.uint8)},
        {"sizes": INDEX.sizes[:-1]},
        {"counts": np.empty(0, np.uint8)},
        {"counts": INDEX.counts[:-1]},
        {"counts": np.append(INDEX.counts, np.zeros(1, np.uint8))},
        {"counts": INDEX.counts + np.uint8(1)},
        {"counts": np.full(len(INDEX.counts), 2**62, np.uint64)},
        {"counts": INDEX.counts.astype(np.int64)},
        {"counts": INDEX.counts.astype(np.float32)},
        {"sizes": INDEX.sizes.astype(np.uint16)},
        {"sizes": INDEX.sizes.astype(">u2")},
        {"more": INDEX.sizes},
    ],
    ids=str,
)
def test_an_index_that_contradicts_itself_is_not_taken(columns: dict[str, np.ndarray]) -> None:
    texts, found = content_of(index_file(FACTS, INDEX))
    assert read_index_file(file_of(texts, found), SEGMENT).matches(HASHES).records == 10
    with pytest.raises(UnsoundIndex):
        read_index_file(file_of(texts, found | columns), SEGMENT)


@pytest.mark.parametrize(
    "columns",
    [
        {"words": np.empty(0, np.uint64)},
        {"words": INDEXED.bloom.words.astype(np.int64)},
        {"is_control": np.ones(2, np.bool_)},
        {"producer_epoch": np.ones(3, np.int64)},
        {"has_records": np.ones(3, np.uint8)},
    ],
    ids=str,
)
def test_a_filter_that_contradicts_itself_is_not_taken(columns: dict[str, np.ndarray]) -> None:
    texts, found = content_of(filter_file(INDEXED))
    assert read_filter_file(file_of(texts, found), SEGMENT) is not None
    with pytest.raises(UnsoundIndex):
        read_filter_file(file_of(texts, found | columns), SEGMENT)


@each_file
@pytest.mark.parametrize("says", [True, False], ids=["says how much", "does not say"])
def test_a_file_that_unpacks_to_gigabytes_is_not_unpacked(
    data: bytes, read: Callable[..., object], says: bool
) -> None:
    bomb = zstandard.ZstdCompressor(write_content_size=says).compressobj(
        size=UNPACKED_BYTES_MIN * 4 if says else -1
    )
    zeros = bytes(1 << 20)
    body = b"".join(bomb.compress(zeros) for _ in range(UNPACKED_BYTES_MIN * 4 >> 20))
    body += bomb.flush()
    assert len(body) < 100_000
    before = pa.total_allocated_bytes()
    head_end = 4 + struct.unpack_from("<I", data)[0]
    with pytest.raises(UnsoundIndex, match="it says that it unpacks to"):
        read(file_with(data[4:head_end], body), SEGMENT)
    assert pa.total_allocated_bytes() == before
    assert read(data, SEGMENT) is not None


def test_equal_segments_have_files_of_equal_size() -> None:
    ids = ("vvvvvvvvvvvvvvvvvvvvvA", "3kGx9Qb-Z0aT7_uLw2RhEA", "AAAAAAAAAAAAAAAAAAAAAA")
    for file in (
        lambda facts: filter_file(replace(INDEXED, facts=facts)),
        lambda facts: index_file(facts, INDEX),
    ):
        assert len({len(file(replace(FACTS, segment_id=one))) for one in ids}) == 1


def test_both_files_together_take_a_few_bytes_per_record() -> None:
    hashes = np.arange(100_000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    facts = some_facts()
    index = key_index(entries_of(hashes, np.full(len(hashes), 300)), 2)
    indexed = IndexedSegment(facts=facts, bloom=bloom_filter(hashes, 0.01))
    size_bytes = len(filter_file(indexed)) + len(index_file(facts, index))
    assert size_bytes / len(hashes) < 4

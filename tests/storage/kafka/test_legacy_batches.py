"""Handwritten magic 0 and 1; test_segment_reader compares Kafka's own such logs."""

from __future__ import annotations

import pytest

from tests.storage.corrupted_bytes import batch, patched
from tests.storage.decoded_logs import WHERE, array, heads_of
from tests.storage.kafka_dumps import kafka_reads, log_bytes
from tests.storage.legacy_messages import message, wrapper
from tierfold.compaction.model.errors import CorruptLog
from tierfold.storage.kafka.compression import Codec, PlainLimits
from tierfold.storage.kafka.legacy_batches import (
    DecodeLimits,
    decode_any,
    decode_legacy,
    decoded_runs,
    with_inner_heads,
)
from tierfold.storage.kafka.records import Records


def decoded(log: bytes) -> Records:
    return decode_legacy(array(log), heads_of(log, check_crc=False), where=WHERE)


def test_offsets_in_a_wrapper_of_magic_1_are_relative_to_its_end() -> None:
    inner = message(0, b"a") + message(1, b"b") + message(4, None)
    records = decoded(message(7, b"") + wrapper(104, inner))
    assert records.offset.tolist() == [7, 100, 101, 104]
    assert records.value_bytes.tolist() == [0, 1, 1, -1]
    assert records.batch.tolist() == [0, 1, 1, 1]
    assert records.first_record.tolist() == [0, 1, 4]


def test_offsets_in_a_wrapper_of_magic_0_are_absolute() -> None:
    inner = message(100, b"a", magic=0) + message(104, b"b", magic=0, key=None)
    records = decoded(wrapper(104, inner, magic=0))
    assert records.offset.tolist() == [100, 104]
    assert records.key_bytes.tolist() == [1, -1]
    assert records.timestamp_ms.tolist() == [-1, -1]


def test_the_wrappers_log_append_time_is_its_messages_time() -> None:
    inner = message(0, b"a", timestamp_ms=1) + message(1, b"b", timestamp_ms=2)
    assert decoded(wrapper(1, inner)).timestamp_ms.tolist() == [1, 2]
    assert decoded(wrapper(1, inner, attributes=8)).timestamp_ms.tolist() == [9000, 9000]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((300_000,) * 3, [(0, 3)]),
        ((300_000,) * 7, [(0, 3), (3, 6), (6, 7)]),
        # One alone may be larger than several together.
        ((1, 1_200_000, 1, 1), [(0, 1), (1, 2), (2, 4)]),
    ],
)
def test_wrappers_that_are_too_large_together_are_decoded_in_several_runs(
    sizes: tuple[int, ...], expected: list[tuple[int, int]]
) -> None:
    log = b"".join(wrapper(i, message(0, bytes(size))) for i, size in enumerate(sizes))
    limits = PlainLimits(together_bytes=1_000_000)
    heads = heads_of(log, check_crc=False)
    runs = list(decoded_runs(array(log), heads, where=WHERE, limits=limits))
    assert [(first, last) for first, last, _ in runs] == expected
    assert [n for _, _, records in runs for n in records.offset.tolist()] == [*range(len(sizes))]
    inner = with_inner_heads(
        array(log), heads, limits=DecodeLimits(2**30, limits), where=WHERE
    )
    assert inner.count.tolist() == [1] * len(sizes)
    assert inner.base_offset.tolist() == [*range(len(sizes))]


def test_a_records_span_is_its_message() -> None:
    first, second = message(0, b"a"), message(1, b"bb")
    records = decoded(wrapper(1, first + second))
    spans = list(zip(records.start.tolist(), records.end.tolist(), strict=True))
    assert [records.body[start:end].tobytes() for start, end in spans] == [first, second]
    assert not records.headers_count.any()


@pytest.mark.parametrize("name", ["v0lz4", "v1lz4", "v2lz4"])
def test_one_reader_serves_every_magic(name: str) -> None:
    log = log_bytes(name)
    records = decode_any(array(log), heads_of(log), where=name)
    offsets = [record["offset"] for b in kafka_reads(name) for record in b["records"]]
    assert records.offset.tolist() == offsets


def test_no_batches_have_no_records() -> None:
    assert len(decoded(b"")) == 0
    assert len(decode_any(array(b""), heads_of(b""), where=WHERE)) == 0


GOOD = message(0, b"a")
CORRUPT = {
    "a cut message": (wrapper(1, GOOD + GOOD[:-1]), r"broken at byte 36 .* a message is cut"),
    "a cut head": (wrapper(1, GOOD + GOOD[:20]), "a message is cut"),
    "a short message": (wrapper(1, patched(GOOD, 8, "i", 3)), "a message is cut, or shorter"),
    "a negative size": (wrapper(1, patched(GOOD, 8, "i", -13)), "a message is cut, or shorter"),
    "a key too long": (patched(GOOD, 26, "i", 90), "a key or value leads out of its message"),
    "a huge key": (patched(GOOD, 26, "i", 2**31 - 1), "a key or value leads out of its message"),
    "a value too long": (patched(GOOD, 31, "i", 2), "a key or value leads out of its message"),
    "a value too short": (patched(GOOD, 31, "i", 0), "a key or value leads out of its message"),
    "another magic": (wrapper(1, message(0, b"a" * 30, magic=0)), "magic is not its wrapper's"),
    "a wrapper in a wrapper": (wrapper(1, wrapper(0, GOOD)), "a wrapper lies within a wrapper"),
    "no message": (wrapper(1, b""), "a wrapper holds no message"),
    "offsets that stand still": (wrapper(5, GOOD + GOOD), "an offset does not rise"),
    "offsets below zero": (wrapper(0, GOOD + message(1, b"")), "an offset does not rise"),
    "an offset beyond the wrapper": (
        wrapper(5, message(6, b"a", magic=0), magic=0),
        "lies beyond its wrapper's",
    ),
    "offsets of the wrapper before": (
        wrapper(9, GOOD) + wrapper(10, GOOD + message(3, b"")),
        "an offset does not rise",
    ),
    "a null wrapper": (message(3, None, attributes=Codec.GZIP), "a wrapper's value leads out"),
    "a wrapper's key too long": (
        patched(wrapper(3, GOOD), 26, "i", 2**30),
        "a wrapper's value leads out",
    ),
    "a wrapper's value cut": (
        patched(wrapper(3, GOOD), 30, "i", 5),
        "a wrapper's value leads out",
    ),
    "no gzip": (message(3, b"no gzip", attributes=Codec.GZIP), "the gzip payload cannot be"),
}


@pytest.mark.parametrize("corrupt", CORRUPT)
def test_a_corrupt_message_is_named_with_its_place(corrupt: str) -> None:
    log, found = CORRUPT[corrupt]
    with pytest.raises(CorruptLog, match=found) as caught:
        decoded(log)
    assert caught.value.where.startswith(WHERE)


def test_the_corrupt_message_is_named() -> None:
    before = message(3, b"fine")
    with pytest.raises(CorruptLog, match=rf"the message at byte {len(before)} \(offset 8\) is"):
        decoded(before + wrapper(8, GOOD + GOOD[:-1]))


def test_new_batches_may_follow() -> None:
    log = message(3, b"old") + batch(4)
    for i, offset in enumerate((3, 4)):
        window = heads_of(log).slice(i, i + 1)
        assert decode_any(array(log), window, where=WHERE).offset.tolist() == [offset]

"""Payloads are decoded to columns; each kind of corrupt payload is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.corrupted_bytes import batch, batch_around, patched
from tests.storage.decoded_logs import WHERE, array, decoded, heads_of, one_record, written
from tests.storage.drafts import logs
from tests.storage.kafka_dumps import log_bytes
from tierfold.compaction.model.errors import CorruptLog
from tierfold.storage.kafka.batch_draft import BatchDraft, write_batch
from tierfold.storage.kafka.batch_headers import unchecked_heads
from tierfold.storage.kafka.compression import PLAIN_BYTES_TRUSTED, Codec, PlainLimits, compress
from tierfold.storage.kafka.legacy_batches import decoded_runs
from tierfold.storage.kafka.payloads import TooMuchTogether
from tierfold.storage.kafka.records import Records, columns_of, decode, headers_of, windows

RECORD = bytes.fromhex("0e 00 02 04 02 6b 01 00")  # 7 bytes: +1 ms, +2, key "k", null, none


@given(logs())
def test_columns_hold_what_was_written(drafts: tuple[BatchDraft, ...]) -> None:
    records = decoded(written(drafts)).records
    expected = [(i, record) for i, draft in enumerate(drafts) for record in draft.records]
    assert records.batch.tolist() == [i for i, _ in expected]
    assert records.offset.tolist() == [record.offset for _, record in expected]
    assert np.diff(records.first_record).tolist() == [len(draft.records) for draft in drafts]
    body = records.body.tobytes()
    for n, (_, record) in enumerate(expected):
        key_at, key_bytes = int(records.key_at[n]), int(records.key_bytes[n])
        value_at, value_bytes = int(records.value_at[n]), int(records.value_bytes[n])
        assert (None if key_bytes < 0 else body[key_at : key_at + key_bytes]) == record.key
        assert (
            None if value_bytes < 0 else body[value_at : value_at + value_bytes]
        ) == record.value
        assert tuple(headers_of(records, n)) == record.headers
        assert records.start[n] < key_at <= value_at <= records.headers_at[n] <= records.end[n]


def test_uncompressed_batches_are_not_copied() -> None:
    found = decoded(log_bytes("v2none"))
    assert np.shares_memory(found.records.body, found.log)


def test_plain_and_compressed_batches_share_a_body() -> None:
    packed = write_batch(replace(one_record(9, key=b"packed"), codec=Codec.LZ4))
    records = decoded(batch(0, records=2) + packed + batch(10)).records
    keys = [
        records.body[at : at + size].tobytes()
        for at, size in zip(records.key_at, records.key_bytes, strict=True)
    ]
    assert keys == [b"key", b"key", b"packed", b"key"]


def test_a_body_grows_with_what_is_in_it() -> None:
    values = [bytes([n]) * 50_000 for n in range(4)]
    drafts = [
        replace(one_record(n, value=value), codec=Codec.ZSTD) for n, value in enumerate(values)
    ]
    records = decoded(written(drafts)).records
    found = [records.body[at : at + 50_000].tobytes() for at in records.value_at]
    assert found == values


def _read_at_once(log: bytes) -> list[list[int]]:
    return _columns(decoded(log).records)


def _read_batch_by_batch(log: bytes) -> list[list[int]]:
    heads = unchecked_heads(array(log), where=WHERE)
    return _columns(decode(array(log), heads, where=WHERE, check_crc=True))


def _columns(records: Records) -> list[list[int]]:
    return [column.tolist() for column in columns_of(records)]


def _outcome(read: Callable[[bytes], list[list[int]]], log: bytes) -> list[list[int]] | str:
    try:
        return read(log)
    except CorruptLog as error:
        return str(error)


@given(drafts=logs(), data=st.data())
def test_checksums_compared_while_decoding_find_the_same(
    drafts: tuple[BatchDraft, ...], data: st.DataObject
) -> None:
    log = written(drafts)
    assert _read_batch_by_batch(log) == _read_at_once(log)
    for at in data.draw(st.lists(st.integers(0, max(0, len(log) - 1)), max_size=20)):
        turned = log[:at] + bytes([log[at] ^ 4]) + log[at + 1 :] if log else log
        assert _outcome(_read_batch_by_batch, turned) == _outcome(_read_at_once, turned), at


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("n", [0, 1, 2])
def test_the_checksum_of_every_batch_is_compared(n: int, codec: Codec) -> None:
    batches = [write_batch(replace(one_record(i), codec=codec)) for i in range(3)]
    at = sum(map(len, batches[:n]))
    batches[n] = patched(batches[n], 43, "q", 77)  # Another producer: it can still be decoded.
    log = b"".join(batches)
    assert len(decoded(log, check_crc=False).records) == 3
    with pytest.raises(CorruptLog, match=rf"at byte {at} \(base offset {n}\) has a bad CRC"):
        _read_batch_by_batch(log)


def test_a_run_of_batches_is_decoded_by_itself() -> None:
    log = batch(0, records=2) + batch(2) + batch(3, records=3)
    records = decode(array(log), heads_of(log).slice(1, 3), where=WHERE)
    assert records.offset.tolist() == [2, 3, 4, 5]
    assert records.batch.tolist() == [0, 1, 1, 1]


def test_every_negative_length_is_a_null_as_in_kafka() -> None:
    minus_three = RECORD[:6] + b"\x05" + RECORD[7:]
    assert decoded(batch_around(minus_three, count=1)).records.value_bytes.tolist() == [-1]


def test_the_compressed_payload_of_no_records_is_ignored() -> None:
    assert len(decoded(batch_around(b"no gzip", count=0, codec=Codec.GZIP)).records) == 0


CORRUPT = {
    "no length": (b"\xff" * 7, 1, r"record 0 at payload byte 0: its length leads out"),
    "a length beyond the payload": (b"\x40" + RECORD[1:], 1, "its length leads out of the batch"),
    "a length below a record's least": (b"\x0a" + RECORD[1:], 1, "its length leads out"),
    "a negative length": (b"\x01" + RECORD[1:], 1, "its length leads out of the batch"),
    "a key beyond the record": (RECORD[:4] + b"\x7e" + RECORD[5:], 1, "a field of it leads out"),
    "a value beyond the record": (RECORD[:6] + b"\x20" + RECORD[7:], 1, "a field of it leads out"),
    "a count beyond the record": (RECORD[:7] + b"\x20", 1, "a field of it leads out"),
    "a negative count": (RECORD[:7] + b"\x01", 1, "a field of it leads out"),
    "a null header name": (b"\x12" + RECORD[1:7] + b"\x02\x01\x01", 1, "a field of it leads out"),
    "a cut header value": (b"\x12" + RECORD[1:7] + b"\x02\x00\x7e", 1, "a field of it leads out"),
    "an overlong varint": (b"\x1a\x00" + b"\x80" * 12, 1, "is no varint"),
    "bytes left in a record": (b"\x10" + RECORD[1:] + b"\x00", 1, "its fields do not end where"),
    "an offset that stands still": (RECORD * 2, 2, r"record 1 at payload byte 8: its offset lies"),
    "an offset below the batch": (RECORD[:3] + b"\x01" + RECORD[4:], 1, "its offset lies outside"),
    "an offset beyond the batch": (RECORD[:3] + b"\x14" + RECORD[4:], 1, "its offset lies outside"),
    "a record too many": (RECORD + RECORD[:3] + b"\x06" + RECORD[4:], 1, "bytes are left over"),
    "a record too few": (RECORD * 2, 3, "claims 3 records"),
}


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
@pytest.mark.parametrize("corrupt", CORRUPT)
def test_a_corrupt_payload_is_named_with_its_place(corrupt: str, codec: Codec) -> None:
    payload, count, found = CORRUPT[corrupt]
    log = batch(0) + batch_around(compress(codec, payload), count=count, codec=codec)
    with pytest.raises(CorruptLog, match=found) as caught:
        decoded(log)
    assert caught.value.where == WHERE
    assert f"at byte {len(batch(0))}" in caught.value.what


def test_bytes_but_no_records_are_left_over() -> None:
    with pytest.raises(CorruptLog, match="bytes are left over after the last record"):
        decoded(batch_around(RECORD, count=0))


def test_a_payload_that_cannot_be_decompressed_names_its_batch() -> None:
    where = r"a\.log: the batch at byte 0 \(base offset 50\)"
    with pytest.raises(CorruptLog, match=f"{where}: the lz4"):
        decoded(batch_around(b"no lz4 at all", count=1, codec=Codec.LZ4))


@given(logs(), st.integers(1, 5000))
def test_windows_cover_all_batches_in_order(drafts: tuple[BatchDraft, ...], size: int) -> None:
    heads = heads_of(written(drafts))
    ranges = list(windows(heads, window_bytes=size))
    assert [i for first, last in ranges for i in range(first, last)] == list(range(len(heads)))
    # Records count 384 bytes more than they have, compressed batches eight times.
    counted_bytes = [
        len(written([one])) + 384 * len(one.records)
        if one.codec == Codec.NONE
        else 8 * len(written([one]))
        for one in drafts
    ]
    for first, last in ranges:
        assert last == first + 1 or sum(counted_bytes[first:last]) <= size
        if last < len(heads):
            assert sum(counted_bytes[first : last + 1]) > size


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize(("short_bytes", "counts"), [(0, [3, 3, 1]), (1, [2, 2, 2, 1])])
def test_a_window_is_full_by_what_its_batches_count(
    codec: Codec, short_bytes: int, counts: list[int]
) -> None:
    log = b"".join(write_batch(replace(one_record(i), codec=codec)) for i in range(7))
    counted_bytes = len(log) // 7 + 384 if codec == Codec.NONE else 8 * len(log) // 7
    ranges = windows(heads_of(log), window_bytes=3 * counted_bytes - short_bytes)
    assert [last - first for first, last in ranges] == counts


def test_a_window_never_mixes_legacy_and_new() -> None:
    heads = heads_of(log_bytes("v0gzip") + batch(100) + batch(101))
    legacy = int(heads.is_legacy.sum())
    assert list(windows(heads, window_bytes=2**30)) == [(0, legacy), (legacy, legacy + 2)]


def test_compressed_batches_that_may_take_more_have_windows_of_their_own() -> None:
    codecs = (Codec.NONE, Codec.NONE, Codec.ZSTD, Codec.LZ4, Codec.NONE, Codec.NONE)
    log = written([replace(one_record(i), codec=codec) for i, codec in enumerate(codecs)])
    heads = heads_of(log)
    assert list(windows(heads, window_bytes=2**30)) == [(0, 6)]
    found = list(windows(heads, window_bytes=2**30, batch_bytes_max=1))
    assert found == [(0, 2), (2, 3), (3, 4), (4, 6)]


LIMITS = PlainLimits(together_bytes=1_000_000)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((300_000,) * 3, [(0, 3)]),
        ((300_000,) * 7, [(0, 3), (3, 6), (6, 7)]),
        # One alone may be larger than several together.
        ((1, 1_200_000, 1, 1), [(0, 1), (1, 2), (2, 4)]),
        ((1_200_000, 1_200_000), [(0, 1), (1, 2)]),
    ],
)
def test_payloads_that_are_too_large_together_are_decoded_in_several_runs(
    codec: Codec, sizes: tuple[int, ...], expected: list[tuple[int, int]]
) -> None:
    drafts = [one_record(i, value=bytes(size)) for i, size in enumerate(sizes)]
    log = written([replace(draft, codec=codec) for draft in drafts])
    runs = list(decoded_runs(array(log), heads_of(log), where=WHERE, limits=LIMITS))
    assert [(first, last) for first, last, _ in runs] == expected
    assert [n for _, _, records in runs for n in records.offset.tolist()] == [*range(len(sizes))]
    for first, last, records in runs:
        assert last - first == 1 or len(records.body) <= LIMITS.together_bytes


def test_the_first_batch_of_a_run_always_fits() -> None:
    with pytest.raises(ValueError, match="not the first batch"):
        TooMuchTogether(0)


def test_what_is_not_compressed_counts_for_nothing() -> None:
    noise = np.random.default_rng(1).bytes(1000)
    # The first payload nearly fills the body, so the second one makes it grow.
    values = {noise[:400] + bytes(5600): Codec.ZSTD, noise: Codec.NONE, bytes(900): Codec.LZ4}
    log = written(
        [
            replace(one_record(i, value=value), codec=codec)
            for i, (value, codec) in enumerate(values.items())
        ]
    )
    limits = PlainLimits(together_bytes=7000)
    ((first, last, records),) = decoded_runs(
        array(log), heads_of(log), where=WHERE, limits=limits
    )
    assert (first, last, len(records)) == (0, 3, 3)


def test_a_payload_beyond_its_own_limit_is_refused_wherever_it_is() -> None:
    large = bytes(PLAIN_BYTES_TRUSTED)
    drafts = [one_record(i, value=large if i == 1 else b"v") for i in range(3)]
    log = written([replace(draft, codec=Codec.ZSTD) for draft in drafts])
    heads = heads_of(log)
    with pytest.raises(CorruptLog, match=f"holds more than {PLAIN_BYTES_TRUSTED} when") as caught:
        list(decoded_runs(array(log), heads, where=WHERE, limits=LIMITS))
    assert caught.value.where == f"{WHERE}: the batch at byte {heads.position[1]} (base offset 1)"


def test_no_batches_have_no_windows() -> None:
    assert list(windows(heads_of(b""), window_bytes=10)) == []
    assert len(decoded(b"").records) == 0

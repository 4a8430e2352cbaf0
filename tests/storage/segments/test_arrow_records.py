"""Arrow rows equal the records of the segment, with only the requested rows and columns."""

from __future__ import annotations

import struct
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from tests.storage.decoded_logs import decoded, written
from tests.storage.drafts import logs
from tests.storage.legacy_messages import message
from tests.storage.live_segments import KEY
from tierfold.compaction.model.rules import CompactionStrategy
from tierfold.compaction.verification.value_digest import DIGEST_BYTES, digests
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft, write_batch
from tierfold.storage.kafka.record_versions import VersionSource
from tierfold.storage.segments.arrow_records import BATCH_BYTES, record_batches
from tierfold.storage.segments.log_pieces import ChosenRecords
from tierfold.storage.segments.segment_reader import Record, read_segment

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.field("element", HEADER))),
        ("leader_epoch", pa.int32()),
    ]
)


def chosen_of(log: bytes) -> ChosenRecords:
    _, heads, records = decoded(log)
    return ChosenRecords(heads=heads, records=records, rows=np.arange(len(records)))


def batches_of(log: bytes, schema: pa.Schema = SCHEMA) -> list[pa.RecordBatch]:
    found = list(record_batches(KEY, chosen_of(log), schema))
    for batch in found:
        batch.validate(full=True)
    return found


def rows_of(log: bytes) -> list[dict[str, object]]:
    table = pa.Table.from_batches(batches_of(log), SCHEMA)
    # Microseconds as numbers: Python's own times end with the year 9999.
    micros = table.column("timestamp").cast(pa.int64())
    return table.set_column(3, "timestamp", micros).to_pylist()


def expected(record: Record, leader_epoch: int) -> dict[str, object]:
    headers = [
        {"key": name.decode("utf-8", "replace"), "value": value} for name, value in record.headers
    ]
    return {
        "topic": KEY.topic,
        "partition": KEY.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms * 1000 if record.timestamp_ms != -1 else None,
        "key": record.key,
        "value": record.value,
        "headers": headers or None,
        "leader_epoch": leader_epoch if leader_epoch != -1 else None,
    }


def test_nulls_and_empties_differ() -> None:
    records = (
        RecordDraft(offset=0, timestamp_ms=1, key=None, value=None),
        RecordDraft(offset=1, timestamp_ms=2, key=b"", value=b""),
        RecordDraft(offset=2, timestamp_ms=-1, key=b"k", value=b"v", headers=((b"", None),)),
        RecordDraft(offset=3, timestamp_ms=0, key=b"k", value=b"v", headers=((b"n", b""),) * 2),
    )
    rows = rows_of(write_batch(BatchDraft(base_offset=0, records=records, leader_epoch=4)))
    assert [(row["key"], row["value"]) for row in rows[:2]] == [(None, None), (b"", b"")]
    assert [row["timestamp"] for row in rows] == [1000, 2000, None, 0]
    assert [row["headers"] for row in rows] == [
        None,
        None,
        [{"key": "", "value": None}],
        [{"key": "n", "value": b""}] * 2,
    ]
    assert {row["leader_epoch"] for row in rows} == {4}


@settings(max_examples=60)
@given(logs())
def test_rows_are_what_the_segment_reader_reads(drafts: tuple[BatchDraft, ...]) -> None:
    log = written(drafts)
    assert rows_of(log) == [
        expected(record, batch.leader_epoch)
        for batch in read_segment(log).batches()
        for record in batch.records
    ]


def test_legacy_records_have_no_leader_epoch_and_may_have_no_time() -> None:
    old = rows_of(message(0, b"v", magic=0))[0]
    newer = rows_of(message(0, b"v", magic=1, timestamp_ms=7000))[0]
    assert (old["timestamp"], old["leader_epoch"], old["headers"]) == (None, None, None)
    assert newer["timestamp"] == 7_000_000


def test_only_the_chosen_rows_and_columns_are_built() -> None:
    records = tuple(
        RecordDraft(offset=i, timestamp_ms=1, key=b"%d" % i, value=b"v" * 1000) for i in range(9)
    )
    chosen = chosen_of(write_batch(BatchDraft(base_offset=0, records=records)))
    some = ChosenRecords(heads=chosen.heads, records=chosen.records, rows=np.array([1, 5]))
    narrow = pa.schema([SCHEMA.field("key"), SCHEMA.field("offset")])
    (batch,) = record_batches(KEY, some, narrow)
    assert batch.to_pydict() == {"key": [b"1", b"5"], "offset": [1, 5]}
    assert batch.get_total_buffer_size() < 100


def test_a_digest_distinguishes_values_and_a_tombstone_has_none() -> None:
    records = tuple(
        RecordDraft(offset=i, timestamp_ms=1, key=b"k", value=value)
        for i, value in enumerate([b"one", b"two", None, b"", b"one"])
    )
    log = write_batch(BatchDraft(base_offset=0, records=records))
    (batch,) = batches_of(log, pa.schema([("value_digest", pa.binary())]))
    one, two, none, empty, again = batch.column(0).to_pylist()
    expected = digests(np.frombuffer(b"one", np.uint8), np.array([0]), np.array([3], np.int32))
    assert one == again == expected.tobytes()
    assert none is None
    assert len({one, two, empty}) == 3
    assert {len(one), len(two), len(empty)} == {DIGEST_BYTES}


def test_the_version_column_has_what_the_strategy_compares() -> None:
    version = struct.pack(">q", -7)
    records = tuple(
        RecordDraft(offset=i, timestamp_ms=-5 + i, key=b"k", value=b"v", headers=headers)
        for i, headers in enumerate([((b"v", version),), ((b"v", b"short"),), ()])
    )
    log = write_batch(BatchDraft(base_offset=0, records=records))
    schema = pa.schema([("version", pa.int64())])
    for versions, expected in (
        (VersionSource(), [0, 1, 2]),
        (VersionSource(strategy=CompactionStrategy.TIMESTAMP), [-5, -4, -3]),
        (VersionSource(strategy=CompactionStrategy.HEADER, header="v"), [-7, None, None]),
    ):
        (batch,) = record_batches(KEY, chosen_of(log), schema, versions)
        batch.validate(full=True)
        assert batch.column(0).to_pylist() == expected


def test_large_values_are_cut_into_batches_and_narrow_columns_are_not() -> None:
    size = BATCH_BYTES // 2
    records = tuple(
        RecordDraft(offset=i, timestamp_ms=1, key=b"k", value=b"v" * count)
        for i, count in enumerate([size, 1, 2 * BATCH_BYTES, 1, 1])
    )
    log = write_batch(BatchDraft(base_offset=0, records=records))
    offsets = [batch.column("offset").to_pylist() for batch in batches_of(log)]
    assert offsets == [[0, 1], [2], [3, 4]]
    assert len(batches_of(log, pa.schema([SCHEMA.field("key")]))) == 1


@pytest.mark.parametrize(
    ("timestamp_ms", "shown"),
    [
        (-1, None),
        (-2, "1969-12-31 23:59:59.998"),
        (253_402_300_799_999, "9999-12-31 23:59:59.999"),
        (253_402_300_800_000, None),
        (-62_135_596_800_000, "0001-01-01 00:00:00"),
        (-62_135_596_800_001, None),
        (1_700_000_000_000_000_000, None),
        (2**63 - 1, None),
        (-(2**63), None),
    ],
)
def test_a_timestamp_that_spark_cannot_hold_is_null_beside_its_milliseconds(
    timestamp_ms: int, shown: str | None
) -> None:
    record = RecordDraft(offset=7, timestamp_ms=timestamp_ms, key=b"k", value=b"v")
    log = write_batch(BatchDraft(base_offset=7, records=(record,)))
    schema = pa.schema([SCHEMA.field("timestamp"), ("timestamp_ms", pa.int64())])
    (row,) = batches_of(log, schema)[0].to_pylist()
    assert row["timestamp"] == (
        None if shown is None else datetime.fromisoformat(shown).replace(tzinfo=UTC)
    )
    assert row["timestamp_ms"] == (None if timestamp_ms == -1 else timestamp_ms)

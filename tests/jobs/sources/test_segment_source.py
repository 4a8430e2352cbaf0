"""Spark reads the same records from a tier as a Kafka consumer, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.jobs.commands import COMPACT, status_of, tierfold
from tests.jobs.segment_rows_expected import expected_rows
from tests.jobs.tiers import (
    RECORDS_PER_SEGMENT,
    an_open_producer,
    flip_last_byte,
    folder_of,
    key_of,
    made_tier,
    put_segment,
    put_updates,
    sample_copy,
    updated_tier,
)
from tests.storage.legacy_messages import message
from tests.storage.live_segments import an_abort, data, marker
from tierfold.jobs.sources.segment_columns import USUAL_COLUMNS
from tierfold.jobs.sources.segment_options import FORMAT, schema_of
from tierfold.jobs.sources.segment_source import register
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft
from tierfold.storage.kafka.control_records import ControlType

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
SCHEMA = schema_of(USUAL_COLUMNS)
ORDERS = key_of("orders")


@pytest.fixture(scope="module")
def reading(spark: SparkSession) -> SparkSession:
    """The session with the format registered."""
    register(spark)
    return spark


def read(session: SparkSession, tier: Path, **options: str) -> DataFrame:
    reader = session.read.format(FORMAT)
    for name, value in options.items():
        reader = reader.option(name.replace("_", "."), value)
    return reader.load(str(tier))


def offsets(frame: DataFrame) -> list[int]:
    return sorted(row["offset"] for row in frame.collect())


def live_logs(tier: Path) -> dict[tuple[str, int], list[str]]:
    return {
        place: [segment["log"] for segment in entry["segments"]]
        for place, entry in status_of(tier).items()
    }


def assert_same_as_plain_reader(session: SparkSession, tier: Path, level: str) -> int:
    """Compare with the plain reader's records; return how many they are."""
    rows = [
        row
        for (topic, partition), logs in live_logs(tier).items()
        for row in expected_rows(topic, partition, logs, is_committed=level == "read_committed")
    ]
    found = read(session, tier, isolation_level=level)
    assert_df_equality(
        found.orderBy("topic", "partition", "offset"), session.createDataFrame(rows, SCHEMA)
    )
    return len(rows)


def test_registering_twice_and_reading_leave_the_tier_as_it_is(
    reading: SparkSession, tmp_path: Path
) -> None:
    updated_tier(tmp_path, [ORDERS], segments=1)
    before = sorted(tmp_path.rglob("*"))
    register(reading)
    found = read(reading, tmp_path)
    assert found.schema == SCHEMA
    assert found.count() == RECORDS_PER_SEGMENT
    assert sorted(tmp_path.rglob("*")) == before


def test_the_sample_is_read_before_and_after_it_is_compacted(
    reading: SparkSession, tmp_path: Path
) -> None:
    tier = sample_copy(tmp_path)
    assert assert_same_as_plain_reader(reading, tier, "read_committed") == 8261
    assert assert_same_as_plain_reader(reading, tier, "read_uncommitted") == 12065
    sources = live_logs(tier)["tiered", 0]
    assert tierfold("compact", tier, *COMPACT).code == 0
    original = {"segments": "original", "columns": "offset,value_digest"}
    assert read(reading, tier, **original).count() == 8261
    for log in sources:
        Path(log).unlink()  # A read of replaced segments would fail.
    assert assert_same_as_plain_reader(reading, tier, "read_committed") == 999
    with pytest.raises(PySparkException, match="tiered-0: 3 of 3 original segments are gone"):
        read(reading, tier, **original).count()


def test_only_assigned_partitions_are_read(
    reading: SparkSession, tmp_path: Path
) -> None:
    keys = [key_of(topic, partition) for topic in ("orders", "payments") for partition in range(2)]
    tier = updated_tier(tmp_path, keys, segments=1)
    found = read(reading, tier, assign='{"orders": [1], "payments": [0]}')
    partitions = {(row["topic"], row["partition"]) for row in found.collect()}
    assert partitions == {("orders", 1), ("payments", 0)}
    with pytest.raises(PySparkException, match="there is no partition orders-7"):
        read(reading, tier, assign='{"orders": [1, 7]}').count()


@pytest.fixture(scope="module")
def transactional(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two segments: an abort whose marker is in the second, and a transaction still open."""
    tier = made_tier(tmp_path_factory.mktemp("transactional"))
    first = [
        data(0, (b"a", b"plain")),
        data(1, (b"a", b"aborted"), (b"b", b"aborted"), producer_id=7),
        data(3, (b"c", b"committed"), producer_id=8),
    ]
    second = [
        marker(4, 7, ControlType.ABORT),
        marker(5, 8, ControlType.COMMIT),
        data(6, (b"d", None)),
        data(7, (b"d", b"open"), producer_id=9),
        data(8, (b"e", b"beyond the open one")),
    ]
    put_segment(tier, ORDERS, first, start_offset=0)
    aborted, producers = [an_abort(7, 1, 4)], [an_open_producer(9, 7)]
    put_segment(tier, ORDERS, second, start_offset=4, aborted=aborted, producers=producers)
    return tier


def test_isolation_decides_which_records_are_read(
    reading: SparkSession, transactional: Path
) -> None:
    default = read(reading, transactional)
    assert offsets(default) == [0, 3, 6]
    assert offsets(default.where("offset < 3")) == [0]
    committed = read(reading, transactional, isolation_level="read_committed")
    assert offsets(committed.where("offset >= 7")) == []
    assert offsets(read(reading, transactional, offsets="7:")) == []
    assert offsets(read(reading, transactional, offsets="3:")) == [3, 6]
    assert committed.where("offset = 6").collect()[0]["value"] is None
    uncommitted = read(reading, transactional, isolation_level="read_uncommitted")
    assert offsets(uncommitted) == [0, 1, 2, 3, 6, 7, 8]


def test_times_headers_and_nulls_are_exact(reading: SparkSession, tmp_path: Path) -> None:
    headers = ((b"n", b"1"), (b"n", None))
    records = (
        RecordDraft(offset=0, timestamp_ms=1_700_000_000_123, key=None, value=b""),
        RecordDraft(offset=1, timestamp_ms=-1, key=b"", value=None, headers=headers),
    )
    brokers = (RecordDraft(offset=2, timestamp_ms=5, key=b"k", value=b"v"),)
    batches = [
        BatchDraft(base_offset=0, records=records, leader_epoch=3),
        BatchDraft(
            base_offset=2,
            records=brokers,
            leader_epoch=3,
            is_log_append_time=True,
            max_timestamp_ms=1_700_000_000_999,
        ),
        message(3, b"old", magic=0),
    ]
    put_segment(made_tier(tmp_path), ORDERS, batches, start_offset=0)
    found = read(reading, tmp_path).selectExpr(
        "unix_micros(timestamp) t", "key", "value", "headers h", "leader_epoch e"
    )
    rows: list[tuple[Any, ...]] = [
        (1_700_000_000_123_000, None, bytearray(), None, 3),
        (None, bytearray(), None, [("n", bytearray(b"1")), ("n", None)], 3),
        (1_700_000_000_999_000, bytearray(b"k"), bytearray(b"v"), None, 3),
        (None, bytearray(b"k"), bytearray(b"old"), None, None),
    ]
    assert_df_equality(found, reading.createDataFrame(rows, found.schema))


def test_a_log_with_nanoseconds_is_read_and_their_column_is_null(
    reading: SparkSession, tmp_path: Path
) -> None:
    nanos = 1_700_000_000_000_000_000
    records = [
        RecordDraft(offset=at, timestamp_ms=time, key=b"k", value=b"v")
        for at, time in enumerate((nanos, 253_402_300_799_999, 1))
    ]
    batch = BatchDraft(base_offset=0, records=records)
    put_segment(made_tier(tmp_path), ORDERS, [batch], start_offset=0)
    assert read(reading, tmp_path).count() == 3
    found = read(reading, tmp_path, columns="offset,timestamp,timestamp_ms")
    assert [(row.offset, row.timestamp is None, row.timestamp_ms) for row in found.collect()] == [
        (0, True, nanos),
        (1, False, 253_402_300_799_999),
        (2, False, 1),
    ]


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two topics of two partitions of three segments each."""
    keys = [key_of(topic, partition) for topic in ("orders", "payments") for partition in range(2)]
    return updated_tier(tmp_path_factory.mktemp("several"), keys, segments=3)


@pytest.mark.parametrize("pushdown", ["false", "true"])
def test_each_query_on_a_frame_uses_its_own_filters(
    reading: SparkSession, several: Path, pushdown: str
) -> None:
    reading.conf.set(PUSHDOWN, pushdown)
    every = read(reading, several)
    few = every.where("offset < 2 AND topic = 'orders'")
    assert few.count() == 4
    assert every.count() == 4 * 3 * RECORDS_PER_SEGMENT
    assert few.union(every.where("offset = 5")).count() == 4 + 4
    reading.conf.unset(PUSHDOWN)


@pytest.mark.parametrize(
    ("span", "first", "end"),
    [("5:14", 5, 14), (" 12 : ", 12, 33), (":3", 0, 3), (":", 0, 33), ("9:9", 0, 0), ("40:", 0, 0)],
)
def test_the_option_offsets_chooses_offsets(
    reading: SparkSession, several: Path, span: str, first: int, end: int
) -> None:
    found = read(reading, several, topics="orders", partitions="1", offsets=span)
    assert offsets(found) == list(range(first, end))


def test_options_choose_partitions_and_columns(reading: SparkSession, several: Path) -> None:
    found = read(reading, several, topics="pay*,none*", partitions="1", columns="offset,topic")
    assert found.columns == ["offset", "topic"]
    assert {row["topic"] for row in found.collect()} == {"payments"}
    assert offsets(found) == list(range(3 * RECORDS_PER_SEGMENT))
    chosen = reading.read.format(FORMAT).schema("value binary, partition int").load(str(several))
    assert chosen.where("partition = 1").columns == ["value", "partition"]
    assert chosen.count() == 4 * 3 * RECORDS_PER_SEGMENT


def test_partitions_out_of_scope_are_not_inspected(reading: SparkSession, tmp_path: Path) -> None:
    put_updates(made_tier(tmp_path), ORDERS, 0)
    put_updates(tmp_path, key_of("broken"), 0).write_bytes(b"no log")
    with pytest.raises(PySparkException, match=r"broken-0.*the log is torn"):
        read(reading, tmp_path).count()
    assert read(reading, tmp_path, topics="orders").count() == RECORDS_PER_SEGMENT


@contextmanager
def refused_in_one_sentence(match: str) -> Iterator[None]:
    """Expect one sentence, without the traceback of a Python worker."""
    with pytest.raises(PySparkException, match=match) as refused:
        yield
    assert "Traceback (most recent call last)" not in str(refused.value)


def corrupt_batch(tier: Path) -> str:
    log = put_updates(tier, ORDERS, 0)
    flip_last_byte(log)
    return rf"{log}: the batch at byte \d+ .* bad CRC"


def gap(tier: Path) -> str:
    for number in (0, 2):
        put_updates(tier, ORDERS, number)
    return r"orders-0: offsets 11 to 21: a hole, or a missing segment"


@pytest.mark.parametrize("corruption", [corrupt_batch, gap])
def test_corruption_fails_the_query_in_one_sentence(
    reading: SparkSession, tmp_path: Path, corruption: Callable[[Path], str]
) -> None:
    with refused_in_one_sentence(corruption(made_tier(tmp_path))):
        read(reading, tmp_path).count()


def test_a_wrong_read_is_refused_in_one_sentence(reading: SparkSession, several: Path) -> None:
    with refused_in_one_sentence("there is no option startingoffsets"):
        read(reading, several, startingOffsets="earliest")
    twice = reading.read.format(FORMAT).schema("value binary").option("columns", "key")
    with refused_in_one_sentence("name different columns"):
        twice.load(str(several)).count()
    with pytest.raises(PySparkException, match="topic none: no topic has that name"):
        read(reading, several, topics="orders,none").count()
    with pytest.raises(PySparkException, match="there is no folder kafka-tiered-storage"):
        read(reading, several / "kafka-tiered-storage").count()


def test_an_empty_tier_has_no_records(reading: SparkSession, tmp_path: Path) -> None:
    assert read(reading, made_tier(tmp_path)).collect() == []
    folder_of(tmp_path, ORDERS).mkdir()
    assert read(reading, tmp_path).collect() == []

"""Pruning reads fewer bytes from the store and passes fewer to Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.jobs.commands import ALWAYS, tierfold
from tests.jobs.tiers import key_of, made_tier, put_segment
from tests.storage.scripted_store import ScriptedStore
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.sources.segment_columns import arrow_schema
from tierfold.jobs.sources.segment_options import FORMAT, request_of, schema_of
from tierfold.jobs.sources.segment_planning import SegmentReader
from tierfold.jobs.sources.segment_source import register
from tierfold.jobs.sources.segment_tasks import TaskReader
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage

SEGMENTS = 3
BATCHES = 40
PER_BATCH = 5
PER_SEGMENT = BATCHES * PER_BATCH
VALUE_BYTES = 2000


@pytest.fixture(scope="module")
def tier(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two partitions whose segments the catalog knows, so that none is opened to be inspected."""
    folder = made_tier(tmp_path_factory.mktemp("counted"))
    for partition in range(2):
        for start in range(0, SEGMENTS * PER_SEGMENT, PER_SEGMENT):
            bases = range(start, start + PER_SEGMENT, PER_BATCH)
            put_segment(
                folder,
                key_of("orders", partition),
                [BatchDraft(base_offset=b, records=_records(b), leader_epoch=3) for b in bases],
                start_offset=start,
            )
    small = ("--set", f"segment.bytes={PER_SEGMENT * VALUE_BYTES}")
    assert tierfold("compact", folder, *ALWAYS, *small).code == 0
    return folder


def _records(base: int) -> tuple[RecordDraft, ...]:
    return tuple(
        RecordDraft(
            offset=base + i, timestamp_ms=1, key=b"%d" % (base + i), value=b"v" * VALUE_BYTES
        )
        for i in range(PER_BATCH)
    )


class Counted:
    """One query, planned and read as Spark would, over a store that counts bytes."""

    def __init__(self, tier: Path, **options: str) -> None:
        request = request_of({"path": str(tier), **options})
        store = ScriptedStore(tier)
        counted = LocalTieredStorage(store)
        context = replace(run_context(str(tier), None, None), tier=counted)
        schema = schema_of(request.columns)
        reader = SegmentReader(context, request, schema)
        worker = TaskReader(
            open_tier=lambda: counted,
            schema=arrow_schema(schema),
            versions=request.versions,
        )
        # Without tasks, Spark 4.0 reads None.
        batches: list[pa.RecordBatch] = [
            batch for task in reader.partitions() or [None] for batch in worker.read(task)
        ]
        self.read_bytes = store.read_bytes
        self.log_bytes = store.of_part("log")
        self.rows = sum(batch.num_rows for batch in batches)
        self.passed_bytes = sum(batch.nbytes for batch in batches)


def test_everything_is_read_once(tier: Path) -> None:
    whole = Counted(tier)
    assert whole.rows == 2 * SEGMENTS * PER_SEGMENT
    assert len(whole.read_bytes) >= 2 * SEGMENTS
    live = {key for key in whole.read_bytes if key.endswith(".log")}
    assert whole.log_bytes == sum((tier / key).stat().st_size for key in live)


@pytest.mark.parametrize(
    ("options", "rows", "share", "unread"),
    [
        ({"partitions": "1"}, SEGMENTS * PER_SEGMENT, 1 / 2, "orders-0-"),
        ({"topics": "pay*"}, 0, 0, ""),
        ({"offsets": f":{PER_SEGMENT}"}, 2 * PER_SEGMENT, 1 / SEGMENTS, "no such key"),
    ],
)
def test_segments_out_of_scope_are_not_read(
    tier: Path, options: dict[str, str], rows: int, share: float, unread: str
) -> None:
    found = Counted(tier, **options)
    assert found.rows == rows
    assert found.log_bytes == pytest.approx(share * Counted(tier).log_bytes, rel=0.01)
    assert not [key for key in found.read_bytes if unread in key]


def test_an_offset_range_reads_only_a_part_of_a_segment(tier: Path) -> None:
    few = Counted(tier, partitions="0", offsets="301:303")
    assert few.rows == 2
    # The batch that holds both offsets, and at most one more on either side.
    assert few.log_bytes <= 3 * PER_BATCH * (VALUE_BYTES + 100)


def test_other_columns_are_not_passed_to_spark(tier: Path) -> None:
    whole, narrow = Counted(tier), Counted(tier, columns="partition,offset,key")
    assert narrow.rows == whole.rows
    assert whole.passed_bytes > whole.rows * VALUE_BYTES
    assert narrow.passed_bytes < narrow.rows * 32
    # Kafka stores a batch by row, under one checksum, so it is read whole either way.
    assert narrow.log_bytes == whole.log_bytes


def test_spark_receives_only_what_a_query_needs(spark: SparkSession, tier: Path) -> None:
    register(spark)
    # Spark's counter belongs to the registered format: it adds up over queries.
    before = received_bytes(spark, tier, "offset")
    after_offsets = received_bytes(spark, tier, "offset")
    after_values = received_bytes(spark, tier, "offset,value")
    after_some = received_bytes(spark, tier, "offset,value", f":{PER_SEGMENT}")
    whole = after_values - after_offsets
    assert whole > 2 * SEGMENTS * PER_SEGMENT * VALUE_BYTES
    assert after_offsets - before < whole / 100
    assert after_some - after_values == pytest.approx(whole / SEGMENTS, rel=0.1)


def received_bytes(spark: SparkSession, tier: Path, columns: str, offsets: str = ":") -> int:
    """Spark's own count of the bytes that its Python workers return."""
    reader = spark.read.format(FORMAT).option("columns", columns).option("offsets", offsets)
    frame = reader.load(str(tier))
    frame.collect()
    return _returned(frame._jdf.queryExecution().executedPlan())


def _returned(plan: Any) -> int:
    metric = plan.metrics().get("pythonDataReceived")
    if metric.isDefined():
        return int(metric.get().value())
    return _returned(plan.children().apply(0))

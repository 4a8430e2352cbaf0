"""Each Spark stage turns its input rows into the right output rows."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.jobs.claimed_rounds import claimed_rounds
from tests.jobs.tiers import (
    KEYS,
    RECORDS_PER_SEGMENT,
    folder_of,
    key_of,
    made_tier,
    put_updates,
)
from tierfold.compaction.cleaning.key_blocks import deserialize
from tierfold.compaction.cleaning.offset_map import SUPERSEDED, SUPERSEDING
from tierfold.compaction.model.errors import CorruptLog
from tierfold.jobs.pipeline.stages import rewrite
from tierfold.jobs.pipeline.stages.reduce import ReducePlan, reduced
from tierfold.jobs.pipeline.stages.scan import SegmentScanned, scanned
from tierfold.jobs.pipeline.stages.segment_rows import (
    REFERENCE_SCHEMA,
    ROW_COLUMNS,
    ROW_SCHEMA,
    Row,
    RowKind,
    as_batch,
    failure,
    pickled,
    rows_of,
    unpickled,
)
from tierfold.jobs.pipeline.task_assignment import Round, reference_rows

ORDERS: Final = key_of("orders")


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    tier = made_tier(tmp_path / "tier")
    for number in range(2):
        put_updates(tier, ORDERS, number)
    put_updates(tier, key_of("payments"), 0)
    return tier


def rows_from(frame: DataFrame) -> list[Row]:
    found = list(rows_of(frame.toArrow().to_batches()))
    return sorted(found, key=lambda row: (row.partition_index, row.segment_index, row.kind))


def scan(spark: SparkSession, tier: Path, rounds: list[Round]) -> DataFrame:
    rows, tasks = reference_rows(rounds, cores=2)
    references = spark.createDataFrame(rows, REFERENCE_SCHEMA)
    bytes_done = spark.sparkContext.accumulator(0)
    return scanned(references, tasks, str(tier), bytes_done)


def test_a_scanned_segment_returns_its_keys_its_superseded_records_and_itself(
    spark: SparkSession, tier: Path
) -> None:
    rows = rows_from(scan(spark, tier, claimed_rounds(tier)[1]))
    assert [(row.partition_index, row.segment_index, row.kind) for row in rows] == [
        (partition, segment, kind)
        for partition, segment in ((0, 0), (0, 1), (1, 0))
        for kind in (RowKind.KEYS, RowKind.OWN_SUPERSEDED, RowKind.SCANNED)
    ]
    keys, own_lost, told = rows[:3]
    # Its own key and the five of which the later update competes on.
    assert len(deserialize(keys.payload).columns) == 1 + len(KEYS)
    lost = np.unpackbits(np.frombuffer(own_lost.payload, np.uint8), count=RECORDS_PER_SEGMENT)
    assert np.flatnonzero(lost).tolist() == [1, 2, 3, 4, 5]
    found = unpickled(told.payload)
    assert isinstance(found, SegmentScanned)
    assert (found.records, len(found.txn_batches)) == (RECORDS_PER_SEGMENT, 0)


def test_a_segment_that_cannot_be_read_is_one_row_that_says_why(
    spark: SparkSession, tier: Path
) -> None:
    _, rounds = claimed_rounds(tier)
    victim = sorted(folder_of(tier, ORDERS).glob("*.log"))[0]
    victim.unlink()
    rows = rows_from(scan(spark, tier, rounds))
    of_victim = [row for row in rows if (row.partition_index, row.segment_index) == (0, 0)]
    (only,) = of_victim
    assert only.kind is RowKind.FAILED
    assert str(victim) in unpickled(only.payload)
    others = {(row.partition_index, row.segment_index) for row in rows if row is not only}
    assert others == {(0, 1), (1, 0)}


def test_the_reduce_names_what_another_segment_supersedes(
    spark: SparkSession, tier: Path
) -> None:
    _, rounds = claimed_rounds(tier)
    before = rows_from(scan(spark, tier, rounds))
    destinations = {(0, 0): 3, (0, 1): 1}
    plan = ReducePlan(buckets={0: 1, 1: 1}, tasks=2, destinations=destinations)
    after = rows_from(reduced(scan(spark, tier, rounds), plan))
    (lost,) = (row for row in after if row.kind is RowKind.SUPERSEDED)
    assert (lost.partition_index, lost.segment_index) == (0, 0)
    ordinals = np.sort(np.frombuffer(lost.payload, np.uint32))
    assert ordinals.tolist() == [6, 7, 8, 9, 10]
    # What is no key passes, each row once.
    passed = [row for row in before if row.kind is not RowKind.KEYS]
    unsent = [replace(row, task=0) for row in after if row.kind is not RowKind.SUPERSEDED]
    assert unsent == [replace(row, task=0) for row in passed]
    # All leave for the task that rewrites their segment.
    assert {(r.partition_index, r.segment_index): r.task for r in after} == {
        **destinations,
        (1, 0): 0,
    }


def test_only_records_from_first_dirty_on_compete(spark: SparkSession, tier: Path) -> None:
    _, rounds = claimed_rounds(tier)
    rows, tasks = reference_rows(rounds[:1], cores=2)
    dirty_from = 2 * RECORDS_PER_SEGMENT - len(KEYS) + 1
    aware = [row | {"first_dirty": dirty_from} for row in rows]
    frame = scanned(
        spark.createDataFrame(aware, REFERENCE_SCHEMA),
        tasks,
        str(tier),
        spark.sparkContext.accumulator(0),
    )
    after = rows_from(reduced(frame, ReducePlan(buckets={0: 1}, tasks=1, destinations={})))
    (lost,) = (row for row in after if row.kind is RowKind.SUPERSEDED)
    # k0's last update is clean, so that no update of k0 supersedes another.
    ordinals = np.sort(np.frombuffer(lost.payload, np.uint32))
    assert ordinals.tolist() == [2, 3, 4, 5, 7, 8, 9, 10]
    own = [row for row in after if row.kind is RowKind.OWN_SUPERSEDED]
    bits = [
        np.unpackbits(np.frombuffer(row.payload, np.uint8), count=RECORDS_PER_SEGMENT)
        for row in own
    ]
    assert [np.flatnonzero(bit).tolist() for bit in bits] == [[], [2, 3, 4, 5]]


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_a_records_bits_come_from_all_rows_in_any_order(order: tuple[int, ...]) -> None:
    own = {RowKind.OWN_SUPERSEDED: [1, 0, 0, 0, 1], RowKind.OWN_SUPERSEDING: [0, 1, 0, 0, 0]}
    others = {RowKind.SUPERSEDED: [1, 2], RowKind.SUPERSEDING: [3]}
    payloads = {kind: np.packbits(np.array(bits, np.uint8)) for kind, bits in own.items()}
    payloads |= {kind: np.array(ordinals, np.uint32) for kind, ordinals in others.items()}
    rows = [
        Row(task=0, partition_index=0, segment_index=0, kind=kind, payload=payload.tobytes())
        for kind, payload in payloads.items()
    ]
    found = rewrite._record_bits([rows[i] for i in order], 5)
    both = SUPERSEDED | SUPERSEDING
    assert found.tolist() == [SUPERSEDED, both, SUPERSEDED, SUPERSEDING, SUPERSEDED]


def test_rows_survive_arrow_and_spark(spark: SparkSession) -> None:
    rows = [
        Row(
            task=0,
            partition_index=1,
            segment_index=2,
            bucket=3,
            kind=RowKind.SUPERSEDED,
            payload=bytes(range(256)),
        ),
        Row(task=5, partition_index=0, segment_index=0, kind=RowKind.KEYS, payload=b""),
    ]
    batch = as_batch(rows)
    assert list(rows_of([batch])) == rows
    assert as_batch([]).num_rows == 0
    table = spark.createDataFrame(batch.to_pylist(), ROW_SCHEMA).toArrow()
    assert table.column_names == ROW_COLUMNS
    assert list(rows_of(table.to_batches())) == rows
    assert isinstance(batch, pa.RecordBatch)


def test_what_went_wrong_is_a_sentence_and_a_surprise_is_called_a_bug() -> None:
    known = CorruptLog("it is torn", where="a.log", remedy="Restore it.")
    assert unpickled(failure(known, "elsewhere")) == "a.log: it is torn. Restore it."
    surprise = unpickled(failure(IndexError("9"), "b.log"))
    assert surprise == "b.log: unexpected IndexError: 9. This is a bug; please report it."


def test_errors_travel_between_processes_whole() -> None:
    error = unpickled(pickled(CorruptLog("it is torn", where="a.log", remedy="Restore it.")))
    assert isinstance(error, CorruptLog)
    assert (error.what, error.where, error.remedy) == ("it is torn", "a.log", "Restore it.")


def test_a_worker_that_scanned_freezes_what_it_loaded_for_the_collector(
    spark: SparkSession, tier: Path
) -> None:
    _, rounds = claimed_rounds(tier)
    scan(spark, tier, rounds).toArrow()

    def frozen(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        list(batches)
        yield pa.RecordBatch.from_pydict({"frozen": [gc.get_freeze_count()]})

    counts = spark.range(0, 2, 1, 2).mapInArrow(frozen, "frozen long").toArrow()
    assert max(counts["frozen"].to_pylist()) > 0

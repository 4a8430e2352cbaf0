"""A worker sends its rows in batches of about `BATCH_BYTES`, however small the rows are."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest
from pyspark import Accumulator
from pyspark.accumulators import AddingAccumulatorParam

from tests.jobs.engines.executor_contract import a_row
from tests.jobs.tiers import made_tier
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.engines.arrow_rows import BATCH_BYTES, in_worker, rows_of
from tierfold.jobs.engines.rows import Row, Worker
from tierfold.jobs.spark.request_sum import CountSum
from tierfold.storage.tiers.near_reads import NearReads
from tierfold.storage.tiers.request_counts import Requests


class Counted(bytes):
    """Counts how often its length is asked for."""

    asked: ClassVar[list[int]] = []

    def __len__(self) -> int:
        self.asked.append(1)
        return super().__len__()


@pytest.fixture(autouse=True)
def _collectable() -> Iterator[None]:
    """Undo the freeze of loaded objects with which a task ends."""
    yield
    gc.unfreeze()


def batches_of(tier: Path, rows: list[Row]) -> list[pa.RecordBatch]:
    def stage(_: Worker, given: Iterable[Row]) -> Iterator[Row]:
        yield from given
        yield from rows

    done: Accumulator[int] = Accumulator(0, 0, AddingAccumulatorParam(0))
    requests = Accumulator(1, Requests(), CountSum())
    opener = run_context(str(tier)).worker_opener()
    near_reads = Accumulator(2, NearReads(), CountSum())
    return list(in_worker(stage, opener, done, requests, near_reads, rows_of)([]))


def test_rows_leave_in_batches_that_just_reach_the_bound(tmp_path: Path) -> None:
    tier = made_tier(tmp_path / "tier")
    half, whole, less = (
        a_row(payload=bytes(size)) for size in (BATCH_BYTES // 2, BATCH_BYTES, BATCH_BYTES - 1)
    )
    for rows, counts in (
        ([], [0]),
        ([half], [1]),
        ([half, half], [2, 0]),
        ([half, half, half], [2, 1]),
        ([whole, less, half, whole], [1, 2, 1, 0]),
    ):
        batches = batches_of(tier, rows)
        assert [batch.num_rows for batch in batches] == counts
        assert list(rows_of(batches)) == rows


def test_many_small_rows_are_each_measured_once(tmp_path: Path) -> None:
    # When each row measured the whole batch again, 20,000 rows took 45 seconds.
    tier = made_tier(tmp_path / "tier")
    Counted.asked.clear()
    rows = [a_row(payload=Counted(b"small")) for _ in range(1000)]
    assert list(rows_of(batches_of(tier, rows))) == rows
    assert len(Counted.asked) == len(rows)

"""Spark reads partitions, live segments and runs exactly as the catalog wrote them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tests.compaction.builders import KEY
from tests.jobs.commands import ROOT
from tests.storage import emulators
from tests.storage.aged_tables import superseded
from tests.storage.catalog_contract import A_RUN, committed, fresh
from tests.storage.stored_values import of_segment
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.jobs.sources import catalog_tables
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.catalog.delta_tables import CHECKPOINT_INTERVAL
from tierfold.storage.catalog.rows import table_of
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.catalog.schema import PARTITIONS, RUNS, RUNS_RENAMED, SEGMENT

OTHER: Final = PartitionKey(topic="payments", partition=0, topic_id="-P_" + "p" * 18 + "A")
"""Its topic id begins like an option, and case matters in it."""


@pytest.fixture(scope="module")
def catalogs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A catalog in a folder, and one in a bucket whose endpoint and keys are in the environment."""
    folder = str(tmp_path_factory.mktemp("tier") / "_tierfold")
    written(folder, CHECKPOINT_INTERVAL // 2 + 1)
    assert list(Path(folder, "partitions", "_delta_log").glob("*.checkpoint.parquet"))
    superseded(Path(folder, "partitions"), hours=31 * 24)
    assert Catalog(folder).clean_up() > 0
    with pytest.MonkeyPatch.context() as patch:
        for name, value in emulators.s3_environment(emulators.s3()).items():
            patch.setenv(name, value)
        bucket = f"s3://{emulators.new_bucket(emulators.s3())}/tier/_tierfold"
        written(bucket, 2)
        yield folder, bucket


def written(catalog: str, commits: int) -> None:
    """Write a catalog with this many commits."""
    Catalog(catalog).claim([fresh(OTHER)], "first", at_ms=1)
    for count in range(commits):
        committed(Catalog(catalog), KEY, f"run-{count}", f"merged-{count}")
    RunsTable(catalog).append([A_RUN])
    RunsTable(catalog).append([replace(A_RUN, chunk=1, counts={})])


@pytest.fixture(scope="module")
def seen_by_spark(
    catalogs: tuple[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """What delta-spark reads from the catalogs, in its own session."""
    folder = tmp_path_factory.mktemp("seen")
    done = subprocess.run(
        [sys.executable, "-m", "tests.jobs.delta_reader", str(folder), *catalogs],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert emulators.IDENTITY["AWS_SECRET_ACCESS_KEY"] not in done.stdout + done.stderr
    return folder


@pytest.fixture(params=[0, 1], ids=["folder", "bucket"])
def number(request: pytest.FixtureRequest) -> int:
    """The index of the catalog."""
    return int(request.param)


@pytest.fixture
def catalog_uri(catalogs: tuple[str, str], number: int) -> str:
    return catalogs[number]


@pytest.fixture
def seen(seen_by_spark: Path, number: int) -> Path:
    return seen_by_spark / str(number)


def assert_same(found: DataFrame, expected: DataFrame) -> None:
    order = [key for key in ("topic", "partition", "position", "chunk") if key in found.columns]
    assert_df_equality(found.orderBy(order), expected.orderBy(order))


def states(catalog_uri: str) -> list[PartitionState]:
    return list(Catalog(catalog_uri).read().values())


def test_spark_reads_the_rows_that_the_catalog_wrote(
    spark: SparkSession, catalog_uri: str, seen: Path
) -> None:
    rows = table_of(states(catalog_uri)).to_pylist()
    assert len(rows) == 2
    found = spark.read.parquet(f"{seen}/partitions")
    assert found.schema.simpleString() == from_arrow_schema(PARTITIONS).simpleString()
    assert_same(found, spark.createDataFrame(rows, found.schema))


def test_spark_reads_one_row_per_live_segment(
    spark: SparkSession, catalog_uri: str, seen: Path
) -> None:
    rows: list[dict[str, Any]] = [
        asdict(state.key) | {"position": position} | of_segment(segment)
        for state in states(catalog_uri)
        for position, segment in enumerate(state.segments)
    ]
    assert len(rows) == 4
    found = spark.read.parquet(f"{seen}/segments")
    assert found.columns == [
        "topic",
        "partition",
        "topic_id",
        "position",
        *(column.name for column in SEGMENT),
    ]
    assert_same(found, spark.createDataFrame(rows, found.schema))


def test_spark_reads_the_runs(spark: SparkSession, catalog_uri: str, seen: Path) -> None:
    rows = [asdict(row) for row in RunsTable(catalog_uri).read()]
    assert len(rows) == 2
    found = spark.read.parquet(f"{seen}/runs")
    renamed = from_arrow_schema(RUNS).simpleString()
    for stored, name in RUNS_RENAMED.items():
        renamed = renamed.replace(f"{stored}:", f"{name}:")
    assert found.schema.simpleString() == renamed
    assert_same(found, spark.createDataFrame(rows, found.schema))


def test_without_delta_the_error_names_the_remedy(spark: SparkSession, catalog_uri: str) -> None:
    with pytest.raises(UnreadableObject, match="with_delta"):
        catalog_tables.partitions(spark, catalog_uri)

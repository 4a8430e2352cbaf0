"""A session without Delta reads a catalog on Azure, through delta-rs."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tests.compaction.builders import KEY
from tests.storage.catalog_contract import A_RUN, committed
from tests.storage.emulators import AZURE_ACCOUNT, AZURE_KEY, azurite, new_container
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.jobs.sources import catalog_tables
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.catalog.schema import PARTITIONS
from tierfold.storage.tiers.store_options import StoreOptions


def test_spark_gets_the_rows_of_a_catalog_on_azure(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", AZURE_KEY)
    options = StoreOptions(endpoint=azurite(), account=AZURE_ACCOUNT)
    uri = f"az://{new_container(azurite())}/tier/_tierfold"
    with pytest.raises(UnreadableObject, match="there is no such table"):
        catalog_tables.runs(spark, uri, options)
    state = committed(Catalog(uri, options), KEY, "a", "merged")
    RunsTable(uri, options).append([A_RUN, replace(A_RUN, chunk=1, counts={})])
    partitions = catalog_tables.partitions(spark, uri, options)
    assert partitions.schema.simpleString() == from_arrow_schema(PARTITIONS).simpleString()
    assert [row.commit_id for row in partitions.collect()] == [state.commit_id]
    (segment,) = catalog_tables.segments(spark, uri, options).collect()
    assert (segment.topic, segment.position) == (KEY.topic, 0)
    assert segment.segment_id == state.segments[0].segment_id
    runs = {row.chunk: row.asDict() for row in catalog_tables.runs(spark, uri, options).collect()}
    assert runs[0] == asdict(A_RUN)
    assert runs[1]["counts"] == {}

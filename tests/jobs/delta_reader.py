"""Reads catalogs as a notebook would, and writes what it read as Parquet.

The arguments are a folder and the catalogs; the last one is named to the session.

It runs as a separate program: Delta's jars must be there when a session starts, and the tests' one
session does not have them.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from tierfold.jobs.sources import catalog_tables

if __name__ == "__main__":
    seen, *catalogs = sys.argv[1:]
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
        # A few rows do not earn back what compiling their plans costs.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }
    builder = SparkSession.builder.master("local[1]").config(map=settings)
    spark = catalog_tables.with_delta(builder, catalogs[-1]).getOrCreate()
    for number, catalog in enumerate(catalogs):
        for name in ("partitions", "segments", "runs"):
            table = getattr(catalog_tables, name)(spark, catalog)
            table.coalesce(1).write.parquet(f"{seen}/{number}/{name}")
    spark.stop()

"""Spark puts each row into the partition with the number of its task, on every version."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession

from tierfold.jobs.engines.spark_tasks import at_hashed_tasks, at_their_tasks


@pytest.mark.parametrize("placed", [at_their_tasks, at_hashed_tasks])
@pytest.mark.parametrize("tasks", [1, 2, 300])
def test_a_row_is_in_the_partition_of_its_task(
    spark: SparkSession, placed: Callable[[DataFrame, int], DataFrame], tasks: int
) -> None:
    rows = spark.range(2 * tasks).selectExpr("cast(id as int) as task")
    found = placed(rows, tasks).selectExpr("task", "spark_partition_id()").collect()
    assert sorted(row[0] for row in found) == [*range(2 * tasks)]
    # Half of the numbers are beyond the partitions.
    assert [row for row in found if row[0] % tasks != row[1]] == []

"""The API runs on the Spark session that is given, or on none, and stops no session."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

import tierfold
from tests.jobs.tiers import key_of, updated_tier

SETTINGS: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": 0,
    "tier.binding": "detached",
}


def jobs_of(spark: SparkSession) -> set[int]:
    """The jobs that the session has run so far."""
    return set(spark.sparkContext.statusTracker().getJobIdsForGroup(None))


def test_a_run_uses_the_session_that_is_given_and_leaves_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    tier = updated_tier(tmp_path / "tier", [key_of("orders")], 2)
    before = jobs_of(spark)
    assert tierfold.compact(tier, settings=SETTINGS, spark=spark).outcome == "compacted"
    compacted = jobs_of(spark)
    assert compacted > before
    assert tierfold.verify(tier, check=True).outcome == "sound"
    verified = jobs_of(spark)
    assert verified > compacted
    assert spark.range(3).count() == 3


def test_the_local_engine_uses_no_session(spark: SparkSession, tmp_path: Path) -> None:
    tier = updated_tier(tmp_path / "tier", [key_of("orders")], 2)
    before = jobs_of(spark)
    assert tierfold.compact(tier, settings=SETTINGS, engine="local").outcome == "compacted"
    assert tierfold.verify(tier, engine="local", check=True).outcome == "sound"
    assert jobs_of(spark) == before

"""Python workers die during a task: Spark retries it, and nothing that they left becomes live."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from tests.faults.kills.killed_checks import unnamed
from tests.faults.kills.killed_logs import LARGE, LARGE_RECORDS, large_newest, put_large
from tests.faults.kills.worker_killer import workers_killed
from tests.jobs.commands import ALWAYS, ON_SPARK, status_of, tierfold, told
from tests.jobs.tiers import folder_of, key_of, made_tier, put_updates
from tests.spread import most_in_soak

SEGMENTS: Final = 4
ONE_EACH: Final = (*ALWAYS, "--set", "segment.bytes=1")
STAGES: Final = {"scan": 0, "rewrite": 2}
"""By stage, how many objects a worker begins to write before it dies; 0: it dies as it reads."""


@pytest.mark.parametrize("stage", most_in_soak([*STAGES], 1))
def test_spark_replaces_a_worker_that_dies_and_nothing_is_committed_twice(
    spark: SparkSession, tmp_path: Path, stage: str
) -> None:
    tier = made_tier(tmp_path / "tier")
    newest = put_large(tier, SEGMENTS)
    dead = tmp_path / "dead"
    with workers_killed(spark, folder_of(tier, LARGE), writes=STAGES[stage], once=dead):
        ran = tierfold("compact", tier, *ONE_EACH, *ON_SPARK, "--json")
    assert dead.exists()
    assert ran.code == 0, ran.stderr
    report = ran.partitions["large", 0]
    # The last segment loses no record, so it is not rewritten.
    assert (report["outcome"], report["objects_written"]) == ("compacted", 5 * (SEGMENTS - 1))
    assert report["parts_verified"] == {
        "by_checksum": 0,
        "by_reading_back": report["objects_written"],
    }
    counts = report["counts"]
    assert (counts["records_in"], counts["kept"]) == (SEGMENTS * LARGE_RECORDS, len(newest))
    status = status_of(tier)["large", 0]
    assert large_newest(status) == newest
    assert unnamed(tier, LARGE, status) == set(status["orphans"])
    assert tierfold("verify", tier).code == 0


def test_data_that_kill_every_worker_fail_only_their_own_partition(
    spark: SparkSession, tmp_path: Path
) -> None:
    tier = made_tier(tmp_path / "tier")
    put_large(tier, SEGMENTS)
    for number in range(2):
        put_updates(tier, key_of("small"), number)
    with workers_killed(spark, folder_of(tier, LARGE)):
        ran = tierfold("compact", tier, *ALWAYS, *ON_SPARK, "--json")
    assert ran.code == 3, ran.stderr
    assert ran.outcomes == {("large", 0): "failed", ("small", 0): "compacted"}
    reason = ran.partitions["large", 0]["reason"]
    assert not told(reason, "large-0: a Spark worker died", "Python worker exited", "more memory")
    assert status_of(tier)["large", 0]["retired"] == []
    with workers_killed(spark, folder_of(tier, LARGE)):
        ran = tierfold("verify", tier, *ON_SPARK, "--json")
    assert ran.code == 3
    assert not told(ran.stderr, "a Spark worker died", str(tier), "--topic")
    assert "Traceback" not in ran.stderr
    assert tierfold("verify", tier).code == 0

"""Runs killed at random instants, by the operating system: nothing is lost, nothing is half done.

`make soak` does the same with many more kills (tests/faults/killed_run.py).
"""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.faults.killed_blows import HAND, Sign, Whom
from tests.faults.killed_run import Course, killed
from tests.oracle.kafka_lab import KafkaLab

SEED = 7
"""With it the JVM dies while Spark starts."""


@pytest.fixture(scope="module")
def course(
    spark: SparkSession, lab: KafkaLab, tmp_path_factory: pytest.TempPathFactory
) -> Course:
    """One tier through eight kills; everybody is killed, by every sign."""
    return killed(tmp_path_factory.mktemp("killed") / "course", SEED, HAND, lab, print)


def test_whoever_is_killed_whenever_the_tier_is_whole_and_the_next_run_finishes(
    course: Course,
) -> None:
    assert course.faults == []


def test_the_kills_met_the_work(course: Course) -> None:
    assert {each.blow.whom for each in course.kills} == set(Whom)
    assert {each.blow.sign for each in course.kills} == set(Sign)
    assert len(course.kills) == HAND
    # What each meets depends on the machine; that none meets the work is no test.
    assert any(each.after.orphans + each.after.hidden for each in course.kills)
    assert len({each.after.clean_until for each in course.kills}) > 1

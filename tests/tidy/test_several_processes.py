"""`make test` creates session-wide fixtures in one of its processes, not in each."""

from __future__ import annotations

import re

import pytest

from tests.several_processes import scope_of
from tests.tidy import source_tree


@pytest.mark.parametrize(
    ("fixture", "scopes"),
    [
        ("spark: SparkSession", {"Spark"}),
        ("archive: Path", {"archive"}),
        ("unpacked: Path", {"archive"}),
        ("lab: KafkaLab", {"Kafka", "Spark"}),
        ("leaders: LeadersRun", {"Spark"}),
        ("fuzzed: dict[int, FuzzedTopic]", {"Kafka"}),
        ("kafka: KafkaCluster", {"brokers"}),
    ],
)
def test_users_of_a_session_wide_fixture_stay_together(fixture: str, scopes: set[str]) -> None:
    others = [test for test in source_tree.tests() if not __file__.endswith(test.path)]
    used = re.compile(rf"\b{re.escape(fixture)}")  # Not `own_kafka`.
    users = [test.path for test in others if "/test_" in test.path and used.search(test.text)]
    assert {scope_of(source_tree.ROOT / user) for user in users} == scopes


def test_other_files_have_a_scope_of_their_own() -> None:
    file = source_tree.ROOT / "tests" / "compaction" / "planning" / "test_plan.py"
    assert scope_of(file) == str(file)

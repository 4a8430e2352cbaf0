"""`make test` makes session-wide things in one of its two processes, not in both."""

from __future__ import annotations

import pytest

from tests.tidy import source_tree
from tests.two_processes import scope_of


@pytest.mark.parametrize(
    ("fixture", "scopes"),
    [
        ("spark: SparkSession", {"Spark"}),
        ("archive: Path", {"archive"}),
        ("lab: KafkaLab", {"Kafka", "Spark"}),
        ("led: Led", {"Spark"}),
        ("fuzzed: dict[int, FuzzedTopic]", {"Kafka"}),
    ],
)
def test_users_of_what_is_made_once_stay_together(fixture: str, scopes: set[str]) -> None:
    others = [test for test in source_tree.tests() if "/tidy/" not in test.path]
    users = [other.path for other in others if "/test_" in other.path and fixture in other.text]
    assert {scope_of(source_tree.ROOT / user) for user in users} == scopes


def test_other_files_go_by_themselves() -> None:
    file = source_tree.ROOT / "tests" / "compaction" / "planning" / "test_plan.py"
    assert scope_of(file) == str(file)

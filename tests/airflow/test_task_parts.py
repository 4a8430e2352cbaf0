"""A task's parts: groups of a plan, arguments for spark-submit, shortened documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.airflow_tasks.outcomes import (
    PARTITIONS_LOGGED,
    XCOM_PARTITIONS_MAX,
    shortened,
    summary,
)
from tierfold.jobs.airflow_tasks.partition_groups import partition_groups
from tierfold.jobs.airflow_tasks.spark_submit import Submission, words_of
from tierfold.jobs.airflow_tasks.tierfold_operator import TierfoldOperator


def entry(partition: int, outcome: str = "planned", bytes_in: int = 0) -> dict[str, Any]:
    return {
        "topic": "orders",
        "partition": partition,
        "topic_id": "id",
        "outcome": outcome,
        "reason": f"why {partition}",
        "bytes_in": bytes_in,
        "counts": {},
    }


def document(*entries: dict[str, Any]) -> dict[str, Any]:
    return {
        "verb": "compact",
        "tier": "/t",
        "outcome": "failed",
        "reason": "why",
        "warnings": ["careful"],
        "partitions": list(entries),
    }


def numbers(names: list[dict[str, Any]]) -> list[int]:
    assert all(set(name) == {"topic", "partition", "topic_id"} for name in names)
    return [name["partition"] for name in names]


def test_groups_balance_the_bytes_and_then_the_partitions() -> None:
    plan = document(entry(0, bytes_in=5), entry(1, bytes_in=9), entry(2, bytes_in=4))
    plan["partitions"] += [entry(3, "nothing_to_do"), entry(4, "nothing_to_do")]
    first, second = partition_groups(plan, 2)
    assert (numbers(first["due"]), numbers(second["due"])) == ([1], [0, 2])
    assert (numbers(first["every"]), numbers(second["every"])) == ([1, 3, 4], [0, 2])


def test_partitions_that_need_a_person_are_in_no_group() -> None:
    plan = document(entry(0, "refused"), entry(1, "failed"), entry(2, "unknown"), entry(3))
    (group,) = partition_groups(plan, 4)
    assert numbers(group["every"]) == numbers(group["due"]) == [3]


def test_without_a_plan_or_partitions_there_is_no_group() -> None:
    assert partition_groups(None, 4) == partition_groups(document(), 4) == []


def test_a_long_document_keeps_what_a_person_needs() -> None:
    entries = [entry(number, "compacted") for number in range(XCOM_PARTITIONS_MAX)]
    whole = document(*entries)
    assert shortened(whole) is whole
    short = shortened(document(*entries, entry(-1, "failed")))
    assert short["shortened"] is True
    assert len(short["partitions"]) == XCOM_PARTITIONS_MAX + 1
    names = {"topic", "partition", "topic_id", "outcome", "bytes_in"}
    assert set(short["partitions"][0]) == names
    assert set(short["partitions"][-1]) == names | {"reason"}


def test_the_log_shows_the_first_partitions_that_need_attention() -> None:
    entries = [entry(number, "refused") for number in range(PARTITIONS_LOGGED + 2)]
    lines = list(summary(document(entry(-1, "compacted"), *entries)))
    assert lines[:3] == ["tierfold compact: failed", "careful", "orders-0: refused: why 0"]
    assert len(lines) == 2 + PARTITIONS_LOGGED + 1
    assert lines[-1] == "and 2 more partitions; XCom has them"


def test_the_log_says_once_which_runs_are_at_work() -> None:
    entries = [entry(number, "left") | {"held_by": "other"} for number in range(3)]
    lines = list(summary(document(entry(-1, "compacted"), *entries, entry(9, "left"))))
    assert lines[2:] == ["3 partitions left to run other, which is at work"]


def words(folder: Path, **keywords: Any) -> list[str]:
    submission = Submission(verb="compact", tier="/t", keywords=keywords, attempt="1")
    return words_of(submission, str(folder))


@pytest.mark.parametrize(
    ("keywords", "expected"),
    [
        ({}, []),
        ({"topics": ["a", "b*"]}, ["--topic", "a", "--topic", "b*"]),
        ({"publish": True, "canary": "off"}, ["--publish", "--canary", "off"]),
        ({"publish": False, "readers_begin_again": False}, ["--no-publish"]),
        ({"publish": None}, []),
        ({"partitions": [0, "1?"]}, ["--partition", "0", "--partition", "1?"]),
        (
            {"settings": {"a": True, "b": [1, 2], "c": 0.5}},
            ["--set", "a=true", "--set", "b=1,2", "--set", "c=0.5"],
        ),
        ({"settings": ["a=1"]}, ["--set", "a=1"]),
        ({"if_held": "wait"}, ["--if-held", "wait"]),
        ({"encryption_keys": {"k": "/f"}}, ["--encryption-key", "k=/f"]),
        ({"dry_run": True, "diverged": False, "catalog": None}, ["--dry-run"]),
        ({"now_ms": 7, "local_max_bytes": 8}, ["--now", "7", "--local-max", "8"]),
        ({"max_duration_ms": 5, "grace_ms": 6}, ["--max-duration", "5ms", "--grace-period", "6ms"]),
        ({"orphan_age_ms": 6, "max_bytes": 9}, ["--orphan-age", "6ms", "--max-bytes", "9"]),
        ({"partitions_from": "s3://b/p.json"}, ["--partitions-from", "s3://b/p.json"]),
    ],
)
def test_keywords_become_options(
    tmp_path: Path, keywords: dict[str, Any], expected: list[str]
) -> None:
    assert words(tmp_path, **keywords) == ["/t", *expected]


def test_a_partition_is_an_argument_after_the_tier(tmp_path: Path) -> None:
    assert words(tmp_path, to="now", partition="orders-0") == ["/t", "orders-0", "--to", "now"]


def test_a_list_of_partitions_is_written_for_the_driver(tmp_path: Path) -> None:
    listed = [{"topic": "orders", "partition": 0}]
    place = str(tmp_path / "partitions.json")
    assert words(tmp_path, partitions_from=listed) == ["/t", "--partitions-from", place]
    assert json.loads(Path(place).read_text(encoding="utf-8")) == listed


@pytest.mark.parametrize("name", ["spark", "progress", "check"])
def test_an_option_that_needs_this_process_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadSettings, match=f"{name} works only in this process"):
        words(tmp_path, **{name: True})
    assert words(tmp_path, **{name: None}) == ["/t"]


def test_there_is_no_task_for_an_unknown_verb() -> None:
    with pytest.raises(ValueError, match="no task 'shrink'"):
        TierfoldOperator(task_id="verb", verb="shrink", tier="/t")


def test_a_task_retries_only_fenced_runs_unless_it_is_given_retries() -> None:
    own = TierfoldOperator(task_id="own", verb="plan", tier="/t")
    assert (own.has_own_retries, own.retries) == (True, 3)
    given = TierfoldOperator(task_id="given", verb="plan", tier="/t", retries=0)
    assert (given.has_own_retries, given.retries) == (False, 0)
    of_dag = TierfoldOperator(task_id="dag", verb="plan", tier="/t", default_args={"retries": 5})
    assert (of_dag.has_own_retries, of_dag.retries) == (False, 5)

"""A run's metrics, from its document alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tierfold.jobs.reports.metrics import (
    HELP,
    LAST_SUCCESS,
    STOPPED,
    STOPPED_MAX,
    TEXT_MAX,
    Group,
    metrics_of,
)
from tierfold.jobs.settings.owner_labels import RESERVED

KEY = {"tier": "/t", "verb": "compact"}


def entry(topic: str, outcome: str = "compacted", **changed: Any) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": 0,
        "outcome": outcome,
        "reason": "",
        "bytes_in": 1000,
        "bytes_out": 400,
        "bytes_read": 900,
        "bytes_written": 100,
        "ratio": {"clean_bytes": 300, "cleanable_bytes": 100},
        "superseded_gone_at": None,
        **changed,
    }


def document(*entries: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {
        **KEY,
        "finished_at_ms": 86_400_500,
        "duration_ms": 2500,
        "max_compaction_delay_secs": 7,
        "partitions": [*entries],
        **changed,
    }


def refused(*parts: tuple[str, str], **changed: Any) -> dict[str, Any]:
    """An entry that is refused for these details and remedies."""
    refusals = [{"code": "gap", "detail": detail, "remedy": remedy} for detail, remedy in parts]
    return entry("orders", "refused", refusals=refusals, **changed)


def stopped(*entries: dict[str, Any]) -> list[dict[str, str]]:
    """The labels of the partitions that the run names."""
    run, *topics = metrics_of(document(*entries))
    assert not [one for group in topics for one in group.samples if one.name == STOPPED]
    return [dict(one.labels) for one in run.samples if one.name == STOPPED]


def values(group: Group) -> dict[str, float]:
    return {sample.name.removeprefix("tierfold_"): sample.value for sample in group.samples}


def test_the_metrics_of_a_run_and_of_its_topics() -> None:
    dirtier = {"clean_bytes": 0, "cleanable_bytes": 5}
    found = metrics_of(
        document(
            entry("orders", labels={"team": "shop"}),
            entry("orders", "refused", ratio=None, bytes_read=0, bytes_written=0),
            entry("bills", "failed", ratio=dirtier, bytes_out=0),
            entry("idle", "nothing_to_do", bytes_read=0, bytes_written=0),
        )
    )
    run, bills, idle, orders = found
    assert [group.key for group in found[:2]] == [KEY, KEY | {"topic": "bills"}]
    assert values(run) == {
        "stopped_partition": 1,
        "run_saved_bytes": 600,
        "run_compacted_bytes": 1000,
        "uncleanable_partitions_count": 2,
        "run_duration_seconds": 2.5,
        "max_dirty_percent": 100,
        "max_compaction_delay_secs": 7,
        "cleaner_recopy_percent": 40,
    }
    assert values(orders) == {
        "refused_partitions": 1,
        "failed_partitions": 0,
        "compacted_bytes": 1000,
        "saved_bytes": 600,
        "superseded_overdue_seconds": 0,
    }
    assert values(bills)["failed_partitions"] == 1
    assert values(idle)["last_success_timestamp_seconds"] == 86_400.5
    assert {frozenset(sample.labels.items()) for sample in orders.samples} == {
        frozenset({**KEY, "topic": "orders", "team": "shop"}.items())
    }


def test_a_run_of_nothing_has_its_own_metrics() -> None:
    (run,) = metrics_of(document(requests={"cost_usd": 1.0}))
    assert values(run)["cleaner_recopy_percent"] == values(run)["max_dirty_percent"] == 0


def test_the_cost_is_shared_out_by_bytes_and_of_an_idle_run_by_partitions() -> None:
    work = document(
        entry("a"), entry("b", bytes_read=2000, bytes_written=1000), requests={"cost_usd": 2.0}
    )
    run, first, second = metrics_of(work)
    assert values(run)["run_cost_usd"] == 2
    assert (values(first)["cost_usd"], values(second)["cost_usd"]) == (0.5, 1.5)
    nothing = {"bytes_read": None, "bytes_written": 0}
    entries = (entry("a", **nothing), *(entry("b", **nothing, partition=n) for n in range(3)))
    idle = document(*entries, requests={"cost_usd": 2.0})
    assert [values(group)["cost_usd"] for group in metrics_of(idle)[1:]] == [0.5, 1.5]


def test_what_brokers_are_still_to_be_sent() -> None:
    sent = {"events_planned": 6, "events_sent": 6}
    more = {"events_planned": 1, "events_sent": 3}  # What another run left was sent, too.
    less = {"events_planned": 4, "events_sent": 1}
    (_, orders) = metrics_of(document(*(entry("a", **one) for one in (sent, less, more))))
    assert values(orders)["publish_lag_events"] == 3
    assert values(orders)["unfinished_swaps"] == 1


def test_replaced_segments_that_could_be_gone() -> None:
    due = entry("a", superseded_gone_at="1970-01-01T12:00:00.000Z")
    later = entry("a", superseded_gone_at="1970-01-03T00:00:00.000Z")
    (_, topic) = metrics_of(document(due, later))
    assert values(topic)["superseded_overdue_seconds"] == 43_200.5
    (_, topic) = metrics_of(document(later))
    assert values(topic)["superseded_overdue_seconds"] == 0


@pytest.mark.parametrize("outcome", ["failed", "refused", "unknown", "fenced", "lost_race"])
def test_only_a_success_has_its_time(outcome: str) -> None:
    (_, topic) = metrics_of(document(entry("a"), entry("a", outcome)))
    assert LAST_SUCCESS not in {sample.name for sample in topic.samples}
    (_, topic) = metrics_of(document(entry("a"), entry("a", "left")))
    assert LAST_SUCCESS in {sample.name for sample in topic.samples}


def test_a_verb_without_a_plan_has_fewer() -> None:
    found = document({"topic": "a", "partition": 0, "outcome": "sound", "reason": ""})
    del found["max_compaction_delay_secs"]
    run, topic = metrics_of(found)
    assert values(run).keys() == {"uncleanable_partitions_count", "run_duration_seconds"}
    assert values(topic).keys() == {
        *("refused_partitions", "failed_partitions", "last_success_timestamp_seconds"),
    }


def test_a_partition_that_needs_a_person_has_its_reason_and_the_first_step() -> None:
    steps = "1. Look at offset 7. 2. Run again. 3. Nothing of this partition was changed."
    (found,) = stopped(
        refused(("a segment is missing.", steps), labels={"team": "shop"}, partition=3)
    )
    assert found == {
        **KEY,
        "team": "shop",
        "topic": "orders",
        "partition": "orders-3",
        "outcome": "refused",
        "reason": "a segment is missing",
        "remedy": "Look at offset 7. Otherwise: `tierfold runs /t`.",
    }
    assert found.keys() - {"team"} <= RESERVED
    unchanged = "Nothing of this partition was changed. Run again. Look, too."
    (found,) = stopped(refused(("one", unchanged), ("two", "x"), ("three", "y")))
    assert (found["reason"], found["remedy"]) == ("one (and 2 more)", "Run again. Look, too.")


def test_without_parts_the_reason_is_all_that_is_known() -> None:
    (found,) = stopped(entry("a", "failed", reason="it is torn. Restore it."))
    assert (found["reason"], found["remedy"]) == ("it is torn. Restore it", "")


def test_partitions_are_named_in_the_order_of_runs_and_only_some() -> None:
    outcomes = ("refused", "compacted", "unknown", "fenced", "left", "lost_race", "failed")
    found = stopped(*(entry("a", name, partition=n) for n, name in enumerate(outcomes)))
    assert [one["outcome"] for one in found] == ["failed", "unknown", "refused"]
    many = stopped(*(entry("a", "refused", partition=n) for n in range(5000)))
    assert [one["partition"] for one in many] == [f"a-{n}" for n in range(STOPPED_MAX)]


def test_a_topic_that_was_made_again_is_named_once() -> None:
    ids = (entry("a", "failed", topic_id=name, reason=name) for name in ("old", "new"))
    assert [one["reason"] for one in stopped(*ids)] == ["old"]


def test_a_label_is_short_and_one_line() -> None:
    (found,) = stopped(refused(("word " * TEXT_MAX, "a\x1b[2J\nb")))
    assert len(found["reason"]) <= TEXT_MAX
    assert found["reason"].endswith("word …")
    assert found["remedy"].isprintable()


def test_the_page_lists_each_metric() -> None:
    page = Path(__file__).resolve().parents[3].joinpath("docs/metrics.md").read_text()
    assert re.findall(r"^\| `(tierfold_\w+)`", page, re.MULTILINE) == [*HELP]

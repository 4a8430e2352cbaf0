"""The real command picks the due partitions in the right order: ages, lags, horizons."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, Final

import deltalake
import pytest
from rich.console import Console

from tests.jobs.commands import ALWAYS, CLOCK, Ran, status_of, tierfold
from tests.jobs.tiers import (
    RECORDS_PER_SEGMENT,
    files_below,
    key_of,
    live_values,
    made_tier,
    put_segment,
    put_updates,
)
from tests.storage.live_segments import NOW_MS as WRITTEN_AT_MS
from tests.storage.live_segments import data, marker
from tierfold.compaction.planning.partition_plan import in_order_of_work
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.partition_report import max_compaction_delay_secs
from tierfold.jobs.pipeline.survey import survey
from tierfold.jobs.reports.plan_report import PlanResult
from tierfold.jobs.settings.resolution import Settings, resolve
from tierfold.jobs.verbs.plan import plan
from tierfold.jobs.verbs.status import status
from tierfold.storage.kafka.control_records import ControlType

NOW_MS: Final = 1_800_000_000_000
RETENTION_MS: Final = 1000
ORDERS = key_of("orders")
APART: Final = ("--set", "segment.bytes=1", "--set", f"delete.retention.ms={RETENTION_MS}")


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return made_tier(tmp_path / "tier")


def run(verb: str, tier: Path, now_ms: int, *arguments: str) -> Ran:
    ran = tierfold(verb, tier, *ALWAYS, *APART, CLOCK, str(now_ms), *arguments, "--json")
    assert ran.code == 0, ran.stderr
    return ran


def live(tier: Path) -> list[dict[str, Any]]:
    segments: list[dict[str, Any]] = status_of(tier)["orders", 0]["segments"]
    return segments


def ids(tier: Path) -> list[str]:
    return [segment["id"] for segment in live(tier)]


def test_tombstones_go_from_a_clean_partition_and_other_segments_stay(tier: Path) -> None:
    put_segment(tier, ORDERS, [data(0, (b"a", b"1"))], start_offset=0)
    put_segment(tier, ORDERS, [data(1, (b"k", None), (b"b", b"1"))], start_offset=1)
    put_segment(tier, ORDERS, [data(3, (b"c", b"1"))], start_offset=3)
    put_segment(tier, ORDERS, [data(4, (b"l", None))], start_offset=4)
    put_segment(tier, ORDERS, [data(5, (b"d", b"1"))], start_offset=5)
    run("compact", tier, NOW_MS)
    cleaned = ids(tier)
    before = files_below(tier)
    early = run("compact", tier, NOW_MS + RETENTION_MS - 1).entry
    assert early["outcome"] == "nothing_to_do"
    assert files_below(tier) == before

    report = run("compact", tier, NOW_MS + RETENTION_MS).entry
    assert report["outcome"] == "compacted"
    assert "whose delete horizon has passed" in report["reason"]
    assert (report["segments_in"], report["segments_out"]) == (2, 2)
    assert report["counts"]["tombstones_expired"] == 2
    after = ids(tier)
    assert [after[i] == cleaned[i] for i in range(5)] == [True, False, True, False, True]
    assert status_of(tier)["orders", 0]["cleaner_offset"] == 6
    assert sorted(live_values(status_of(tier)["orders", 0])) == [b"a", b"b", b"c", b"d"]
    assert tierfold("verify", tier).code == 0

    before = files_below(tier)
    again = run("compact", tier, NOW_MS + 10 * RETENTION_MS).entry
    assert again["outcome"] == "nothing_to_do"
    assert files_below(tier) == before


def test_a_marker_goes_only_when_no_segment_holds_its_data(tier: Path) -> None:
    put_segment(tier, ORDERS, [data(0, (b"a", b"1"), producer_id=7)], start_offset=0)
    batches = [marker(1, 7, ControlType.COMMIT), data(2, (b"k", b"1"), producer_id=8)]
    put_segment(tier, ORDERS, batches, start_offset=1)
    put_segment(tier, ORDERS, [marker(3, 8, ControlType.COMMIT)], start_offset=3)
    put_segment(tier, ORDERS, [data(4, (b"k", b"2"))], start_offset=4)
    # The first pass drops producer 8's data; the second, over one more segment, finds none of them
    # and sets the marker's horizon; producer 7's data stay, and so does their marker.
    run("compact", tier, NOW_MS)
    put_segment(tier, ORDERS, [data(5, (b"z", b"1"))], start_offset=5)
    run("compact", tier, NOW_MS)
    cleaned = ids(tier)
    report = run("compact", tier, NOW_MS + RETENTION_MS).entry
    assert (report["outcome"], report["segments_in"]) == ("compacted", 1)
    assert report["counts"]["markers_expired"] == 1
    after = ids(tier)
    changed = [i for i, (old, new) in enumerate(zip(cleaned, after, strict=True)) if old != new]
    assert [live(tier)[i]["start_offset"] for i in changed] == [3]
    assert tierfold("verify", tier).code == 0
    done = run("compact", tier, NOW_MS + 9 * RETENTION_MS).entry
    assert done["outcome"] == "nothing_to_do"


def lagging(*, minimum_ms: int = 0, maximum_ms: int) -> Settings:
    """Settings whose compaction lags are these."""
    lags = (f"min.compaction.lag.ms={minimum_ms}", f"max.compaction.lag.ms={maximum_ms}")
    return resolve(("cleanup.policy=compact", *lags))


@pytest.fixture
def three_topics(tier: Path) -> Path:
    """Records of 0 to 10 ms after `WRITTEN_AT_MS`, orders and returns have such of 11 to 21 too.

    What counts of a segment is its first batch: one record, 0 or 11 ms after.
    """
    for topic, numbers in (("orders", (0, 1)), ("payments", (0,)), ("returns", (0, 1))):
        for number in numbers:
            put_updates(tier, key_of(topic), number)
    return tier


def test_the_most_overdue_partition_goes_first(three_topics: Path) -> None:
    # Of orders and returns half is overdue, all of payments is.
    context = run_context(str(three_topics), None, WRITTEN_AT_MS + 2015)
    settings = lagging(maximum_ms=2010)
    surveyed = survey(context, settings, Scope())
    assert [partition.key.topic for partition in surveyed] == ["orders", "payments", "returns"]
    assert [partition.key.topic for partition in in_order_of_work(surveyed)] == [
        "payments",
        "orders",
        "returns",
    ]


def test_a_plan_lists_the_order_of_work_and_what_is_late(three_topics: Path) -> None:
    context = run_context(str(three_topics), None, WRITTEN_AT_MS + 3015)
    reports = plan(context, lagging(maximum_ms=10), Scope())
    assert [report.key.topic for report in reports] == ["orders", "payments", "returns"]
    assert all(
        report.reason.endswith(" past max.compaction.lag.ms (10)") for report in reports
    )
    said = io.StringIO()
    reports = plan(context, lagging(maximum_ms=3010), Scope())
    PlanResult(tier="tier", partitions=tuple(reports)).print_tables(Console(file=said, width=200))
    places = [said.getvalue().index(f"{topic}-0") for topic in ("payments", "orders", "returns")]
    assert places == sorted(places)
    assert "max-compaction-delay-secs" not in said.getvalue()  # 5 ms are no second
    assert max_compaction_delay_secs(plan(context, lagging(maximum_ms=1000), Scope())) == 2
    late = plan(context, lagging(maximum_ms=1000), Scope())
    PlanResult(tier="tier", partitions=tuple(late)).print_tables(Console(file=said, width=200))
    assert "max-compaction-delay-secs: 2" in said.getvalue()
    assert "3 partitions whose active segment should have rolled" in said.getvalue()


def test_the_document_says_the_same(three_topics: Path) -> None:
    week_ms = 604_800_000
    for late_ms in (0, 1):
        newest_ms = WRITTEN_AT_MS + 2 * RECORDS_PER_SEGMENT - 1
        now_ms = newest_ms + week_ms + late_ms
        ran = run("plan", three_topics, now_ms)
        report = ran.entry
        assert report["should_have_rolled_at_ms"] == (newest_ms + week_ms if late_ms else None)
        detached = run("plan", three_topics, now_ms, "--set", "tier.binding=detached")
        assert detached.entry["should_have_rolled_at_ms"] is None  # No broker writes to it.
        assert json.loads(ran.stdout)["max_compaction_delay_secs"] == 0
        assert report["ratio"]["cleanable_bytes"] == report["bytes_in"]
        assert report["ratio"]["must_clean_bytes"] == report["ratio"]["delay_ms"] == 0


def test_what_is_too_young_is_left_and_the_rest_is_cleaned(three_topics: Path) -> None:
    context = run_context(str(three_topics), None, WRITTEN_AT_MS + 40)
    reports = plan(context, lagging(minimum_ms=30, maximum_ms=2**63 - 1), Scope())
    assert [report.next_offset for report in reports] == [RECORDS_PER_SEGMENT] * 3
    assert "younger than min.compaction.lag.ms (30)" in reports[0].reason
    assert reports[1].reason == ""
    (orders, *_) = survey(context, lagging(minimum_ms=30, maximum_ms=2**63 - 1), Scope())
    assert orders.regions is not None
    assert orders.regions.first_uncleanable == RECORDS_PER_SEGMENT
    known = status(context, lagging(minimum_ms=30, maximum_ms=2**63 - 1), Scope())
    assert known[0].ratio == orders.ratio


def test_the_sums_that_commits_keep_are_those_that_planning_counts(tier: Path) -> None:
    for number in range(2):
        put_updates(tier, ORDERS, number)
    run("compact", tier, NOW_MS, "--set", "segment.bytes=1")
    put_updates(tier, ORDERS, 2)
    (row,) = deltalake.DeltaTable(tier / "_tierfold" / "partitions").to_pyarrow_table().to_pylist()
    ratio = run("plan", tier, NOW_MS).entry["ratio"]
    uploaded = live(tier)[-1]["size_bytes"]
    assert row["clean_bytes"] == row["live_bytes"] == ratio["clean_bytes"]
    assert row["dirty_bytes"] + uploaded == ratio["cleanable_bytes"]
    (orders,) = survey(run_context(str(tier), None, NOW_MS), resolve(ALWAYS[1::2]), Scope())
    assert orders.view is not None
    assert orders.view.kept_clean_below(row["cleaner_offsets"][-1]["offset"]) == row["clean_bytes"]

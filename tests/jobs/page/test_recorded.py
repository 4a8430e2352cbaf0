"""The page's numbers of past days, from rows of the table `runs`."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa
import pytest

from tests.storage.catalog_contract import A_RUN
from tierfold.jobs.page.page_model import Day, Slow
from tierfold.jobs.page.recorded import COLUMNS_READ, Recorded, Unfinished, recorded
from tierfold.storage.catalog.schema import RUNS, RUNS_RENAMED, RunRow

DAY_MS: Final = 86_400_000
FIRST: Final = replace(
    A_RUN,
    run="20260101T010000-a",
    outcome="compacted",
    started_at_ms=1_767_229_200_000,
    finished_at_ms=1_767_229_300_000,
    bytes_in=3000,
    bytes_out=1000,
    counts={"kept": 9, "superseded": 5, "superseded_bytes": 500, "aborted": 0},
    requests={"gets": 12, "puts": 6, "sent_bytes": 99},
    cost_usd=1.0,
    bytes_read=300,
    bytes_written=0,
)
LATER: Final = replace(
    FIRST,
    run="20260102T010000-b",
    started_at_ms=FIRST.started_at_ms + DAY_MS,
    finished_at_ms=FIRST.finished_at_ms + DAY_MS,
)


def of(*rows: RunRow) -> Recorded:
    columns = {
        field.name: pa.array(
            [getattr(row, RUNS_RENAMED.get(field.name, field.name)) for row in rows], field.type
        )
        for field in RUNS
        if field.name in COLUMNS_READ
    }
    return recorded(pa.table(columns))


def test_a_catalog_without_runs_has_no_days() -> None:
    assert of() == Recorded()


def test_a_day_has_the_sums_of_its_runs() -> None:
    bills = replace(FIRST, topic="bills", requests={"gets": 20, "puts": 6}, cost_usd=1.5)
    vacuum = replace(
        FIRST,
        run="20260101T020000-v",
        command="vacuum",
        outcome="vacuumed",
        bytes_in=700,
        bytes_out=0,
        counts={},
        requests={"deletes": 4},
        cost_usd=0.25,
    )
    found = of(FIRST, bills, vacuum)
    assert found.saved_by_topic == {"orders": 2000, "bills": 2000}
    (day,) = found.days
    assert day == Day(
        day="2026-01-01",
        bytes_in=6000,
        bytes_out=2000,
        saved_bytes=4000,
        freed_bytes=700,
        cost_usd=1.75,
        removed={"superseded": 10},
        requests={"gets": 20, "puts": 6, "deletes": 4},
    )


def test_what_was_saved_adds_up_from_day_to_day() -> None:
    grown = replace(LATER, command="restore", outcome="restored", bytes_in=1000, bytes_out=3000)
    found = of(LATER, FIRST, replace(grown, run="20260103T010000-c"))
    assert [day.saved_bytes for day in found.days] == [2000, 2000]
    assert found.saved_by_topic == {"orders": 2000}


def test_older_rows_and_folders_have_no_price() -> None:
    found = of(replace(FIRST, requests={}, cost_usd=None))
    assert (found.days[0].cost_usd, found.days[0].requests, found.usd_by_topic) == (None, {}, None)


def test_a_runs_price_is_split_by_the_bytes_of_each_topic() -> None:
    bills = replace(FIRST, topic="bills", bytes_read=0, bytes_written=100)
    idle = replace(LATER, bytes_read=0, bytes_written=None, cost_usd=0.5)
    rows = (FIRST, bills, idle, replace(idle, partition=9), replace(idle, topic="bills"))
    usd = of(*rows).usd_by_topic
    assert usd == pytest.approx({"orders": 0.75 + 1 / 3, "bills": 0.25 + 0.5 / 3})


def test_a_partition_that_failed_stays_until_its_verb_succeeds() -> None:
    failed = replace(FIRST, outcome="failed", reason="it is corrupt")
    vacuumed = replace(LATER, command="vacuum", outcome="vacuumed")
    kept = Unfinished(
        topic=FIRST.topic,
        topic_id=FIRST.topic_id,
        partition=FIRST.partition,
        outcome="failed",
        reason="it is corrupt",
        command="compact",
    )
    assert of(vacuumed, failed).unfinished == (kept,)
    assert of(LATER, failed).unfinished == ()
    assert of(replace(failed, outcome="refused")).unfinished == ()  # The survey says it.


def test_the_slowest_are_those_of_the_newest_run_with_tasks() -> None:
    idle = replace(LATER, task_ms=None)
    assert of(idle, FIRST).slowest == (Slow(partition="orders-3", task_ms=1700),)
    assert of(idle).slowest == ()


def test_the_newest_run_of_each_verb_is_shown() -> None:
    vacuum = replace(FIRST, command="vacuum", run="20260101T020000-v", outcome="vacuumed")
    found = of(FIRST, LATER, replace(LATER, partition=8, outcome="refused"), vacuum).last_runs
    assert [(run.verb, run.run) for run in found] == [
        ("compact", LATER.run),
        ("vacuum", vacuum.run),
    ]
    assert [*found[0].outcomes.items()] == [("refused", 1), ("compacted", 1)]

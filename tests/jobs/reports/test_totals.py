"""Each result has its times and totals, also of what the tier stores."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import tierfold
from tests.jobs.commands import ALWAYS, clocks_at
from tests.jobs.tiers import copied, folder_of, key_of, updated_tier
from tests.jobs.vacuum_tiers import THEN_MS, incomplete_upload
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.stored_bytes import StoredBytes
from tierfold.jobs.pipeline.partition_report import COMPACTED, FAILED, PartitionReport
from tierfold.jobs.reports.plan_report import CompactResult, PlanResult

ORDERS, PAYMENTS = map(key_of, ("orders", "payments"))
SETTINGS = dict(one.split("=") for one in ALWAYS[1::2]) | {"tier.binding": "detached"}

tier = copied(lambda folder: updated_tier(folder, [ORDERS, PAYMENTS], 3))


def stored(tier: Path, *keys: object) -> int:
    """Bytes of all files in the folders of partitions."""
    folders = [folder_of(tier, key) for key in (ORDERS, PAYMENTS) if key in (keys or (key,))]
    return sum(file.stat().st_size for folder in folders for file in folder.iterdir())


def test_a_result_says_when_it_ran_and_for_how_long(tier: Path) -> None:
    before_ms = time.time_ns() // 10**6
    document = tierfold.status(tier, now_ms=THEN_MS).to_dict()
    after_ms = time.time_ns() // 10**6
    assert before_ms <= document["started_at_ms"] <= document["finished_at_ms"] <= after_ms
    assert 0 < document["duration_ms"] <= after_ms - before_ms + 1


def test_stored_bytes_follow_a_tier_through_compaction_and_vacuum(tier: Path) -> None:
    begun = stored(tier)
    plan = tierfold.plan(tier, settings=SETTINGS)
    assert (plan.stored_bytes_before, plan.stored_bytes_after) == (begun, None)
    with clocks_at(THEN_MS):
        done = tierfold.compact(tier, settings=SETTINGS, engine="local")
    grown = stored(tier)
    incomplete_upload(tier)  # No object yet, so it counts neither before nor after.
    assert begun < grown
    assert (done.stored_bytes_before, done.stored_bytes_after) == (begun, grown)
    with clocks_at(THEN_MS + 10**9):
        dry = tierfold.vacuum(tier, dry_run=True, settings=SETTINGS)
        gone = tierfold.vacuum(tier, settings=SETTINGS)
    assert (dry.stored_bytes_before, dry.stored_bytes_after) == (grown, None)
    left = stored(tier)
    assert left < begun
    assert (gone.stored_bytes_before, gone.stored_bytes_after) == (grown, left)
    for still in (tierfold.status(tier), tierfold.verify(tier, engine="local")):
        assert (still.stored_bytes_before, still.stored_bytes_after) == (left, left)
    orders = tierfold.status(tier, topics="orders")
    assert orders.stored_bytes_before == stored(tier, ORDERS)


@pytest.mark.parametrize("is_copy", [False, True])
def test_a_restore_stores_more_only_if_it_copies(tier: Path, is_copy: bool) -> None:
    with clocks_at(THEN_MS):
        tierfold.compact(tier, settings=SETTINGS, engine="local")
    first = tierfold.history(tier, "orders-0").partitions[0].lines[-1]
    before = stored(tier, ORDERS)
    to = str(first.entry.state.committed_at_ms)
    with clocks_at(THEN_MS + 60_000):
        done = tierfold.restore(tier, "orders-0", to=to, copy=is_copy)
    after = stored(tier, ORDERS)
    assert (before < after) == is_copy
    assert (done.stored_bytes_before, done.stored_bytes_after) == (before, after)
    assert "stored_bytes" not in str(done)


def test_stored_bytes_are_unknown_where_a_listing_fails_or_there_is_none(tier: Path) -> None:
    assert tierfold.history(tier, "orders-0").stored_bytes_before is None
    stored_bytes, listing = StoredBytes(), run_context(str(tier)).tier.listing(ORDERS)
    stored_bytes.listed([listing, OSError("a folder of another user")])
    assert stored_bytes.before is None
    stored_bytes.listed([listing])
    assert stored_bytes.before == stored(tier, ORDERS)


def test_totals_count_outcomes_and_bytes() -> None:
    reports = tuple(
        PartitionReport(key=ORDERS, outcome=outcome, bytes_in=100, bytes_out=10, bytes_written=7)
        for outcome in (COMPACTED, COMPACTED, FAILED)
    )
    done = CompactResult(tier="/tier", partitions=reports, stored_bytes_before=1000)
    totals = done.to_dict()["totals"]
    counts = totals.pop("partitions")
    assert {outcome for outcome, count in counts.items() if count} == {COMPACTED, FAILED}
    assert (counts[COMPACTED], counts[FAILED]) == (2, 1)
    # What a failed partition wrote stays until `vacuum` finds it.
    assert totals == {
        "bytes_in": 200,
        "bytes_out": 20,
        "stored_bytes_before": 1000,
        "stored_bytes_after": 1021,
    }


def last_line(result: PlanResult) -> str:
    return str(result).splitlines()[-1]


def test_the_last_line_says_how_long_it_took_and_what_is_stored() -> None:
    report = PartitionReport(key=ORDERS, outcome=COMPACTED, bytes_written=10**8)
    about = {"tier": "/tier", "partitions": (report,), "duration_ms": 12_345}
    sizes = "All objects of 1 partition: 1.2 GB"
    done = CompactResult(**about, stored_bytes_before=1_200_000_000)
    assert last_line(done) == f"Took 12.3 s. {sizes} → 1.3 GB."
    assert last_line(PlanResult(**about, stored_bytes_before=1_200_000_000)) == (
        f"Took 12.3 s. {sizes}."
    )
    assert last_line(CompactResult(**about)) == "Took 12.3 s."

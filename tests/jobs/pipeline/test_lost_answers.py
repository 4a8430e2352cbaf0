"""When the catalog's answer is lost, a run reports what took place and repeats nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.jobs.chunked_logs import compacted
from tests.jobs.commands import status_of, told
from tests.jobs.tiers import (
    RECORDS_PER_SEGMENT,
    key_of,
    latest_updates,
    live_values,
    updated_tier,
)
from tests.storage.scripted_catalog import rival_claims
from tests.storage.scripts import Script, at, fails
from tierfold.compaction.model.outcomes import Unknown
from tierfold.compaction.planning.chunks import Budget
from tierfold.jobs.pipeline import run_loop as waves_module
from tierfold.jobs.pipeline.commits import READ_BACK_AFTER_MS
from tierfold.jobs.pipeline.partition_report import (
    COMPACTED,
    FAILED,
    FENCED,
    LEFT,
    PLANNED,
    UNKNOWN,
    PartitionReport,
    claim_report,
)
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.catalog.runs_table import RunsTable

ORDERS, PAYMENTS = key_of("orders"), key_of("payments")
EACH_SEGMENT: Final = {"orders": 1, "payments": 1}
"""`chunk.bytes` so small that a chunk is one segment."""
LOOKS: Final = len(READ_BACK_AFTER_MS)
LOST: Final = fails("commit", is_done=True)
"""Each commit takes effect, and its answer is lost."""


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return updated_tier(tmp_path / "tier", (ORDERS, PAYMENTS), segments=3)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What a run would have waited, instead of waiting."""
    asked: list[int] = []
    monkeypatch.setattr("tierfold.jobs.pipeline.commits.pause", asked.append)
    return asked


def catalog_of(tier: Path) -> Catalog:
    return Catalog(str(tier / "_tierfold"))


def recorded(tier: Path, topic: str) -> list[tuple[int, str]]:
    """Chunk and outcome of each of the topic's rows in the record, in that order."""
    rows = RunsTable(str(tier / "_tierfold")).read()
    return sorted((row.chunk, row.outcome) for row in rows if row.topic == topic)


def test_a_commit_whose_answer_was_lost_is_found_in_the_row(
    tier: Path, pauses: list[int]
) -> None:
    reports = compacted(tier, script=Script(LOST))
    assert {report.outcome for report in reports.values()} == {COMPACTED}
    assert reports["orders"].counts.kept == len(latest_updates(3))
    assert pauses == [0]
    for topic in ("orders", "payments"):
        assert live_values(status_of(tier)[topic, 0]) == latest_updates(3)
        assert recorded(tier, topic) == [(0, COMPACTED)]


def test_a_catalog_that_cannot_be_read_for_a_while_is_asked_again(
    tier: Path, pauses: list[int]
) -> None:
    unread = [fails(f"resolve {number}") for number in range(1, LOOKS)]
    reports = compacted(tier, script=Script(LOST, *unread))
    assert {report.outcome for report in reports.values()} == {COMPACTED}
    assert pauses == list(READ_BACK_AFTER_MS)


def test_a_commit_that_cannot_be_read_back_is_unknown_until_the_next_run(
    tier: Path, pauses: list[int]
) -> None:
    reports = compacted(tier, script=Script(LOST, fails("resolve")))
    assert {report.outcome for report in reports.values()} == {UNKNOWN}
    reason = reports["orders"].reason
    assert not told(reason, "the store: no answer", "could not be read since", "run again")
    assert len(pauses) == LOOKS
    assert recorded(tier, "orders") == [(0, UNKNOWN)]
    assert {partition.outcome for partition in compacted(tier).values()} == {"nothing_to_do"}


def test_a_row_without_a_trace_stays_unknown_until_the_next_run_claims_it(
    tier: Path, pauses: list[int]
) -> None:
    before = {topic: entry["segments"] for topic, entry in status_of(tier).items()}
    reports = compacted(tier, script=Script(fails("commit")))
    assert {report.outcome for report in reports.values()} == {UNKNOWN}
    assert not told(reports["orders"].reason, "the row does not show it", "may still arrive")
    assert len(pauses) == LOOKS
    assert {topic: entry["segments"] for topic, entry in status_of(tier).items()} == before
    again = compacted(tier)
    assert {(partition.outcome, partition.epoch) for partition in again.values()} == {
        (COMPACTED, 2)
    }
    assert live_values(status_of(tier)["orders", 0]) == latest_updates(3)


def test_a_rival_that_took_over_meanwhile_settles_a_lost_commit(
    tier: Path, pauses: list[int]
) -> None:
    rival = rival_claims(str(tier / "_tierfold"), ORDERS)
    script = Script(fails("commit"), at("resolve 1", rival))
    reports = compacted(tier, script=script)
    assert (reports["orders"].outcome, reports["payments"].outcome) == (FENCED, UNKNOWN)
    assert "run rival holds epoch 2" in reports["orders"].reason
    assert recorded(tier, "orders") == [(0, FENCED)]


def test_a_partition_is_left_alone_once_an_answer_was_lost_and_others_go_on(
    tier: Path, pauses: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # One partition to a wave, one chunk to a partition: only the first one's answer is lost.
    monkeypatch.setattr(waves_module, "WAVE_BYTES", 1)
    reports = compacted(
        tier,
        EACH_SEGMENT,
        budget=Budget(max_duration_ms=3_600_000),
        script=Script(fails("commit 1", is_done=True)),
    )
    orders, payments = reports["orders"], reports["payments"]
    assert (orders.outcome, orders.next_offset) == (COMPACTED, RECORDS_PER_SEGMENT)
    assert not told(orders.reason, "left for the next run", "the answer to its last commit")
    assert (payments.outcome, payments.notes) == (COMPACTED, ("in 3 chunks",))
    assert recorded(tier, "orders") == [(0, COMPACTED)]
    state = catalog_of(tier).read()[ORDERS]
    assert (state.cleaner_offset, state.owner_run) == (RECORDS_PER_SEGMENT, "")
    again = compacted(tier)["orders"]
    assert (again.outcome, again.first_dirty) == (COMPACTED, RECORDS_PER_SEGMENT)
    assert live_values(status_of(tier)["orders", 0]) == latest_updates(3)


def test_a_claim_without_an_answer_began_nothing() -> None:
    planned = PartitionReport(key=ORDERS, outcome=PLANNED, bytes_out=7)
    report = claim_report(planned, Unknown(commit_id="a claim", cause="no answer"))
    assert (report.outcome, report.bytes_out) == (UNKNOWN, 0)
    assert not told(report.reason, "(no answer)", "nothing was begun", "run again")


# What earlier waves committed is told, whatever fails later.


def test_a_claim_that_fails_in_a_later_wave_leaves_what_was_done(
    tier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waves_module, "WAVE_BYTES", 1)
    budget = Budget(max_duration_ms=3_600_000)
    reports = compacted(tier, budget=budget, script=Script(fails("claim 2")))
    assert (reports["orders"].outcome, reports["payments"].outcome) == (COMPACTED, FAILED)
    assert "the store: no answer" in reports["payments"].reason
    assert recorded(tier, "orders") == [(0, COMPACTED)]
    assert recorded(tier, "payments") == [(0, FAILED)]
    assert live_values(status_of(tier)["orders", 0]) == latest_updates(3)


def test_a_claim_that_cannot_be_given_back_leaves_what_was_done(tier: Path) -> None:
    reports = compacted(tier, budget=Budget(max_bytes=1), script=Script(fails("commit 2")))
    orders = reports["orders"]
    assert (orders.outcome, orders.next_offset) == (COMPACTED, RECORDS_PER_SEGMENT)
    assert not told(orders.reason, "the rest is left for the next run", "--max-bytes is 1,")
    assert reports["payments"].outcome == LEFT
    state = catalog_of(tier).read()[ORDERS]
    assert (state.cleaner_offset, state.owner_run != "") == (RECORDS_PER_SEGMENT, True)
    # The next run takes the claim over without waiting for anybody.
    again = compacted(tier)["orders"]
    assert (again.outcome, again.epoch, again.first_dirty) == (COMPACTED, 2, RECORDS_PER_SEGMENT)

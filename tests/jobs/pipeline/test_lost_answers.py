"""When the catalog's answer is lost, a run reports what took place and repeats nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.jobs.chunked_logs import compacted
from tests.jobs.commands import status_of, told
from tests.jobs.tiers import RECORDS_PER_SEGMENT, key_of, latest_updates, live_values, updated_tier
from tests.storage.call_scripts import Rule, Script, at, fails
from tests.storage.scripted_catalog import rival_claims
from tierfold.compaction.model.outcomes import Unknown
from tierfold.compaction.planning.chunks import Budget
from tierfold.compaction.planning.waves import WaveLimit
from tierfold.jobs.pipeline import run_loop as waves_module
from tierfold.jobs.pipeline.claim_report import claim_report
from tierfold.jobs.pipeline.held_partitions import READ_BACK_AFTER_MS
from tierfold.jobs.pipeline.partition_report import (
    COMPACTED,
    FAILED,
    FENCED,
    LEFT,
    NOTHING_TO_DO,
    PLANNED,
    UNKNOWN,
    PartitionReport,
)
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.catalog.runs_table import RunsTable

ORDERS, PAYMENTS = key_of("orders"), key_of("payments")
EACH_SEGMENT: Final = {"orders": 1, "payments": 1}
"""`chunk.bytes` so small that a chunk is one segment."""
TOPICS: Final = ("orders", "payments")
IN_ORDER: Final = Budget(max_duration_ms=3_600_000)
"""The dirtier partition first; without a limit, by bucket."""
LOST: Final = fails("commit", is_done=True)
"""Each commit takes effect, and its answer is lost."""


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return updated_tier(tmp_path / "tier", (ORDERS, PAYMENTS), segments=3)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The waits of a run, which does not wait."""
    asked: list[int] = []
    monkeypatch.setattr("tierfold.jobs.pipeline.held_partitions.pause", asked.append)
    return asked


def catalog_of(tier: Path) -> Catalog:
    return Catalog(str(tier / "_tierfold"))


def live_segments(tier: Path) -> dict[tuple[str, int], list[object]]:
    return {place: entry["segments"] for place, entry in status_of(tier).items()}


def recorded(tier: Path, topic: str) -> list[tuple[int, str]]:
    """The chunk and outcome of each of the topic's rows in the `runs` table, in order."""
    rows = RunsTable(str(tier / "_tierfold")).read()
    return sorted((row.chunk, row.outcome) for row in rows if row.topic == topic)


@pytest.mark.parametrize(
    ("steps", "outcome", "waits_ms", "phrases"),
    [
        pytest.param((LOST,), COMPACTED, (0,), (), id="the row shows the commit"),
        pytest.param(
            (LOST, *(fails(f"resolve {number}") for number in range(1, len(READ_BACK_AFTER_MS)))),
            COMPACTED,
            READ_BACK_AFTER_MS,
            (),
            id="the catalog cannot be read for a while",
        ),
        pytest.param(
            (LOST, fails("resolve")),
            UNKNOWN,
            READ_BACK_AFTER_MS,
            ("the store: no answer", "could not be read since", "run again"),
            id="the catalog cannot be read",
        ),
        pytest.param(
            (fails("commit"),),
            UNKNOWN,
            READ_BACK_AFTER_MS,
            ("the row does not show it", "may still arrive"),
            id="the row shows nothing",
        ),
    ],
)
def test_a_lost_answer_is_resolved_by_the_row_or_by_the_next_run(
    tier: Path,
    pauses: list[int],
    steps: tuple[Rule, ...],
    outcome: str,
    waits_ms: tuple[int, ...],
    phrases: tuple[str, ...],
) -> None:
    before = live_segments(tier)
    reports = compacted(tier, script=Script(*steps))
    assert {report.outcome for report in reports.values()} == {outcome}
    assert not told(reports["orders"].reason, *phrases)
    assert tuple(pauses) == waits_ms
    assert [recorded(tier, topic) for topic in TOPICS] == [[(0, outcome)]] * 2
    is_written = LOST in steps
    assert (live_segments(tier) == before) == (not is_written)
    if outcome == COMPACTED:
        assert reports["orders"].counts.kept == len(latest_updates(3))
    again = compacted(tier)
    found = {(report.outcome, report.epoch) for report in again.values()}
    assert found == {(NOTHING_TO_DO, 1) if is_written else (COMPACTED, 2)}
    for topic in TOPICS:
        assert live_values(status_of(tier)[topic, 0]) == latest_updates(3)


def test_a_rival_that_took_over_meanwhile_settles_a_lost_commit(
    tier: Path, pauses: list[int]
) -> None:
    rival = rival_claims(str(tier / "_tierfold"), ORDERS)
    script = Script(fails("commit"), at("resolve 1", rival))
    reports = compacted(tier, script=script)
    assert (reports["orders"].outcome, reports["payments"].outcome) == (FENCED, UNKNOWN)
    assert "run rival holds epoch 2" in reports["orders"].reason
    assert recorded(tier, "orders") == [(0, FENCED)]


def test_after_a_lost_answer_a_partition_is_left_and_others_go_on(
    tier: Path, pauses: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # One partition to a wave, one chunk to a partition: only the first one's answer is lost.
    monkeypatch.setattr(waves_module, "FIRST_WAVE_OF_BYTES", WaveLimit(partitions=1, work=1))
    reports = compacted(
        tier,
        EACH_SEGMENT,
        budget=IN_ORDER,
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


# Commits of earlier waves are reported, whatever fails later.


def test_a_claim_that_fails_in_a_later_wave_keeps_the_commits(
    tier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waves_module, "FIRST_WAVE_OF_BYTES", WaveLimit(partitions=1, work=1))
    reports = compacted(tier, budget=IN_ORDER, script=Script(fails("exchange")))
    assert (reports["orders"].outcome, reports["payments"].outcome) == (COMPACTED, FAILED)
    payments = reports["payments"]
    assert [part.sentence for part in payments.refusals] == [payments.reason]
    assert "the store: no answer" in reports["payments"].reason
    assert recorded(tier, "orders") == [(0, COMPACTED)]
    assert recorded(tier, "payments") == [(0, FAILED)]
    assert live_values(status_of(tier)["orders", 0]) == latest_updates(3)


def test_a_claim_that_cannot_be_released_keeps_the_commits(tier: Path) -> None:
    reports = compacted(tier, budget=Budget(max_bytes=1), script=Script(fails("commit 2")))
    orders = reports["orders"]
    assert (orders.outcome, orders.next_offset) == (COMPACTED, RECORDS_PER_SEGMENT)
    assert not told(orders.reason, "the rest is left for the next run", "--max-bytes is 1,")
    assert reports["payments"].outcome == LEFT
    state = catalog_of(tier).read()[ORDERS]
    assert (state.cleaner_offset, state.owner_run != "") == (RECORDS_PER_SEGMENT, True)
    # The next run takes the claim over without waiting.
    again = compacted(tier)["orders"]
    assert (again.outcome, again.epoch, again.first_dirty) == (COMPACTED, 2, RECORDS_PER_SEGMENT)

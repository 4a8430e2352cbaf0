"""A run in waves keeps within its budget and reports what it left undone."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.jobs.chunked_logs import (
    SET,
    Broker,
    compacted,
    live_records,
    put_across_chunks,
    put_uploads,
)
from tests.jobs.commands import ALWAYS, status_of, tierfold, told
from tests.jobs.tiers import (
    RECORDS_PER_SEGMENT,
    files_below,
    flip_last_byte,
    folder_of,
    key_of,
    latest_updates,
    live_values,
    made_tier,
    updated_tier,
)
from tests.storage.call_scripts import Script, at, fails
from tests.storage.live_segments import NOW_MS
from tests.storage.scripted_catalog import rival_claims
from tierfold.compaction.model.errors import InvariantBroken
from tierfold.compaction.model.segment_ids import SegmentMark, mark_of
from tierfold.compaction.planning.chunks import UNBOUND, Budget
from tierfold.compaction.planning.plan import propose
from tierfold.compaction.planning.regions import Regions, regions_of
from tierfold.compaction.planning.waves import WaveLimit
from tierfold.jobs.context.byte_progress import unheard
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.context.stopping import Stopped, stoppable
from tierfold.jobs.engines.local_executor import LocalExecutor
from tierfold.jobs.pipeline import run_loop as waves_module
from tierfold.jobs.pipeline.partition_report import COMPACTED, FAILED, FENCED, LEFT
from tierfold.jobs.pipeline.run_loop import Waves
from tierfold.jobs.pipeline.survey import survey
from tierfold.jobs.settings.resolution import resolve
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.catalog.runs_table import RunsTable

ORDERS, PAYMENTS = key_of("orders"), key_of("payments")
ON_THREADS: Final = (*ALWAYS, "--engine", "local")
EACH_SEGMENT: Final = {"orders": 1, "payments": 1}
"""`chunk.bytes` so small that a chunk is one segment."""


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return updated_tier(tmp_path / "tier", (ORDERS, PAYMENTS), segments=3)


def clean_until(tier: Path, topic: str = "orders") -> int | None:
    offset: int | None = status_of(tier)[topic, 0]["cleaner_offset"]
    return offset


def test_only_the_first_partitions_that_are_due_are_compacted(tier: Path) -> None:
    before = files_below(folder_of(tier, PAYMENTS))
    ran = tierfold("compact", tier, *ON_THREADS, "--max-partitions", "1", "--json")
    assert (ran.code, ran.outcomes["orders", 0]) == (0, COMPACTED)
    left = ran.partitions["payments", 0]
    assert left["outcome"] == LEFT
    assert left["reason"] == "left for the next run: --max-partitions is 1"
    assert files_below(folder_of(tier, PAYMENTS)) == before
    assert PAYMENTS not in Catalog(str(tier / "_tierfold")).read()
    again = tierfold("compact", tier, *ON_THREADS, "--max-partitions", "1", "--json")
    assert again.outcomes == {("orders", 0): "nothing_to_do", ("payments", 0): COMPACTED}


def test_a_run_reads_bytes_up_to_its_limit_and_the_next_goes_on_there(tier: Path) -> None:
    ends: list[tuple[int | None, int | None]] = []
    # The dirtier one goes first each time.
    for _ in range(6):
        ran = tierfold("compact", tier, *ON_THREADS, "--max-bytes", "1B", "--json")
        assert ran.code == 0
        ends.append((clean_until(tier), clean_until(tier, "payments")))
    assert ends == [(11, None), (11, 11), (22, 11), (22, 22), (33, 22), (33, 33)]
    for topic in ("orders", "payments"):
        assert live_values(status_of(tier)[topic, 0]) == latest_updates(3)
    ran = tierfold("compact", tier, *ON_THREADS, "--max-bytes", "1B", "--json")
    assert set(ran.outcomes.values()) == {"nothing_to_do"}


def test_a_run_that_ends_early_reports_why_and_releases_its_claim(tier: Path) -> None:
    ran = tierfold("compact", tier, *ON_THREADS, "--max-bytes", "1B", "--json")
    report = ran.partitions["orders", 0]
    assert (report["outcome"], report["next_offset"]) == (COMPACTED, RECORDS_PER_SEGMENT)
    assert not told(report["reason"], "the rest is left for the next run", "--max-bytes is 1,")
    assert ran.outcomes["payments", 0] == LEFT
    state = Catalog(str(tier / "_tierfold")).read()[ORDERS]
    assert (state.epoch, state.owner_run, state.cleaner_offset) == (1, "", RECORDS_PER_SEGMENT)


def test_no_chunk_is_begun_after_the_duration(tier: Path) -> None:
    before = files_below(tier)
    ran = tierfold("compact", tier, *ON_THREADS, "--max-duration", "0s", "--json")
    assert (ran.code, set(ran.outcomes.values())) == (0, {LEFT})
    assert ran.partitions["orders", 0]["reason"].endswith("--max-duration has passed")
    assert files_below(tier) == before


def test_the_clock_is_checked_between_chunks(tier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0]
    monkeypatch.setattr("tierfold.jobs.pipeline.pace.now_ms", lambda: NOW_MS * 2 + clock[0])
    monkeypatch.setattr("tierfold.jobs.verbs.compact.now_ms", lambda: NOW_MS * 2)

    def an_hour_later() -> None:
        clock[0] += 3_600_000

    budget = Budget(max_duration_ms=3_600_000)
    script = Script(at("commit", an_hour_later))
    reports = compacted(tier, EACH_SEGMENT, budget=budget, script=script)
    assert {report.outcome for report in reports.values()} == {COMPACTED}
    assert {report.next_offset for report in reports.values()} == {RECORDS_PER_SEGMENT}
    assert clean_until(tier) == RECORDS_PER_SEGMENT


@pytest.mark.parametrize("budget", [UNBOUND, Budget(max_duration_ms=3_600_000)])
def test_each_wave_is_committed_before_the_next_and_released_with_its_claim(
    tier: Path, monkeypatch: pytest.MonkeyPatch, budget: Budget
) -> None:
    monkeypatch.setattr(waves_module, "FIRST_WAVE_OF_BYTES", WaveLimit(partitions=1, work=1))
    seen: list[list[tuple[bool, int | None]]] = []
    catalog = Catalog(str(tier / "_tierfold"))

    def look() -> None:
        rows = catalog.read().values()
        seen.append(sorted((row.owner_run != "", row.cleaner_offset) for row in rows))

    script = Script(*(at(step, look, is_done=True) for step in ("claim", "commit", "exchange")))
    compacted(tier, budget=budget, script=script)
    # Held, and what is clean.
    assert seen == [
        [(True, None)],
        [(True, 33)],
        [(False, 33), (True, None)],
        [(False, 33), (True, 33)],
        [(False, 33), (False, 33)],
    ]


def test_a_signal_between_waves_leaves_the_rest_and_keeps_what_is_done(
    tier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waves_module, "FIRST_WAVE_OF_BYTES", WaveLimit(partitions=1, work=1))
    script = Script(at("commit", lambda: os.kill(os.getpid(), signal.SIGTERM), is_done=True))
    with suppress(Stopped), stoppable():
        reports = compacted(tier, budget=Budget(max_duration_ms=3_600_000), script=script)
    assert [report.outcome for report in reports.values()] == [COMPACTED, LEFT]
    assert reports["payments"].reason == "left for the next run: stopped by SIGTERM"
    assert clean_until(tier) == 33
    assert {row.owner_run for row in Catalog(str(tier / "_tierfold")).read().values()} == {""}


@pytest.mark.parametrize(
    ("option", "text", "words"),
    [
        ("--max-bytes", "10 giga", ("is not a size", "10GiB")),
        ("--max-bytes", "-1", ("is not a size",)),
        ("--max-duration", "soon", ("is not a duration", "90m")),
        ("--max-partitions", "0", ("x>=1",)),
    ],
)
def test_an_invalid_budget_is_a_usage_error(
    tmp_path: Path, option: str, text: str, words: tuple[str, ...]
) -> None:
    ran = tierfold("compact", tmp_path, *ON_THREADS, option, text)
    assert ran.code == 2
    assert not told(ran.stderr, *words), ran.stderr


def test_a_dry_run_shows_what_the_budget_leaves(tier: Path) -> None:
    before = files_below(tier)
    options = (*ALWAYS, "--dry-run", "--json")
    ran = tierfold("compact", tier, *options, "--max-bytes", "1B")
    planned = ran.partitions["orders", 0]
    assert (planned["outcome"], planned["next_offset"]) == ("planned", RECORDS_PER_SEGMENT)
    assert not told(planned["reason"], "chunk 1 of about ", "--max-bytes is 1")
    assert ran.outcomes["payments", 0] == LEFT
    ran = tierfold("compact", tier, *options, "--max-partitions", "1")
    assert ran.outcomes == {("orders", 0): "planned", ("payments", 0): LEFT}
    assert files_below(tier) == before


def test_each_chunk_is_a_commit_under_one_epoch_and_a_row_of_the_record(tier: Path) -> None:
    script = Script()
    reports = compacted(tier, EACH_SEGMENT, script=script)
    assert len(script.of("commit")) == 3 + 1
    report = reports["orders"]
    assert (report.outcome, report.epoch, report.segments_in) == (COMPACTED, 1, 3)
    assert report.notes == ("in 3 chunks",)
    assert (report.counts.records_in, report.counts.kept) == (33, len(latest_updates(3)))
    assert report.first_dirty == 0
    state = Catalog(str(tier / "_tierfold")).read()[ORDERS]
    assert (state.epoch, state.owner_run) == (1, "")
    rows = [row for row in RunsTable(str(tier / "_tierfold")).read() if row.topic == "orders"]
    chunks = [(row.chunk, row.first_dirty, row.next_offset) for row in rows]
    assert chunks == [(0, 0, 11), (1, 11, 22), (2, 22, 33)]
    assert live_values(status_of(tier)["orders", 0]) == latest_updates(3)


def test_the_claim_lasts_until_a_commit_of_its_own(tier: Path) -> None:
    owners: list[str] = []
    catalog = Catalog(str(tier / "_tierfold"))
    script = Script(at("commit", lambda: owners.append(catalog.read()[ORDERS].owner_run)))
    compacted(tier, EACH_SEGMENT, script=script)
    assert len(owners) == 3 + 1
    assert owners[0]
    assert set(owners) == {owners[0]}
    state = catalog.read()[ORDERS]
    assert {segment.written_by_run for segment in state.segments} == {owners[0]}
    marks = {mark_of(segment.segment_id) for segment in state.segments}
    assert marks == {SegmentMark(catalog.fingerprint(), is_restored=False)}


def test_a_run_that_is_taken_over_between_chunks_keeps_what_it_committed(tier: Path) -> None:
    rival = at("commit 2", rival_claims(str(tier / "_tierfold"), ORDERS))
    reports = compacted(tier, EACH_SEGMENT, script=Script(rival))
    assert (reports["orders"].outcome, reports["payments"].outcome) == (FENCED, COMPACTED)
    assert "before that, chunks were committed up to offset 10" in reports["orders"].notes
    assert clean_until(tier) == RECORDS_PER_SEGMENT


def test_a_run_that_dies_loses_one_chunk(tier: Path) -> None:
    dies = fails("commit 2", InvariantBroken("died", where="here", remedy="None."))
    with pytest.raises(InvariantBroken):
        compacted(tier, EACH_SEGMENT, script=Script(dies))
    assert clean_until(tier) == RECORDS_PER_SEGMENT
    reports = compacted(tier)
    assert reports["orders"].first_dirty == RECORDS_PER_SEGMENT
    assert live_values(status_of(tier)["orders", 0]) == latest_updates(3)


def test_a_bad_segment_stops_its_partition_after_the_chunks_before_it(tier: Path) -> None:
    log = sorted(folder_of(tier, ORDERS).glob("*.log"))[2]
    flip_last_byte(log)
    reports = compacted(tier, EACH_SEGMENT)
    assert (reports["orders"].outcome, reports["payments"].outcome) == (FAILED, COMPACTED)
    assert not told(reports["orders"].reason, str(log), "CRC")
    assert clean_until(tier) == 2 * RECORDS_PER_SEGMENT


def test_a_clean_segment_that_keeps_all_records_stays_live_in_every_chunk(tmp_path: Path) -> None:
    tier = made_tier(tmp_path / "tier")
    broker = Broker()
    for name in (b"a", b"b", b"c"):
        broker.roll()
        broker.append([(name, b"v" * 1000)], -1)
    broker.roll()
    put_uploads(tier, ORDERS, broker.uploads[:-1])
    before = files_below(folder_of(tier, ORDERS))
    reports = compacted(tier, EACH_SEGMENT)
    # Each segment has a latest record and is too large to merge, so none is written.
    assert (reports["orders"].outcome, reports["orders"].objects_written) == (COMPACTED, 0)
    assert files_below(folder_of(tier, ORDERS)) == before


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_marker_beyond_the_chunk_decides_records_in_it(tmp_path: Path, is_listed: bool) -> None:
    tier = made_tier(tmp_path / "tier")
    put_across_chunks(tier, ORDERS, is_listed=is_listed)
    reports = compacted(tier, {"orders": 1}, budget=Budget(max_bytes=1))
    assert reports["orders"].next_offset == 2
    values = [(record[2], record[3]) for record in live_records(tier)["orders"]]
    assert (b"a", b"old") in values
    assert (b"a", b"aborted") not in values
    report = compacted(tier, {"orders": 1})["orders"]
    assert (report.outcome, report.counts.aborted) == (COMPACTED, 1)
    # An abort that the index lists is no surprise.
    assert any("have only their marker" in note for note in report.notes) != is_listed
    values = [(order[2], order[3]) for order in live_records(tier)["orders"] if order[5] is None]
    assert values == [(b"a", b"old"), (b"b", b"1"), (b"c", b"1"), (b"d", b"1")]


def test_a_chunk_that_may_not_fit_into_the_tier_is_not_begun(tier: Path) -> None:
    context = run_context(str(tier), None, NOW_MS)
    orders, payments = survey(context, resolve(SET), Scope())
    assert orders.view is not None
    huge = tuple(replace(segment, size_bytes=2**60) for segment in orders.view.segments)
    view = replace(orders.view, segments=huge)
    regions = regions_of(view, None, orders.rules, NOW_MS)
    assert isinstance(regions, Regions)
    orders = replace(orders, view=view, choice=propose(view, orders.rules, regions, NOW_MS))
    waves = Waves(
        context=context,
        executor=LocalExecutor(context.tier, unheard),
        budget=UNBOUND,
        started_at_ms=0,
        record=lambda *_told: None,
    )
    reports = {report.key: report for report in waves.run([orders, payments])}
    first, second = reports[ORDERS], reports[PAYMENTS]
    assert (first.outcome, second.outcome) == (FAILED, COMPACTED)
    assert not told(first.reason, "orders-0", str(2**60), "bytes free", "Make room there")
    assert ORDERS not in context.catalog.read()

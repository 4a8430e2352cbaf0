"""Partitions are claimed as their first chunks begin; a chunk then becomes a round."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.jobs.chunked_logs import SET, put_across_chunks
from tests.jobs.commands import told
from tests.jobs.tiers import RECORDS_PER_SEGMENT, folder_of, key_of, made_tier, updated_tier
from tests.storage.live_segments import NOW_MS
from tierfold.compaction.commits.holders import ENDED_RUN
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.claiming import begun_rounds
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.partition_report import FAILED, LEFT, planned_report
from tierfold.jobs.pipeline.partition_run import PartitionRun
from tierfold.jobs.pipeline.survey import survey
from tierfold.jobs.settings.resolution import resolve

ORDERS, PAYMENTS = key_of("orders"), key_of("payments")
BEGAN_AT_MS: Final = NOW_MS + 7


def planned(tier: Path) -> tuple[HeldPartitions, list[PartitionPlan]]:
    """A run that holds nothing yet, and its plans."""
    context = run_context(str(tier), None, NOW_MS)
    return HeldPartitions(context=context, verb="compact"), survey(context, resolve(SET), Scope())


def first_chunk(plan: PartitionPlan, segments: int) -> PartitionPlan:
    """A chunk with the first `segments` segments of the plan's first group."""
    group = plan.compact.groups[0]
    next_offset = group.segments[segments].start_offset
    groups = (replace(group, segments=group.segments[:segments]),)
    compact = replace(plan.compact, next_offset=next_offset, groups=groups, is_last=False)
    return replace(plan, choice=compact)


def beginning(plan: PartitionPlan, chunk: PartitionPlan | None = None) -> PartitionRun:
    return PartitionRun(plan=plan).beginning(chunk or plan, BEGAN_AT_MS)


@pytest.fixture
def two(tmp_path: Path) -> Path:
    return updated_tier(tmp_path / "tier", (ORDERS, PAYMENTS), segments=2)


def test_transaction_batches_are_read_while_a_transaction_of_the_chunk_is_open(
    tmp_path: Path,
) -> None:
    tier = made_tier(tmp_path / "tier")
    put_across_chunks(tier, ORDERS, is_listed=True)
    held, (plan,) = planned(tier)
    starts = [segment.start_offset for segment in plan.compact.groups[0].segments]
    _, (work,) = begun_rounds(held, [beginning(plan, first_chunk(plan, 1))])
    read = [segment.start_offset for _, segment in work.scanned]
    assert [start for start in read if start >= work.compact.next_offset] == starts[1:3]


def test_a_later_chunk_knows_each_aborted_transaction_once(tmp_path: Path) -> None:
    tier = made_tier(tmp_path / "tier")
    put_across_chunks(tier, ORDERS, is_listed=True)
    held, (plan,) = planned(tier)
    (run,), (first,) = begun_rounds(held, [beginning(plan)])
    (aborted,) = first.aborted
    # The chunk before ended below the marker, or beyond it.
    for first_dirty in (2, aborted.last_offset + 1):
        rest = replace(plan, choice=replace(plan.compact, first_dirty=first_dirty))
        before = replace(run, plan=rest, chunk=rest, chunks=(planned_report(plan),))
        assert before.aborted == (aborted,)
        _, (later,) = begun_rounds(held, [before])
        assert later.aborted == (aborted,)


@pytest.mark.parametrize(
    ("segments", "of_chunk"),
    [
        pytest.param(2, 1, id="nothing beyond the chunk is read"),
        pytest.param(3, 2, id="segments within the chunk do not end it"),
        pytest.param(2, None, id="the last chunk may be decided anywhere"),
    ],
)
def test_without_an_open_transaction_a_chunk_is_decided_at_its_end(
    tmp_path: Path, segments: int, of_chunk: int | None
) -> None:
    tier = updated_tier(tmp_path / "tier", (ORDERS,), segments=segments)
    held, (plan,) = planned(tier)
    chunk = None if of_chunk is None else first_chunk(plan, of_chunk)
    _, (work,) = begun_rounds(held, [beginning(plan, chunk)])
    assert work.transactions_end == (None if of_chunk is None else of_chunk * RECORDS_PER_SEGMENT)
    starts = [number * RECORDS_PER_SEGMENT for number in range(of_chunk or segments)]
    assert [segment.start_offset for _, segment in work.scanned] == starts


def test_all_partitions_are_claimed_and_their_rounds_are_numbered(two: Path) -> None:
    held, plans = planned(two)
    runs, rounds = begun_rounds(held, [beginning(plan) for plan in plans])
    rows = held.context.catalog.read()
    assert [(work.index, work.key) for work in rounds] == [(0, ORDERS), (1, PAYMENTS)]
    assert [work.state for work in rounds] == [rows[ORDERS], rows[PAYMENTS]]
    assert [run.state for run in runs] == [rows[ORDERS], rows[PAYMENTS]]
    assert {(row.epoch, row.owner_run) for row in rows.values()} == {(1, held.context.run)}
    assert [run.is_open for run in runs] == [True, True]


def test_a_claimed_partition_is_not_claimed_again(two: Path) -> None:
    held, (plan, _) = planned(two)
    (run,), _ = begun_rounds(held, [beginning(plan)])
    (again,), (work,) = begun_rounds(held, [run])
    assert again == run
    assert work.state == run.state == held.context.catalog.read()[ORDERS]


def test_a_run_that_has_ended_begins_no_round_and_is_not_claimed(two: Path) -> None:
    held, (orders, payments) = planned(two)
    (claimed,), _ = begun_rounds(held, [beginning(payments)])
    for ended in (claimed.leaving("no space"), beginning(orders).leaving("no space")):
        assert begun_rounds(held, [ended]) == ([ended], [])
    assert ORDERS not in held.context.catalog.read()


def test_a_missing_index_that_the_metadata_names_ends_its_run_alone(tmp_path: Path) -> None:
    tier = updated_tier(tmp_path / "tier", (PAYMENTS,), segments=1)
    put_across_chunks(tier, ORDERS, is_listed=True)
    held, (orders, payments) = planned(tier)
    (index,) = folder_of(tier, ORDERS).glob("*.txnindex")
    index.unlink()
    ended_alone(held, orders, payments, str(index))


def ended_alone(
    held: HeldPartitions, orders: PartitionPlan, payments: PartitionPlan, *phrases: str
) -> None:
    """Assert that orders fails before its claim, and that payments begins."""
    (run, _), (work,) = begun_rounds(held, [beginning(orders), beginning(payments)])
    assert (work.index, work.key, run.is_open) == (0, PAYMENTS, False)
    (report,) = run.chunks
    assert report.outcome == FAILED
    assert not told(report.reason, *phrases)
    assert ORDERS not in held.context.catalog.read()


def test_a_claim_that_another_run_won_ends_the_run(two: Path) -> None:
    held, (plan, _) = planned(two)
    rival, (other, _) = planned(two)
    begun_rounds(rival, [beginning(other)])
    (run,), rounds = begun_rounds(held, [beginning(plan)])
    assert rounds == []
    assert not run.is_open
    assert run.state is None
    assert run.chunks == ()
    assert (run.report.outcome, run.held_by) == (LEFT, ENDED_RUN)
    assert not told(run.report.reason, "another run changed it since this run planned it")

"""Claimed rounds, groups and checks become rows, each with its task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.compaction.claimed import a_round, apart
from tests.compaction.hash_keys import HASH_KEY
from tests.jobs.claimed_rounds import claimed_rounds, tasks_of
from tests.jobs.tiers import RECORDS_PER_SEGMENT, key_of, made_tier, put_updates
from tests.storage.live_segments import an_abort
from tierfold.compaction.cleaning.rounds import GroupTask, Round
from tierfold.compaction.model.rules import CompactionStrategy
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.planning.plan import CompactReason
from tierfold.jobs.engines import task_assignment
from tierfold.jobs.engines.rows import Row, RowKind, unpickled
from tierfold.jobs.engines.scan import ScanTask
from tierfold.jobs.engines.task_assignment import (
    Assignment,
    assigned_groups,
    assigned_rounds,
    buckets_of,
    check_rows,
    compare_tasks,
    first_bucket_tasks,
    reduce_split,
    rewrite_rows,
    scan_rows,
    tasks_for,
    threads_of,
)
from tierfold.storage.segments.segment_check import CheckOrder

LARGE = task_assignment.TASK_BYTES


@pytest.fixture
def rounds(tmp_path: Path) -> list[Round]:
    """Two partitions, of three segments and of one; a group has at most two."""
    tier = made_tier(tmp_path / "tier")
    sizes = [put_updates(tier, key_of("orders"), number).stat().st_size for number in range(3)]
    put_updates(tier, key_of("payments"), 0)
    return claimed_rounds(tier, f"segment.bytes={2 * max(sizes)}")[1]


def scans(rows: Sequence[Row]) -> list[ScanTask]:
    assert {row.kind for row in rows} == {RowKind.SCAN}
    return [unpickled(row.payload) for row in rows]


# The scan.


def test_every_segment_gets_one_row_and_a_task(rounds: list[Round]) -> None:
    rows, tasks = scan_rows(rounds, cores=2)
    assert [row.place for row in rows] == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert tasks == 4
    assert {row.task for row in rows} == set(range(tasks))
    starts = [task.segment.own_start_offset for task in scans(rows)]
    assert starts == [0, RECORDS_PER_SEGMENT, 2 * RECORDS_PER_SEGMENT, 0]
    assert [task.key for task in scans(rows)] == [key_of("orders")] * 3 + [key_of("payments")]


def test_a_segment_gets_only_the_aborts_that_reach_into_it(rounds: list[Round]) -> None:
    # Segments lie at 0 to 10, 11 to 21 and 22 to 32.
    first = an_abort(1, first_offset=3, last_offset=10)
    middle = an_abort(2, first_offset=10, last_offset=11)
    beyond = an_abort(3, first_offset=33, last_offset=34)
    rows, _ = scan_rows([replace(rounds[0], aborted=(first, middle, beyond))], cores=2)
    assert [task.aborted for task in scans(rows)] == [(first, middle), (middle,), ()]


def test_only_transactions_are_read_of_segments_that_are_not_sources(
    rounds: list[Round],
) -> None:
    whole = rounds[0]
    segments = whole.state.segments
    partial = with_plan(
        whole, groups=apart(*segments[1:]), next_offset=33, reason=CompactReason.HORIZON_PASSED
    )
    rows, _ = scan_rows([partial], cores=2)
    assert [row.segment_index for row in rows] == [0, 1, 2]
    assert [task.order is None for task in scans(rows)] == [True, False, False]
    assert partial.scan_bytes == whole.scan_bytes == whole.state.live_bytes
    held_back = with_plan(whole, groups=whole.groups[:1], next_offset=22)
    rows, _ = scan_rows([held_back], cores=2)
    assert [task.order is None for task in scans(rows)] == [False, False, True]


def with_plan(work: Round, **planned: Any) -> Round:
    return replace(work, plan=replace(work.plan, choice=replace(work.compact, **planned)))


def test_a_scan_gets_the_strategy_and_the_first_dirty_offset(rounds: list[Round]) -> None:
    rules = replace(
        rounds[0].rules,
        compaction_strategy=CompactionStrategy.HEADER,
        compaction_strategy_header="version",
    )
    work = with_plan(rounds[0], first_dirty=RECORDS_PER_SEGMENT)
    work = replace(work, plan=replace(work.plan, rules=rules))
    for task in scans(scan_rows([work], cores=2)[0]):
        assert task.order is not None
        assert task.order.first_dirty == RECORDS_PER_SEGMENT
        assert task.order.versions.strategy is CompactionStrategy.HEADER
        assert task.order.versions.header == "version"
        assert task.order.buckets == 1


# Buckets.


def test_buckets_are_numbered_across_partitions(
    rounds: list[Round], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {work.index: work.size_bytes for work in rounds}
    assert [buckets_of(size) for size in sizes.values()] == [1, 1]
    assert first_bucket_tasks(sizes) == {0: 0, 1: 1}
    monkeypatch.setattr(task_assignment, "BUCKET_BYTES", sizes[0] // 3 + 1)
    assert [buckets_of(size) for size in sizes.values()] == [3, 1]
    assert first_bucket_tasks(sizes) == {0: 0, 1: 3}
    rows, _ = scan_rows(rounds, cores=2)
    assert [task.order and task.order.buckets for task in scans(rows)] == [3, 3, 3, 1]


def test_even_an_empty_partition_has_a_bucket() -> None:
    assert [buckets_of(size) for size in (0, 1)] == [1, 1]


def test_small_buckets_share_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_assignment, "BUCKET_BYTES", 1000)
    assert reduce_split([8000], cores=2) == (2, 2)
    monkeypatch.setattr(task_assignment, "SHUFFLE_PARTITION_BYTES", 2000)
    assert reduce_split([8000], cores=2) == (4, 2)
    monkeypatch.setattr(task_assignment, "REDUCE_TASK_BYTES", 3000)
    assert reduce_split([8000], cores=2) == (4, 3)


def test_large_buckets_are_compared_by_a_task_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_assignment, "BUCKET_BYTES", 1000)
    assert compare_tasks([8000, 500], cores=2) == 9
    assert compare_tasks([1500], cores=2) == 2


# Tasks, and threads within one.


def test_a_large_segment_is_a_task_and_small_ones_share_one() -> None:
    placed, tasks = tasks_for([LARGE, 10, 10, LARGE, 10, 10], cores=1)
    assert tasks == 3
    assert len({placed[0], placed[3], placed[1]}) == 3
    assert {placed[i] for i in (1, 2, 4, 5)} == {placed[1]}
    assert tasks_for([], cores=4) == ([], 0)


def test_a_task_with_more_than_its_share_gets_threads() -> None:
    # Two cores: 100 bytes are the share of each.
    assert threads_of([150, 50], [0, 1], cores=2) == [2, 1]
    assert threads_of([50, 50, 50, 50], [0, 1, 2, 3], cores=2) == [1, 1, 1, 1]
    assert threads_of([100, 50, 50], [0, 0, 1], cores=2) == [2, 2, 1]
    assert threads_of([100], [0], cores=64) == [task_assignment.THREADS_MAX]
    assert threads_of([0], [0], cores=2) == [1]
    assert threads_of([], [], cores=2) == []


# The rewrite.


def test_a_group_is_ordered_at_its_first_segment(rounds: list[Round]) -> None:
    groups = tasks_of(rounds[0])
    placed = assigned_rounds([rounds[0]], cores=2)
    assert placed == assigned_groups(groups, cores=2)
    assert set(placed.task_of) == {(0, 0), (0, 1), (0, 2)}
    assert placed.task_of[0, 0] == placed.task_of[0, 1] != placed.task_of[0, 2]
    rows = rewrite_rows(groups, placed, cores=2)
    assert {row.kind for row in rows} == {RowKind.REWRITE}
    assert [row.place for row in rows] == [(0, 0), (0, 2)]
    assert [row.task for row in rows] == [placed.task_of[0, 0], placed.task_of[0, 2]]
    assert [unpickled(row.payload).group for row in rows] == list(rounds[0].groups)


def test_a_group_that_exceeds_its_tasks_share_gets_threads(rounds: list[Round]) -> None:
    groups = tasks_of(rounds[0])
    placed = assigned_groups(groups, cores=64)
    rows = rewrite_rows(groups, placed, cores=64)
    assert [unpickled(row.payload).threads for row in rows] == [task_assignment.THREADS_MAX] * 2


def test_the_last_group_of_a_partition_gets_threads_if_tasks_are_few(
    rounds: list[Round],
) -> None:
    # Each group has its share of the bytes; most of the last one is kept.
    one = tasks_of(rounds[0])[1]
    groups = [
        replace(one, group_index=i, segment_index=i, partition_index=partition)
        for partition, i in ((0, 0), (0, 1), (1, 0), (1, 1))
    ]
    placed = assigned_groups(groups, cores=2)
    for tasks, cores, threads in ((4, 2, [1, 2, 1, 2]), (2, 1, [1] * 4), (5, 2, [1] * 4)):
        rows = rewrite_rows(groups, replace(placed, tasks=tasks), cores=cores)
        assert [unpickled(row.payload).threads for row in rows] == threads


def groups_of_bytes(*sizes: int) -> list[GroupTask]:
    """Groups of one segment each, of one partition."""
    one = tasks_of(a_round())[0]
    (segment, *_) = one.group.segments
    return [
        replace(
            one,
            group=replace(one.group, segments=(replace(segment, size_bytes=size_bytes),)),
            segment_index=i,
        )
        for i, size_bytes in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("sizes", "order"),
    [
        pytest.param((LARGE, LARGE, LARGE), [2, 1, 0], id="the newest begins first"),
        pytest.param((LARGE, LARGE, LARGE, 9), [2, 1, 0, 3], id="a tiny last group begins last"),
        pytest.param((4 * LARGE, LARGE, LARGE), [2, 0, 1], id="a large one does not begin last"),
    ],
)
def test_groups_begin_in_the_order_of_their_costs(
    sizes: tuple[int, ...], order: list[int]
) -> None:
    placed = assigned_groups(groups_of_bytes(*sizes), cores=2)
    task_of = [placed.task_of[0, i] for i in range(len(sizes))]
    assert sorted(range(len(sizes)), key=task_of.__getitem__) == order


def test_a_tiny_last_group_needs_no_threads() -> None:
    groups = groups_of_bytes(LARGE, LARGE, 9)
    rows = rewrite_rows(groups, assigned_groups(groups, cores=2), cores=2)
    assert [unpickled(row.payload).threads for row in rows] == [1, 2, 1]


@pytest.mark.parametrize(
    ("task_of", "fits"),
    [
        pytest.param([0, 0, 0], True, id="all segments are in one task"),
        pytest.param([0, 0, 1], True, id="each group is in one task"),
        pytest.param([0, 1, 1], False, id="a group is in two tasks"),
        pytest.param([0, None, 1], False, id="a segment of a group has no task"),
    ],
)
def test_an_assignment_fits_groups_that_lie_in_one_task_each(
    task_of: list[int | None], fits: bool
) -> None:
    known = {(0, i): task for i, task in enumerate(task_of) if task is not None}
    assert Assignment(tasks=2, task_of=known).fits(tasks_of(a_round())) == fits


# The checks of `verify`.


def an_order(segment: Segment) -> CheckOrder:
    return CheckOrder(
        hash_key=HASH_KEY,
        key=key_of("orders"),
        segment=segment,
        is_live=True,
        is_last=False,
        index_interval_bytes=1,
        buckets=1,
        aborted_now=(),
        aborted_before=None,
    )


def test_every_check_gets_a_row_with_its_number() -> None:
    orders = [an_order(segment) for segment in a_round().state.segments]
    rows, tasks = check_rows([orders, orders[:1]], cores=2)
    assert {row.kind for row in rows} == {RowKind.CHECK}
    assert [row.place for row in rows] == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert tasks == 4
    assert {row.task for row in rows} == set(range(tasks))
    assert [unpickled(row.payload) for row in rows] == [*orders, orders[0]]

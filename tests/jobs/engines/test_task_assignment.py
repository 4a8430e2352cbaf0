"""A claimed round is cut into rows for the workers, and their receipts become one commit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from tests.jobs.claimed_rounds import NOW_MS, claimed_rounds
from tests.jobs.tiers import RECORDS_PER_SEGMENT, key_of, made_tier, put_updates
from tests.storage.live_segments import an_abort
from tierfold.compaction.cleaning.counts import Counts
from tierfold.compaction.cleaning.transactions import TransactionStatus
from tierfold.compaction.commits.commit import (
    AddSegments,
    AdvanceCleanerOffset,
    NoteStrategy,
    ReleaseClaim,
    RetireSegments,
)
from tierfold.compaction.commits.receipts import GroupReceipt, GroupResult
from tierfold.compaction.model.rules import CompactionStrategy
from tierfold.compaction.model.segments import CleanerOffset
from tierfold.compaction.planning.grouping import SegmentGroup
from tierfold.jobs.pipeline import task_assignment as rounds_module
from tierfold.jobs.pipeline.proposals import proposal_of
from tierfold.jobs.pipeline.task_assignment import (
    Round,
    assigned_groups,
    assigned_orders,
    first_bucket_tasks,
    group_orders,
    group_rows,
    reduce_tasks,
    reference_rows,
    tasks_for,
    threads_of,
)
from tierfold.storage.indexes.transaction_index import read_transaction_index

AT_MS: Final = NOW_MS + 5_000

NO_TRANSACTIONS: Final = TransactionStatus(
    discardable=np.empty(0, np.int64), listed=(), unindexed=()
)


@pytest.fixture
def rounds(tmp_path: Path) -> list[Round]:
    """Two partitions of three and one segments, two segments to a group at most."""
    tier = made_tier(tmp_path / "tier")
    sizes = [
        put_updates(tier, key_of("orders"), number).stat().st_size for number in range(3)
    ]
    put_updates(tier, key_of("payments"), 0)
    return claimed_rounds(tier, f"segment.bytes={2 * max(sizes)}")[1]


def test_every_segment_gets_one_row_and_a_task(rounds: list[Round]) -> None:
    rows, tasks = reference_rows(rounds, cores=2)
    assert [(row["partition_index"], row["segment_index"]) for row in rows] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
    ]
    assert tasks == 4
    assert {row["task"] for row in rows} == set(range(tasks))
    starts = [row["own_start_offset"] for row in rows]
    assert starts == [0, RECORDS_PER_SEGMENT, 2 * RECORDS_PER_SEGMENT, 0]


def test_a_segment_gets_only_the_aborts_that_reach_into_it(rounds: list[Round]) -> None:
    # Segments lie at 0 to 10, 11 to 21 and 22 to 32.
    first = an_abort(1, first_offset=3, last_offset=10)
    middle = an_abort(2, first_offset=10, last_offset=11)
    beyond = an_abort(3, first_offset=33, last_offset=34)
    aware = replace(rounds[0], aborted=(first, middle, beyond))
    rows, _ = reference_rows([aware], cores=2)
    told = [read_transaction_index(row["aborted"], where="row") for row in rows]
    assert told == [(first, middle), (middle,), ()]


def test_buckets_are_numbered_through_the_run(
    rounds: list[Round], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [work.buckets for work in rounds] == [1, 1]
    assert first_bucket_tasks(rounds) == {0: 0, 1: 1}
    monkeypatch.setattr(rounds_module, "BUCKET_BYTES", rounds[0].size_bytes // 3 + 1)
    assert [work.buckets for work in rounds] == [3, 1]
    assert first_bucket_tasks(rounds) == {0: 0, 1: 3}
    rows, _ = reference_rows(rounds, cores=2)
    assert [row["first_bucket_task"] for row in rows] == [0, 0, 0, 3]


def test_large_segments_stand_alone_and_small_ones_share_a_task() -> None:
    large = rounds_module.TASK_BYTES
    placed, tasks = tasks_for([large, 10, 10, large, 10, 10], cores=1)
    assert tasks == 3
    assert len({placed[0], placed[3], placed[1]}) == 3
    assert {placed[i] for i in (1, 2, 4, 5)} == {placed[1]}
    assert tasks_for([], cores=4) == ([], 0)


def test_a_task_with_more_than_its_share_is_helped() -> None:
    # Two cores: 100 bytes are the share of each.
    assert threads_of([150, 50], [0, 1], cores=2) == [2, 1]
    assert threads_of([50, 50, 50, 50], [0, 1, 2, 3], cores=2) == [1, 1, 1, 1]
    assert threads_of([100, 50, 50], [0, 0, 1], cores=2) == [2, 2, 1]
    assert threads_of([100], [0], cores=64) == [rounds_module.THREADS_MAX]
    assert threads_of([0], [0], cores=2) == [1]
    assert threads_of([], [], cores=2) == []


def test_small_buckets_share_a_task(
    rounds: list[Round], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds_module, "BUCKET_BYTES", rounds[0].size_bytes // 8 + 1)
    assert reduce_tasks(rounds[:1], cores=2) == 2
    monkeypatch.setattr(rounds_module, "REDUCE_TASK_BYTES", rounds[0].size_bytes // 4 + 1)
    assert reduce_tasks(rounds[:1], cores=2) == 4


def test_a_groups_order_travels_with_its_first_segment(rounds: list[Round]) -> None:
    round_ = rounds[0]
    wanted = dict(enumerate(round_.groups))
    orders = list(group_orders(round_, NO_TRANSACTIONS, wanted=wanted))
    assert [order.segment_index for order in orders] == [0, 2]
    assert [order.task.ends_in_batch for order in orders] == [False, True]
    assert {order.task.run for order in orders} == {round_.state.owner_run}
    placed = assigned_groups([round_], cores=2)
    assert placed == assigned_orders(orders, cores=2)
    rows = group_rows(orders, placed, cores=2)
    assert [row["payload"] is None for row in rows] == [False, True, False]
    assert rows[0]["task"] == rows[1]["task"]


def test_a_group_gets_only_its_own_markers(rounds: list[Round]) -> None:
    round_ = rounds[0]
    listed = tuple(an_abort(offset, offset, offset) for offset in (0, 21, 22, 32))
    transaction_status = TransactionStatus(
        discardable=np.array([0, 21, 22, 32], np.int64), listed=listed, unindexed=()
    )
    wanted = dict(enumerate(round_.groups))
    first, second = group_orders(round_, transaction_status, wanted=wanted)
    assert (first.task.discardable.tolist(), second.task.discardable.tolist()) == (
        [0, 21],
        [22, 32],
    )
    assert (first.task.listed, second.task.listed) == (listed[:2], listed[2:])


def test_a_round_before_a_live_segment_need_not_end_in_a_batch(rounds: list[Round]) -> None:
    held_back = replace(rounds[0], groups=rounds[0].groups[:1], next_offset=22)
    wanted = dict(enumerate(held_back.groups))
    (order,) = group_orders(held_back, NO_TRANSACTIONS, wanted=wanted)
    assert (order.task.ends_in_batch, order.task.rules.next_offset) == (False, 22)


def test_a_group_that_stays_empty_keeps_its_last_batch(rounds: list[Round]) -> None:
    round_ = rounds[0]
    wanted = dict(enumerate(round_.groups))
    for empty, expected in (
        ({0}, [(True, 22), (True, 33)]),
        ({1}, [(False, 33), (True, 33)]),
    ):
        orders = group_orders(round_, NO_TRANSACTIONS, wanted=wanted, empty=frozenset(empty))
        tasks = [order.task for order in orders]
        assert [(task.ends_in_batch, task.rules.next_offset) for task in tasks] == expected


@pytest.fixture
def partial(rounds: list[Round]) -> Round:
    """Of the three segments only the second and the third are concerned, each by itself."""
    segments = rounds[0].state.segments
    groups = tuple(SegmentGroup(segments=(segment,)) for segment in segments[1:])
    return replace(rounds[0], groups=groups, first_dirty=33, next_offset=33, is_partial=True)


def test_segments_beside_a_round_are_read_for_their_marks_alone(
    rounds: list[Round], partial: Round
) -> None:
    rows, _ = reference_rows([partial], cores=2)
    assert [row["segment_index"] for row in rows] == [0, 1, 2]
    assert [row["transactions_only"] for row in rows] == [True, False, False]
    assert partial.scan_bytes == rounds[0].scan_bytes == rounds[0].state.live_bytes
    held_back = replace(rounds[0], groups=rounds[0].groups[:1], next_offset=22)
    rows, _ = reference_rows([held_back], cores=2)
    assert [row["transactions_only"] for row in rows] == [False, False, True]


def test_each_group_of_a_partial_round_is_a_round_of_its_own(partial: Round) -> None:
    wanted = dict(enumerate(partial.groups))
    orders = list(group_orders(partial, NO_TRANSACTIONS, wanted=wanted))
    assert [order.segment_index for order in orders] == [1, 2]
    assert [order.task.rules.next_offset for order in orders] == [22, 33]
    assert [order.task.ends_in_batch for order in orders] == [True, True]


def test_a_partial_round_compares_nothing_and_so_notes_no_strategy(partial: Round) -> None:
    by_time = replace(partial.rules, compaction_strategy=CompactionStrategy.TIMESTAMP)
    unchanged = [receipt(number, GroupResult.UNCHANGED, partial) for number in range(2)]
    noted = {}
    for is_partial in (True, False):
        round_ = replace(partial, rules=by_time, is_partial=is_partial)
        updates = proposal_of(round_, unchanged, "commit", AT_MS).updates
        noted[is_partial] = [update for update in updates if isinstance(update, NoteStrategy)]
    assert noted == {True: [], False: [NoteStrategy(name="timestamp")]}


def receipt(number: int, result: GroupResult, work: Round) -> GroupReceipt:
    source = work.groups[number].segments[0]
    written = replace(source, segment_id="w" * 22, written_by_run="run")
    return GroupReceipt(
        group_index=number,
        result=result,
        segment=written if result is GroupResult.WRITTEN else None,
        counts=Counts(),
        bytes_read=1,
        bytes_written=1,
    )


def test_only_what_was_written_is_swapped_and_the_claim_is_let_go(rounds: list[Round]) -> None:
    round_ = rounds[0]
    written = receipt(0, GroupResult.WRITTEN, round_)
    receipts = [written, receipt(1, GroupResult.UNCHANGED, round_)]
    proposal = proposal_of(round_, receipts, "commit", AT_MS)
    retire, add, advance, release = proposal.updates
    assert isinstance(retire, RetireSegments)
    assert retire.ids == tuple(s.segment_id for s in round_.groups[0].segments)
    assert isinstance(add, AddSegments)
    assert add.segments == (written.segment,)
    assert advance == AdvanceCleanerOffset(epoch=1, offset=round_.next_offset)
    assert release == ReleaseClaim(run=round_.state.owner_run)
    assert (proposal.at_ms, retire.at_ms) == (AT_MS, AT_MS)


def test_a_round_that_changes_nothing_still_moves_the_cleaner_offset(
    rounds: list[Round],
) -> None:
    round_ = rounds[1]
    proposal = proposal_of(round_, [receipt(0, GroupResult.UNCHANGED, round_)], "commit", AT_MS)
    assert [type(update) for update in proposal.updates] == [AdvanceCleanerOffset, ReleaseClaim]


def test_the_cleaner_offset_never_moves_back(rounds: list[Round]) -> None:
    round_ = replace(rounds[0], next_offset=RECORDS_PER_SEGMENT)
    ahead = replace(round_.state, cleaner_offsets=(CleanerOffset(epoch=1, offset=33),))
    unchanged = [receipt(number, GroupResult.UNCHANGED, round_) for number in range(2)]
    proposal = proposal_of(replace(round_, state=ahead), unchanged, "commit", AT_MS)
    assert AdvanceCleanerOffset(epoch=1, offset=33) in proposal.updates

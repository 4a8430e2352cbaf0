"""A round knows what it may remove, where the next one starts, and what its groups need."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

from tests.compaction.builders import a_chain, a_producer, a_segment, cleaned_to
from tests.compaction.claimed import NOW_MS, RULES, RUN, THREE, a_claim, a_plan, a_round, apart
from tests.compaction.claimed import cleaned as clean_below
from tests.storage.live_segments import an_abort
from tierfold.compaction.cleaning.group_outcome import PlainSegment
from tierfold.compaction.cleaning.rounds import GroupTask, Round, group_tasks
from tierfold.compaction.cleaning.transactions import TransactionStatus
from tierfold.compaction.model.aborted_transactions import reaching
from tierfold.compaction.model.rules import CompactionStrategy
from tierfold.compaction.planning.grouping import SegmentGroup
from tierfold.compaction.planning.plan import CompactReason

NO_TRANSACTIONS: Final = TransactionStatus(
    discardable=np.empty(0, np.int64), listed=(), unindexed=()
)
OFFSET, TIMESTAMP, HEADER = CompactionStrategy


def tasks_of(
    work: Round, status: TransactionStatus = NO_TRANSACTIONS, **given: Any
) -> list[GroupTask]:
    """The tasks of all groups, of whose segments nothing is known; `given` overrides it."""
    defaults: dict[str, Any] = {"wanted": dict(enumerate(work.groups)), "plain": {}}
    return list(group_tasks(work, status, **(defaults | {"unscanned": {}} | given)))


# Where the clean region ends: the log is 0 to 32, or 11 to 32 once its first segment expired.


@pytest.mark.parametrize(
    ("log_start", "stored", "expected"),
    [
        pytest.param(0, None, 0, id="a log that was never cleaned is clean up to its start"),
        pytest.param(11, None, 11, id="a log that was never cleaned and whose start has expired"),
        pytest.param(0, 22, 22, id="a stored offset within the log counts"),
        pytest.param(0, 0, 0, id="a stored offset at the log start counts"),
        pytest.param(0, 33, 33, id="a stored offset at the end counts"),
        pytest.param(0, 34, 0, id="an offset beyond the end belongs to a log that was truncated"),
        pytest.param(11, 11, 11, id="a stored offset at a log start that moved counts"),
        pytest.param(11, 10, 11, id="an offset below the log start has expired"),
    ],
)
def test_the_clean_region_ends_at_the_stored_offset_or_at_the_log_start(
    log_start: int, stored: int | None, expected: int
) -> None:
    segments = THREE[log_start // 11 :]
    offsets = () if stored is None else cleaned_to(stored)
    work = a_round(a_plan(segments), a_claim(segments, cleaner_offsets=offsets))
    assert work.clean_until == expected


# Tombstones. The log is clean below 11.


@pytest.mark.parametrize(
    ("strategy", "is_last", "first_dirty", "expected"),
    [
        pytest.param(OFFSET, True, 11, False, id="offsets decide, the last chunk: some go"),
        pytest.param(OFFSET, False, 11, False, id="offsets decide, an earlier chunk: some go"),
        pytest.param(TIMESTAMP, True, 11, False, id="timestamps decide, the last chunk: some go"),
        pytest.param(HEADER, True, 11, False, id="headers decide, the last chunk: some go"),
        pytest.param(TIMESTAMP, False, 11, True, id="timestamps, an earlier chunk: all stay"),
        pytest.param(HEADER, False, 11, True, id="headers decide, an earlier chunk: all stay"),
        pytest.param(OFFSET, True, 12, True, id="offsets decide, a stretch is left out: all stay"),
        pytest.param(OFFSET, False, 12, True, id="an earlier chunk leaves a stretch out: all stay"),
        pytest.param(TIMESTAMP, True, 12, True, id="timestamps, a stretch is left out: all stay"),
        pytest.param(TIMESTAMP, False, 12, True, id="timestamps, an earlier chunk, left out: stay"),
        pytest.param(OFFSET, True, 10, False, id="a person cleans clean offsets again: some go"),
        pytest.param(TIMESTAMP, True, 10, False, id="timestamps, clean offsets again: some go"),
    ],
)
def test_tombstones_stay_if_a_record_that_one_supersedes_may_survive(
    strategy: CompactionStrategy, is_last: bool, first_dirty: int, expected: bool
) -> None:
    plan = a_plan(rules=replace(RULES, compaction_strategy=strategy))
    work = a_round(plan, clean_below(11), is_last=is_last, first_dirty=first_dirty)
    assert work.keeps_tombstones == expected
    assert [task.rules.keeps_tombstones for task in tasks_of(work)] == [expected] * 2


# The next cleaner offset.


@pytest.mark.parametrize(
    ("stored", "first_dirty", "next_offset", "expected"),
    [
        pytest.param(None, 0, 22, 22, id="the first round moves it to its end"),
        pytest.param(11, 11, 22, 22, id="a plain round moves it to its end"),
        pytest.param(11, 0, 22, 22, id="a person cleans all again: it moves to the end"),
        pytest.param(22, 0, 11, 22, id="a forced round that ends below it does not move it back"),
        pytest.param(22, 22, 22, 22, id="a partial round leaves it where it is"),
        pytest.param(11, 12, 22, 11, id="a forced round above it leaves it before the stretch"),
        pytest.param(None, 11, 33, 0, id="a forced round over a log never cleaned: the log start"),
        pytest.param(99, 0, 22, 22, id="one of a log that was truncated does not count"),
    ],
)
def test_the_cleaner_offset_moves_to_the_end_of_the_clean_region(
    stored: int | None, first_dirty: int, next_offset: int, expected: int
) -> None:
    state = a_claim() if stored is None else clean_below(stored)
    work = a_round(state=state, first_dirty=first_dirty, next_offset=next_offset)
    assert work.next_cleaner_offset == expected


# What the scan found of a segment.


def test_a_task_knows_what_is_known_of_its_segments() -> None:
    first, *others = a_chain(11, 11, 11)
    groups = (SegmentGroup(segments=(first,)), SegmentGroup(segments=tuple(others)))
    segments = (first, *others)
    work = a_round(a_plan(segments), a_claim(segments)).with_groups(groups)
    plain = {
        i: PlainSegment(first_offset=i, last_offset=i, records=1, record_bytes=1) for i in range(3)
    }
    tasks = tasks_of(work, plain=plain, unscanned={2: 9})
    found = [(task.plain, task.unscanned) for task in tasks]
    assert found == [(plain[0], ()), (None, ((segments[2].segment_id, 9),))]


# What the scan reads.


def test_all_live_segments_are_scanned_where_transactions_are_decided_anywhere() -> None:
    segments = a_chain(11, 11, 11, 11)
    work = a_round(a_plan(segments[:2]), a_claim(segments))
    assert work.scanned == tuple(enumerate(segments))
    assert (work.size_bytes, work.scan_bytes) == (2000, 4000)


@pytest.mark.parametrize(("end", "read"), [(22, 2), (23, 3), (33, 3), (34, 4)])
def test_only_segments_below_the_end_of_the_transactions_are_scanned(end: int, read: int) -> None:
    segments = a_chain(11, 11, 11, 11)
    work = replace(a_round(a_plan(segments[:2]), a_claim(segments)), transactions_end=end)
    assert work.scanned == tuple(enumerate(segments))[:read]
    assert work.scan_bytes == 1000 * read


def test_a_round_with_other_groups_keeps_everything_else() -> None:
    work = a_round(chunks_done=2)
    other = work.with_groups(apart(*THREE))
    assert other.groups == apart(*THREE)
    assert other.compact.chunks_done == 2
    assert other.with_groups(work.groups) == work


# What the task of a group holds.


def test_a_groups_task_knows_the_places_of_its_segments() -> None:
    work = replace(a_round(), index=3)
    tasks = tasks_of(work)
    assert [task.segment_index for task in tasks] == [0, 2]
    assert [task.places for task in tasks] == [((3, 0), (3, 1)), ((3, 2),)]
    assert [task.group_index for task in tasks] == [0, 1]
    assert [task.group for task in tasks] == list(work.groups)
    assert {task.run for task in tasks} == {RUN}
    assert {task.key for task in tasks} == {work.key}
    assert {task.index_interval_bytes for task in tasks} == {RULES.index_interval_bytes}


def test_only_the_wanted_groups_get_a_task() -> None:
    work = a_round()
    (task,) = tasks_of(work, wanted={1: work.groups[1]})
    assert (task.group_index, task.group) == (1, work.groups[1])


def test_a_task_names_the_segment_before_its_group() -> None:
    work = a_round()
    first, second = tasks_of(work)
    assert first.preceding is None
    assert second.preceding == first.group.segments[-1]


@pytest.mark.parametrize(
    ("segment_bytes", "group_bytes", "most"),
    [(1000, 500, 2000), (1000, 3000, 6000), (2**31 - 1, 500, 2**31 - 62)],
)
def test_a_new_segment_has_at_most_twice_the_size_that_was_meant(
    segment_bytes: int, group_bytes: int, most: int
) -> None:
    segments = (a_segment(0, 32, size_bytes=group_bytes),)
    rules = replace(RULES, segment_bytes=segment_bytes)
    work = a_round(a_plan(segments, rules), a_claim(segments))
    (task,) = tasks_of(work)
    assert task.output_bytes_max == most


def test_the_last_group_of_the_live_range_ends_in_a_batch() -> None:
    tasks = tasks_of(a_round())
    assert [task.ends_in_batch for task in tasks] == [False, True]
    assert [task.rules.remote_end for task in tasks] == [33, 33]


def test_a_round_before_a_live_segment_need_not_end_in_a_batch() -> None:
    (task,) = tasks_of(a_round(groups=a_round().groups[:1], next_offset=22))
    assert (task.ends_in_batch, task.rules.remote_end) == (False, 33)


def test_a_group_that_stays_empty_keeps_its_last_batch() -> None:
    work = a_round()
    for empty, expected in (
        ({0}, [(True, 22), (True, 33)]),
        ({1}, [(False, 33), (True, 33)]),
    ):
        tasks = tasks_of(work, empty=frozenset(empty))
        assert [(task.ends_in_batch, task.rules.remote_end) for task in tasks] == expected


def test_a_partial_round_has_the_rules_of_the_whole_log() -> None:
    # Only the second and the third of three segments are due, each in its own group.
    work = a_round(
        state=clean_below(33),
        groups=apart(*THREE[1:]),
        first_dirty=33,
        next_offset=33,
        reason=CompactReason.HORIZON_PASSED,
    )
    tasks = tasks_of(work)
    assert [task.segment_index for task in tasks] == [1, 2]
    assert [task.rules.remote_end for task in tasks] == [33, 33]
    assert [task.ends_in_batch for task in tasks] == [False, True]


def test_a_group_gets_only_its_own_markers() -> None:
    listed = tuple(an_abort(offset, offset, offset) for offset in (0, 21, 22, 32))
    work = replace(a_round(), aborted=listed)
    status = TransactionStatus(
        discardable=np.array([0, 21, 22, 32], np.int64), listed=listed, unindexed=()
    )
    first, second = tasks_of(work, status)
    assert (first.discardable.tolist(), second.discardable.tolist()) == ([0, 21], [22, 32])
    assert (first.listed, second.listed) == (listed[:2], listed[2:])
    assert (first.aborted, second.aborted) == (listed[:2], listed[2:])


def test_a_group_knows_the_time_and_the_producers_that_are_active() -> None:
    active, expired = (
        a_producer(number, last_data_offset=7, last_timestamp_ms=last_ms)
        for number, last_ms in ((1, NOW_MS), (2, NOW_MS - RULES.producer_id_expiration_ms))
    )
    work = a_round(replace(a_plan(), producers=(active, expired)))
    for task in tasks_of(work):
        assert task.rules.now_ms == NOW_MS
        assert task.rules.delete_retention_ms == RULES.delete_retention_ms
        assert task.rules.last_data_offsets.tolist() == [[1, 7]]


@pytest.mark.parametrize(
    ("first_offset", "last_offset", "reaches"),
    [
        pytest.param(3, 9, False, id="it ends before the range"),
        pytest.param(3, 10, True, id="its marker is the first offset"),
        pytest.param(12, 15, True, id="it lies within"),
        pytest.param(3, 99, True, id="it spans the range"),
        pytest.param(20, 99, True, id="it begins at the last offset"),
        pytest.param(21, 99, False, id="it begins beyond the range"),
    ],
)
def test_a_transaction_reaches_into_a_range_by_any_offset(
    first_offset: int, last_offset: int, reaches: bool
) -> None:
    one = an_abort(1, first_offset, last_offset)
    assert reaching([one], 10, 20) == ((one,) if reaches else ())

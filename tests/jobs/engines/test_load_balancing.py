"""Work is assigned to tasks completely and evenly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfold.jobs.engines.task_assignment import assigned, rewrite_costs, task_count

sizes = st.lists(st.integers(0, 2**40) | st.integers(0, 5), max_size=40)


@given(sizes, st.integers(1, 8))
def test_loads_differ_by_no_more_than_the_largest_item(items: list[int], tasks: int) -> None:
    placed = assigned(items, tasks)
    assert len(placed) == len(items)
    loads = [0] * tasks
    for size, task in zip(items, placed, strict=True):
        loads[task] += size + 1
    assert max(loads) - min(loads) <= max(items, default=0) + 1


def test_the_largest_items_are_assigned_first() -> None:
    # In the given order, 10 would join a task that already has work.
    assert assigned([1, 2, 3, 10], 2) == [1, 1, 1, 0]


def test_empty_items_do_not_all_share_one_task() -> None:
    assert sorted(assigned([0] * 6, 3)) == [0, 0, 1, 1, 2, 2]


def test_the_assignment_is_the_same_every_time() -> None:
    assert assigned([5, 5, 5, 5], 2) == [0, 1, 0, 1]


def test_the_most_expensive_items_are_in_the_first_tasks() -> None:
    assert assigned([5, 9, 5, 1], 4, [3.0, 4.0, 2.0, 5.0]) == [2, 1, 3, 0]
    # The loads are still in bytes.
    assert assigned([5, 9, 5, 1], 2, [4.0, 1.0, 2.0, 3.0]) == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("sizes", "order"),
    [
        pytest.param([9, 9, 9], [2, 1, 0], id="the newest keep most"),
        pytest.param([9, 9, 9, 1], [2, 1, 3, 0], id="a tiny one has little to keep"),
        pytest.param([27, 7], [1, 0], id="the newest quarter costs more than all before it"),
        pytest.param([200, 7, 7, 7], [0, 3, 2, 1], id="reading much costs more"),
        pytest.param([0, 0], [0, 1], id="empty"),
    ],
)
def test_a_rewrite_costs_the_bytes_kept_and_a_share_of_the_bytes_read(
    sizes: list[int], order: list[int]
) -> None:
    alone = rewrite_costs(sizes, [0] * len(sizes))
    assert sorted(range(len(sizes)), key=lambda i: -alone[i]) == order
    # Each partition is estimated on its own.
    together = rewrite_costs([*sizes, *sizes], [3] * len(sizes) + [4] * len(sizes))
    assert together == [*alone, *alone]


@pytest.mark.parametrize(
    ("items", "tasks_min", "expected"),
    [
        ([], 4, 0),
        ([0], 4, 1),
        ([0, 0], 0, 1),
        ([100], 4, 1),
        ([1, 1, 1], 2, 2),
        ([1, 1, 1], 9, 3),
        ([100, 100, 100], 1, 3),
        ([100, 101, 99, 0], 1, 3),
        ([100, 101, 100, 0], 1, 4),
        ([50, 50], 1, 1),
    ],
)
def test_the_number_of_tasks_follows_the_bytes_within_its_bounds(
    items: list[int], tasks_min: int, expected: int
) -> None:
    assert task_count(items, task_bytes=100, tasks_min=tasks_min) == expected

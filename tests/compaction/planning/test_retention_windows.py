"""Where tierfold's own retention deletes beside brokers, old segments do not join young ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.builders import a_chain, a_segment
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.planning.grouping import grouped

RETENTION_MS: Final = 1000
RULES: Final = Rules(
    cleanup_policy=frozenset({"compact", "delete"}),
    retention_ms=RETENTION_MS,
    retention_written=frozenset({"retention_ms"}),
)
MANY: Final = 10**6


def log(*timestamps_ms: int) -> tuple[Segment, ...]:
    """Segments of ten offsets, by the largest timestamp of each."""
    chain = a_chain(*[10] * len(timestamps_ms))
    pairs = zip(chain, timestamps_ms, strict=True)
    return tuple(replace(one, max_timestamp_ms=at_ms) for one, at_ms in pairs)


def sizes(segments: Sequence[Segment], rules: Rules = RULES, most: int | None = MANY) -> list[int]:
    """How many segments each group has."""
    return [len(group.segments) for group in grouped(segments, rules, most)]


def test_segments_of_one_tenth_of_the_retention_are_joined() -> None:
    assert sizes(log(0, 99, 100, 150, 199, 200)) == [2, 3, 1]


@pytest.mark.parametrize(
    "rules",
    [
        replace(RULES, cleanup_policy=frozenset({"compact"})),
        replace(RULES, retention_written=frozenset()),
        replace(RULES, retention_written=frozenset({"retention_bytes"})),
        replace(RULES, retention_ms=-1),
    ],
)
def test_other_retention_joins_whatever_their_age(rules: Rules) -> None:
    assert sizes(log(0, 99, 100, 5000), rules) == [4]


def test_a_copy_is_grouped_as_kafkas_cleaner_groups() -> None:
    assert sizes(log(0, 99, 100, 5000), most=None) == [4]


def test_timestamps_in_disorder_do_not_split_what_expires_together() -> None:
    assert sizes(log(0, 500, 0, 500, 0, 599, 0, 600)) == [1, 6, 1]
    # A record of the future: nothing behind it expires before it does.
    assert sizes(log(10**15, 100, 200, 300)) == [4]


def test_segments_without_timestamps_go_with_what_lies_before_them() -> None:
    assert sizes(log(-1, -1, 0, -1, 100)) == [2, 2, 1]


def test_the_shortest_retentions_have_windows_too() -> None:
    for retention_ms in (0, 1, 9):
        assert sizes(log(0, 0, 1), replace(RULES, retention_ms=retention_ms)) == [2, 1]


def test_segments_that_share_offsets_are_one_group_in_whatever_windows() -> None:
    first, second = a_segment(0, 9, max_timestamp_ms=0), a_segment(10, 19, max_timestamp_ms=5000)
    assert sizes((first, replace(second, skipped_offsets=3))) == [2]


@given(
    st.lists(st.integers(-1, 5000), min_size=1, max_size=30),
    st.integers(0, 3000),
)
def test_groups_are_as_the_obvious_model_says(times_ms: list[int], retention_ms: int) -> None:
    """A border is where the largest timestamp so far comes into another window."""
    rules = replace(RULES, retention_ms=retention_ms)
    reached = [max(times_ms[: place + 1]) for place in range(len(times_ms))]
    windows = [at_ms // max(retention_ms // 10, 1) for at_ms in reached]
    borders = [place for place, (left, right) in enumerate(pairwise(windows), 1) if left != right]
    expected = [end - start for start, end in pairwise([0, *borders, len(times_ms)])]
    assert sizes(log(*times_ms), rules) == expected

"""Counts: records and bytes by outcome, and whether they add up."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfold.compaction.cleaning.counts import (
    ABORTED,
    KEPT,
    MARKER_EXPIRED,
    RECORD_OUTCOMES,
    SUPERSEDED,
    TOMBSTONE_EXPIRED,
    WITHOUT_KEY,
    Counts,
    counts_of,
    total,
)

outcomes = st.lists(st.tuples(st.integers(0, len(RECORD_OUTCOMES) - 1), st.integers(0, 2**40)))


def counted(records: list[tuple[int, int]]) -> Counts:
    return counts_of(
        len(records),
        sum(size for _, size in records),
        np.array([outcome for outcome, _ in records], np.uint8),
        np.array([size for _, size in records], np.int64),
    )


@given(outcomes)
def test_every_record_counts_once_under_its_outcome(records: list[tuple[int, int]]) -> None:
    found = asdict(counted(records))
    for number, name in enumerate(RECORD_OUTCOMES):
        sizes = [size for outcome, size in records if outcome == number]
        assert (found[name], found[f"{name}_bytes"]) == (len(sizes), sum(sizes))


@given(outcomes, outcomes)
def test_counts_add_field_by_field(
    one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    assert counted(one) + counted(other) == counted(one + other)
    assert total([counted(one), counted(other)]) == counted(one + other)
    assert counted(one).adds_up
    assert counted(one).removed == sum(outcome != KEPT for outcome, _ in one)


def test_the_numbers_name_the_outcomes() -> None:
    numbers = (KEPT, ABORTED, WITHOUT_KEY, SUPERSEDED, TOMBSTONE_EXPIRED, MARKER_EXPIRED)
    assert [RECORD_OUTCOMES[number] for number in numbers] == list(RECORD_OUTCOMES)


def test_empty_counts_add_up() -> None:
    assert total([]) == Counts()
    assert Counts().adds_up


@pytest.mark.parametrize("name", [*RECORD_OUTCOMES, "records_in"])
def test_one_record_or_one_byte_too_many_does_not_add_up(name: str) -> None:
    sound = counted([(outcome, 10) for outcome in range(len(RECORD_OUTCOMES))])
    size_name = "record_bytes_in" if name == "records_in" else f"{name}_bytes"
    assert sound.adds_up
    assert not replace(sound, **{name: getattr(sound, name) + 1}).adds_up
    assert not replace(sound, **{size_name: getattr(sound, size_name) + 1}).adds_up


def test_a_record_without_an_outcome_shows_as_a_difference() -> None:
    assert not counts_of(2, 10, np.array([KEPT], np.uint8), np.array([10], np.int64)).adds_up


def test_sizes_of_large_logs_do_not_overflow() -> None:
    sizes = np.full(3, 2**31 - 1, np.int32)
    found = counts_of(3, 3 * (2**31 - 1), np.full(3, KEPT, np.uint8), sizes)
    assert found.adds_up

"""Pushed filters narrow partitions and offsets, and Spark applies all others."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from tests.jobs.tiers import key_of
from tierfold.compaction.model.units import OffsetSpan
from tierfold.jobs.sources.segment_filters import pushed

KEYS = [key_of(topic, number) for topic in ("a", "ab", "b") for number in (0, 1, 2)]
OFFSETS = range(12)
TOPIC, PARTITION, OFFSET = ("topic",), ("partition",), ("offset",)
COMPARISONS: dict[type[Filter], Callable[[int, int], bool]] = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}

each_comparison = pytest.mark.parametrize("kind", COMPARISONS)


def kept(*filters: Filter) -> tuple[set[str], set[int], list[Filter]]:
    """Partitions and offsets that are left, and what Spark still has to apply."""
    wanted, left = pushed(filters)
    span = wanted.within(OFFSETS.start, OFFSETS.stop)
    return (
        {str(key) for key in KEYS if wanted.holds(key)},
        set(range(span.start, span.end)),
        left,
    )


EVERYTHING = (set(map(str, KEYS)), set(OFFSETS))


@each_comparison
def test_comparisons_are_applied_exactly(kind: type[Filter]) -> None:
    compare = COMPARISONS[kind]
    names, offsets, left = kept(kind(OFFSET, 5))
    assert offsets == {offset for offset in OFFSETS if compare(offset, 5)}
    assert (names, left) == (EVERYTHING[0], [])
    names, offsets, left = kept(kind(PARTITION, 1))
    assert names == {str(key) for key in KEYS if compare(key.partition, 1)}
    assert (offsets, left) == (EVERYTHING[1], [])
    names, _, left = kept(kind(TOPIC, "ab"))
    assert names == {str(key) for key in KEYS if compare(key.topic, "ab")}
    assert left == []


@each_comparison
def test_negated_comparisons_apply_to_partitions_and_not_to_offsets(kind: type[Filter]) -> None:
    names, _, left = kept(Not(kind(PARTITION, 1)))
    assert names == {str(key) for key in KEYS if not COMPARISONS[kind](key.partition, 1)}
    assert left == []
    unlike = Not(kind(OFFSET, 5))
    assert kept(unlike) == (*EVERYTHING, [unlike])


def test_filters_are_joined_by_and() -> None:
    names, offsets, left = kept(
        IsNotNull(OFFSET), GreaterThan(OFFSET, 2), LessThan(OFFSET, 7), EqualTo(PARTITION, 0)
    )
    assert (names, offsets, left) == ({"a-0", "ab-0", "b-0"}, {3, 4, 5, 6}, [])
    assert kept(GreaterThan(OFFSET, 7), LessThan(OFFSET, 3))[1] == set()
    assert kept(EqualTo(PARTITION, 0), EqualTo(PARTITION, 1))[0] == set()


def test_a_list_of_offsets_narrows_the_read_and_spark_applies_it_too() -> None:
    some = In(OFFSET, (9, 3, 5))
    assert kept(some) == (EVERYTHING[0], set(range(3, 10)), [some])
    assert kept(some, In(OFFSET, (5, 9, 11)), LessThan(OFFSET, 9))[1] == {5}
    assert kept(In(OFFSET, (99,)))[1] == set()
    wanted, _ = pushed([some])
    assert wanted.within(4, 9) == OffsetSpan(start=5, end=6)


def test_a_list_of_names_is_taken() -> None:
    assert kept(In(TOPIC, ("a", "zz")))[0] == {"a-0", "a-1", "a-2"}
    assert kept(Not(In(TOPIC, ("a", "b"))))[0] == {"ab-0", "ab-1", "ab-2"}
    assert kept(In(PARTITION, (1, 7)), EqualTo(TOPIC, "b"))[0] == {"b-1"}


def test_parts_of_a_topic_are_taken() -> None:
    assert kept(StringStartsWith(TOPIC, "ab"))[0] == {"ab-0", "ab-1", "ab-2"}
    assert kept(StringEndsWith(TOPIC, "b"), EqualTo(PARTITION, 0))[0] == {"ab-0", "b-0"}
    assert kept(StringContains(TOPIC, "a"), EqualTo(PARTITION, 0))[0] == {"a-0", "ab-0"}
    assert kept(Not(StringContains(TOPIC, "a")), EqualTo(PARTITION, 0))[0] == {"b-0"}


@pytest.mark.parametrize(
    "unclear",
    [
        EqualTo(TOPIC, None),
        EqualNullSafe(PARTITION, None),
        Not(EqualTo(TOPIC, None)),
        In(TOPIC, ("a", None)),
        Not(In(PARTITION, (1, None))),
        Not(In(OFFSET, (1, 2))),
        In(OFFSET, (1, None)),
        IsNull(OFFSET),
        GreaterThan(OFFSET, 1.5),
        EqualTo(PARTITION, True),
        EqualTo(("key",), b"k"),
        EqualTo(("headers", "key"), "k"),
        StringStartsWith(("value",), "v"),
        IsNotNull(("key",)),
    ],
)
def test_other_filters_are_left_to_spark(unclear: Filter) -> None:
    assert kept(unclear) == (*EVERYTHING, [unclear])

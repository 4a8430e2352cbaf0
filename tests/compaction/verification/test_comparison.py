"""Comparing the latest values before and after compaction finds exactly the keys that differ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.latest_windows import window
from tierfold.compaction.verification.comparison import (
    EXAMPLES_MAX,
    KeyDifference,
    KeysCompared,
    Latest,
    compared,
    sum_of,
)
from tierfold.compaction.verification.latest_values import LatestValues

keys = st.sampled_from([b"", b"a", b"b", b"ab", b"a key of more than eight bytes"]) | st.binary()
side = st.dictionaries(keys, st.none() | st.binary(max_size=3), max_size=20)


@given(side, side)
def test_keys_are_distinguished_as_in_a_dictionary(
    before: dict[bytes, bytes | None], now: dict[bytes, bytes | None]
) -> None:
    found = compared(window(list(before.items())), window(list(now.items())))
    every = before.keys() | now.keys()
    differing = {
        key
        for key in every
        if (key not in now and before[key] is not None)
        or (key not in before)
        or (key in now and before[key] != now[key])
    }
    assert (found.keys, found.differing) == (len(every), len(differing))
    assert found.deleted == sum(value is None for value in before.values())
    assert len(found.examples) == min(EXAMPLES_MAX, len(differing))
    assert {example.key for example in found.examples} <= differing


def test_a_removed_tombstone_is_no_difference() -> None:
    assert compared(window([(b"k", None)]), window([])) == KeysCompared(keys=1, deleted=1)


def test_a_side_without_entries_is_compared_with_one_that_has_versions() -> None:
    versioned = window([(b"k", b"v")], versions=[1])
    assert compared(versioned, window([])).differing == 1
    assert compared(window([]), versioned).differing == 1


def tombstone_at(offset: int) -> LatestValues:
    return window([(b"k", None)], offset, versions=[9])


@pytest.mark.parametrize(
    ("offset", "passes", "is_late"),
    [
        (8, (8,), True),
        (9, (3, 8, 20), True),
        (8, (9,), False),
        (8, (6,), True),
        (8, (5,), False),
        (8, (), False),
        (3, (4,), False),
    ],
)
def test_a_record_is_late_if_a_pass_ended_between_it_and_the_tombstone(
    offset: int, passes: tuple[int, ...], is_late: bool
) -> None:
    now = window([(b"k", b"v")], offset, versions=[1])
    found = compared(tombstone_at(5), now, passes)
    assert (found.late, found.differing) == (int(is_late), int(not is_late))
    assert sum_of([found, found]).late == 2 * is_late


def test_only_after_a_tombstone_may_a_record_be_late() -> None:
    before = window([(b"k", b"newer")], 5, versions=[9])
    found = compared(before, window([(b"k", b"older")], 8, versions=[1]), (6,))
    assert (found.late, found.differing) == (0, 1)
    again = compared(tombstone_at(5), window([(b"k", None)], 8, versions=[1]), (6,))
    assert (again.late, again.differing) == (0, 0)


def test_values_of_one_length_have_different_digests() -> None:
    before, now = window([(b"k", b"one")], 5), window([(b"k", b"two")], 3)
    (example,) = compared(before, now).examples
    assert example == KeyDifference(
        key=b"k",
        before=Latest(offset=5, value_bytes=3),
        now=Latest(offset=3, value_bytes=3),
    )


def test_a_difference_is_a_sentence() -> None:
    lost = KeyDifference(key=b"\x00k", before=Latest(offset=5, value_bytes=3), now=None)
    assert str(lost) == "key 0x006b had a value of 3 bytes (offset 5), has none"
    new = KeyDifference(key=b"k" * 41, before=None, now=Latest(offset=5, value_bytes=-1))
    assert str(new) == f"key 0x{'6b' * 40}… had no record, has a tombstone (offset 5)"


def test_the_earliest_differences_are_shown() -> None:
    pairs: list[tuple[bytes, bytes | None]] = [(bytes([i]), b"v") for i in range(9)]
    found = compared(window(pairs, 10), window([]))
    assert [example.before.offset for example in found.examples if example.before] == [10, 11, 12]
    added = sum_of([found, compared(window(pairs[:1], 3), window([]))])
    assert (added.keys, added.differing) == (10, 10)
    assert [example.before.offset for example in added.examples if example.before] == [3, 10, 11]

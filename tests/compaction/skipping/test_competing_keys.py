"""Competing keys are listed once each, with a bit for those that a tombstone deletes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tierfold.compaction.skipping.skip_decision import (
    CompetingKeys,
    all_competing,
    competing_keys,
)

hashes = st.integers(0, 6).map(lambda i: i << 8) | st.integers(0, 2**56 - 1).map(lambda i: i << 8)
records = st.lists(st.tuples(hashes, st.booleans()), max_size=30)


def competing(found: list[tuple[int, bool]]) -> CompetingKeys:
    return competing_keys(
        np.array([one for one, _ in found], np.uint64),
        np.array([is_tombstone for _, is_tombstone in found], np.bool_),
    )


def as_dictionary(keys: CompetingKeys) -> dict[int, bool]:
    found = {
        int(word) & ~0xFF: bool(is_tombstone)
        for word, is_tombstone in zip(keys.words, keys.is_tombstone, strict=True)
    }
    assert len(found) == len(keys)
    return found


def expected(found: list[tuple[int, bool]]) -> dict[int, bool]:
    deleted: dict[int, bool] = {}
    for one, is_tombstone in found:
        deleted[one] = deleted.get(one, False) or is_tombstone
    return deleted


@given(records)
def test_each_key_is_listed_once_and_keeps_the_bit_of_any_tombstone(
    found: list[tuple[int, bool]],
) -> None:
    keys = competing(found)
    assert as_dictionary(keys) == expected(found)
    assert list(keys.words) == sorted(keys.words)


@given(st.lists(records, max_size=5), st.data())
def test_pieces_are_joined_in_any_order(
    pieces: list[list[tuple[int, bool]]], data: st.DataObject
) -> None:
    whole = competing([record for piece in pieces for record in piece])
    shuffled = data.draw(st.permutations([*map(competing, pieces)]))
    assert (all_competing(shuffled).words == whole.words).all()
    assert as_dictionary(whole) == expected([record for piece in pieces for record in piece])


def test_no_pieces_have_no_keys() -> None:
    assert len(all_competing([])) == 0
    assert all_competing([]).words.dtype == np.uint64

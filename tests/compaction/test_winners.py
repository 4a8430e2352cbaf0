"""The offset map as a reduce, against the same law written over a dictionary."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.key_blocks import KeyBlock, blocks_of, pack, parts_per_bucket, unpack
from compaction.key_columns import KeyColumns, ordered_by_part
from compaction.winners import bucket_losers, own_losers
from tests.compaction.keyed import TRICKY, columns_of, maybe_keys

EVERY_BIT = 2**64 - 1
HASH_MASKS = (EVERY_BIT, 0xC << 60, 0x3, 0)
"""The hash as it is; cut to few values; or to one, so that only the bytes tell keys apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Segments of records, told by their keys, and how the reduce is to be cut."""

    segments: tuple[tuple[bytes | None, ...], ...]
    first_dirty: int
    """A place in the whole log: from here on records compete."""
    buckets: int = 1
    stretch: int = 1000
    """So many records of a segment go into a block."""
    hash_mask: int = EVERY_BIT


def losers_by_law(case: Case) -> set[int]:
    """A record loses if a later record of its key competes."""
    log = [key for segment in case.segments for key in segment]
    last = {key: place for place, key in enumerate(log) if place >= case.first_dirty}
    return {place for place, key in enumerate(log) if key is not None and last.get(key, -1) > place}


def stretches(case: Case, segment: Sequence[bytes | None]) -> Iterator[KeyColumns]:
    for first in range(0, len(segment), case.stretch):
        columns = columns_of(segment[first : first + case.stretch], first_ordinal=first)
        yield replace(columns, hash=columns.hash & np.uint64(case.hash_mask))


def losers_by_reduce(case: Case, order: st.DataObject | None = None) -> list[int]:
    """Places of all losers, as the stages of a run find them; a place twice would be a bug."""
    parts = parts_per_bucket(case.buckets)
    starts = list(accumulate(map(len, case.segments), initial=0))
    lost: list[int] = []
    shuffled: dict[int, list[tuple[int, KeyBlock]]] = defaultdict(list)
    for number, segment in enumerate(case.segments):
        competes_from = min(max(case.first_dirty - starts[number], 0), len(segment))
        for columns in stretches(case, segment):
            ordered, part_starts = ordered_by_part(columns, case.buckets * parts)
            own = own_losers(ordered, part_starts, competes_from)
            lost += [starts[number] + int(ordinal) for ordinal in ordered.ordinal[own]]
            for bucket, block in blocks_of(
                ordered, part_starts, own, buckets=case.buckets, competes_from=competes_from
            ):
                shuffled[bucket].append((number, unpack(pack(block))))
    for arrived in shuffled.values():
        met = order.draw(st.permutations(arrived)) if order else arrived
        in_log_order = sorted(met, key=lambda each: (each[0], each[1].first_ordinal))
        found = bucket_losers([block for _, block in in_log_order], case.buckets, parts)
        for (number, _), ordinals in zip(in_log_order, found, strict=True):
            lost += [starts[number] + int(ordinal) for ordinal in ordinals]
    return sorted(lost)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    segments = draw(
        st.lists(st.lists(maybe_keys, max_size=12).map(tuple), min_size=1, max_size=5).map(tuple)
    )
    return Case(
        segments=segments,
        first_dirty=draw(st.integers(0, sum(map(len, segments)) + 1)),
        buckets=draw(st.integers(1, 7)),
        stretch=draw(st.integers(1, 13)),
        hash_mask=draw(st.sampled_from(HASH_MASKS)),
    )


@given(cases(), st.data())
def test_the_reduce_finds_the_losers_of_the_law(case: Case, order: st.DataObject) -> None:
    assert losers_by_reduce(case, order) == sorted(losers_by_law(case))


@pytest.mark.parametrize("hash_mask", HASH_MASKS)
def test_many_keys_that_come_twice_lose_once(hash_mask: int) -> None:
    # More entries than a table starts with, so that it has to grow.
    keys = tuple(b"%d" % number for number in range(40)) + TRICKY
    case = Case(segments=(keys, keys), first_dirty=0, buckets=3, hash_mask=hash_mask)
    assert losers_by_reduce(case) == list(range(len(keys)))


def test_a_record_below_first_dirty_loses_only_to_a_competing_one() -> None:
    case = Case(segments=((b"a", b"b", b"a"), (b"a", b"b")), first_dirty=4)
    # Both clean `a` of the first segment and the clean one of the second stay.
    assert losers_by_reduce(case) == [1]


def test_duplicates_among_clean_records_stay() -> None:
    case = Case(segments=((b"a", b"a"), (b"a",)), first_dirty=3)
    assert losers_by_reduce(case) == []


def test_first_dirty_may_lie_inside_a_segment() -> None:
    case = Case(segments=((b"a", b"a", b"b", b"b"),), first_dirty=2)
    assert losers_by_reduce(case) == [2]


def test_the_empty_key_is_a_key_like_any_other() -> None:
    case = Case(segments=((b"", b"x"), (b"", None)), first_dirty=0)
    assert losers_by_reduce(case) == [0]


def test_no_blocks_have_no_losers() -> None:
    assert bucket_losers([], 1, 64) == []


@pytest.mark.parametrize(("competes_from", "lost"), [(0, {0, 1, 3}), (4, {0, 1, 3}), (5, {1})])
def test_a_segment_finds_its_own_losers_alone(competes_from: int, lost: set[int]) -> None:
    columns = columns_of([b"a", b"b", b"c", b"a", b"a", b"b"])
    ordered, part_starts = ordered_by_part(columns, 64)
    found = own_losers(ordered, part_starts, competes_from)
    assert set(ordered.ordinal[found].tolist()) == lost


@pytest.mark.parametrize("buckets", [1, 3])
@pytest.mark.parametrize("hash_mask", HASH_MASKS)
def test_many_keys_in_every_part_find_their_winners(buckets: int, hash_mask: int) -> None:
    chance = random.Random(7)
    keys = [b"key %d" % number for number in range(400)]
    segments = tuple(tuple(chance.choices(keys, k=chance.randint(1, 300))) for _ in range(5))
    case = Case(
        segments=segments, first_dirty=250, buckets=buckets, stretch=90, hash_mask=hash_mask
    )
    assert losers_by_reduce(case) == sorted(losers_by_law(case))

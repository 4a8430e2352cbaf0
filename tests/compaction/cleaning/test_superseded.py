"""The offset map as a reduce, compared with the same rule over a dictionary."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.hash_keys import HASH_KEY
from tests.compaction.keyed import TRICKY, columns_of, in_windows, maybe_keys
from tierfold.compaction.cleaning.key_blocks import (
    BLOCK_BYTES,
    blocks_of,
    head_of,
    joined_blocks,
    parts_per_bucket,
)
from tierfold.compaction.cleaning.key_columns import KeyColumns, Versions, ordered_by_part
from tierfold.compaction.cleaning.offset_map import superseded_in_bucket, superseded_in_segment

EVERY_BIT = 2**64 - 1
LOWEST, HIGHEST = -(2**63), 2**63 - 1
HASH_MASKS = (EVERY_BIT, 0xC << 60, 0x3, 0)
"""The whole hash; few values of it; or one, so that only the bytes distinguish keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Segments of records, given by their keys, and how the reduce is split."""

    segments: tuple[tuple[bytes | None, ...], ...]
    first_dirty: int
    """A place in the whole log: from here on records compete."""
    buckets: int = 1
    stretch: int = 1000
    """So many records of a segment go into a block."""
    window: int = 1000
    """So many keys of a stretch are in a window."""
    block_bytes: int = BLOCK_BYTES
    hash_mask: int = EVERY_BIT
    versions: tuple[int | None, ...] | None = None
    """Of all records, in log order; None: offsets decide."""

    @property
    def log(self) -> list[bytes | None]:
        """All records' keys."""
        return [key for segment in self.segments for key in segment]


def superseded_by_rule(case: Case) -> set[int]:
    """A record is superseded if a later record of its key competes."""
    log = case.log
    last = {key: place for place, key in enumerate(log) if place >= case.first_dirty}
    return {place for place, key in enumerate(log) if key is not None and last.get(key, -1) > place}


def superseded_by_versions(case: Case) -> tuple[set[int], set[int]]:
    """Superseded and superseding places: the highest version stays, on a tie the last."""
    latest: dict[bytes, int] = {}
    for place, key in enumerate(case.log):
        if key is not None:
            now = latest.setdefault(key, place)
            if rank(case, place) >= rank(case, now):
                latest[key] = place
    superseded = {
        place
        for place, key in enumerate(case.log)
        if key is not None and latest[key] != place
    }
    return superseded, {latest[case.log[place] or b""] for place in superseded}


def rank(case: Case, place: int) -> tuple[bool, int]:
    version = (case.versions or ())[place]
    return version is not None, version or 0


def stretches(case: Case, number: int) -> Iterator[KeyColumns]:
    """The keys of one segment, in stretches."""
    segment = case.segments[number]
    start = sum(map(len, case.segments[:number]))
    for first in range(0, len(segment), case.stretch):
        columns = columns_of(segment[first : first + case.stretch], first_ordinal=first)
        versions = None
        if case.versions is not None:
            known = [case.versions[start + int(ordinal)] for ordinal in columns.ordinal]
            versions = Versions(
                value=np.array([version or 0 for version in known], np.int64),
                is_known=np.array([version is not None for version in known], np.bool_),
            )
        cut = columns.hash & np.uint64(case.hash_mask)
        yield replace(columns, hash=cut, versions=versions)


def places_by_reduce(case: Case) -> list[int]:
    """Superseded places, as the stages of a run find them; each at most once."""
    return superseded_by_reduce(case)[0]


def superseded_by_reduce(
    case: Case, order: st.DataObject | None = None
) -> tuple[list[int], set[int]]:
    """The superseded places, and those that supersede another and are not superseded themselves."""
    parts = parts_per_bucket(case.buckets)
    starts = list(accumulate(map(len, case.segments), initial=0))
    superseded: list[int] = []
    superseding: set[int] = set()
    shuffled: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    for number, segment in enumerate(case.segments):
        competes_from = min(max(case.first_dirty - starts[number], 0), len(segment))
        for columns in stretches(case, number):
            parted = in_windows(columns, case.window, case.buckets * parts)
            own = superseded_in_segment(parted, competes_from)
            ordinals = starts[number] + parted.columns.ordinal.astype(np.int64)
            superseded += ordinals[own.superseded].tolist()
            superseding |= {*ordinals[own.superseding].tolist()}
            for bucket, block in blocks_of(
                parted,
                own.superseded,
                buckets=case.buckets,
                competes_from=competes_from,
                hash_key=HASH_KEY,
                block_bytes=case.block_bytes,
            ):
                shuffled[bucket].append((number, block))
    for of_bucket in shuffled.values():
        met = order.draw(st.permutations(of_bucket)) if order else of_bucket
        in_log_order = sorted(met, key=lambda row: (row[0], head_of(row[1]).first_ordinal))
        bucket = joined_blocks([block for _, block in in_log_order])
        cut = bucket.columns.hash & np.uint64(case.hash_mask)
        bucket = replace(bucket, columns=replace(bucket.columns, hash=cut))
        found = superseded_in_bucket(bucket, case.buckets, parts)
        for (number, _), ordinals in zip(in_log_order, found, strict=True):
            superseded += [starts[number] + int(ordinal) for ordinal in ordinals.superseded]
            superseding |= {starts[number] + int(ordinal) for ordinal in ordinals.superseding}
    return sorted(superseded), superseding - set(superseded)


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
        window=draw(st.integers(1, 13)),
        block_bytes=draw(st.integers(1, 300)),
        hash_mask=draw(st.sampled_from(HASH_MASKS)),
    )


@given(cases(), st.data())
def test_the_reduce_finds_what_the_rule_supersedes(case: Case, order: st.DataObject) -> None:
    assert superseded_by_reduce(case, order) == (sorted(superseded_by_rule(case)), set())


some_versions = st.none() | st.sampled_from((0, 1, -1, LOWEST, HIGHEST)) | st.integers(0, 4)
"""Few, so that there are equal ones; none; and the lowest and the highest."""


@given(cases(), st.data())
def test_if_versions_decide_the_highest_stays(case: Case, data: st.DataObject) -> None:
    count = len(case.log)
    drawn = data.draw(st.lists(some_versions, min_size=count, max_size=count).map(tuple))
    case = replace(case, versions=drawn)
    superseded, superseding = superseded_by_versions(case)
    assert superseded_by_reduce(case, data) == (sorted(superseded), superseding)


@pytest.mark.parametrize(
    ("versions", "latest"),
    [
        ((1, 2, 3), 2),
        ((3, 2, 1), 0),
        ((2, 3, 3), 2),
        ((5, 5, 1), 1),
        ((LOWEST, None, None), 0),
        ((None, None, None), 2),
        ((None, LOWEST, -1), 2),
        ((HIGHEST, LOWEST, None), 0),
        ((-1, 0, None), 1),
    ],
)
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_any_version_supersedes_none_and_on_a_tie_the_last_record_stays(
    versions: tuple[int | None, ...], latest: int, cut: int
) -> None:
    keys = (b"k", b"k", b"k")
    # Clean records compete like all others.
    case = Case(segments=(keys[:cut], keys[cut:]), first_dirty=3, versions=versions)
    assert superseded_by_reduce(case) == ([i for i in range(3) if i != latest], {latest})


def test_a_key_with_one_record_has_nothing_superseded() -> None:
    case = Case(segments=((b"a", b"b"), (b"c",)), first_dirty=0, versions=(1, None, 2))
    assert superseded_by_reduce(case) == ([], set())


@pytest.mark.parametrize("hash_mask", HASH_MASKS)
def test_of_many_keys_with_two_records_each_loses_one(hash_mask: int) -> None:
    # More entries than the first table holds, so that it must grow.
    keys = tuple(b"%d" % number for number in range(40)) + TRICKY
    case = Case(segments=(keys, keys), first_dirty=0, buckets=3, hash_mask=hash_mask)
    assert places_by_reduce(case) == list(range(len(keys)))


def test_only_a_competing_record_supersedes_one_below_first_dirty() -> None:
    case = Case(segments=((b"a", b"b", b"a"), (b"a", b"b")), first_dirty=4)
    # Both clean `a` of the first segment and the clean `a` of the second stay.
    assert places_by_reduce(case) == [1]


def test_duplicates_among_clean_records_stay() -> None:
    case = Case(segments=((b"a", b"a"), (b"a",)), first_dirty=3)
    assert places_by_reduce(case) == []


def test_first_dirty_may_lie_inside_a_segment() -> None:
    case = Case(segments=((b"a", b"a", b"b", b"b"),), first_dirty=2)
    assert places_by_reduce(case) == [2]


def test_the_empty_key_is_a_key_like_any_other() -> None:
    case = Case(segments=((b"", b"x"), (b"", None)), first_dirty=0)
    assert places_by_reduce(case) == [0]


def test_no_blocks_have_no_superseded_entries() -> None:
    assert superseded_in_bucket(joined_blocks([]), 1, 64) == []


@pytest.mark.parametrize(
    ("competes_from", "superseded"), [(0, {0, 1, 3}), (4, {0, 1, 3}), (5, {1})]
)
def test_a_segment_finds_its_own_superseded_records(
    competes_from: int, superseded: set[int]
) -> None:
    columns = columns_of([b"a", b"b", b"c", b"a", b"a", b"b"])
    keys = ordered_by_part(columns, 64)
    found = superseded_in_segment(keys, competes_from).superseded
    assert set(keys.columns.ordinal[found].tolist()) == superseded


@pytest.mark.parametrize("buckets", [1, 3])
@pytest.mark.parametrize("hash_mask", HASH_MASKS)
def test_many_keys_in_every_part_find_their_latest(buckets: int, hash_mask: int) -> None:
    chance = random.Random(7)
    keys = [b"key %d" % number for number in range(400)]
    segments = tuple(tuple(chance.choices(keys, k=chance.randint(1, 300))) for _ in range(5))
    case = Case(
        segments=segments,
        first_dirty=250,
        buckets=buckets,
        stretch=90,
        window=40,
        hash_mask=hash_mask,
    )
    assert places_by_reduce(case) == sorted(superseded_by_rule(case))
    versions = tuple(chance.randint(-9, 9) for _ in case.log)
    superseded, superseding = superseded_by_versions(replace(case, versions=versions))
    assert superseded_by_reduce(replace(case, versions=versions)) == (
        sorted(superseded),
        superseding,
    )

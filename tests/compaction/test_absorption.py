"""Groups of which nothing survived: a neighbour takes their offsets."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.absorption import absorbed
from compaction.grouping import SegmentGroup
from tests.compaction.builders import a_chain


def groups_of(*sizes: int) -> list[SegmentGroup]:
    """Contiguous groups of so many segments."""
    chain = iter(a_chain(*[3] * sum(sizes)))
    return [SegmentGroup(segments=tuple(next(chain) for _ in range(size))) for size in sizes]


def absorbed_as(picture: str) -> str:
    """`x` a group that survives, `.` an empty one; the result, its groups parted by `|`."""
    groups = groups_of(*[1] * len(picture))
    found = absorbed(groups, [sign == "." for sign in picture])
    starts = [group.start_offset // 3 for group in found]
    ends = [*starts[1:], len(picture)]
    return "|".join(picture[start:end] for start, end in zip(starts, ends, strict=True))


@pytest.mark.parametrize(
    ("picture", "expected"),
    [
        ("x", "x"),
        ("xxx", "x|x|x"),
        ("x.x", "x.|x"),
        ("x..x", "x..|x"),
        ("x.", "x."),
        (".x", ".x"),
        ("..xx", "..x|x"),
        (".x.x.", ".x.|x."),
        (".", "."),
        ("...", "..."),
    ],
)
def test_an_empty_group_goes_to_the_one_before_it_and_at_the_head_to_the_one_after(
    picture: str, expected: str
) -> None:
    assert absorbed_as(picture) == expected


@given(st.lists(st.tuples(st.integers(1, 3), st.booleans()), min_size=1, max_size=12))
def test_neighbours_alone_are_joined_and_nothing_is_lost(
    drawn: list[tuple[int, bool]],
) -> None:
    groups = groups_of(*[size for size, _ in drawn])
    is_empty = [empty for _, empty in drawn]
    found = absorbed(groups, is_empty)
    segments = [segment for group in groups for segment in group.segments]
    assert [segment for group in found for segment in group.segments] == segments
    assert all(a.end_offset + 1 == b.start_offset for a, b in pairwise(found))
    survivors = [group for group, empty in zip(groups, is_empty, strict=True) if not empty]
    # Each group that survives is whole within one result, and no result holds two or, but where
    # nothing survives at all, none.
    homes = [
        [group for group in survivors if set(group.segments) <= set(home.segments)]
        for home in found
    ]
    assert homes == ([[group] for group in survivors] or [[]])
    starts = {group.start_offset for group in groups}
    assert {home.start_offset for home in found} <= starts


def test_a_group_and_its_emptiness_come_in_pairs() -> None:
    with pytest.raises(ValueError, match="zip"):
        absorbed(groups_of(1, 1), [False])


def test_no_groups_stay_none() -> None:
    assert absorbed([], []) == ()

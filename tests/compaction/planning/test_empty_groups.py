"""Empty groups: a neighbour takes their offsets, if they fit its span."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.builders import a_chain
from tierfold.compaction.planning.grouping import MergedGroups, SegmentGroup, merge_empty

MOST = 2**31
"""The maximum number of offsets of a segment."""

THIRD = MOST // 3
"""Three of these fit, and two offsets more."""


def groups_of(*sizes: int, offsets: int = 3) -> list[SegmentGroup]:
    """Contiguous groups with these numbers of segments, each segment with `length` offsets."""
    chain = iter(a_chain(*[offsets] * sum(sizes)))
    return [SegmentGroup(segments=tuple(next(chain) for _ in range(size))) for size in sizes]


def merged_as(picture: str, offsets: int = 3) -> str:
    """`x` is a group with kept records, `.` an empty one; groups of the result are split by `|`.

    A group that becomes one empty batch ends in `!`.
    """
    groups = groups_of(*[1] * len(picture), offsets=offsets)
    found = merge_empty(groups, [sign == "." for sign in picture])
    starts = [group.start_offset // offsets for group in found.groups]
    ends = [*starts[1:], len(picture)]
    return "|".join(
        picture[start:end] + "!" * (number in found.empty)
        for number, (start, end) in enumerate(zip(starts, ends, strict=True))
    )


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
        (".", ".!"),
        ("...", "...!"),
    ],
)
def test_an_empty_group_joins_the_group_before_it_or_at_the_head_the_one_after(
    picture: str, expected: str
) -> None:
    assert merged_as(picture) == expected


@pytest.mark.parametrize(
    ("picture", "offsets", "expected"),
    [
        # One fills a segment.
        ("x.x", MOST, "x|.!|x"),
        (".x", MOST, ".!|x"),
        ("x.", MOST, "x|.!"),
        ("...", MOST, ".!|.!|.!"),
        ("x..x", MOST, "x|.!|.!|x"),
        # Two fit, three do not.
        ("x.x", MOST // 2, "x.|x"),
        ("x..x", MOST // 2, "x.|.x"),
        ("..x", MOST // 2, "..!|x"),
        (".x.", MOST // 2, ".x|.!"),
        (".x.x", MOST // 2, ".x|.x"),
        ("x...x", MOST // 2, "x.|..!|x"),
        ("....", MOST // 2, "..!|..!"),
        # Three fit.
        ("x...x", THIRD, "x..|.x"),
        ("...x", THIRD, "...!|x"),
        ("..x..", THIRD, "..x|..!"),
        # Two do not fit by one offset.
        ("x.x", MOST // 2 + 1, "x|.!|x"),
    ],
)
def test_an_empty_group_that_fits_no_neighbour_becomes_one_empty_batch(
    picture: str, offsets: int, expected: str
) -> None:
    assert merged_as(picture, offsets) == expected


def test_an_empty_group_joins_the_one_after_if_the_one_before_is_full() -> None:
    full, empty, small = a_chain(MOST, 10, 10)
    groups = [SegmentGroup(segments=(segment,)) for segment in (full, empty, small)]
    found = merge_empty(groups, [False, True, False])
    assert found == MergedGroups(
        groups=(groups[0], SegmentGroup(segments=(empty, small))), empty=frozenset()
    )


LENGTHS = st.sampled_from([1, 7, MOST // 5, MOST // 3, MOST // 2, MOST // 2 + 1, MOST - 1, MOST])


@given(st.lists(st.tuples(LENGTHS, st.booleans()), min_size=1, max_size=9))
def test_only_neighbours_are_joined_into_the_fewest_groups_and_nothing_is_lost(
    drawn: list[tuple[int, bool]],
) -> None:
    chain = a_chain(*[length for length, _ in drawn])
    groups = [SegmentGroup(segments=(segment,)) for segment in chain]
    is_empty = [empty for _, empty in drawn]
    found = merge_empty(groups, is_empty)
    segments = [segment for group in groups for segment in group.segments]
    assert [segment for group in found.groups for segment in group.segments] == segments
    assert all(a.end_offset + 1 == b.start_offset for a, b in pairwise(found.groups))
    survivors = {
        group.segments[0] for group, empty in zip(groups, is_empty, strict=True) if not empty
    }
    held = [sum(segment in survivors for segment in group.segments) for group in found.groups]
    assert max(held) <= 1
    assert found.empty == {number for number, count in enumerate(held) if not count}
    assert all(group.end_offset - group.start_offset < MOST for group in found.groups)
    assert len(found.groups) == fewest([length for length, _ in drawn], is_empty)
    # A second merge changes nothing.
    again = [number in found.empty for number in range(len(found.groups))]
    assert merge_empty(found.groups, again) == found


def fewest(lengths: list[int], is_empty: list[bool]) -> int:
    """The model: the best of all ways to cut, from the best cut of each head of the list."""
    best = [0]
    for end in range(1, len(lengths) + 1):
        best.append(
            min(
                best[start] + 1
                for start in range(end)
                if sum(lengths[start:end]) <= MOST and is_empty[start:end].count(False) <= 1
            )
        )
    return best[-1]


def test_a_group_and_its_emptiness_come_in_pairs() -> None:
    with pytest.raises(ValueError, match="zip"):
        merge_empty(groups_of(1, 1), [False])


def test_no_groups_give_no_groups() -> None:
    assert merge_empty([], []) == MergedGroups(groups=(), empty=frozenset())


def test_groups_that_are_no_neighbours_stay_apart() -> None:
    # In a round for delete horizons, the segments between them are not rewritten.
    first, _, third, fourth = groups_of(10, 10, 10, 10)
    found = merge_empty([first, third, fourth], [True, True, False])
    both = SegmentGroup(segments=third.segments + fourth.segments)
    assert found == MergedGroups(groups=(first, both), empty=frozenset({0}))

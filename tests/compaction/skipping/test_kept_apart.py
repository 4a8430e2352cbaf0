"""A segment that stays leaves its group, unless it is small beside what is rewritten anyway."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.builders import a_segment
from tierfold.compaction.planning.grouping import SegmentGroup
from tierfold.compaction.skipping.skip_decision import kept_apart


def planned(groups: Sequence[Sequence[int]]) -> tuple[SegmentGroup, ...]:
    """Groups of segments of these sizes."""
    count, made = 0, []
    for sizes in groups:
        starts = range(10 * count, 10 * (count + len(sizes)), 10)
        segments = [
            a_segment(start, start + 9, size_bytes=size)
            for start, size in zip(starts, sizes, strict=True)
        ]
        made.append(SegmentGroup(segments=tuple(segments)))
        count += len(sizes)
    return tuple(made)


def drawn(text: str) -> str:
    """The cut groups of the drawn ones: `5s` stays, 5 bytes; `5` is rewritten; `|` ends a group."""
    words = [part.split() for part in text.split("|")]
    groups = planned([[int(word.rstrip("s")) for word in part] for part in words])
    stays = {
        segment.segment_id
        for part, group in zip(words, groups, strict=True)
        for word, segment in zip(part, group.segments, strict=True)
        if word.endswith("s")
    }
    return " | ".join(
        " ".join(
            f"{segment.size_bytes}{'s' * (segment.segment_id in stays)}"
            for segment in group.segments
        )
        for group in kept_apart(groups, stays)
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # Nothing stays, or everything does.
        ("5", "5"),
        ("5s", "5s"),
        ("5 5 5", "5 5 5"),
        ("5 | 5 5", "5 | 5 5"),
        ("5s 5s 5s", "5s | 5s | 5s"),
        # One that stays joins a neighbour that is at least as large, on either side.
        ("5s 4", "5s | 4"),
        ("5s 5", "5s 5"),
        ("5s 6", "5s 6"),
        ("4 5s", "4 | 5s"),
        ("5 5s", "5 5s"),
        ("6 5s", "6 5s"),
        # Together they are large enough.
        ("9s 5 5", "9s 5 5"),
        ("5 5 9s", "5 5 9s"),
        ("9s 5 4", "9s 5 4"),
        ("9s 5 3", "9s | 5 3"),
        # What has joined counts for the next one, whichever side it is on.
        ("10s 5s 5", "10s 5s 5"),
        ("5 5s 10s", "5 5s 10s"),
        ("11s 5s 5", "11s | 5s 5"),
        ("20s 5 5s 10s", "20s 5 5s 10s"),
        ("21s 5 5s 10s", "21s | 5 5s 10s"),
        ("20s 1s 1 9s 30", "20s 1s 1 9s 30"),
        # Neither of two small ones reaches over a large one.
        ("4 9s 4", "4 | 9s | 4"),
        ("4 9s 5", "4 | 9s | 5"),
        ("4 9s 9", "4 9s 9"),
        ("3 3s 9s 4", "3 3s | 9s | 4"),
        # No edge of a planned group is crossed.
        ("5s | 9", "5s | 9"),
        ("9 | 5s | 9", "9 | 5s | 9"),
        ("9 9s | 5s 4 | 3s", "9 9s | 5s | 4 | 3s"),
        # Empty segments join anything that is rewritten.
        ("0s 1", "0s 1"),
        ("0s 0", "0s 0"),
    ],
)
def test_groups_are_cut_around_segments_that_stay(before: str, after: str) -> None:
    assert drawn(before) == after


sizes = st.integers(0, 12) | st.sampled_from([50, 100, 1000])
logs = st.lists(st.lists(st.tuples(sizes, st.booleans()), min_size=1, max_size=8), max_size=3)


@given(logs)
def test_cuts_keep_the_segments_in_order_and_within_their_groups(
    log: list[list[tuple[int, bool]]],
) -> None:
    groups, stays, cuts = cut(log)
    of_group = {segment: i for i, group in enumerate(groups) for segment in group.segments}
    assert [s for one in cuts for s in one.segments] == [s for g in groups for s in g.segments]
    assert all(len({of_group[segment] for segment in one.segments}) == 1 for one in cuts)
    assert kept_apart(cuts, stays) == cuts


@given(logs)
def test_a_segment_that_stays_is_rewritten_only_beside_as_many_bytes(
    log: list[list[tuple[int, bool]]],
) -> None:
    _, stays, cuts = cut(log)
    for one in cuts:
        staying = [s.size_bytes for s in one.segments if s.segment_id in stays]
        if len(one.segments) > 1:
            assert len(staying) < len(one.segments)
            # Each joins what has at least its bytes, so the largest is at most half.
            assert 2 * max(staying, default=0) <= one.size_bytes


@given(logs)
def test_neighbours_are_cut_only_where_one_stays_and_is_larger(
    log: list[list[tuple[int, bool]]],
) -> None:
    groups, stays, cuts = cut(log)
    of_group = {segment: i for i, group in enumerate(groups) for segment in group.segments}
    for left, right in pairwise(cuts):
        if of_group[left.segments[0]] != of_group[right.segments[0]]:
            continue
        staying = [one for one in (left, right) if stays_whole(one, stays)]
        assert len(staying) > 0
        if len(staying) == 1:
            (rewritten,) = [one for one in (left, right) if one is not staying[0]]
            assert staying[0].size_bytes > rewritten.size_bytes


def stays_whole(group: SegmentGroup, stays: set[str]) -> bool:
    return len(group.segments) == 1 and group.segments[0].segment_id in stays


def cut(
    log: list[list[tuple[int, bool]]],
) -> tuple[tuple[SegmentGroup, ...], set[str], tuple[SegmentGroup, ...]]:
    """The planned groups, the ids of segments that stay, and the groups as they are cut."""
    groups = planned([[size for size, _ in group] for group in log])
    flags = [is_staying for group in log for _, is_staying in group]
    segments = [segment for group in groups for segment in group.segments]
    stays = {s.segment_id for s, is_staying in zip(segments, flags, strict=True) if is_staying}
    return groups, stays, kept_apart(groups, stays)

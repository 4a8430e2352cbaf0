"""Leader epochs are cut to a segment, merged across segments and checked against a lineage."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.builders import a_segment, epochs
from tierfold.compaction.model.leader_epochs import epochs_in, is_within_lineage, merged_epochs
from tierfold.compaction.model.segments import LeaderEpoch, Segment


def segment(end_offset: int, *pairs: tuple[int, int]) -> Segment:
    return a_segment(pairs[0][1] if pairs else 0, end_offset, leader_epochs=epochs(*pairs))


LINEAGE = epochs((5, 10), (7, 15), (9, 100))


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (10, 14, epochs((5, 10))),
        (12, 14, epochs((5, 12))),
        (12, 15, epochs((5, 12), (7, 15))),
        (15, 99, epochs((7, 15))),
        (14, 150, epochs((5, 14), (7, 15), (9, 100))),
        (200, 300, epochs((9, 200))),
        (0, 12, epochs((5, 10))),
        (0, 9, ()),
        (20, 19, ()),
    ],
)
def test_a_segments_epochs_start_inside_it(
    start: int, end: int, expected: tuple[LeaderEpoch, ...]
) -> None:
    assert epochs_in(LINEAGE, start, end) == expected


def test_merged_epochs_keep_each_epochs_lowest_offset() -> None:
    assert merged_epochs(
        [epochs((5, 12), (7, 15)), epochs((7, 40)), epochs((7, 60), (9, 100)), epochs((5, 10))]
    ) == epochs((5, 10), (7, 15), (9, 100))
    assert merged_epochs([]) == ()


cuts = st.lists(st.integers(0, 60), unique=True, min_size=2, max_size=8).map(sorted)


@given(starts=cuts, ends=cuts)
def test_the_epochs_of_pieces_merge_to_the_epochs_of_the_whole(
    starts: list[int], ends: list[int]
) -> None:
    lineage = epochs(*enumerate(starts))
    pieces = [epochs_in(lineage, a, b - 1) for a, b in itertools.pairwise(ends)]
    assert merged_epochs(pieces) == epochs_in(lineage, ends[0], ends[-1] - 1)


@given(starts=cuts, span=cuts)
def test_a_piece_of_a_log_is_within_its_lineage(
    starts: list[int], span: list[int]
) -> None:
    lineage = epochs(*enumerate(starts))
    own = epochs_in(lineage, span[0], span[-1])
    pairs = [(entry.epoch, entry.start_offset) for entry in own]
    assert is_within_lineage(segment(span[-1], *pairs), lineage) == bool(own)


# Each was checked with Kafka 4.3.0's RemoteLogManager.isRemoteSegmentWithinLeaderEpochs.
@pytest.mark.parametrize(
    ("case", "of"),
    [
        (segment(50, (5, 10), (7, 15)), LINEAGE),
        (segment(99, (7, 15)), LINEAGE),
        (segment(150, (5, 14), (7, 15), (9, 100)), LINEAGE),
        # The log's head was deleted: its first epoch now starts later.
        (segment(150, (5, 14), (7, 15), (9, 100)), epochs((7, 51), (9, 100))),
        (segment(60, (7, 15)), epochs((7, 51), (9, 100))),
        # Epoch 6 of the segment, epoch 8 of the log ended where they began.
        (segment(50, (5, 10), (6, 15), (7, 15)), LINEAGE),
        (segment(150, (7, 20), (9, 100)), epochs((7, 15), (8, 100), (9, 100))),
    ],
)
def test_within_the_lineage(case: Segment, of: tuple[LeaderEpoch, ...]) -> None:
    assert is_within_lineage(case, of)


@pytest.mark.parametrize(
    ("case", "of", "why"),
    [
        (segment(100, (7, 15)), LINEAGE, "it goes on where the next epoch begins"),
        (segment(50, (7, 14)), LINEAGE, "it begins before its epoch does"),
        (segment(50, (5, 10), (7, 16)), LINEAGE, "a later epoch begins elsewhere"),
        (segment(150, (5, 10), (9, 100)), LINEAGE, "it knows nothing of epoch 7"),
        (segment(50, (5, 10), (6, 12), (7, 15)), LINEAGE, "the log knows nothing of epoch 6"),
        (segment(50, (6, 20)), LINEAGE, "its only epoch is unknown"),
        (segment(150, (10, 120)), LINEAGE, "its epoch is newer than the log's"),
        (segment(5, (3, 0)), LINEAGE, "its epoch is older than the log's"),
        (segment(5), LINEAGE, "it has no epochs"),
        (segment(5, (3, 0)), (), "the log has no epochs"),
    ],
)
def test_outside_the_lineage(case: Segment, of: tuple[LeaderEpoch, ...], why: str) -> None:
    assert not is_within_lineage(case, of), why

"""The partition that is published first is one in which a canary can count, as soon as possible."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tests.compaction.builders import KEY, a_chain, a_segment, a_state, retired
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.model.serving import LocalRange
from tierfold.compaction.verification.first_canary import (
    FirstCandidate,
    dropped_bytes,
    first_candidate,
    first_to_publish,
)

NOW_MS: Final = 1_000


def numbered(number: int) -> PartitionKey:
    return replace(KEY, partition=number)


def candidate(number: int, dropped: int, until_ms: int | None) -> FirstCandidate:
    return FirstCandidate(key=numbered(number), dropped_bytes=dropped, local_until_ms=until_ms)


def chosen(*candidates: FirstCandidate) -> int | None:
    found = {first_to_publish(some, NOW_MS) for some in (candidates, candidates[::-1])}
    assert len(found) == 1  # In whatever order they are given.
    key = found.pop()
    return None if key is None else key.partition


def test_nothing_is_chosen_where_nothing_was_dropped() -> None:
    assert chosen() is None
    assert chosen(candidate(0, 0, 5), candidate(1, 0, None)) is None


def test_one_without_local_copies_is_chosen_before_one_with_them() -> None:
    assert chosen(candidate(0, 9, NOW_MS + 1), candidate(1, 1, NOW_MS), candidate(2, 0, 0)) == 1
    assert chosen(candidate(0, 9, NOW_MS + 2), candidate(1, 1, NOW_MS + 1)) == 1
    assert chosen(candidate(0, 9, None), candidate(1, 1, NOW_MS + 9)) == 1
    assert chosen(candidate(0, 9, None)) == 0


def test_of_several_without_local_copies_the_one_is_chosen_that_dropped_most() -> None:
    assert chosen(candidate(0, 1, 5), candidate(1, 3, NOW_MS), candidate(2, 2, 0)) == 1
    assert chosen(candidate(1, 3, 5), candidate(0, 3, 9)) == 0


UPLOADS: Final = a_chain(10, 10, 10, 10)
"""Of 1000 bytes each."""
SMALL: Final = a_segment(10, 19, segment_id="small", size_bytes=400, origin=Compacted("earlier"))
SAME: Final = a_segment(20, 39, segment_id="same", size_bytes=2000, origin=Compacted("earlier"))
ROW: Final = a_state((UPLOADS[0], SMALL, SAME), retired=tuple(map(retired, UPLOADS[1:])))
RANGES: Final = (LocalRange(end_offset=9, until_ms=1), LocalRange(end_offset=29, until_ms=2))


def test_a_segment_dropped_what_it_is_smaller_by_than_its_sources() -> None:
    assert dropped_bytes(ROW, SMALL) == 600
    assert dropped_bytes(ROW, SAME) == 0
    assert dropped_bytes(ROW, replace(SAME, size_bytes=2100)) == 0


def test_a_candidate_is_local_until_its_first_smaller_segment_is_not() -> None:
    assert first_candidate(ROW, RANGES, 10) == FirstCandidate(
        key=KEY, dropped_bytes=600, local_until_ms=2
    )
    assert first_candidate(ROW, RANGES[:1], 10).local_until_ms is None
    # Not until one of which nothing was dropped is not.
    whole = replace(SMALL, size_bytes=1000)
    second = replace(ROW, segments=(UPLOADS[0], whole, replace(SAME, size_bytes=1500)))
    assert first_candidate(second, RANGES, 0).local_until_ms is None
    smaller = replace(ROW, segments=(UPLOADS[0], SMALL, replace(SAME, size_bytes=1500)))
    assert first_candidate(smaller, RANGES, 0).dropped_bytes == 1100


def test_what_the_log_start_has_passed_does_not_count() -> None:
    assert first_candidate(ROW, RANGES, 11) == FirstCandidate(
        key=KEY, dropped_bytes=0, local_until_ms=None
    )

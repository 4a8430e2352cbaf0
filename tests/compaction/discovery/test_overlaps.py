"""Which uploads are taken, and from which offset on each counts (SEMANTICS 1).

A segment is drawn as `first-last`; `[` marks the effective start of a taken one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.builders import a_segment, epochs, segment_id
from tierfold.compaction.discovery.overlaps import (
    Chain,
    Comparison,
    Cut,
    OverlapProof,
    chain_of,
    comparisons,
    with_proof,
)
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.segments import Segment


def upload(drawn: str, **fields: int | str) -> Segment:
    """`first-last`, and a letter where several share both."""
    start, end = map(int, drawn.rstrip("abc").split("-"))
    return a_segment(start, end, segment_id=segment_id(drawn), **fields)


def name(segment: Segment) -> str:
    return segment.segment_id.rstrip("A").rstrip("_")


def drawn(chain: Chain) -> str:
    """`8[11-15 | superseded | waiting`."""
    taken = (
        f"{segment.own_start_offset}[{segment.start_offset}-{segment.end_offset}"
        if segment.skipped_offsets
        else name(segment)
        for segment in chain.taken
    )
    lists = taken, map(name, chain.superseded), map(name, chain.waiting)
    return " | ".join(" ".join(names) for names in lists).strip()


@pytest.mark.parametrize(
    ("reached", "uploads", "expected"),
    [
        (-1, "0-10 11-20", "0-10 11-20 |  |"),
        (10, "8-15", "8[11-15 |  |"),
        (10, "8-15 16-23", "8[11-15 16-23 |  |"),
        # Each overlaps the one before it.
        (10, "8-15 12-20 18-30", "8[11-15 12[16-20 18[21-30 |  |"),
        # One holds the other.
        (10, "8-30 12-20", "8[11-30 | 12-20 |"),
        (10, "11-30 11-20 11-15", "11-30 | 11-20 11-15 |"),
        (10, "11-20b 11-20a", "11-20a | 11-20b |"),
        # Offsets that are live already; a segment that ends there, and one that ends one later.
        (10, "0-10 3-5", "| 0-10 3-5 |"),
        (10, "3-10 3-11", "3[11-11 | 3-10 |"),
        # Beyond a gap.
        (10, "12-20", "|  | 12-20"),
        (10, "11-15 17-20 18-30", "11-15 |  | 17-20 18-30"),
        (10, "8-15 17-20 3-16", "3[11-16 17-20 | 8-15 |"),
        (-1, "", "|  |"),
    ],
)
def test_each_upload_that_reaches_further_is_taken(
    reached: int, uploads: str, expected: str
) -> None:
    segments = [upload(name) for name in uploads.split()]
    for arrived in (segments, segments[::-1]):
        assert drawn(chain_of(reached, arrived)) == expected


def test_a_cut_segment_counts_from_its_effective_start_with_the_epochs_from_there_on() -> None:
    whole = replace(upload("8-15"), leader_epochs=epochs((0, 8), (1, 10), (2, 13)))
    (taken,) = chain_of(10, [whole]).taken
    assert taken == replace(
        whole,
        start_offset=11,
        skipped_offsets=3,
        leader_epochs=epochs((1, 11), (2, 13)),
    )
    assert (taken.own_start_offset, taken.log_bytes) == (8, whole.log_bytes)


def pairs(live: list[Segment], chain: Chain) -> list[str]:
    return [
        f"{name(comparison.first)} {name(comparison.second)}:"
        f" {comparison.start_offset}-{comparison.end_offset}"
        for comparison in comparisons(live, chain)
    ]


LIVE: Final = [upload("0-4"), upload("5-10")]


@pytest.mark.parametrize(
    ("uploads", "expected"),
    [
        ("11-15", []),
        ("8-15", ["5-10 8-15: 8-10"]),
        ("3-15", ["0-4 3-15: 3-4", "3-15 5-10: 5-10"]),
        ("10-15", ["5-10 10-15: 10-10"]),
        ("8-15 12-20", ["5-10 8-15: 8-10", "8-15 12-20: 12-15"]),
        # A superseded segment must agree with the taken one, too.
        ("11-20 12-14", ["11-20 12-14: 12-14"]),
        ("11-20a 11-20b", ["11-20a 11-20b: 11-20"]),
        # Nothing is taken, so nothing is compared.
        ("12-20 13-15", []),
        ("5-10a 3-8", []),
    ],
)
def test_segments_that_share_offsets_are_compared_if_one_is_taken(
    uploads: str, expected: list[str]
) -> None:
    assert pairs(LIVE, chain_of(10, [upload(name) for name in uploads.split()])) == expected


def test_no_comparison_is_needed_with_segments_that_tierfold_wrote() -> None:
    ours = replace(LIVE[1], origin=Compacted("earlier"))
    assert pairs([LIVE[0], ours], chain_of(10, [upload("3-15")])) == ["0-4 3-15: 3-4"]


def test_live_segments_are_not_compared_with_each_other_by_their_own_ranges() -> None:
    cut = replace(upload("3-10"), start_offset=5, skipped_offsets=2)
    assert pairs([LIVE[0], cut], chain_of(10, [upload("11-15")])) == []
    assert pairs([LIVE[0], cut], chain_of(10, [upload("4-15")])) == [
        "0-4 4-15: 4-4",
        "3-10 4-15: 4-10",
    ]


def test_the_proof_is_noted_and_the_bytes_are_counted_from_the_effective_start_on() -> None:
    chain = chain_of(10, [upload("8-15"), upload("12-14"), upload("16-20")])
    compared = comparisons(LIVE, chain)
    proof = OverlapProof(
        cuts={segment_id("8-15"): Cut(skipped_bytes=300, first_timestamp_ms=77)}
    )
    cut, whole = with_proof(chain, compared, proof)
    assert (cut.size_bytes, cut.skipped_bytes, cut.log_bytes) == (700, 300, 1000)
    assert cut.first_timestamp_ms == 77
    assert cut.agrees_with == tuple(sorted((segment_id("5-10"), segment_id("12-14"))))
    assert whole == upload("16-20")


SPANS: Final = st.tuples(st.integers(0, 30), st.integers(0, 12)).map(
    lambda drawn: f"{drawn[0]}-{drawn[0] + drawn[1]}"
)


@given(st.lists(SPANS, max_size=7, unique=True), st.integers(-1, 12), st.data())
def test_the_chain_equals_a_dictionary_of_offsets(
    uploads: list[str], reached: int, data: st.DataObject
) -> None:
    segments = [upload(name) for name in uploads]
    chain = chain_of(reached, data.draw(st.permutations(segments)))
    # The shortest model: the next offset, as long as any upload holds it.
    spans = (range(segment.start_offset, segment.next_offset) for segment in segments)
    held = {offset for span in spans for offset in span}
    end = reached
    while end + 1 in held:
        end += 1
    given_by = [
        offset
        for segment in chain.taken
        for offset in range(segment.start_offset, segment.next_offset)
    ]
    assert given_by == list(range(reached + 1, end + 1))
    assert chain.reached == end
    assert all(segment.end_offset <= end for segment in chain.superseded)
    assert all(segment.own_start_offset > end + 1 for segment in chain.waiting)
    everything = (*chain.taken, *chain.superseded, *chain.waiting)
    assert sorted(segment.segment_id for segment in everything) == sorted(
        segment.segment_id for segment in segments
    )


@given(st.lists(SPANS, max_size=7, unique=True), st.integers(0, 12), st.integers(0, 12))
def test_every_shared_offset_of_an_upload_that_counts_is_compared(
    uploads: list[str], first: int, second: int
) -> None:
    live = [upload(f"0-{first}"), upload(f"{first + 1}-{first + 1 + second}")]
    segments = [s for s in map(upload, uploads) if s.end_offset > live[1].end_offset]
    chain = chain_of(live[1].end_offset, segments)
    compared = {
        (frozenset((comparison.first.segment_id, comparison.second.segment_id)), offset)
        for comparison in comparisons(live, chain)
        for offset in range(comparison.start_offset, comparison.end_offset + 1)
    }
    unknown = [*chain.taken, *chain.superseded]
    shared = {
        (frozenset((one.segment_id, other.segment_id)), offset)
        for one in unknown
        for other in (*live, *unknown)
        if one.segment_id != other.segment_id
        for offset in range(one.own_start_offset, one.next_offset)
        if other.own_start_offset <= offset <= other.end_offset
    }
    assert compared == (shared if chain.taken else set())


def test_the_first_segment_of_a_comparison_starts_first() -> None:
    live, new = upload("5-10"), upload("8-15")
    (found,) = comparisons([live], chain_of(10, [new]))
    (taken,) = chain_of(10, [new]).taken
    assert found == Comparison(first=live, second=taken, start_offset=8, end_offset=10)

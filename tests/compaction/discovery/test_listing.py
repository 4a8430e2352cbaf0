"""Listed segments are classified against the catalog, and missing live data is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.builders import (
    a_chain,
    a_segment,
    a_state,
    leave_alone,
    listed,
    retired,
    segment_id,
)
from tierfold.compaction.discovery.listing import (
    Classified,
    ListedSegment,
    classify,
    keys_are_there,
    stored_sizes,
)
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.storage.tiers.local_tiered_storage import REQUIRED_PARTS


def ids(segments: tuple[ListedSegment, ...]) -> list[str]:
    return [segment.segment_id for segment in segments]


def found(classified: Classified) -> dict[str, list[str]]:
    """The lists that are not empty, by name."""
    names = ("known", "retired", "unknown", "left_alone")
    return {name: ids(getattr(classified, name)) for name in names if getattr(classified, name)}


A, B, C, D = (segment_id(start) for start in (0, 100, 200, 300))
CHAIN = a_chain(100, 100, 100, 100)


def test_a_complete_segment_may_lack_only_the_transaction_index() -> None:
    segment = listed(CHAIN[0])
    assert segment.is_complete
    assert segment.part_bytes("log") == 1000
    assert segment.part_bytes("txnindex") is None


def test_each_missing_part_is_reported() -> None:
    for part in REQUIRED_PARTS:
        segment = listed(CHAIN[0], lacking=[part])
        assert not segment.is_complete
        assert segment.missing_parts == (part,)


def test_without_a_row_every_segment_is_unknown_complete_or_not() -> None:
    classified = classify([listed(CHAIN[1], lacking=["index"]), listed(CHAIN[0])], None)
    assert found(classified) == {"unknown": [A, B]}
    assert classified.corruptions == ()


def test_a_segment_that_no_row_names_is_unknown_wherever_it_starts() -> None:
    stray = a_segment(100, 199, segment_id=segment_id("stray"))
    staged = a_segment(0, 199, segment_id=segment_id("staged"))
    listing = [*map(listed, CHAIN), listed(stray), listed(staged, lacking=["snapshot"])]
    classified = classify(listing, a_state(CHAIN[:2]))
    assert found(classified) == {
        "known": [A, B],
        "unknown": [staged.segment_id, stray.segment_id, C, D],
    }
    assert classified.corruptions == ()


def test_a_listed_segment_names_its_missing_parts() -> None:
    segment = listed(CHAIN[2], lacking=["index", "log"])
    assert (segment.has_log, segment.lacking) == (False, ".log, .index")
    assert (listed(CHAIN[2], lacking=["index"]).has_log, listed(CHAIN[2]).lacking) == (True, "")


def test_an_empty_log_is_a_log() -> None:
    assert listed(a_segment(0, 99, size_bytes=0)).has_log


def test_a_retired_segment_never_comes_back() -> None:
    # A and B were merged into one segment; their objects are still there, even one at the end.
    merged = a_segment(0, 199, segment_id=segment_id("merged"))
    last = a_segment(200, 299, segment_id=segment_id("last"))
    state = a_state([merged], retired=tuple(map(retired, [*CHAIN[:2], last])))
    classified = classify([listed(segment) for segment in [merged, *CHAIN[:2], last]], state)
    assert found(classified) == {
        "known": [merged.segment_id],
        "retired": [A, B, last.segment_id],
    }


INDEXED = a_segment(0, 99, has_transaction_index=True)
HEAD = a_segment(0, 9, segment_id=B)
CUT = replace(CHAIN[0], start_offset=10, skipped_offsets=10, size_bytes=900, skipped_bytes=100)
"""`HEAD` gives 0-9; the names of this one's objects and its .log still start at 0."""


@pytest.mark.parametrize(
    ("live", "listing", "corruption"),
    [
        (CHAIN[:2], [listed(CHAIN[0])], f"{B} (start 100) is gone from the tier"),
        (
            CHAIN[:2],
            [listed(CHAIN[0]), listed(CHAIN[1], lacking=["snapshot"])],
            f"{B} (start 100) lacks .snapshot",
        ),
        (
            CHAIN[:1],
            [listed(a_segment(0, 99, size_bytes=999))],
            f"{A} (start 0) has a .log of 999 bytes, the catalog says 1000",
        ),
        ((INDEXED,), [listed(INDEXED)], ""),
        (
            (INDEXED,),
            [listed(CHAIN[0])],
            f"{A} (start 0) lacks the .txnindex that the catalog lists",
        ),
        (
            CHAIN[:1],
            [listed(a_segment(7, 99, segment_id=A))],
            f"{A} (start 0) is listed with start 7",
        ),
        ((HEAD, CUT), [listed(HEAD), listed(CHAIN[0])], ""),
        (
            (HEAD, CUT),
            [listed(HEAD), listed(replace(CUT, skipped_bytes=99))],
            f"{A} (start 0) has a .log of 999 bytes, the catalog says 1000",
        ),
        (
            (HEAD, CUT),
            [listed(HEAD), listed(replace(CUT, skipped_offsets=9))],
            f"{A} (start 0) is listed with start 1",
        ),
    ],
)
def test_a_live_segment_is_listed_as_the_catalog_says(
    live: tuple[Segment, ...], listing: list[ListedSegment], corruption: str
) -> None:
    expected = (f"live segment {corruption}",) if corruption else ()
    assert classify(listing, a_state(live)).corruptions == expected


@st.composite
def listings(draw: st.DrawFn) -> tuple[list[ListedSegment], PartitionState | None]:
    """A row of some of the listed segments, and other segments of every kind."""
    live = a_chain(*draw(st.lists(st.integers(1, 4), max_size=4)))
    gone = tuple(
        a_segment(start, start + 1, segment_id=segment_id(f"r{place}"))
        for place, start in enumerate(draw(st.lists(st.integers(0, 20), max_size=2)))
    )
    unknown = [
        listed(
            a_segment(start, start + 1, segment_id=segment_id(f"u{place}")),
            lacking=["index"] if is_partial else [],
        )
        for place, (start, is_partial) in enumerate(
            draw(st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=5))
        )
    ]
    listing = draw(st.permutations([*map(listed, live), *map(listed, gone), *unknown]))
    ids = draw(st.lists(st.sampled_from(listing), max_size=2)) if listing else []
    agreed = leave_alone(*(segment.segment_id for segment in ids))
    state = a_state(live, retired=tuple(map(retired, gone)), consents=(agreed,))
    return listing, draw(st.sampled_from([state, None]))


def test_what_a_person_leaves_alone_is_not_unknown_unless_the_row_names_it() -> None:
    listing = [*map(listed, CHAIN)]
    state = a_state(CHAIN[:1], consents=(leave_alone(A, B), leave_alone(D)))
    assert found(classify(listing, state)) == {"known": [A], "unknown": [C], "left_alone": [B, D]}


@given(listings())
def test_every_listed_segment_is_in_exactly_one_list(
    drawn: tuple[list[ListedSegment], PartitionState | None],
) -> None:
    listing, state = drawn
    lists = found(classify(listing, state))
    assert sorted(name for names in lists.values() for name in names) == sorted(
        segment.segment_id for segment in listing
    )


@given(listings(), st.data())
def test_the_order_of_the_listing_does_not_matter(
    drawn: tuple[list[ListedSegment], PartitionState | None], data: st.DataObject
) -> None:
    listing, state = drawn
    shuffled = data.draw(st.permutations(listing))
    assert classify(shuffled, state) == classify(listing, state)


ENCODED = replace(CHAIN[0], stored_log_bytes=700, stored_indexes_bytes=50)
"""A live segment whose layout stores its parts encoded, in three objects."""


def encoded(**sizes: int | None) -> ListedSegment:
    """`ENCODED` in a listing, with other sizes; None: the object is gone."""
    found = {"indexes": 50, "log": 700, "manifest": 7} | sizes
    parts = tuple(sorted((suffix, size) for suffix, size in found.items() if size is not None))
    missing = tuple(suffix for suffix, size in found.items() if size is None)
    return replace(listed(ENCODED), parts=parts, missing_parts=missing)


def test_stored_sizes_are_compared_where_the_layout_encodes() -> None:
    assert stored_sizes(ENCODED) == {"log": 700, "indexes": 50}
    assert stored_sizes(CHAIN[0]) == {"log": 1000}
    state = a_state((ENCODED,))
    for manifest in (7, 8, 700):
        assert classify([encoded(manifest=manifest)], state).corruptions == ()
    for suffix, size in (("log", 1000), ("log", 699), ("indexes", 51)):
        (found,) = classify([encoded(**{suffix: size})], state).corruptions
        assert f"has a .{suffix} of {size} bytes, the catalog says" in found
    (found,) = classify([encoded(manifest=None)], state).corruptions
    assert found.endswith("lacks .manifest")


def test_the_transaction_index_is_no_object_of_its_own_where_all_are_one() -> None:
    segment = replace(ENCODED, has_transaction_index=True)
    assert classify([encoded()], a_state((segment,))).corruptions == ()


def test_keys_can_be_read_where_their_objects_are() -> None:
    assert keys_are_there(ENCODED, encoded())
    assert not keys_are_there(ENCODED, encoded(manifest=None))
    plain, with_index = CHAIN[0], replace(CHAIN[0], has_transaction_index=True)
    assert keys_are_there(plain, listed(plain, lacking=["snapshot"]))
    assert not keys_are_there(plain, listed(plain, lacking=["log"]))
    assert keys_are_there(with_index, listed(with_index))
    assert not keys_are_there(with_index, listed(plain))

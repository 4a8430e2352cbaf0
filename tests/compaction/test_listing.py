from __future__ import annotations

from builders import a_chain, a_segment, a_state, listed, retired, segment_id
from hypothesis import given
from hypothesis import strategies as st

from compaction.listing import REQUIRED_PARTS, Classified, ListedSegment, classify
from compaction.segments import PartitionState


def ids(segments: tuple[ListedSegment, ...]) -> list[str]:
    return [each.segment_id for each in segments]


def found(classified: Classified) -> dict[str, list[str]]:
    """The lists that are not empty, by name."""
    names = ("known", "new", "orphans", "retired", "partial", "waiting")
    return {name: ids(getattr(classified, name)) for name in names if getattr(classified, name)}


A, B, C, D = (segment_id(start) for start in (0, 100, 200, 300))
CHAIN = a_chain(100, 100, 100, 100)


def test_a_complete_segment_lacks_nothing_but_perhaps_the_transaction_index() -> None:
    each = listed(CHAIN[0])
    assert each.is_complete
    assert each.part_bytes("log") == 1000
    assert each.part_bytes("txnindex") is None


def test_each_required_part_is_missed() -> None:
    for part in REQUIRED_PARTS:
        each = listed(CHAIN[0], lacking=[part])
        assert not each.is_complete
        assert each.missing_parts == (part,)


def test_on_first_sight_every_complete_segment_is_new() -> None:
    classified = classify([listed(CHAIN[1]), listed(CHAIN[0])], None)
    assert found(classified) == {"new": [A, B]}
    assert classified.problems == ()


def test_on_first_sight_a_partial_segment_refuses_the_partition() -> None:
    classified = classify([listed(CHAIN[0]), listed(CHAIN[1], lacking=["index"])], None)
    assert classified.problems == (f"segment {B} (start 100) lacks .index",)
    assert ids(classified.partial) == [B]


def test_unknown_segments_from_the_live_end_on_are_new() -> None:
    classified = classify([listed(each) for each in CHAIN], a_state(CHAIN[:2]))
    assert found(classified) == {"known": [A, B], "new": [C, D]}
    assert (classified.notes, classified.problems) == ((), ())


def test_an_unknown_segment_below_the_live_end_is_an_orphan_complete_or_not() -> None:
    stray = a_segment(100, 199, segment_id=segment_id("stray"))
    staged = a_segment(0, 199, segment_id=segment_id("staged"))
    listing = [*map(listed, CHAIN[:2]), listed(stray), listed(staged, lacking=["snapshot"])]
    classified = classify(listing, a_state(CHAIN[:2]))
    assert found(classified) == {
        "known": [A, B],
        "orphans": [staged.segment_id, stray.segment_id],
    }


def strange(segment: ListedSegment) -> str:
    return (
        f"segment {segment.segment_id} (start {segment.start_offset}) begins inside the live range"
        " and no run of ours wrote it: it is not read; check the end offset of the segment that"
        " covers it"
    )


def test_an_orphan_that_begins_where_none_of_ours_can_is_told() -> None:
    # A merged segment lives from 0 on; attempts of ours began where it or its originals did.
    merged = a_segment(0, 199, segment_id=segment_id("merged"))
    state = a_state([merged], retired=tuple(map(retired, CHAIN[:2])))
    starts = (0, 50, 100, 199)
    strays = [listed(a_segment(at, 300, segment_id=segment_id(f"s{at}"))) for at in starts]
    classified = classify([listed(merged), *map(listed, CHAIN[:2]), *strays], state)
    assert classified.orphans == tuple(strays)
    assert classified.notes == (strange(strays[1]), strange(strays[3]))
    assert classified.problems == ()


def test_an_orphan_below_the_live_range_is_not_inside_it() -> None:
    state = a_state(CHAIN[1:2], log_start_offset=100)
    classified = classify([listed(CHAIN[0]), listed(CHAIN[1])], state)
    assert found(classified) == {"known": [B], "orphans": [A]}
    assert classified.notes == ()


def test_what_was_retired_never_comes_back() -> None:
    # 0:[A][B] were merged into one; their objects still lie there. Even one that lay at the end.
    merged = a_segment(0, 199, segment_id=segment_id("merged"))
    last = a_segment(200, 299, segment_id=segment_id("last"))
    state = a_state([merged], retired=tuple(map(retired, [*CHAIN[:2], last])))
    classified = classify([listed(each) for each in [merged, *CHAIN[:2], last]], state)
    assert found(classified) == {
        "known": [merged.segment_id],
        "retired": [A, B, last.segment_id],
    }


def test_an_upload_in_progress_holds_what_lies_behind_it_back() -> None:
    listing = [*map(listed, CHAIN[:2]), listed(CHAIN[2], lacking=["index", "log"])]
    classified = classify([*listing, listed(CHAIN[3])], a_state(CHAIN[:2]))
    assert found(classified) == {"known": [A, B], "partial": [C], "waiting": [D]}
    assert classified.problems == ()
    assert classified.notes == (
        f"segment {C} (start 200) lacks .log, .index: not taken, nor what lies behind it,"
        " until its upload is complete",
    )


def test_a_gap_beyond_the_live_end_is_waited_for() -> None:
    classified = classify([*map(listed, CHAIN[:2]), listed(CHAIN[3])], a_state(CHAIN[:2]))
    assert found(classified) == {"known": [A, B], "waiting": [D]}
    assert classified.notes == (
        f"nothing is taken yet beyond offset 199: the next listed is segment {D} (start 300),"
        " which leaves a gap",
    )


def test_an_upload_that_was_made_again_is_taken_beside_its_dead_attempt() -> None:
    dead = a_segment(200, 299, segment_id=segment_id("dead"))
    listing = [*map(listed, CHAIN), listed(dead, lacking=["leader_epoch_checkpoint"])]
    classified = classify(listing, a_state(CHAIN[:2]))
    assert found(classified) == {"known": [A, B], "new": [C, D], "partial": [dead.segment_id]}
    assert "its upload failed and was made again" in classified.notes[0]


def problems(listing: list[ListedSegment], state: PartitionState) -> tuple[str, ...]:
    return classify(listing, state).problems


def test_live_data_that_is_gone_refuses_the_partition() -> None:
    state = a_state(CHAIN[:2])
    assert problems([listed(CHAIN[0])], state) == (
        f"live segment {B} (start 100) is gone from the tier",
    )


def test_a_live_segment_without_a_required_part_refuses_the_partition() -> None:
    listing = [listed(CHAIN[0]), listed(CHAIN[1], lacking=["snapshot"])]
    assert problems(listing, a_state(CHAIN[:2])) == (
        f"live segment {B} (start 100) lacks .snapshot",
    )


def test_a_live_log_of_another_size_refuses_the_partition() -> None:
    cut = a_segment(0, 99, size_bytes=999)
    assert problems([listed(cut)], a_state(CHAIN[:1])) == (
        f"live segment {A} (start 0) has a .log of 999 bytes, the catalog says 1000",
    )


def test_a_promised_transaction_index_that_is_absent_refuses_the_partition() -> None:
    promised = a_segment(0, 99, has_transaction_index=True)
    state = a_state([promised])
    assert problems([listed(promised)], state) == ()
    assert problems([listed(CHAIN[0])], state) == (
        f"live segment {A} (start 0) lacks the .txnindex that the catalog promises",
    )


def test_a_live_segment_under_another_start_offset_refuses_the_partition() -> None:
    moved = a_segment(7, 99, segment_id=A)
    assert problems([listed(moved)], a_state(CHAIN[:1])) == (
        f"live segment {A} (start 0) is listed with start 7",
    )


@st.composite
def listings(draw: st.DrawFn) -> tuple[list[ListedSegment], PartitionState | None]:
    """A row over some of the listed segments, and strangers of every kind beside them."""
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
    state = a_state(live, retired=tuple(map(retired, gone)))
    return listing, draw(st.sampled_from([state, None]))


@given(listings())
def test_every_listed_segment_lies_in_exactly_one_list(
    drawn: tuple[list[ListedSegment], PartitionState | None],
) -> None:
    listing, state = drawn
    lists = found(classify(listing, state))
    assert sorted(each for some in lists.values() for each in some) == sorted(
        each.segment_id for each in listing
    )


@given(listings())
def test_what_is_taken_is_complete_and_right_beyond_the_live_end(
    drawn: tuple[list[ListedSegment], PartitionState | None],
) -> None:
    listing, state = drawn
    classified = classify(listing, state)
    assert all(each.is_complete for each in classified.new)
    if state is None:
        return
    starts = [each.start_offset for each in classified.new]
    assert starts == sorted(starts)
    assert starts[:1] in ([], [state.next_offset])
    assert all(each.start_offset < state.next_offset for each in classified.orphans)
    of_orphans = [note for note in classified.notes if "begins inside" in note]
    held_up = len(classified.notes) - len(of_orphans)
    assert bool(classified.waiting or classified.partial) == bool(held_up)
    assert len(of_orphans) <= len(classified.orphans)


@given(listings(), st.data())
def test_the_order_of_the_listing_does_not_matter(
    drawn: tuple[list[ListedSegment], PartitionState | None], data: st.DataObject
) -> None:
    listing, state = drawn
    shuffled = data.draw(st.permutations(listing))
    assert classify(shuffled, state) == classify(listing, state)

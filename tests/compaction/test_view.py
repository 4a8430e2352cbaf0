from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from builders import (
    KEY,
    LINEAGE,
    a_chain,
    a_segment,
    a_state,
    a_view,
    cleaned_to,
    listed,
    retired,
    segment_id,
)
from hypothesis import given
from hypothesis import strategies as st

from compaction.listing import classify
from compaction.segments import LeaderEpoch, PartitionState, Segment
from compaction.view import (
    PartitionView,
    Refusal,
    RefusalReason,
    first_break,
    fresh_state,
    state_with_new,
    view_of,
)

A, B, C, D = (segment_id(start) for start in (0, 100, 200, 300))
CHAIN = a_chain(100, 100, 100, 100)


def viewed(
    new: Sequence[Segment],
    state: PartitionState | None = None,
    lineage: tuple[LeaderEpoch, ...] = LINEAGE,
) -> PartitionView | Refusal:
    """The view of a tier that holds the row's live segments and `new`."""
    live = () if state is None else state.segments
    classified = classify([listed(each) for each in (*live, *new)], state)
    taken = {each.segment_id for each in classified.new}
    sighted = [each for each in new if each.segment_id in taken]
    return view_of(KEY, classified, sighted, state, lineage)


def seen(
    new: Sequence[Segment],
    state: PartitionState | None = None,
    lineage: tuple[LeaderEpoch, ...] = LINEAGE,
) -> PartitionView:
    view = viewed(new, state, lineage)
    assert isinstance(view, PartitionView)
    return view


def refused(
    new: Sequence[Segment],
    state: PartitionState | None = None,
    lineage: tuple[LeaderEpoch, ...] = LINEAGE,
) -> Refusal:
    refusal = viewed(new, state, lineage)
    assert isinstance(refusal, Refusal)
    return refusal


def epochs(*pairs: tuple[int, int]) -> tuple[LeaderEpoch, ...]:
    return tuple(LeaderEpoch(epoch=epoch, start_offset=start) for epoch, start in pairs)


def test_first_sight_takes_a_contiguous_log() -> None:
    view = seen([CHAIN[1], CHAIN[0]])
    assert view.segments == CHAIN[:2]
    assert view.new_ids == (A, B)
    assert (view.log_start_offset, view.next_offset, view.live_bytes) == (0, 200, 2000)
    assert view.cleaner_offset is None


def test_first_sight_of_a_log_whose_head_is_gone_starts_there() -> None:
    assert seen(CHAIN[2:]).log_start_offset == 200


def test_first_sight_of_nothing_is_an_empty_view() -> None:
    view = seen([])
    assert (view.segments, view.log_start_offset, view.next_offset) == ((), 0, 0)


def test_first_sight_refuses_a_gap_and_names_both_sides() -> None:
    refusal = refused([CHAIN[0], CHAIN[2]])
    assert refusal.reason is RefusalReason.GAP
    assert refusal.detail == f"segment {A} ends at offset 99, segment {C} starts at 200"


def test_first_sight_refuses_an_overlap() -> None:
    refusal = refused([CHAIN[0], a_segment(50, 199, segment_id=segment_id("over"))])
    assert refusal.reason is RefusalReason.OVERLAP
    assert segment_id("over") in refusal.detail


def test_the_way_out_of_an_overlap_is_the_lost_catalog_before_any_segment_is_moved() -> None:
    # A replacement overlaps its originals; without the catalog each could be the wrong one.
    merged = a_segment(0, 199, segment_id=segment_id("merged"))
    remedy = refused([*CHAIN[:2], merged]).remedy
    assert remedy == (
        "If tierfold has compacted this tier before, its catalog is missing: bring `_tierfold`"
        " back, or name it with --catalog. Only if it never has, move the segment that the"
        " brokers do not name out of the tier."
    )


def test_first_sight_refuses_two_segments_with_one_start() -> None:
    refusal = refused([CHAIN[0], CHAIN[1], a_segment(100, 199, segment_id=segment_id("twin"))])
    assert refusal.reason is RefusalReason.OVERLAP
    assert B in refusal.detail
    assert segment_id("twin") in refusal.detail


def test_first_sight_refuses_a_partial_segment() -> None:
    classified = classify([listed(CHAIN[0], lacking=["log"])], None)
    refusal = view_of(KEY, classified, (), None, LINEAGE)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is RefusalReason.PARTIAL_SEGMENT
    assert A in refusal.detail


def test_live_data_that_is_gone_refuses_with_its_own_reason() -> None:
    state = a_state(CHAIN[:2])
    refusal = view_of(KEY, classify([listed(CHAIN[0])], state), (), state, LINEAGE)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is RefusalReason.DATA_GONE
    assert B in refusal.detail


def test_new_segments_chain_to_the_live_end() -> None:
    view = seen(CHAIN[2:], a_state(CHAIN[:2], log_start_offset=30))
    assert view.segments == CHAIN
    assert view.new_ids == (C, D)
    assert view.log_start_offset == 30
    assert view.notes == ()


def test_with_a_row_a_gap_behind_a_new_segment_waits_and_refuses_nothing() -> None:
    # | live 0-199 | C 200-299 | nothing at 300 | later 400-499
    later = a_segment(400, 499)
    view = seen([CHAIN[2], later], a_state(CHAIN[:2]))
    assert view.segments == CHAIN[:3]
    assert view.notes == (
        f"not taken yet, for offset 300 is missing below them: {later.segment_id}",
    )


def test_with_a_row_a_segment_that_a_taken_one_covers_is_an_orphan() -> None:
    covered = a_segment(250, 299, segment_id=segment_id("covered"))
    view = seen([CHAIN[2], covered, CHAIN[3]], a_state(CHAIN[:2]))
    assert view.segments == CHAIN
    assert [each.segment_id for each in view.orphans] == [covered.segment_id]


def test_with_a_row_two_new_segments_with_one_start_wait() -> None:
    twin = a_segment(200, 299, segment_id=segment_id("twin"))
    view = seen([CHAIN[2], twin], a_state(CHAIN[:2]))
    assert view.segments == CHAIN[:2]
    assert view.notes == (
        f"{C} and {twin.segment_id} both start at offset 200: not taken until one is gone:"
        f" {C}, {twin.segment_id}",
    )


def test_a_segment_of_another_history_is_set_apart() -> None:
    # Epoch 1's leader uploaded 200-299; the log went on from 200 under epoch 2 without it.
    lineage = epochs((0, 0), (2, 200))
    lost = a_segment(200, 299, segment_id=segment_id("lost"), leader_epochs=epochs((1, 200)))
    ours = replace(CHAIN[2], leader_epochs=epochs((2, 200)))
    for state in (None, a_state(CHAIN[:2])):
        new = [lost, ours] if state else [*CHAIN[:2], lost, ours]
        view = seen(new, state, lineage)
        assert view.segments == (*CHAIN[:2], ours)
        assert view.out_of_lineage == (lost,)


def test_first_sight_names_what_it_sets_apart() -> None:
    lineage = epochs((0, 0), (2, 200))
    lost = [
        a_segment(start, start + 99, leader_epochs=epochs((1, start)), segment_id=segment_id(name))
        for start, name in ((200, "lost"), (300, "too"))
    ]
    ours = replace(CHAIN[2], leader_epochs=epochs((2, 200)))
    assert seen([*CHAIN[:2], *lost, ours], None, lineage).notes == (
        "set apart as outside the leader epoch lineage, not read:"
        f" segment {segment_id('lost')} (offsets 200 to 299),"
        f" segment {segment_id('too')} (offsets 300 to 399)",
    )
    assert seen([*CHAIN[:2], ours], None, lineage).notes == ()


def test_live_segments_that_a_newer_history_cut_off_refuse_the_partition() -> None:
    ours = replace(CHAIN[2], leader_epochs=epochs((2, 200)))
    refusal = refused([ours], a_state(CHAIN[:2]), epochs((0, 0), (2, 150)))
    assert refusal.reason is RefusalReason.LINEAGE_DIVERGED
    assert B in refusal.detail
    assert A not in refusal.detail


@pytest.mark.parametrize(
    ("checkpoint", "merged"),
    [
        # No new segment: nothing was read.
        ((), ((0, 0), (1, 150))),
        # Cut off within epoch 1, where the log starts now: it begins at 150 all the same.
        (((1, 170), (2, 200)), ((0, 0), (1, 150), (2, 200))),
        # Cut off before epoch 2: the older epochs are only remembered.
        (((2, 200),), ((0, 0), (1, 150), (2, 200))),
        # Not cut off.
        (((0, 0), (1, 150), (2, 200)), ((0, 0), (1, 150), (2, 200))),
    ],
)
def test_epochs_that_a_broker_cut_off_at_its_log_start_are_remembered(
    checkpoint: tuple[tuple[int, int], ...], merged: tuple[tuple[int, int], ...]
) -> None:
    first, second = CHAIN[0], replace(CHAIN[1], leader_epochs=epochs((0, 100), (1, 150)))
    state = a_state([first, second], lineage=epochs((0, 0), (1, 150)))
    new = [replace(CHAIN[2], leader_epochs=epochs((2, 200)))] if checkpoint else []
    view = seen(new, state, epochs(*checkpoint))
    assert view.lineage == epochs(*merged)
    assert len(view.segments) == 2 + len(new)


@pytest.mark.parametrize("stale", [(3, 150), (1, 250)])
def test_an_epoch_that_the_newest_checkpoint_contradicts_is_forgotten(
    stale: tuple[int, int],
) -> None:
    # A later epoch that began earlier, or an earlier one that began later: another history.
    state = a_state(CHAIN[:2], lineage=epochs((0, 0), stale))
    view = seen([replace(CHAIN[2], leader_epochs=epochs((2, 200)))], state, epochs((2, 200)))
    assert view.lineage == epochs((0, 0), (2, 200))


def test_retired_and_waiting_are_reported() -> None:
    state = a_state(CHAIN[1:2], retired=(retired(CHAIN[0]),))
    listing = [listed(CHAIN[0]), listed(CHAIN[1]), listed(CHAIN[2], lacking=["log"])]
    view = view_of(KEY, classify(listing, state), (), state, LINEAGE)
    assert isinstance(view, PartitionView)
    assert view.retired == (listed(CHAIN[0]),)
    assert view.notes == classify(listing, state).notes != ()


def test_sighting_something_else_than_asked_is_a_callers_mistake() -> None:
    classified = classify([listed(CHAIN[0])], None)
    with pytest.raises(ValueError, match="different segments"):
        view_of(KEY, classified, CHAIN[:2], None, LINEAGE)


def test_a_fresh_row_adopts_what_was_seen_under_epoch_0() -> None:
    view = seen(CHAIN[:2])
    assert fresh_state(view) == a_state(CHAIN[:2])
    assert state_with_new(view) == a_state(CHAIN[:2])


def test_a_claimed_row_gets_the_new_segments_and_keeps_everything_else() -> None:
    state = a_state(
        CHAIN[:2], epoch=4, cleaner_offsets=cleaned_to(200), commit_id="c", owner_run="r"
    )
    lineage = epochs((0, 0), (1, 200))
    new = replace(CHAIN[2], leader_epochs=epochs((1, 200)))
    assert state_with_new(seen([new], state, lineage)) == replace(
        state, segments=(*CHAIN[:2], new), lineage=lineage
    )


def test_the_view_knows_the_cleaner_offset() -> None:
    assert a_view(CHAIN, cleaner_offsets=cleaned_to(150)).cleaner_offset == 150


@given(st.lists(st.integers(1, 9), min_size=2, max_size=8), st.data())
def test_a_missing_middle_segment_is_a_gap_of_exactly_its_offsets(
    lengths: list[int], data: st.DataObject
) -> None:
    chain = a_chain(*lengths)
    assert first_break(chain) is None
    missing = data.draw(st.integers(0, len(chain) - 1))
    refusal = first_break([each for each in chain if each is not chain[missing]])
    if missing in (0, len(chain) - 1):
        assert refusal is None
    else:
        before, after = chain[missing - 1], chain[missing + 1]
        assert refusal is not None
        assert refusal.reason is RefusalReason.GAP
        assert f"{before.end_offset}, segment {after.segment_id}" in refusal.detail


@given(st.lists(st.integers(1, 9), max_size=6), st.lists(st.integers(1, 9), max_size=6))
def test_a_log_seen_in_two_steps_is_the_log_seen_at_once(
    earlier: list[int], later: list[int]
) -> None:
    chain = a_chain(*earlier, *later)
    first = seen(chain[: len(earlier)])
    second = seen(chain[len(earlier) :], fresh_state(first))
    assert state_with_new(second) == fresh_state(seen(chain))

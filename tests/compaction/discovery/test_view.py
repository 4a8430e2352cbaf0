"""New segments must extend the live log without a gap; otherwise the partition is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.builders import (
    a_chain,
    a_state,
    cleaned_to,
    epochs,
    new_ids,
    seen,
    segment_id,
    unknown,
)
from tierfold.compaction.discovery.view import (
    PartitionView,
    RefusalReason,
    first_break,
    state_with_new,
)
from tierfold.compaction.model.segments import LeaderEpoch, PartitionState, Segment

A, B, C, D = (segment_id(start) for start in (0, 100, 200, 300))
CHAIN = a_chain(100, 100, 100, 100)


def extended(
    new: Sequence[Segment],
    state: PartitionState | None = None,
    checkpoint: tuple[LeaderEpoch, ...] = (),
) -> PartitionView:
    """The view with complete segments that no row names; `checkpoint` is that of the last one."""
    inspected = [unknown(segment) for segment in new]
    if checkpoint:
        inspected[-1] = replace(inspected[-1], checkpoint=checkpoint)
    return seen(state, inspected)


def test_without_a_row_a_contiguous_log_is_taken() -> None:
    view = extended([CHAIN[1], CHAIN[0]])
    assert view.segments == CHAIN[:2]
    assert new_ids(view) == (A, B)
    assert (view.log_start_offset, view.next_offset) == (0, 200)
    assert sum(segment.size_bytes for segment in view.segments) == 2000
    assert view.cleaner_offset is None


def test_without_a_row_an_empty_tier_is_an_empty_view() -> None:
    view = extended([])
    assert (view.segments, view.log_start_offset, view.next_offset) == ((), 0, 0)


def test_new_segments_chain_to_the_live_end() -> None:
    view = extended(CHAIN[2:], a_state(CHAIN[:2], log_start_offset=30))
    assert view.segments == CHAIN
    assert new_ids(view) == (C, D)
    assert view.log_start_offset == 30
    assert view.notes == ()


def test_a_row_without_segments_takes_the_first_one_whole() -> None:
    """Its log start may lie in a batch, as DeleteRecords leaves it: nothing is cut there."""
    emptied = a_state([], log_start_offset=150)
    view = extended(CHAIN[:3], emptied)
    assert (view.segments, view.log_start_offset) == (CHAIN[1:3], 150)
    # What lies behind a gap waits all the same.
    assert extended(CHAIN[2:], emptied).segments == ()


def test_a_fresh_row_adopts_the_view_under_epoch_0() -> None:
    view = extended(CHAIN[:2])
    assert state_with_new(view) == a_state(CHAIN[:2])


def test_a_claimed_row_gets_the_new_segments_and_keeps_everything_else() -> None:
    state = a_state(
        CHAIN[:2], epoch=4, cleaner_offsets=cleaned_to(200), commit_id="c", owner_run="r"
    )
    lineage = epochs((0, 0), (1, 200))
    new = replace(CHAIN[2], leader_epochs=epochs((1, 200)))
    assert state_with_new(extended([new], state, lineage)) == replace(
        state, segments=(*CHAIN[:2], new), lineage=lineage
    )


@given(st.lists(st.integers(1, 9), min_size=2, max_size=8), st.data())
def test_a_missing_middle_segment_is_a_gap_of_exactly_its_offsets(
    lengths: list[int], data: st.DataObject
) -> None:
    chain = a_chain(*lengths)
    assert first_break(chain) is None
    missing = data.draw(st.integers(0, len(chain) - 1))
    refusal = first_break([segment for segment in chain if segment is not chain[missing]])
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
    first = extended(chain[: len(earlier)])
    second = extended(chain[len(earlier) :], state_with_new(first))
    assert state_with_new(second) == state_with_new(extended(chain))

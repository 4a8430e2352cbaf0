"""What a look says to do next, one picture each."""

from __future__ import annotations

from tests.compaction.builders import a_segment
from tests.compaction.looks import a_look, a_row, replacement, shown, started, whole
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.steps import Done, Merge, Purpose, Send

U, V, W = a_segment(0, 9), a_segment(10, 19), a_segment(20, 29)
R = replacement("R", 0, 19)


def test_nothing_to_send() -> None:
    assert next_step(a_look(a_row([U, V, W]), whole(U, V, W))) == Done()


def test_a_swap_from_its_start_to_its_end() -> None:
    row, topic = a_row([R, W], [U, V]), whole(U, V, W)
    step = next_step(a_look(row, topic))
    assert isinstance(step, Send)
    assert step.purpose is Purpose.START
    topic += [*step.events]
    step = next_step(a_look(row, topic))
    assert shown(step, R, U, V, names="RUV") == [
        "FINISHED R",
        "DELETE_STARTED U",
        "DELETE_STARTED V",
    ]
    topic += [*step.events]
    assert next_step(a_look(row, topic)) == Done()


def test_an_upload_beside_a_replacement_is_merged_with_it() -> None:
    late = a_segment(10, 25, segment_id="L" * 21 + "A")
    step = next_step(a_look(a_row([R, W], [U, V]), [*whole(U, V, W, late), started(R)]))
    assert isinstance(step, Merge)
    assert step.segment_ids == (R.segment_id, late.segment_id, W.segment_id)

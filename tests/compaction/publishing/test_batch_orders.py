"""Whatever borders a group's replacements have, there is an order of its batch, and it is found."""

from __future__ import annotations

from dataclasses import replace

from tests.compaction.builders import a_segment, epochs
from tests.compaction.looks import a_look, a_row, replacement, shown, started, whole
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.steps import Merge

U, V, W = a_segment(0, 3), a_segment(4, 7), a_segment(8, 11)


def test_a_source_that_holds_a_whole_replacement_is_listed_after_all_that_it_crosses() -> None:
    # With B before C, look-ups of 6 would end at B: V begins before both, and ends beyond B.
    a, b, c = replacement("A", 0, 4), replacement("B", 5, 5), replacement("C", 6, 7)
    row = a_row([a, b, c, W], [U, V])
    step = next_step(a_look(row, [*whole(U, V, W), started(a), started(b), started(c)]))
    assert shown(step, a, b, c, U, V, names="ABCUV") == [
        "FINISHED C",
        "FINISHED B",
        "FINISHED A",
        "DELETE_STARTED U",
        "DELETE_STARTED V",
    ]


def test_what_brokers_read_is_not_finished_again_where_that_would_hide_offsets() -> None:
    # Both have the start of epoch 2: finished again, A takes it, and look-ups of 9 to 11 end there.
    elected = epochs((0, 0), (1, 4), (2, 6))
    a = a_segment(4, 8, leader_epochs=epochs((1, 4), (2, 6)))
    b = a_segment(9, 11, leader_epochs=epochs((1, 5), (2, 6)), skipped_offsets=4)
    c = a_segment(12, 15, leader_epochs=epochs((2, 12)))
    stray = a_segment(4, 10, segment_id="S" * 21 + "A")
    row = a_row([U, a, b, c], [stray], lineage=elected)
    look = a_look(row, whole(U, stray, a, b, c), lineage=elected)
    assert shown(next_step(look), stray, names="S") == ["DELETE_STARTED S"]


def test_where_no_order_passes_one_replacement_takes_the_place_of_all() -> None:
    # A and B share the start of epoch 1, where look-ups find B. Without L, they must find A before
    # it; once A is finished again, it hides B up to the next event.
    elected = epochs((0, 0), (1, 7))
    a = a_segment(4, 7, leader_epochs=epochs((0, 4), (1, 7)))
    b = a_segment(8, 11, leader_epochs=epochs((1, 7)), skipped_offsets=1)
    r, late = replacement("R", 0, 3), a_segment(2, 6, segment_id="L" * 21 + "A")
    row = a_row([r, a, b, a_segment(12, 15, leader_epochs=epochs((1, 12)))], [late])
    topic = whole(*row.segments, late)
    step = next_step(a_look(replace(row, lineage=elected), topic, lineage=elected))
    assert isinstance(step, Merge)
    assert step.segment_ids == (r.segment_id, a.segment_id, b.segment_id)

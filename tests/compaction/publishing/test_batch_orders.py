"""Whatever borders a group's replacements have, there is an order of its batch, and it is found."""

from __future__ import annotations

from tests.compaction.builders import a_segment
from tests.compaction.looks import a_look, a_row, replacement, shown, started, whole
from tierfold.compaction.publishing.next_step import next_step

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

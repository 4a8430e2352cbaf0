"""What lies below the log start: a copy's head that comes late, and a log that expired whole."""

from __future__ import annotations

from dataclasses import replace

from compaction.view import PartitionView
from tests.compaction.builders import a_chain, a_state, looked_at, retired, unknown


def test_a_head_that_comes_after_first_sight_is_no_orphan() -> None:
    """A tier is copied, and its first segments arrive last: nothing else has what they hold."""
    head, *rest = a_chain(5, 5, 5)
    row = a_state(rest)
    assert row.log_start_offset == 5
    view = looked_at(row, [unknown(head)])
    assert isinstance(view, PartitionView)
    assert view.orphans == ()
    assert view.segments == tuple(rest)
    (note,) = view.notes
    assert "below the log start 5" in note


def test_a_head_that_reaches_into_the_row_is_no_orphan() -> None:
    head, _, last = a_chain(5, 5, 5)
    row = a_state([last])
    longer = replace(head, end_offset=11)
    view = looked_at(row, [unknown(longer)])
    assert isinstance(view, PartitionView)
    assert view.orphans == ()


def test_what_expired_was_given_by_the_row() -> None:
    """A dead run's output in the place of a segment that has expired since is an orphan."""
    head, *rest = a_chain(5, 5, 5)
    row = replace(a_state(rest), retired=(retired(head),))
    leftover = replace(head, segment_id=a_chain(1, start_offset=99)[0].segment_id)
    view = looked_at(row, [unknown(leftover)])
    assert isinstance(view, PartitionView)
    assert [each.segment_id for each in view.orphans] == [leftover.segment_id]


def test_a_row_whose_log_expired_whole_keeps_its_lineage() -> None:
    """Without it the row would pass for a forgotten one, and what is gone could come back."""
    *_, last = a_chain(5, 5)
    row = replace(a_state([last]), segments=(), log_start_offset=10)
    view = looked_at(row)
    assert isinstance(view, PartitionView)
    assert view.lineage == row.lineage
    assert view.log_start_offset == 10

"""Unknown uploads: a late head, and a newer leader's upload without its checkpoint."""

from __future__ import annotations

from dataclasses import replace

from tests.compaction.builders import LINEAGE, a_chain, a_state, retired, seen, unknown
from tierfold.compaction.discovery.histories import EpochStretch
from tierfold.compaction.model.segments import LeaderEpoch


def test_a_head_that_comes_after_the_first_row_is_no_orphan() -> None:
    """If a tier is copied with its head last, only the head has its records."""
    head, *rest = a_chain(5, 5, 5)
    row = a_state(rest)
    assert row.log_start_offset == 5
    view = seen(row, [unknown(head)])
    assert view.orphans == ()
    assert view.segments == tuple(rest)
    (note,) = view.notes
    assert "below the log start 5" in note


def test_a_head_that_reaches_into_the_row_is_no_orphan() -> None:
    head, _, last = a_chain(5, 5, 5)
    row = a_state([last])
    longer = replace(head, end_offset=11)
    view = seen(row, [unknown(longer)])
    assert view.orphans == ()


def test_a_copy_of_an_expired_segment_is_an_orphan() -> None:
    """A dead run's output at the offsets of an expired segment is an orphan."""
    head, *rest = a_chain(5, 5, 5)
    row = replace(a_state(rest), retired=(retired(head),))
    late = replace(head, segment_id=a_chain(1, start_offset=99)[0].segment_id)
    view = seen(row, [unknown(late)])
    assert [orphan.segment_id for orphan in view.orphans] == [late.segment_id]


def test_a_row_whose_whole_log_expired_keeps_its_lineage() -> None:
    """Without its lineage the row would look forgotten, and deleted records could come back."""
    *_, last = a_chain(5, 5)
    row = replace(a_state([last]), segments=(), log_start_offset=10)
    view = seen(row)
    assert view.lineage == row.lineage
    assert view.log_start_offset == 10


def test_an_upload_of_a_leader_without_a_checkpoint_waits() -> None:
    """It has a newer epoch than the row and no checkpoint, so it may not be set apart."""
    live, beyond = a_chain(5, 5)
    cut_short = unknown(
        beyond,
        lacking=["leader_epoch_checkpoint"],
        stretches=(EpochStretch(epoch=4, first_offset=5, last_offset=9),),
    )
    view = seen(a_state([live]), [cut_short])
    assert view.set_apart == ()
    assert [segment.segment_id for segment in view.waiting] == [beyond.segment_id]
    assert view.stalled_since_ms is not None


def test_an_upload_of_two_leaders_waits_only_where_the_older_one_fits() -> None:
    older, newer, beyond = a_chain(5, 5, 5)
    begun = LeaderEpoch(epoch=3, start_offset=newer.start_offset)
    newer = replace(newer, leader_epochs=(begun,))
    row = replace(a_state([older, newer]), lineage=(*LINEAGE, begun))
    stretches = (
        EpochStretch(epoch=2, first_offset=10, last_offset=11),
        EpochStretch(epoch=4, first_offset=12, last_offset=14),
    )
    found = unknown(beyond, lacking=["leader_epoch_checkpoint"], stretches=stretches)
    view = seen(row, [found])
    assert [segment.segment_id for segment in view.set_apart] == [beyond.segment_id]

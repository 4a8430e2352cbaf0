"""Where what a pass replaced is gone, its live segment stays up to where the log was cut."""

from __future__ import annotations

from collections.abc import Iterable

from tests.compaction.builders import segment_id
from tests.compaction.commits.test_undone_passes import Tier, compacted, starts, undone
from tests.compaction.looks import own
from tierfold.compaction.commits.undone_passes import Undone, ValuesLost
from tierfold.compaction.model.segments import PartitionState


def test_where_that_is_gone_a_live_segment_comes_back_up_to_the_cut() -> None:
    tier = compacted((0, 19), (20, 59))
    found = undone(tier, gone=[segment_id(10)])
    assert isinstance(found, Undone)
    assert found.lost is not None
    assert starts(found.lost.gone) == [10]
    (back,) = found.back
    assert (back.segment_id, back.start_offset, back.end_offset) == (own("(20, 59)"), 20, 29)
    assert all(entry.start_offset < 30 for entry in back.leader_epochs)
    assert found.row.segments == (tier.row.segments[0], back)
    assert found.row.named_ids == tier.row.named_ids
    # Only what readers may ask for, and what is whole.
    assert starts(undone_row(tier, gone=[segment_id(20)], log_start=20).segments) == [20]
    assert isinstance(undone(tier, gone=[segment_id(10), back.segment_id]), ValuesLost)
    # As without the earlier rows.
    tier.rows[-1] = tier.row.emptied(())
    lost = ValuesLost(cut_at=30, gone=())
    assert undone(tier) == Undone(row=found.row, back=found.back, lost=lost)
    assert undone(tier, log_start=30) == lost


def undone_row(tier: Tier, gone: Iterable[str], log_start: int) -> PartitionState:
    found = undone(tier, gone=gone, log_start=log_start)
    assert isinstance(found, Undone)
    return found.row

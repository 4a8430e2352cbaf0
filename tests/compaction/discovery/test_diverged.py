"""What becomes of a partition whose log was truncated: set apart, refused, and what may still go.

    row        0 ──────── 10   epochs 0, 3
    current         6 ─ 9      epoch 4 from 6 on
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compaction.builders import (
    a_segment,
    a_state,
    segment_id,
)
from tests.compaction.uploads import LATE, ROW, epochs, refusal, spans, starts, upload, view
from tierfold.compaction.discovery.view import (
    RefusalReason,
    state_with_new,
)


def test_a_late_upload_is_set_apart_and_the_partition_goes_on() -> None:
    ours = upload(11, 20, (0, 0), (2, 11))
    for row in (None, ROW):
        found = [LATE, ours, *([] if row else [upload(0, 10)])]
        seen = view(row, *found)
        assert spans(seen) == ["0-10", "11-20"]
        assert (starts(seen.set_apart), seen.waiting) == ([11], ())
        assert seen.lineage == epochs((0, 0), (2, 11))
        assert seen.notes == (
            f"segment {segment_id('11-18')} (offsets 11 to 18) is set apart, outside the leader"
            " epoch lineage: kept, not read",
        )


def test_a_segment_set_apart_beyond_the_end_does_not_wait() -> None:
    seen = view(ROW, LATE, upload(11, 15, (0, 0), (2, 11)))
    assert (spans(seen), starts(seen.set_apart)) == (["0-10", "11-15"], [11])
    assert (seen.waiting, seen.stalled_since_ms) == ((), None)


@pytest.mark.parametrize("others", [(0, 10), (19, 25)])
def test_without_a_row_a_segment_apart_that_alone_holds_offsets_refuses(
    others: tuple[int, int],
) -> None:
    # The lineage is epoch 2's; it ends below 18, or starts above 11.
    ours = upload(*others, (2, 0))
    found = refusal(None, LATE, ours)
    assert found.reason is RefusalReason.LINEAGE_DIVERGED
    assert found.detail == (
        "outside the leader epoch lineage, with offsets that no other segment has: segment"
        f" {segment_id('11-18')} (offsets 11 to 18), with leader epoch 0 at offset 0, where the log"
        f" has 2; the segments of the lineage have offsets {others[0]} to {others[1]}"
    )


def test_only_segments_with_consent_may_be_lost() -> None:
    ours, other = upload(0, 10, (2, 0)), upload(11, 15, (0, 0), (1, 9))
    forgotten = replace(ROW, segments=(), lineage=(), epoch=7, forgotten=(segment_id("11-18"),))
    assert forgotten.is_forgotten
    seen = view(forgotten, LATE, ours)
    assert spans(seen) == ["0-10"]
    adopted = state_with_new(seen)
    assert (adopted.epoch, adopted.forgotten, adopted.log_start_offset) == (7, (), 0)
    found = refusal(forgotten, LATE, other, ours)
    assert segment_id("11-15") in found.detail
    assert segment_id("11-18") not in found.detail


def test_a_truncated_log_refuses_the_partition() -> None:
    for found in (upload(6, 9, (0, 0), (4, 6)), upload(11, 15, (0, 0), (4, 6))):
        seen = refusal(ROW, found)
        assert seen.reason is RefusalReason.LINEAGE_DIVERGED
        assert "epoch 4, which starts at offset 6" in seen.detail
        assert "tierfold forget TIER PARTITION --dry-run" in seen.remedy


def test_live_segments_outside_the_new_lineage_refuse_the_partition() -> None:
    # The new checkpoint starts with epoch 3, the row's starts later: its head was truncated.
    row = a_state(
        [a_segment(0, 10, leader_epochs=epochs((0, 0), (3, 8)))], lineage=epochs((0, 0), (3, 8))
    )
    seen = refusal(row, upload(11, 15, (3, 5)))
    assert seen.reason is RefusalReason.LINEAGE_DIVERGED
    assert segment_id(0) in seen.detail

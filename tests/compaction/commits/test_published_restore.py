"""What a restore means for brokers: what consumers read again, and whether one batch holds it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compaction.builders import a_chain, a_segment, a_state, retired
from tests.compaction.looks import own, replacement
from tierfold.compaction.commits.published_restore import (
    offsets_read_again,
    unpublishable_restore,
)
from tierfold.compaction.commits.restore import RestorePlan, restore_plan_of
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.publishing.batches import updates_max

UPLOADS = a_chain(10, 10, 10)
ONE, TWO = a_segment(0, 19, segment_id="one"), a_segment(20, 29, segment_id="two")
EARLIER = a_state(UPLOADS)
ROW = a_state([ONE, TWO], retired=tuple(map(retired, UPLOADS)))


def planned(row: PartitionState = ROW) -> RestorePlan:
    plan = restore_plan_of(EARLIER, row)
    assert isinstance(plan, RestorePlan)
    return plan


def bytes_of(events: int) -> int:
    """The least size of a batch that holds so many events."""
    return next(size for size in range(10_000) if updates_max(ROW.key, size) == events)


def test_consumers_read_the_offsets_of_what_comes_back() -> None:
    assert [*map(str, offsets_read_again(planned()))] == ["0 to 29"]


@pytest.mark.parametrize(("strategy", "events"), [("offset", 3), ("timestamp", 5)])
def test_one_batch_holds_what_consumers_must_see_at_once(strategy: str, events: int) -> None:
    row = replace(ROW, strategies=(strategy,))
    size = bytes_of(events)
    assert unpublishable_restore(planned(row), row, size) is None
    refusal = unpublishable_restore(planned(row), row, size - 1)
    assert refusal is not None
    assert f"that takes {events} events, and one batch holds {events - 1}" in refusal.detail


def test_the_strategies_of_the_earlier_state_count_too() -> None:
    plan = replace(planned(), state=replace(EARLIER, strategies=("header=v",)))
    assert unpublishable_restore(plan, ROW, bytes_of(4)) is not None


def test_what_a_restore_retired_does_not_come_back() -> None:
    """Its groups would descend, so tombstones would go before what they hide."""
    copies = tuple(
        replacement("", one.start_offset, one.end_offset, segment_id=own(str(n), is_restored=True))
        for n, one in enumerate(UPLOADS)
    )
    by_restore = [retired(one, retired_by_run="run") for one in (ONE, TWO)]
    row = a_state(copies, retired=(*map(retired, UPLOADS), *by_restore))
    undone = restore_plan_of(a_state([ONE, TWO]), row)
    assert isinstance(undone, RestorePlan)
    refusal = unpublishable_restore(undone, row, bytes_of(9))
    assert refusal is not None
    assert "it undoes another restore" in refusal.detail
    # What others replaced comes back all the same.
    assert unpublishable_restore(planned(row), row, bytes_of(9)) is None

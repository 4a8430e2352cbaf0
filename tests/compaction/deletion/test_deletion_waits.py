"""What `vacuum` deletes later, and from which millisecond on."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.compaction.builders import CLUSTER, a_chain, a_segment, a_view, listed, retired
from tierfold.compaction.deletion.deletion_plan import (
    VacuumLimits,
    deletion_plan_of,
    waits_until,
)
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.bindings import UNDECLARED, Binding, Detached, ServedBy
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import RetiredSegment

NOW_MS: Final = 1000
TIMES: Final = VacuumLimits(now_ms=NOW_MS, grace_ms=10, orphan_age_ms=7, takes_set_apart=True)
RULES: Final = Rules(retention_ms=-1)
RETIRED, *LIVE = a_chain(10, 10, 10)


def found(start: int, *, age_ms: int) -> ListedSegment:
    """A segment of that age that no row names."""
    return replace(listed(a_segment(start, 29)), modified_ms=NOW_MS - age_ms)


def gone(*, for_ms: int) -> RetiredSegment:
    """A segment that tierfold wrote, retired that long ago."""
    ours = replace(RETIRED, origin=Compacted("earlier"))
    return retired(ours, retired_at_ms=NOW_MS - for_ms)


def view(
    *entries: RetiredSegment,
    orphans: tuple[ListedSegment, ...] = (),
    set_apart: tuple[ListedSegment, ...] = (),
) -> PartitionView:
    return replace(a_view(LIVE, retired=entries), orphans=orphans, set_apart=set_apart)


@pytest.mark.parametrize(
    ("binding", "takes_set_apart", "waiting"),
    [
        (Detached(), True, ["retired segment", "orphan", "segment set apart"]),
        (Detached(), False, ["retired segment", "orphan"]),
        (ServedBy(CLUSTER), True, []),
        (UNDECLARED, True, ["retired segment"]),
    ],
)
def test_a_waiting_segment_is_deleted_once_it_is_due_and_not_before(
    binding: Binding, takes_set_apart: bool, waiting: list[str]
) -> None:
    seen = view(
        gone(for_ms=0), orphans=(found(21, age_ms=0),), set_apart=(found(22, age_ms=0),)
    )
    stays_ms = {"retired segment": 10, "orphan": 7, "segment set apart": 7}
    for after_ms in range(12):
        times = replace(TIMES, now_ms=NOW_MS + after_ms, takes_set_apart=takes_set_apart)
        due_ms = {what: (NOW_MS + stays_ms[what],) for what in waiting if after_ms < stays_ms[what]}
        assert waits_until(seen, Rules(), binding, times) == due_ms
        plan = deletion_plan_of(seen, RULES, binding, times)
        going = {
            "retired segment": plan.starting,
            "orphan": plan.orphans,
            "segment set apart": plan.set_apart,
        }
        assert [what for what in going if going[what]] == [
            what for what in waiting if what not in due_ms
        ]


def test_waiting_segments_are_listed_and_started_deletions_are_not() -> None:
    started = replace(gone(for_ms=0), deletion_started_at_ms=NOW_MS)
    ages_ms = (2, 3, 7)
    orphans = tuple(found(20 + age_ms, age_ms=age_ms) for age_ms in ages_ms)
    assert waits_until(view(started, orphans=orphans), Rules(), Detached(), TIMES) == {
        "orphan": (NOW_MS + 5, NOW_MS + 4)
    }
    assert waits_until(replace(view(), state=None), Rules(), Detached(), TIMES) == {}


def test_no_date_is_promised_of_what_a_broker_may_serve() -> None:
    seen = view(retired(RETIRED, retired_at_ms=NOW_MS))
    for after_ms in (0, 20):
        times = replace(TIMES, now_ms=NOW_MS + after_ms)
        assert waits_until(seen, Rules(), UNDECLARED, times) == {}
        (note,) = deletion_plan_of(seen, RULES, UNDECLARED, times).notes
        assert note.startswith("a broker may still name these segments, so they stay: 1 retired")
    assert waits_until(seen, Rules(), Detached(), TIMES) == {"retired segment": (NOW_MS + 10,)}

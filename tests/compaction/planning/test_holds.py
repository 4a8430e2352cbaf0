"""What brokers have holds a round back: uploads at work, the newest segments, a transaction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.compaction.beside_brokers import brokers_have, own_id, view_beside
from tests.compaction.broker_events import FINISHED, added, updated, uploaded
from tests.compaction.builders import a_segment, a_state, cleaned_to, epochs, retired, seen
from tests.compaction.uploads import a_row, upload
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.planning.explanation import explained
from tierfold.compaction.planning.holds import broker_holds, dead_uploads
from tierfold.compaction.planning.partition_plan import partition_plan
from tierfold.compaction.planning.plan import Compact, Rest, RestReason, propose
from tierfold.compaction.planning.regions import LastStable, Regions, regions_of

NOW_MS = 2_000_000
COMPACT = frozenset({"compact"})
NO_MARGIN = Rules(cleanup_policy=COMPACT, tail_margin_segments=0, upload_wait_ms=500_000)
ROW = a_row((0, 9), (10, 19), (20, 29))
LIVE: list[Event] = [
    *uploaded("live0", 0, 9),
    *uploaded("live10", 10, 19),
    *uploaded("live20", 20, 29),
]


def view_with(*events: Event, **offsets: Any) -> PartitionView:
    return view_beside(ROW, [], [*LIVE, *events], **offsets)


def offsets_of(view: PartitionView, rules: Rules, now_ms: int = NOW_MS) -> list[int]:
    return [hold.offset for hold in broker_holds(view, rules, now_ms)]


def regions(view: PartitionView, rules: Rules = NO_MARGIN, **given: Any) -> Regions:
    found = regions_of(view, given.pop("last_stable", None), rules, NOW_MS, **given)
    assert isinstance(found, Regions)
    return found


def test_an_upload_at_work_holds_its_range_back() -> None:
    view = view_with(added("late", 15, 34))
    (hold,) = broker_holds(view, NO_MARGIN, NOW_MS)
    assert hold.offset == 10
    assert "held back from offset 10 on: brokers began to upload segment late" in hold.why
    assert "(offsets 15 to 34) 33.3 min ago" in hold.why
    choice = propose(view, NO_MARGIN, regions(view), NOW_MS)
    assert isinstance(choice, Compact)
    assert choice.next_offset == 10
    assert choice.held_back == (hold.why,)


def test_a_segment_that_is_held_for_brokers_is_not_called_young() -> None:
    def labels(view: PartitionView, rules: Rules) -> list[tuple[str, ...]]:
        found = regions(view, rules)
        choice = propose(view, rules, found, NOW_MS)
        return [one.regions for one in explained(view, rules, found, choice, NOW_MS)]

    pending = view_with(added("late", 15, 34))
    assert labels(pending, NO_MARGIN) == [("dirty",), ("held for uploads",), ("held for uploads",)]
    tail = replace(NO_MARGIN, tail_margin_segments=1)
    assert labels(view_with(), tail) == [("dirty",), ("dirty",), ("held for uploads",)]
    young = replace(NO_MARGIN, min_compaction_lag_ms=2**50)
    assert labels(pending, young) == [("too young",)] * 3


def test_an_upload_beyond_the_tier_or_below_the_log_start_holds_nothing_back() -> None:
    assert offsets_of(view_with(added("next", 30, 39)), NO_MARGIN) == []
    assert offsets_of(view_with(added("old", 0, 4), log_start=5), NO_MARGIN, 400_000) == []
    assert offsets_of(view_with(added("old", 0, 5), log_start=5), NO_MARGIN, 400_000) == [0]


def test_a_dead_upload_is_given_up_once_it_is_old_and_others_cover_it() -> None:
    covered = view_with(added("dead", 5, 29))  # Its record's timestamp is about 1000.
    assert offsets_of(covered, NO_MARGIN, 501_000) == [0]
    assert dead_uploads(covered, NO_MARGIN, 501_000) == ""
    assert offsets_of(covered, NO_MARGIN, 502_000) == []
    assert "1 upload of brokers never ended" in dead_uploads(covered, NO_MARGIN, 502_000)
    uncovered = view_with(added("dead", 5, 30))
    assert offsets_of(uncovered, NO_MARGIN, 10**12) == [0]
    plan = partition_plan(covered, (), NO_MARGIN, NOW_MS)
    assert any("never ended" in note for note in plan.choice.notes)  # type: ignore[union-attr]


def test_our_own_started_segment_holds_nothing_back() -> None:
    started = added("ours", 0, 40)._replace(segment_id=own_id())
    assert offsets_of(view_with(started), NO_MARGIN) == []


def test_the_newest_segments_are_left_alone() -> None:
    view = view_with()
    assert offsets_of(view, NO_MARGIN) == []
    one, two = (Rules(cleanup_policy=COMPACT, tail_margin_segments=n) for n in (1, 2))
    assert offsets_of(view, one) == [20]
    assert offsets_of(view, two) == [10]
    assert offsets_of(view, Rules(tail_margin_segments=9)) == [0]
    choice = propose(view, two, regions(view, two), NOW_MS)
    assert isinstance(choice, Compact)
    assert choice.next_offset == 10
    assert "tail.margin.segments=2" in choice.held_back[0]


def test_the_margin_counts_what_readers_find() -> None:
    ours = a_segment(0, 29, segment_id=own_id(), origin=Compacted(run="r"))
    row = a_state([ours], retired=tuple(retired(one) for one in ROW.segments))
    assert offsets_of(view_beside(row, [], LIVE), Rules()) == [0]


def test_the_margin_does_not_count_what_an_election_cut_off() -> None:
    two = replace(NO_MARGIN, tail_margin_segments=2)
    cut = [event for at in (30, 40, 50) for event in uploaded(f"cut{at}", at, at + 9)]
    view = replace(view_with(), brokers=brokers_have([*LIVE, *cut]))
    assert offsets_of(view, two) == [20]
    elected = replace(view, lineage=epochs((0, 0), (1, 30)))
    assert offsets_of(elected, two) == [10]


def test_what_has_waited_too_long_is_not_left_alone() -> None:
    view = view_with()
    overdue = Rules(cleanup_policy=COMPACT, max_compaction_lag_ms=999_999)
    assert offsets_of(view, overdue) == []
    just_not = Rules(cleanup_policy=COMPACT, max_compaction_lag_ms=1_000_000)
    assert offsets_of(view, just_not) == [20]


def test_without_brokers_nothing_is_held_back() -> None:
    assert offsets_of(seen(ROW), Rules(tail_margin_segments=9)) == []


def test_nothing_dirty_is_left_once_brokers_hold_all_of_it() -> None:
    view = view_with(added("late", 0, 40))
    choice = propose(view, NO_MARGIN, regions(view), NOW_MS)
    assert isinstance(choice, Rest)
    assert choice.reason is RestReason.HELD_BY_BROKERS
    assert "brokers began to upload" in choice.detail


def test_a_clean_segment_whose_horizon_has_passed_waits_too() -> None:
    due = a_segment(0, 9, earliest_due_ms=5, segment_id=own_id(), origin=Compacted(run="r"))
    row = a_state([due], cleaner_offsets=cleaned_to(10), retired=(retired(a_segment(0, 9)),))
    events = uploaded(0, 0, 9)
    free = view_beside(row, [], events)
    assert isinstance(propose(free, NO_MARGIN, regions(free), NOW_MS), Compact)
    held = view_beside(row, [], [*events, added("late", 5, 12)])
    found = regions(held)
    choice = propose(held, NO_MARGIN, found, NOW_MS)
    assert isinstance(choice, Rest)
    (segment,) = explained(held, NO_MARGIN, found, choice, NOW_MS)
    assert segment.why.startswith("clean; held back from offset 0 on")


def test_the_brokers_last_stable_offset_counts_if_it_is_lower() -> None:
    view = view_with(last_stable=12)
    found = regions(view)
    assert found.unstable_from == 10
    assert "by the brokers, a transaction is open from offset 12 on" in found.why_unstable
    in_tier = LastStable(offset=3, producer_id=7)
    assert regions(view, last_stable=in_tier).last_stable == in_tier
    assert regions(view_with(), last_stable=in_tier).last_stable == in_tier
    assert regions(view_with(last_stable=30)).last_stable is None


def test_a_new_upload_is_held_back_by_the_margin_alone() -> None:
    late = upload(30, 39)
    events = [*LIVE, added("30-39", 30, 39), updated("30-39", FINISHED)]
    view = view_beside(ROW, [late], events)
    assert offsets_of(view, Rules()) == [30]


def test_a_live_upload_that_brokers_never_finished_does_not_cover_itself() -> None:
    events = [*uploaded("live0", 0, 9), added("live10", 10, 19)]
    view = view_beside(a_row((0, 9), (10, 19)), [], events)
    assert offsets_of(view, NO_MARGIN) == [10]
    assert dead_uploads(view, NO_MARGIN, NOW_MS) == ""
    events += uploaded("10-24", 10, 24)
    again = view_beside(a_row((0, 9), (10, 19)), [upload(10, 24)], events)
    assert offsets_of(again, NO_MARGIN) == []

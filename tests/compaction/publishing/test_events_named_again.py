"""What the event check allows of what is named again: it trusts no decision."""

from __future__ import annotations

from dataclasses import replace

from tests.compaction.broker_events import FINISHED
from tests.compaction.builders import a_segment, epochs
from tests.compaction.looks import a_row, given, started, whole
from tests.compaction.lost_looks import AGAIN, TWIN, R, U, V, W, lost, named
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.publishing.event_check import EventRule, ForbiddenEvent, checked
from tierfold.compaction.publishing.look import Look


def rule_of(look: Look, *events: Event) -> EventRule | None:
    found = checked(look, events)
    return found.rule if isinstance(found, ForbiddenEvent) else None


def test_the_check_allows_what_is_decided_and_nothing_like_it() -> None:
    look = lost()
    events = named(look).events
    assert rule_of(look, *events) is None
    assert rule_of(replace(look, rebuilds={}), *events) is not None
    wrong = events[0]._replace(end_offset=5)
    assert rule_of(look, wrong) is EventRule.AS_IN_ROW


def test_the_check_compares_with_the_row_and_not_with_the_decision() -> None:
    look = lost()
    wrong = named(look).events[0]._replace(end_offset=5)
    decided = replace(look, rebuilds={**look.rebuilds, wrong.segment_id: wrong})
    assert rule_of(decided, wrong) is EventRule.AS_IN_ROW


def test_the_check_forbids_what_lies_below_the_log_start() -> None:
    at_first, later = lost(), lost(log_start=20)
    begun = named(at_first).events
    r = next(one for one in begun if one.segment_id == R.segment_id)
    assert rule_of(later, r) is EventRule.LOG_START
    finish = named(lost(events=begun)).events[0]
    assert finish.segment_id == R.segment_id
    assert rule_of(lost(events=begun, log_start=20), finish) is EventRule.LOG_START


def test_the_check_forbids_what_has_no_objects() -> None:
    look = lost(whole=frozenset({W.segment_id}), present=frozenset({W.segment_id, U.segment_id}))
    by_id = {one.segment_id: one for one in named(lost()).events}
    assert rule_of(look, by_id[R.segment_id]) is EventRule.OBJECTS
    assert rule_of(look, by_id[W.segment_id]) is None
    assert rule_of(look, by_id[U.segment_id]) is None
    gone = replace(lost(), present=frozenset({R.segment_id}))
    assert rule_of(gone, by_id[U.segment_id]) is EventRule.OBJECTS


def test_the_check_forbids_to_finish_what_a_broker_began() -> None:
    row = a_row([U, V])
    began = [*whole(U), started(V)]
    finish = given(V, FINISHED)._replace(broker_id=-1)
    assert rule_of(lost(row, began), finish) is EventRule.LIVE


def test_the_check_forbids_to_serve_what_is_retired_or_covered() -> None:
    twin = a_segment(12, 18, segment_id=TWIN)
    row = a_row([U, V])
    begun = named(lost(row, covered=[twin])).events
    look = lost(row, begun, covered=[twin])
    assert rule_of(look, given(twin, FINISHED)._replace(broker_id=-1)) is EventRule.LIVE
    retired = lost(events=named(lost()).events)
    assert rule_of(retired, given(U, FINISHED)._replace(broker_id=-1)) is EventRule.LIVE


def test_the_check_forbids_another_history() -> None:
    look = lost(lineage=epochs((7, 0)))
    r = next(one for one in named(lost()).events if one.segment_id == R.segment_id)
    assert rule_of(look, r) is EventRule.LINEAGE


def test_the_check_forbids_to_hide_offsets() -> None:
    again = whole(a_segment(0, 24, segment_id=AGAIN))
    begun = [one for one in named(lost()).events if one.segment_id == R.segment_id]
    look = lost(events=[*again, *begun])
    assert rule_of(look, given(R, FINISHED)._replace(broker_id=-1)) is EventRule.FOUND


def test_what_is_retired_may_be_of_another_history() -> None:
    """An election cut it off, and the row gave it up: it only waits for its deletion."""
    cut_off = a_segment(10, 19, segment_id=TWIN, leader_epochs=epochs((7, 10)))
    row = a_row([U, V], [cut_off])
    by_id = {one.segment_id: one for one in named(lost(row)).events}
    assert rule_of(lost(row), by_id[TWIN]) is None

"""The third send: which objects may go, and when brokers learn of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compaction.broker_events import GONE, LISTED
from tests.compaction.builders import a_segment, retired
from tests.compaction.looks import LIMITS, NOW_MS, a_look, a_row, given, replacement, started, whole
from tierfold.compaction.model.serving import Consent, ConsentKind
from tierfold.compaction.publishing.deletions import next_deletion
from tierfold.compaction.publishing.event_check import ForbiddenEvent, checked
from tierfold.compaction.publishing.replacements import update_event
from tierfold.compaction.publishing.steps import Delete, Done, Purpose, Send, Wait

U, V = a_segment(0, 9), a_segment(10, 19)
R = replacement("R", 0, 19)
ROW = a_row([R], [U, V])
SWAPPED = [*whole(U, V, R), given(U, LISTED), given(V, LISTED)]
DUE_MS = NOW_MS - LIMITS.grace_ms


def test_from_listed_to_gone() -> None:
    step = next_deletion(a_look(ROW, SWAPPED))
    assert step == Delete(segment_ids=(U.segment_id, V.segment_id), why=step.why)
    step = next_deletion(a_look(ROW, SWAPPED, present=frozenset({V.segment_id, R.segment_id})))
    assert isinstance(step, Send)
    assert step.purpose is Purpose.GONE
    assert [event.segment_id for event in step.events] == [U.segment_id]
    look = a_look(ROW, [*SWAPPED, given(U, GONE), given(V, GONE)], present=frozenset())
    assert next_deletion(look) == Done()


def test_what_a_lost_topic_may_have_named_is_not_deleted() -> None:
    """A rebuild that was killed has not named it yet, and brokers may read it from memory."""
    earlier = replacement("earlier", 0, 19)
    row = a_row([R], [earlier])
    assert next_deletion(a_look(row, whole(R))) == Delete(
        segment_ids=(earlier.segment_id,), why="brokers no longer need them"
    )
    (entry,) = row.retired
    rebuilt = Consent(kind=ConsentKind.REBUILT, given_at_ms=entry.retired_at_ms, run="mine")
    assert next_deletion(a_look(replace(row, consents=(rebuilt,)), whole(R))) == Done()
    before = replace(rebuilt, given_at_ms=entry.retired_at_ms - 1)
    assert isinstance(next_deletion(a_look(replace(row, consents=(before,)), whole(R))), Delete)
    after = replace(row, consents=(rebuilt,))
    forgotten = [*whole(R, earlier), given(earlier, LISTED), given(earlier, GONE)]
    assert next_deletion(a_look(after, forgotten)) == Done()
    assert next_deletion(a_look(after, whole(R), log_start=19)) == Done()
    # No consumer reads below the log start.
    assert isinstance(next_deletion(a_look(after, whole(R), log_start=20)), Delete)


def test_nothing_is_gone_or_deleted_by_a_look_without_a_listing() -> None:
    look = a_look(ROW, SWAPPED, present=None)
    assert not isinstance(next_deletion(look), Send | Delete)
    gone = (update_event(look.view.segments[U.segment_id], GONE, NOW_MS),)
    assert isinstance(checked(look, gone), ForbiddenEvent)


def test_the_grace_period_begins_with_the_last_listed() -> None:
    topic = [*SWAPPED[:-2], (given(U, LISTED), DUE_MS), (given(V, LISTED), DUE_MS + 1)]
    step = next_deletion(a_look(ROW, topic))
    assert isinstance(step, Delete)
    assert step.segment_ids == (U.segment_id,)
    topic.append((given(U, LISTED), DUE_MS + 2))
    step = next_deletion(a_look(ROW, topic))
    assert step == Wait(until_ms=NOW_MS + 1, why=step.why)


def test_gone_is_not_sent_before_the_grace_period() -> None:
    """Its objects may be gone because brokers deleted them at the head of the log."""
    topic = [*SWAPPED[:-2], (given(U, LISTED), DUE_MS + 1), (given(V, LISTED), DUE_MS + 1)]
    assert isinstance(next_deletion(a_look(ROW, topic, present=frozenset())), Wait)


def test_a_deletion_that_is_dated_in_the_future_is_sent_again() -> None:
    topic = [*SWAPPED[:-2], (given(U, LISTED), DUE_MS), (given(V, LISTED), NOW_MS + 1)]
    step = next_deletion(a_look(ROW, topic))
    assert isinstance(step, Send)
    assert step.purpose is Purpose.LIST_AGAIN
    assert [event.segment_id for event in step.events] == [V.segment_id]


@pytest.mark.parametrize("count", [1, 2])
def test_what_brokers_may_still_read_stays(count: int) -> None:
    """Started or finished, whatever the row says."""
    topic = [*whole(U, V, R)[:4], started(R)] if count == 1 else whole(U, V, R)
    assert next_deletion(a_look(a_row([], [U, V, R]), topic)) == Done()


def test_one_that_was_never_named_goes_after_the_grace_period() -> None:
    topic = whole(U, V)
    row = a_row([U, V])
    young = replace(row, retired=(retired(R, retired_at_ms=DUE_MS + 1),))
    assert next_deletion(a_look(young, topic)) == Done()
    old = replace(row, retired=(retired(R, retired_at_ms=DUE_MS),))
    step = next_deletion(a_look(old, topic))
    assert isinstance(step, Delete)
    assert step.segment_ids == (R.segment_id,)


def test_an_upload_that_was_never_named_is_left_to_brokers() -> None:
    assert next_deletion(a_look(a_row([U], [V]), whole(U))) == Done()


def test_one_that_brokers_forgot_leaves_objects_that_may_go() -> None:
    topic = [*SWAPPED, given(U, GONE), given(V, GONE)]
    step = next_deletion(a_look(ROW, topic))
    assert isinstance(step, Delete)
    assert step.segment_ids == (U.segment_id, V.segment_id)


def test_what_is_not_ours_to_delete_stays() -> None:
    """Brokers delete it themselves, below their log start."""
    topic = [*whole(U, V), given(U, LISTED)]
    assert next_deletion(a_look(a_row([V]), topic, log_start=10)) == Done()

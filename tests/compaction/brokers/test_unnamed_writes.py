"""What runs made that brokers have and the row does not name."""

from __future__ import annotations

import pytest

from tests.compaction.broker_events import FINISHED, LISTED
from tests.compaction.builders import a_segment
from tests.compaction.hash_keys import FINGERPRINT
from tests.compaction.looks import a_look, a_row, given, own, replacement, started, whole
from tierfold.compaction.brokers.unnamed_writes import UnnamedWrites, unnamed_writes
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.steps import RefusalCode, Refused

U = a_segment(0, 9)
R = replacement("R", 0, 9)


def beside(look: Look, fingerprint: int | None = FINGERPRINT) -> UnnamedWrites:
    return unnamed_writes(look.view, look.row.named_ids, look.log_start, fingerprint)


def test_what_the_row_names_and_what_brokers_made_is_none_of_them() -> None:
    look = a_look(a_row([R]), whole(U, R))
    assert beside(look) == UnnamedWrites(of_others=(), finished=(), started=())


@pytest.mark.parametrize("state", [FINISHED, LISTED])
def test_one_that_brokers_had_whole_contradicts_the_row(state: object) -> None:
    look = a_look(a_row([U]), [*whole(U), started(R), given(R, FINISHED), given(R, state)])
    assert [one.added.segment_id for one in beside(look).finished] == [R.segment_id]
    assert beside(look).contradict == beside(look).finished


def test_one_that_was_only_started_does_not() -> None:
    look = a_look(a_row([U]), [*whole(U), started(R)])
    assert [one.added.segment_id for one in beside(look).started] == [R.segment_id]
    assert beside(look).contradict == ()


@pytest.mark.parametrize("state", [FINISHED, LISTED])
def test_one_below_the_log_start_has_expired(state: object) -> None:
    """It left the row with the log start; brokers delete it within minutes."""
    topic = [*whole(U), started(R), given(R, FINISHED), given(R, state)]
    assert beside(a_look(a_row([]), topic, log_start=10)).contradict == ()
    assert beside(a_look(a_row([]), topic, log_start=9)).contradict != ()


def test_the_mark_of_another_catalog_always_contradicts() -> None:
    other = replacement("R", 0, 9, segment_id=own("R", FINGERPRINT + 1))
    for topic in ([started(other)], whole(other)):
        look = a_look(a_row([]), topic, log_start=10)
        assert [one.added.segment_id for one in beside(look).of_others] == [other.segment_id]
    # Before there is a catalog, every mark is another one's.
    look = a_look(a_row([]), [started(R)])
    assert beside(look, None).contradict == beside(look, None).of_others != ()


def test_the_step_and_discovery_agree_on_what_has_expired() -> None:
    step = next_step(a_look(a_row([]), whole(R), log_start=10))
    assert not isinstance(step, Refused)
    step = next_step(a_look(a_row([]), whole(R), log_start=9))
    assert isinstance(step, Refused)
    assert step.code is RefusalCode.CATALOG_SET_BACK

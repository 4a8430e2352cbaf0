"""What a look says where brokers have what the row does not say, and the other way round."""

from __future__ import annotations

from dataclasses import replace

from tests.compaction.broker_events import GONE, LISTED
from tests.compaction.builders import epochs
from tests.compaction.hash_keys import FINGERPRINT
from tests.compaction.looks import (
    LIMITS,
    NOW_MS,
    a_look,
    a_row,
    given,
    own,
    replacement,
    shown,
    started,
    whole,
)
from tests.compaction.three_uploads import ROW, SWAP, R, U, V, W, late, names
from tierfold.compaction.brokers.broker_view import ReadOnly, ReadOnlyCause
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.steps import (
    Copy,
    Done,
    RefusalCode,
    Refused,
    Retire,
    Send,
)


def test_a_live_segment_that_brokers_deleted_is_copied() -> None:
    topic = [*whole(U, V, W), given(V, LISTED)]
    row = a_row([U, V, W])
    step = next_step(a_look(row, topic))
    assert isinstance(step, Copy)
    assert step.segment_id == V.segment_id
    gone = a_look(row, [*topic, given(V, GONE)], whole=frozenset())
    step = next_step(gone)
    assert isinstance(step, Refused)
    assert step.code is RefusalCode.DELETED_BY_BROKERS


def test_an_upload_that_brokers_never_had() -> None:
    step = next_step(a_look(a_row([U, V, W]), whole(U, W)))
    assert isinstance(step, Refused)
    assert step.code is RefusalCode.NEVER_NAMED


def test_a_segment_of_another_history() -> None:
    foreign = late("F", 10, 14, leader_epochs=epochs((3, 10)))
    topic = [*whole(U, V, W, foreign), started(R)]
    step = next_step(a_look(ROW, topic))
    assert isinstance(step, Refused)
    assert step.code is RefusalCode.OUTSIDE_LINEAGE
    given_up = a_row([R, W], [U, V, foreign])
    assert isinstance(next_step(a_look(given_up, topic)), Send)


def test_one_of_another_history_that_shares_no_offset() -> None:
    foreign = late("F", 30, 39, leader_epochs=epochs((3, 30)))
    topic = [*whole(U, V, W, foreign), started(R)]
    assert names(next_step(a_look(ROW, topic))) == SWAP
    step = next_step(a_look(a_row([U, V, W], [foreign]), topic[:-1]))
    assert shown(step, foreign, names="F") == ["DELETE_STARTED F"]


def test_one_of_another_catalog_goes_before_a_hole() -> None:
    foreign = replacement("F", 10, 19, segment_id=own("F", FINGERPRINT ^ 1))
    topic = [*whole(U, V, late("L", 10, 29)), *whole(foreign)]
    step = next_step(a_look(a_row([U, V, late("L", 10, 29)]), topic))
    assert isinstance(step, Refused)
    assert step.code is RefusalCode.ANOTHER_CATALOG


def test_a_segment_of_another_catalog() -> None:
    foreign = replacement("F", 0, 19, segment_id=own("F", FINGERPRINT ^ 1))
    step = next_step(a_look(a_row([U, V, W]), [*whole(U, V, W), started(foreign)]))
    assert isinstance(step, Refused)
    assert step.code is RefusalCode.ANOTHER_CATALOG


def test_a_catalog_that_was_set_back() -> None:
    step = next_step(a_look(a_row([U, V, W]), whole(U, V, W, R)))
    assert isinstance(step, Refused)
    assert step.code is RefusalCode.CATALOG_SET_BACK


def test_a_late_started_is_retired_after_the_grace_period() -> None:
    row, topic = a_row([U, V, W]), whole(U, V, W)
    young = (started(R), NOW_MS - LIMITS.grace_ms + 1)
    assert next_step(a_look(row, [*topic, young])) == Done()
    step = next_step(a_look(row, [*topic, (started(R), NOW_MS - LIMITS.grace_ms)]))
    assert isinstance(step, Retire)
    assert step.segment_ids == (R.segment_id,)
    step = next_step(a_look(a_row([U, V, W], [R]), [*topic, started(R)]))
    assert names(step) == ["FINISHED U", "FINISHED V", "DELETE_STARTED R"]


def test_a_log_that_ends_below_the_tier() -> None:
    step = next_step(a_look(ROW, whole(U, V, W), high_watermark=29))
    assert isinstance(step, Refused)
    assert step.code is RefusalCode.BEYOND_LOG
    assert isinstance(next_step(a_look(ROW, whole(U, V, W), high_watermark=30)), Send)


def test_a_record_that_is_in_the_way() -> None:
    look = a_look(ROW, whole(U, V, W))
    cause = ReadOnly(
        cause=ReadOnlyCause.KEYED, metadata_partition=0, offset=1, why="has a key"
    )
    step = next_step(replace(look, view=replace(look.view, read_only=(cause,))))
    assert isinstance(step, Refused)
    assert step.code is RefusalCode.READ_ONLY


def test_a_retired_segment_that_nothing_covers() -> None:
    step = next_step(a_look(a_row([V, W], [U]), whole(U, V, W)))
    assert isinstance(step, Refused)
    assert step.code is RefusalCode.UNCOVERED


def test_what_brokers_deleted_waits_for_no_upload() -> None:
    at_work = (started(late("P", 15, 39)), NOW_MS)
    topic = [*whole(U, V, W), given(W, LISTED), started(R), at_work]
    step = next_step(a_look(a_row([R, W], [U, V]), topic))
    assert isinstance(step, Copy), "the replacement before it waits"
    assert step.segment_id == W.segment_id
    copy = replacement("C", 20, 29)
    topic += [started(copy)]
    step = next_step(a_look(a_row([R, copy], [U, V, W]), topic))
    assert shown(step, copy, names="C") == ["FINISHED C"]

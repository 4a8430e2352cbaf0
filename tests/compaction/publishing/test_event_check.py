"""Every event that the decision sends passes the check; each rule forbids what only it forbids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tests.compaction.broker_events import FINISHED, GONE, LISTED, OTHER_KEY, STARTED, updated
from tests.compaction.builders import KEY, a_segment, epochs
from tests.compaction.hash_keys import FINGERPRINT
from tests.compaction.looks import (
    LIMITS,
    NOW_MS,
    a_look,
    a_row,
    given,
    own,
    replacement,
    started,
    whole,
)
from tests.compaction.publishing.drawn_partitions import drawn_partition
from tierfold.compaction.brokers.broker_view import ReadOnly, ReadOnlyCause
from tierfold.compaction.brokers.event_bytes import decode
from tierfold.compaction.brokers.events import Event, SegmentAdded
from tierfold.compaction.publishing.deletions import next_deletion
from tierfold.compaction.publishing.event_check import (
    Checked,
    EventRule,
    ForbiddenEvent,
    checked,
)
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.replacements import started_event
from tierfold.compaction.publishing.steps import Deletion, Done, Purpose, Refused, Send, Step

U, V, W = a_segment(0, 9), a_segment(10, 19), a_segment(20, 29)
R = replacement("R", 0, 19)
S = replacement("S", 20, 29)
UPLOADS = whole(U, V, W)
SWAPPED = [*UPLOADS, *whole(R), given(U, LISTED), given(V, LISTED)]
RECENTLY_MS = NOW_MS - LIMITS.grace_ms + 1


def the_start(**fields: Any) -> Event:
    return started_event(KEY, R, NOW_MS)._replace(**fields)


def finished(segment: Any, **fields: Any) -> Event:
    return given(segment, FINISHED)._replace(**{"broker_id": -1, **fields})


def listed(segment: Any, **fields: Any) -> Event:
    return given(segment, LISTED)._replace(**{"broker_id": -1, **fields})


def gone(segment: Any, **fields: Any) -> Event:
    return given(segment, GONE)._replace(**{"broker_id": -1, **fields})


def before_start(**fields: Any) -> Look:
    return a_look(a_row([R, W], [U, V]), UPLOADS, **fields)


def before_swap(*more: Event | tuple[Event, int], **fields: Any) -> Look:
    return a_look(a_row([R, W], [U, V]), [*UPLOADS, the_start(), *more], **fields)


def after_deletion(**fields: Any) -> Look:
    return a_look(a_row([R, W], [U, V]), SWAPPED, **{"present": frozenset(), **fields})


def rule_of(look: Look, *events: Event) -> EventRule | None:
    """The rule that forbids the last of the events; None: all are allowed."""
    found = checked(look, events)
    if isinstance(found, Checked):
        assert [decode(value) for value in found.values] == list(events)
        return None
    assert found.event in (events[-1], None)
    assert found.why.strip()
    return found.rule


def test_the_three_sends_of_a_swap_are_allowed() -> None:
    assert rule_of(before_start(), the_start()) is None
    assert rule_of(before_swap(), finished(R), listed(U), listed(V)) is None
    assert rule_of(after_deletion(), gone(U), gone(V)) is None


def test_the_same_start_once_more_is_allowed_only_before_the_swap() -> None:
    assert rule_of(before_swap(), the_start(event_timestamp_ms=1)) is None
    assert rule_of(before_start(), the_start(), the_start()) is None
    swapped = before_swap(given(R, FINISHED), given(U, LISTED), given(V, LISTED))
    assert rule_of(swapped, the_start()) is EventRule.TRANSITION


@pytest.mark.parametrize(
    "event",
    [
        the_start(leader_epochs=()),
        the_start(end_offset=-1),
        the_start(leader_epochs=epochs((1, 5), (0, 0))),
        the_start(size_bytes=2**31),
        the_start(has_unknown_fields=True),
        the_start(segment_id=f"{R.segment_id[:-1]}B"),
        the_start(segment_id=R.segment_id[:-4]),
        the_start(key=replace(KEY, topic="or ders")),
        finished(R)._replace(state=4),
        finished(R)._replace(state=256),
    ],
)
def test_what_is_not_read_back_as_the_same_event(event: Event) -> None:
    assert rule_of(before_start(), event) is EventRule.READABLE


def test_what_brokers_would_stop_at_is_said() -> None:
    found = checked(before_start(), [the_start(leader_epochs=())])
    assert isinstance(found, ForbiddenEvent)
    assert found.why == f"segment {R.segment_id}: an event adds a segment without leader epochs"


def test_events_of_other_partitions_and_brokers() -> None:
    assert rule_of(before_start(), the_start(key=OTHER_KEY)) is EventRule.PARTITION
    assert rule_of(before_start(), the_start(broker_id=0)) is EventRule.BROKER
    assert rule_of(before_swap(), finished(R, broker_id=1)) is EventRule.BROKER


@pytest.mark.parametrize(
    ("look", "event"),
    [
        (before_start(), finished(R)),
        (before_swap(), updated("", STARTED)._replace(segment_id=R.segment_id, broker_id=-1)),
        (after_deletion(), finished(U)._replace(segment_id=own("unknown"))),
        (a_look(a_row([R, W], [U, V]), [*SWAPPED, given(R, LISTED)]), finished(R)),
        (before_swap(present=frozenset()), gone(U)),
    ],
)
def test_transitions_that_brokers_do_not_take(look: Look, event: Event) -> None:
    assert rule_of(look, event) is EventRule.TRANSITION


def test_an_update_repeats_what_the_plugin_noted() -> None:
    noted = [event._replace(custom_metadata=b"place") for event in UPLOADS]
    look = a_look(a_row([R, W], [U, V]), [*noted, started(R)])
    assert rule_of(look, finished(R), listed(U)) is EventRule.METADATA
    assert rule_of(look, finished(R), listed(U, custom_metadata=b"place")) is None


def test_only_live_segments_of_runs_are_started() -> None:
    look = before_start()
    assert rule_of(look, the_start(segment_id=own("X"))) is EventRule.LIVE
    assert rule_of(a_look(a_row([S], [R]), []), the_start()) is EventRule.LIVE
    upload = started_event(KEY, W, NOW_MS)
    assert rule_of(a_look(a_row([R, W]), []), upload) is EventRule.MAKER
    for mark in (FINGERPRINT + 1, FINGERPRINT - 1):
        other = replace(R, segment_id=own("R", mark))
        look = a_look(a_row([other, W], [U, V]), UPLOADS)
        assert rule_of(look, started_event(KEY, other, NOW_MS)) is EventRule.MAKER
    adopted = a_segment(0, 19, segment_id=R.segment_id)
    look = a_look(a_row([adopted, W], [U, V]), UPLOADS)
    assert rule_of(look, the_start()) is EventRule.MAKER


def test_what_an_older_release_wrote_is_started_if_the_row_has_it_live() -> None:
    unmarked = replace(R, segment_id="dGllcmZvbGQuR8DkMUaQBg")
    look = a_look(a_row([unmarked, W], [U, V]), UPLOADS)
    assert rule_of(look, started_event(KEY, unmarked, NOW_MS)) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"start_offset": 1},
        {"end_offset": 18},
        {"leader_epochs": epochs((0, 1))},
        {"size_bytes": 999},
        {"max_timestamp_ms": -1},
        {"custom_metadata": b"x"},
        {"is_transaction_index_empty": False},
    ],
)
def test_a_start_is_as_the_row_describes_it(fields: dict[str, Any]) -> None:
    assert rule_of(before_start(), the_start(**fields)) is EventRule.AS_IN_ROW


def test_a_segment_without_bytes_is_not_started() -> None:
    empty = replace(R, size_bytes=0)
    look = a_look(a_row([empty, W], [U, V]), UPLOADS)
    assert rule_of(look, started_event(KEY, empty, NOW_MS)) is EventRule.AS_IN_ROW


@pytest.mark.parametrize(
    "fields", [{"end_offset": 18}, {"size_bytes": 999}, {"leader_epochs": epochs((0, 0), (1, 9))}]
)
def test_an_id_keeps_its_contents(fields: dict[str, Any]) -> None:
    look = a_look(a_row([R, W], [U, V]), [*UPLOADS, the_start(**fields)])
    assert rule_of(look, the_start()) is EventRule.NEW


def test_an_id_that_was_deleted_does_not_start_again() -> None:
    life = [*whole(R), given(R, LISTED), given(R, GONE)]
    look = a_look(a_row([R, W], [U, V]), [*UPLOADS, *life])
    assert rule_of(look, the_start()) is EventRule.NEW
    assert rule_of(before_start(naming={}), the_start()) is EventRule.NEW


def test_what_is_of_another_history_is_neither_started_nor_finished() -> None:
    lineage = epochs((0, 0), (1, 10))
    assert rule_of(before_start(lineage=lineage), the_start()) is EventRule.LINEAGE
    assert rule_of(before_swap(lineage=lineage), finished(R)) is EventRule.LINEAGE


def test_only_what_is_live_or_an_upload_is_finished() -> None:
    look = before_swap()
    assert rule_of(look, finished(U)) is EventRule.LIVE
    assert rule_of(look, finished(W)) is None
    beside = a_segment(30, 39)
    assert rule_of(before_swap(*whole(beside)), finished(beside)) is None
    assert rule_of(before_swap(started(beside)), finished(beside)) is EventRule.LIVE
    assert rule_of(before_swap(started(S)), finished(S)) is EventRule.LIVE


def test_a_replacement_is_not_finished_beside_another_segment() -> None:
    late = a_segment(15, 35)
    assert rule_of(before_swap(*whole(late)), finished(R)) is EventRule.ALONE
    look = a_look(a_row([R, S], [U, V]), [*UPLOADS, started(R), started(S)])
    assert rule_of(look, finished(S)) is EventRule.ALONE
    again = a_look(a_row([R, W], [U, V]), [*SWAPPED, *whole(late)])
    assert rule_of(again, finished(R)) is None, "a repair"
    crossing = replacement("C", 10, 29)
    look = a_look(
        a_row([R, crossing], [U, V, W]), [*UPLOADS, started(R), started(crossing)]
    )
    assert rule_of(look, finished(R), finished(crossing)) is EventRule.ALONE


def test_only_what_is_retired_is_listed() -> None:
    look = before_swap()
    assert rule_of(look, finished(R), listed(R)) is EventRule.RETIRED
    assert rule_of(look, listed(W)) is EventRule.RETIRED
    beside = a_segment(30, 39)
    assert rule_of(before_swap(*whole(beside)), listed(beside)) is EventRule.RETIRED


def test_what_no_row_names_is_not_listed() -> None:
    forgotten = replacement("F", 0, 19)
    upload = a_segment(0, 19, segment_id="u" * 21 + "A")
    for segment in (forgotten, upload):
        look = before_swap(started(segment))
        assert rule_of(look, finished(R), listed(segment)) is EventRule.RETIRED
        look = a_look(a_row([R, W], [U, V, segment]), [*UPLOADS, started(R), started(segment)])
        assert rule_of(look, finished(R), listed(segment)) is None
        assert rule_of(look, listed(segment)) is EventRule.COVERED


def test_nothing_is_listed_without_what_covers_it() -> None:
    look = before_swap()
    assert rule_of(look, listed(U)) is EventRule.COVERED
    assert rule_of(a_look(a_row([R, W], [U, V]), [*UPLOADS, *whole(R)]), listed(U)) is None
    short = replacement("R", 0, 18)
    look = a_look(a_row([short, W], [U, V]), [*UPLOADS, started(short)])
    assert rule_of(look, finished(short), listed(U), listed(V)) is EventRule.COVERED


def test_what_is_retired_or_no_longer_read_covers_nothing() -> None:
    older = replacement("Q", 0, 19)
    look = a_look(a_row([R, W], [U, V, older]), [*UPLOADS, started(R), *whole(older)])
    assert rule_of(look, listed(U)) is EventRule.COVERED
    late = a_segment(0, 15, segment_id="l" * 21 + "A")
    assert rule_of(before_swap(*whole(late)), listed(U)) is EventRule.COVERED
    look = a_look(a_row([R, W], [U, V]), [*UPLOADS, *whole(R), given(R, LISTED)])
    assert rule_of(look, listed(U)) is EventRule.COVERED


def test_below_the_log_start_nothing_needs_cover() -> None:
    assert rule_of(before_swap(log_start=10), listed(U)) is None
    assert rule_of(before_swap(log_start=9), listed(U)) is EventRule.COVERED
    tail = replacement("R", 5, 19)
    look = a_look(a_row([tail, W], [U, V]), [*UPLOADS, started(tail)], log_start=5)
    assert rule_of(look, finished(tail), listed(U), listed(V)) is None


def test_what_is_of_another_history_needs_no_cover_once_it_is_retired() -> None:
    other = a_segment(30, 39, leader_epochs=epochs((7, 30)))
    look = a_look(a_row([U, V, W], [other]), [*UPLOADS, *whole(other)])
    assert rule_of(look, listed(other)) is None


def test_a_deletion_may_be_listed_once_more() -> None:
    look = a_look(a_row([W], [U]), [*UPLOADS, given(U, LISTED)])
    assert rule_of(look, listed(U)) is None


def test_only_what_went_long_ago_with_its_objects_is_gone() -> None:
    look = after_deletion()
    assert rule_of(a_look(a_row([R, W], [U]), SWAPPED, present=frozenset()), gone(V)) is (
        EventRule.RETIRED
    )
    present = frozenset({U.segment_id})
    assert rule_of(replace(look, present=present), gone(U)) is EventRule.OBJECTS
    recent = [*UPLOADS, *whole(R), (given(U, LISTED), RECENTLY_MS)]
    look = a_look(a_row([R, W], [U, V]), recent, present=frozenset())
    assert rule_of(look, gone(U)) is EventRule.GRACE
    swap = (finished(R), listed(U))
    assert rule_of(before_swap(present=frozenset()), *swap, gone(U)) is EventRule.GRACE


def test_a_batch_is_not_empty_and_not_too_large() -> None:
    look = before_swap()
    assert rule_of(look, finished(W)) is None
    assert checked(look, ()) == ForbiddenEvent(
        event=None, rule=EventRule.BATCH, why="the batch is empty"
    )
    events = (finished(R), listed(U), listed(V))
    values = checked(look, events)
    assert isinstance(values, Checked)
    most = 61 + sum(len(value) + 32 for value in values.values)
    for size, rule in ((most, None), (most - 1, EventRule.BATCH)):
        limits = replace(LIMITS, batch_bytes_max=size)
        assert rule_of(replace(look, limits=limits), *events) is rule


def test_nothing_is_sent_where_a_record_forbids_it() -> None:
    reason = ReadOnly(
        cause=ReadOnlyCause.KEYED, metadata_partition=0, offset=1, why="has a key"
    )
    look = before_start()
    look = replace(look, view=replace(look.view, read_only=(reason,)))
    assert rule_of(look, the_start()) is EventRule.READ_ONLY


def decisions(seed: int) -> Iterator[tuple[Look, Step | Deletion]]:
    """What is decided for a partition, while brokers do as they are asked and other things happen.
    """
    rng = Random(seed)
    partition = drawn_partition(rng)
    for _ in range(15):
        look = partition.look()
        step: Step | Deletion = next_step(look)
        if not isinstance(step, Send | Refused) and rng.random() < 0.5:
            deletion = next_deletion(look)
            step = step if isinstance(deletion, Done) else deletion
        yield look, step
        if isinstance(step, Refused):
            break
        if not partition.taken(step) or rng.random() < 0.3:
            partition.surprised()


def sends(seeds: Sequence[int]) -> Iterator[tuple[int, Look, Send]]:
    for seed in seeds:
        for look, step in decisions(seed):
            if isinstance(step, Send):
                yield seed, look, step


def test_whatever_is_decided_is_allowed() -> None:
    purposes: Counter[Purpose] = Counter()
    for seed, look, step in sends(range(100)):
        assert isinstance(checked(look, step.events), Checked), (seed, step)
        purposes[step.purpose] += 1
    of_rebuild = {Purpose.NAME_AGAIN, Purpose.SERVE_AGAIN}
    assert min(purposes[one] for one in set(Purpose) - of_rebuild) > 5


def test_a_batch_that_lacks_what_covers_its_deletions_is_forbidden() -> None:
    forbidden: Counter[EventRule] = Counter()
    for _, look, step in sends(range(100, 140)):
        deletions = [one for one in step.events if _is_listed(one)]
        if step.purpose is Purpose.SWAP and len(deletions) < len(step.events):
            found = checked(look, deletions) if deletions else None
            if isinstance(found, ForbiddenEvent):
                forbidden[found.rule] += 1
    assert forbidden[EventRule.COVERED] > 20
    assert set(forbidden) == {EventRule.COVERED}


def _is_listed(event: Event) -> bool:
    return not isinstance(event, SegmentAdded) and event.state == LISTED

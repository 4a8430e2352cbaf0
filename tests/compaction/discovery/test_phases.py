"""What brokers have of a segment decides if it is part of the log, and where it ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compaction.beside_brokers import (
    brokers_have,
    facts_beside,
    own_id,
    view_beside,
)
from tests.compaction.broker_events import FINISHED, GONE, LISTED, STARTED, added, updated, uploaded
from tests.compaction.builders import a_segment, a_state, epochs, retired, segment_id
from tests.compaction.uploads import a_row, spans, upload
from tierfold.compaction.discovery.candidates import EndFrom
from tierfold.compaction.discovery.phases import Phase, as_brokers_have, phase_of
from tierfold.compaction.model.origins import Compacted

FIRST = upload(0, 9)
SECOND = upload(10, 19)


@pytest.mark.parametrize(
    ("states", "phase"),
    [
        ((), Phase.NEVER_NAMED),
        ((STARTED,), Phase.STARTED),
        ((STARTED, FINISHED), Phase.FINISHED),
        ((STARTED, FINISHED, LISTED), Phase.LISTED),
        ((STARTED, FINISHED, LISTED, GONE), Phase.GONE),
    ],
)
def test_a_segment_stands_where_its_last_event_put_it(
    states: tuple[int, ...], phase: Phase
) -> None:
    events = [
        added("0-9", 0, 9) if state is STARTED else updated("0-9", state)  # type: ignore[arg-type]
        for state in states
    ]
    brokers = brokers_have(events, [FIRST.segment_id])
    assert phase_of(FIRST.segment_id, brokers) is phase


@pytest.mark.parametrize(
    ("state", "note"),
    [
        (None, "1 segment whose upload brokers began and have not finished"),
        (LISTED, "1 segment that brokers are deleting"),
        (GONE, "1 segment that brokers deleted, of which objects are left"),
    ],
)
def test_only_what_is_finished_is_taken(state: None, note: str) -> None:
    events = [*uploaded("0-9", 0, 9), added("10-19", 10, 19)]
    if state is not None:
        events += [updated("10-19", FINISHED), updated("10-19", LISTED), updated("10-19", state)]
    view = view_beside(None, [FIRST, SECOND], events)
    assert spans(view) == ["0-9"]
    assert view.notes == (f"{note}: kept, not read",)
    assert (view.waiting, view.orphans) == ((), ())


def test_a_segment_ends_where_brokers_say() -> None:
    events = [*uploaded("0-9", 0, 11), *uploaded("12-19", 12, 19)]
    view = view_beside(None, [FIRST, upload(12, 19)], events)
    assert spans(view) == ["0-11", "12-19"]
    assert view.holes == ()
    with_last = view_beside(None, [FIRST], uploaded("0-9", 0, 11))
    assert with_last.next_offset == 12


def test_the_live_end_is_the_one_that_brokers_noted() -> None:
    row = a_state([a_segment(0, 9)])
    events = [*uploaded(0, 0, 11), *uploaded("12-19", 12, 19)]
    assert spans(view_beside(row, [upload(12, 19)], events)) == ["0-11", "12-19"]
    unfinished = [added(0, 0, 11)]
    assert spans(view_beside(row, [], unfinished)) == ["0-9"]


def test_the_end_of_what_a_run_replaced_is_known_from_its_sources() -> None:
    ours = a_segment(0, 9, segment_id=own_id(), origin=Compacted(run="r"))
    row = a_state([ours], retired=(retired(a_segment(0, 9)),))
    events = [*uploaded(0, 0, 11), *uploaded("12-19", 12, 19)]
    assert spans(view_beside(row, [upload(12, 19)], events)) == ["0-11", "12-19"]


@pytest.mark.parametrize(
    ("noted", "says"),
    [
        ({"end_offset": 8}, "it ends at offset 9, by brokers' metadata at 8"),
        ({"size_bytes": 999}, "its .log has 1000 bytes, by brokers' metadata 999"),
        ({"start_offset": 1}, "it starts at 0, by brokers' metadata 1"),
    ],
)
def test_objects_that_are_not_what_brokers_noted_are_not_read(
    noted: dict[str, int], says: str
) -> None:
    brokers = brokers_have([added("0-9", 0, 9)._replace(**noted), updated("0-9", FINISHED)])
    found = as_brokers_have(FIRST, brokers)
    assert says in found.corruption
    assert found.segment_id in found.corruption


def test_an_end_in_a_manifest_must_be_the_same() -> None:
    manifest = replace(FIRST, end_from=EndFrom.MANIFEST)
    brokers = brokers_have(uploaded("0-9", 0, 11))
    assert "it ends at offset 9" in as_brokers_have(manifest, brokers).corruption
    same = as_brokers_have(manifest, brokers_have(uploaded("0-9", 0, 9)))
    assert (same.corruption, same.end_from) == ("", EndFrom.BROKERS)


def test_what_cannot_be_read_stays_so() -> None:
    torn = replace(FIRST, segment=None, corruption="torn")
    assert as_brokers_have(torn, brokers_have(uploaded("0-9", 0, 9))) == torn


def test_what_a_dead_run_left_is_an_orphan_and_never_read() -> None:
    ours = upload(0, 9)
    ours = replace(ours, listed=replace(ours.listed, segment_id=own_id()))
    view = view_beside(None, [FIRST, ours], uploaded("0-9", 0, 9))
    assert [one.segment_id for one in view.orphans] == [ours.segment_id]
    assert spans(view) == ["0-9"]
    assert "that runs wrote and did not commit" in view.notes[0]


def test_the_log_begins_where_brokers_say() -> None:
    row = a_row((0, 9), (10, 19), (20, 29))
    deleted = [*uploaded("live0", 0, 9), updated("live0", LISTED)]
    events = [*deleted, *uploaded("live10", 10, 19), *uploaded("live20", 20, 29)]
    view = view_beside(row, [], events, gone=[segment_id("live0")], log_start=12)
    assert spans(view) == ["10-19", "20-29"]
    assert view.log_start_offset == 12


def test_what_expires_is_not_taken_again() -> None:
    events = [*uploaded("0-9", 0, 9), *uploaded("10-19", 10, 19)]
    view = view_beside(None, [FIRST, SECOND], events, log_start=10)
    assert spans(view) == ["10-19"]
    assert view.log_start_offset == 10
    assert view.notes == ("1 segment below the brokers' log start: kept, not read",)
    assert view_beside(None, [FIRST], uploaded("0-9", 0, 9), log_start=5).log_start_offset == 5


def test_our_own_log_start_stays_if_it_is_higher() -> None:
    row = a_row((10, 19))
    events = [*uploaded("live10", 10, 19)]
    assert view_beside(row, [], events, log_start=3).log_start_offset == 10


def test_a_retired_segment_stays_retired() -> None:
    row = a_state([a_segment(10, 19)], retired=(retired(a_segment(0, 9)),), log_start_offset=0)
    events = [*uploaded(0, 0, 9), *uploaded(10, 10, 19)]
    facts = facts_beside(row, [], events)
    assert facts.candidates == ()
    assert spans(view_beside(row, [], events)) == ["10-19"]


def test_a_retired_tail_of_a_deposed_leader_does_not_end_the_log() -> None:
    live = [
        a_segment(0, 9, segment_id=segment_id("live0")),
        a_segment(10, 19, segment_id=segment_id("live10"), leader_epochs=epochs((2, 10))),
    ]
    cut = a_segment(10, 29, segment_id=segment_id("cut"))
    row = a_state(live, lineage=epochs((0, 0), (2, 10)), retired=(retired(cut),))
    events = [
        *uploaded("live0", 0, 9),
        *uploaded("live10", 10, 19, epochs={2: 10}),
        *uploaded("cut", 10, 29, epochs={0: 10}),
    ]
    late = upload(20, 25, (0, 0), (2, 10))
    events += uploaded("20-25", 20, 25, epochs={2: 20})
    view = view_beside(row, [late], events)
    assert view.holes == ()
    assert spans(view)[-1].startswith("20")

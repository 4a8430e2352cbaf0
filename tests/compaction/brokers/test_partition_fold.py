"""Events of one partition change what look-ups find by the rules of a broker's cache.

`tests/oracle/test_same_metadata.py` compares with that cache; these are the rules by name.
"""

from __future__ import annotations

import pytest

from tests.compaction.broker_events import (
    FINISHED,
    GONE,
    LISTED,
    STARTED,
    added,
    updated,
    uploaded,
    view,
)
from tests.compaction.builders import segment_id
from tierfold.compaction.brokers.broker_view import BrokerView
from tierfold.compaction.brokers.events import Event, SegmentState
from tierfold.compaction.brokers.partition_fold import PartitionFold, Taken

TO_STATE: dict[SegmentState | None, list[Event]] = {
    None: [],
    STARTED: [added("a", 0, 9)],
    FINISHED: uploaded("a", 0, 9),
    LISTED: [added("a", 0, 9), updated("a", LISTED)],
    GONE: [added("a", 0, 9), updated("a", LISTED), updated("a", GONE)],
}
"""Events that bring a segment into a state; None: it is unknown."""


def found(seen: BrokerView, *offsets: int, epoch: int = 0) -> list[str]:
    """The first letters of the segments that look-ups at these offsets find; `-`: none."""
    segments = [seen.find(epoch, offset) for offset in offsets]
    return ["-" if segment is None else segment.added.segment_id[0] for segment in segments]


APPLIED, DROPPED, STOPS = Taken


@pytest.mark.parametrize(
    ("before", "outcomes"),
    [
        (None, (APPLIED, DROPPED, DROPPED, DROPPED, DROPPED)),
        (STARTED, (APPLIED, STOPS, APPLIED, APPLIED, DROPPED)),
        (FINISHED, (DROPPED, DROPPED, APPLIED, APPLIED, DROPPED)),
        (LISTED, (DROPPED, DROPPED, DROPPED, APPLIED, APPLIED)),
        (GONE, (APPLIED, DROPPED, DROPPED, DROPPED, DROPPED)),
    ],
)
def test_each_state_takes_the_events_that_kafka_allows(
    before: SegmentState | None, outcomes: tuple[Taken, ...]
) -> None:
    events = [added("a", 0, 9), *(updated("a", state) for state in SegmentState)]
    for event, outcome in zip(events, outcomes, strict=True):
        fold = PartitionFold()
        for earlier in TO_STATE[before]:
            fold.apply(earlier, 0)
        kept = dict(fold.segments)
        assert fold.apply(event, 5) == outcome, event
        assert (dict(fold.segments) == kept) is (outcome != APPLIED)


def test_an_upload_is_found_once_it_is_finished_until_it_is_listed() -> None:
    started, finished = added("a", 0, 9), updated("a", FINISHED)
    assert found(view(started), 0) == ["-"]
    assert found(view(started, finished), -1, 0, 9, 10) == ["-", "a", "a", "-"]
    assert found(view(started, finished, updated("a", LISTED)), 0) == ["-"]


def test_a_look_up_is_bounded_by_the_range_of_its_leader_epoch() -> None:
    seen = view(*uploaded("a", 0, 9, epochs={0: 0, 3: 6}))
    assert found(seen, 0, 5, 6, epoch=0) == ["a", "a", "-"]
    assert found(seen, 5, 6, 9, 10, epoch=3) == ["-", "a", "a", "-"]
    assert found(seen, 6, epoch=2) == ["-"]


def test_a_replacement_takes_the_place_of_its_sources_step_by_step() -> None:
    sources = [*uploaded("a", 0, 9), *uploaded("b", 10, 19), *uploaded("c", 20, 29)]
    events = [*sources, *uploaded("r", 0, 19)]
    # It ends below the epoch's highest offset, so the sources behind its start stay.
    assert found(view(*events), 0, 9, 10, 20) == ["r", "r", "b", "c"]
    events.append(updated("a", LISTED))
    assert found(view(*events), 0, 9, 10, 20) == ["r", "r", "b", "c"]
    events.append(updated("b", LISTED))
    assert found(view(*events), 0, 9, 10, 20) == ["r", "r", "r", "c"]


def test_deletions_in_descending_order_leave_a_hole() -> None:
    sources = [*uploaded("a", 0, 9), *uploaded("b", 10, 19), *uploaded("c", 20, 29)]
    events = [*sources, *uploaded("r", 0, 29)[:1], *uploaded("z", 30, 39), updated("r", FINISHED)]
    assert found(view(*events, updated("c", LISTED)), 0, 10, 20) == ["r", "b", "-"]


def test_an_upload_to_the_highest_offset_takes_the_place_of_all_behind_its_start() -> None:
    seen = view(*uploaded("a", 0, 9), *uploaded("b", 10, 19), *uploaded("w", 5, 19))
    assert found(seen, 0, 4, 5, 19) == ["a", "a", "w", "w"]
    assert seen.unreferenced[0] == {segment_id("b")}
    assert seen.referenced_ids == {segment_id("a"), segment_id("w")}


def test_a_segment_of_the_same_range_takes_the_place_of_the_other() -> None:
    seen = view(*uploaded("a", 0, 9), *uploaded("r", 0, 9))
    assert found(seen, 0, 9) == ["r", "r"]
    assert seen.unreferenced[0] == {segment_id("a")}


def test_an_older_segment_of_the_same_start_hides_offsets_until_the_other_is_repeated() -> None:
    events = [*uploaded("w", 0, 19), *uploaded("r", 0, 9)]
    assert found(view(*events), 0, 9, 10, 19) == ["r", "r", "-", "-"]
    assert found(view(*events, updated("w", FINISHED)), 0, 19) == ["w", "w"]


def test_the_highest_offset_stays_that_of_segments_that_are_gone() -> None:
    gone = [*uploaded("a", 0, 29), updated("a", LISTED), updated("a", GONE)]
    seen = view(*gone, *uploaded("b", 10, 19), *uploaded("c", 0, 19))
    assert found(seen, 0, 10) == ["c", "b"]


def test_only_the_segment_itself_leaves_its_place() -> None:
    events = [*uploaded("a", 0, 9), *uploaded("r", 0, 9), updated("a", LISTED)]
    assert found(view(*events), 0) == ["r"]


def test_segments_that_are_pending_listed_or_gone() -> None:
    seen = view(
        *uploaded("b", 10, 19),
        added("d", 30, 39),
        added("c", 20, 29),
        *uploaded("a", 0, 9),
        updated("a", LISTED),
        *uploaded("e", 40, 49),
        updated("e", LISTED),
        updated("e", GONE),
    )
    by_state = {
        state: [segment.added.segment_id[0] for segment in seen.in_state(state)]
        for state in SegmentState
    }
    assert by_state == {STARTED: ["c", "d"], FINISHED: ["b"], LISTED: ["a"], GONE: []}
    assert seen.unreferenced[0] == {segment_id(name) for name in "acd"}


def test_a_segment_that_is_started_again_has_the_latter_offsets() -> None:
    seen = view(added("a", 0, 9), added("a", 0, 19), updated("a", FINISHED))
    assert found(seen, 15) == ["a"]


def test_a_segment_says_what_its_last_event_noted_and_when() -> None:
    events = [
        added("a", 0, 9, custom_metadata=b"1"),
        updated("a", FINISHED, custom_metadata=b"2"),
        updated("a", FINISHED),
        updated("a", LISTED, custom_metadata=b"4"),
        updated("a", LISTED, custom_metadata=b"5"),
        updated("a", FINISHED, custom_metadata=b"dropped"),
    ]
    noted = []
    for count in range(1, len(events) + 1):
        (segment,) = view(*events[:count]).segments.values()
        noted.append((segment.state, segment.custom_metadata, segment.since_ms))
    assert noted == [
        (STARTED, b"1", 1000),
        (FINISHED, b"2", 1001),
        (FINISHED, None, 1002),
        (LISTED, b"4", 1003),
        (LISTED, b"5", 1004),
        (LISTED, b"5", 1004),
    ]
    assert segment.added == events[0]

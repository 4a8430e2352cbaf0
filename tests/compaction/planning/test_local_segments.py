"""What a new leader takes over of a served row, and which local segments of brokers lie below."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from tests.compaction.beside_brokers import brokers_have, own_id
from tests.compaction.broker_events import GONE, LISTED, added, updated, uploaded
from tests.compaction.builders import (
    CLUSTER,
    a_chain,
    a_segment,
    a_state,
    cleaned_to,
    epochs,
    retired,
    segment_id,
)
from tierfold.compaction.brokers.cluster_facts import Absence, UnknownOffsets
from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.brokers.epoch_ends import (
    EpochAnswer,
    EpochEnd,
    NoAnswer,
    NotAllowed,
    UnknownEpoch,
)
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.model.origins import Compacted, Copied
from tierfold.compaction.model.segment_ids import uploaded_id
from tierfold.compaction.model.segments import CleanerOffset, PartitionState
from tierfold.compaction.planning.local_segments import LocalSegments, local_segments

HOUR_MS: Final = 3_600_000
NOW_MS: Final = 10 * HOUR_MS
"""After what brokers keep, and the slack."""
FOUR: Final = a_chain(10, 10, 10, 10, max_timestamp_ms=NOW_MS)


def upload(start: int, end: int, **fields: Any) -> list[Event]:
    return uploaded(start, start, end, max_timestamp_ms=NOW_MS, **fields)


ALL: Final[list[Event]] = [
    event for one in FOUR for event in upload(one.start_offset, one.end_offset)
]


def brokers(
    *events: Event, answers: dict[int, EpochAnswer] | None = None, **numbers: int
) -> BrokerPartition:
    """Brokers that keep local copies for an hour."""
    found = replace(brokers_have(events, **numbers), local_retention_ms=HOUR_MS)
    return found if answers is None else replace(found, epoch_answers=answers)


def a_row(cleaned: int | None = 20, **fields: Any) -> PartitionState:
    """The first two uploads are replaced; all records came just now."""
    merged = a_segment(
        0, 19, segment_id=own_id(), origin=Compacted("run"), max_timestamp_ms=NOW_MS
    )
    row = a_state(
        (merged, *FOUR[2:]),
        retired=tuple(map(retired, FOUR[:2])),
        served_by=(CLUSTER,),
        local_retention_ms=HOUR_MS,
        cleaner_offsets=() if cleaned is None else cleaned_to(cleaned),
    )
    return replace(row, **fields)


def found_of(row: PartitionState, beside: BrokerPartition, now_ms: int = NOW_MS) -> LocalSegments:
    found = local_segments(row, row.lineage, beside, now_ms)
    assert found is not None
    return found


def spans(found: LocalSegments) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The segments that brokers can have, and those of them that lie below the cleaner offset."""
    return (
        [(one.start_offset, one.end_offset) for one in found.copies],
        [(one.start_offset, one.end_offset) for one in found.cleaned],
    )


@pytest.mark.parametrize(
    ("cleaned", "below"),
    [(20, [(0, 9), (10, 19)]), (19, [(0, 9)]), (0, []), (None, [])],
)
def test_a_local_segment_below_the_cleaner_offset_is_cleaned_as_a_whole(
    cleaned: int | None, below: list[tuple[int, int]]
) -> None:
    found = found_of(a_row(cleaned), brokers(*ALL))
    assert spans(found) == ([(0, 9), (10, 19), (20, 29), (30, 39)], below)
    assert (found.cleaner_offset is None) == (cleaned is None)
    assert (found.others_below, found.is_time_limited) == (None, True)


def test_nothing_is_said_of_what_brokers_do_not_serve() -> None:
    unserved, gone = a_row(served_by=()), UnknownOffsets(Absence.NO_TOPIC, "It was deleted.")
    assert local_segments(unserved, unserved.lineage, brokers(*ALL), NOW_MS) is None
    row, beside = a_row(), replace(brokers(*ALL), offsets=gone)
    assert local_segments(row, row.lineage, beside, NOW_MS) is None


def test_what_a_run_replaced_has_its_borders_until_it_is_vacuumed() -> None:
    dropped = [event for name in (0, 10) for event in (updated(name, LISTED), updated(name, GONE))]
    forgot = brokers(*ALL, *dropped)
    assert [*forgot.view.segments] == [segment_id(20), segment_id(30)]
    found = found_of(a_row(), forgot)
    assert spans(found)[1] == [(0, 9), (10, 19)]
    assert [one.size_bytes for one in found.copies] == [1000] * 4
    vacuumed = found_of(a_row(retired=()), forgot)
    assert spans(vacuumed) == ([(20, 29), (30, 39)], [])
    assert vacuumed.others_below == 20


def test_what_brokers_cannot_have_any_longer_does_not_count() -> None:
    old = (*(replace(one, max_timestamp_ms=0) for one in FOUR[:2]), *FOUR[2:])
    row = a_row(segments=old, retired=())
    events = [*uploaded(0, 0, 9), *uploaded(10, 10, 19), *ALL[4:]]
    # The second one waits for the next, whose records may begin in it.
    found = found_of(row, brokers(*events))
    assert spans(found) == ([(10, 19), (20, 29), (30, 39)], [(10, 19)])
    assert found.others_below is None
    assert spans(found_of(row, brokers(*events), 0))[0] == [(0, 9), *spans(found)[0]]
    later = found_of(row, brokers(*events), NOW_MS + 2 * HOUR_MS)
    assert (spans(later), later.others_below) == (([], []), None)
    # Records below the log start were deleted everywhere.
    assert spans(found_of(row, brokers(*events, log_start=20)))[0] == [(20, 29), (30, 39)]


def test_without_a_known_time_limit_all_named_uploads_count() -> None:
    for_ever = replace(brokers(*ALL), local_retention_ms=None)
    found = found_of(a_row(), for_ever, NOW_MS * 100)
    assert len(found.copies) == 4
    assert not found.is_time_limited


def test_an_upload_that_is_cut_at_its_head_has_a_whole_local_segment() -> None:
    cut = replace(FOUR[2], start_offset=24, skipped_offsets=4, skipped_bytes=300, size_bytes=700)
    row = a_row(segments=(a_segment(0, 23, segment_id=own_id()), cut), retired=())
    (copy,) = (one for one in found_of(row, brokers()).copies)
    assert (copy.start_offset, copy.end_offset, copy.size_bytes) == (20, 29, 1000)


@pytest.mark.parametrize("name", [own_id(), uploaded_id(bytes(16), 5)], ids=["own", "uploaded"])
def test_what_tierfold_wrote_is_no_local_segment(name: str) -> None:
    ours = added("x", 0, 19, max_timestamp_ms=NOW_MS)._replace(segment_id=name)
    row = a_row(segments=(a_segment(0, 19, segment_id=name),), retired=())
    found = found_of(row, brokers(ours))
    assert spans(found) == ([], [])
    assert found.others_below == 20


def test_a_restored_copy_has_the_borders_of_the_upload() -> None:
    origin = Copied(run="run", copy_of=segment_id(0), upload=segment_id(0))
    copied = replace(FOUR[0], segment_id=own_id(), origin=origin)
    row = a_row(segments=(copied, *FOUR[1:]), retired=(), cleaner_offsets=cleaned_to(10))
    assert spans(found_of(row, brokers()))[1] == [(0, 9)]


ELECTED: Final = epochs((0, 0), (1, 15))


def elected(cleaned: int = 30, **fields: Any) -> PartitionState:
    """A new leader, epoch 1 from offset 15 on, uploaded again from the middle of a segment."""
    again = a_segment(15, 24, leader_epochs=epochs((1, 15)), segment_id=segment_id("again"))
    rest = a_segment(25, 39, leader_epochs=epochs((1, 25)))
    vector = (CleanerOffset(epoch=0, offset=12),)
    merged = a_segment(
        0, 24, segment_id=own_id(), origin=Compacted("run"), leader_cleaner_offsets=vector,
        max_timestamp_ms=NOW_MS,
    )
    row = a_row(
        cleaned,
        segments=(merged, replace(rest, max_timestamp_ms=NOW_MS)),
        retired=tuple(map(retired, (*FOUR[:2], again))),
        lineage=ELECTED,
    )
    return replace(row, **fields)


NEW_LEADER: Final[list[Event]] = [
    *upload(0, 9),
    *uploaded("again", 15, 24, epochs={1: 15}, max_timestamp_ms=NOW_MS),
    *upload(25, 39, epochs={1: 25}),
]


def test_uploads_of_two_leaders_overlap_and_both_are_local() -> None:
    row = elected()
    of_both = (*row.retired[:1], retired(a_segment(10, 14)), row.retired[2])
    found = found_of(replace(row, retired=of_both), brokers(*NEW_LEADER))
    assert spans(found)[1] == [(0, 9), (10, 14), (15, 24)]
    # What the old leader uploaded beyond the election is not part of the log.
    assert spans(found_of(row, brokers(*NEW_LEADER)))[1] == [(0, 9), (15, 24)]
    astray = uploaded("astray", 0, 16, epochs={0: 0, 1: 12}, max_timestamp_ms=NOW_MS)
    assert spans(found_of(row, brokers(*astray, *NEW_LEADER)))[1] == [(0, 9), (15, 24)]
    # The same records under other borders: the new leader copied them from the old one.
    events = (*uploaded("copied", 0, 14, max_timestamp_ms=NOW_MS), *NEW_LEADER)
    assert spans(found_of(row, brokers(*events)))[1] == [(0, 9), (0, 14), (15, 24)]


def test_a_leader_newer_than_the_tier_takes_over_the_newest_epoch_there() -> None:
    events = (*NEW_LEADER, added("newer", 40, 49, epochs={7: 40}, max_timestamp_ms=NOW_MS))
    found = found_of(elected(), brokers(*events))
    assert found.cleaner_offset == CleanerOffset(epoch=1, offset=30)
    assert found.copies[-1].end_offset == 49


@pytest.mark.parametrize(
    ("answers", "taken_over", "below"),
    [
        pytest.param({}, (1, 30), [(0, 9), (15, 24)], id="not asked"),
        pytest.param(
            {0: NoAnswer("none"), 1: NotAllowed("a right")},
            (1, 30),
            [(0, 9), (15, 24)],
            id="not answered",
        ),
        pytest.param(
            {0: EpochEnd(epoch=0, end_offset=15), 1: EpochEnd(epoch=1, end_offset=99)},
            (1, 30),
            [(0, 9), (15, 24)],
            id="confirmed",
        ),
        pytest.param(
            {1: EpochEnd(epoch=1, end_offset=20)}, (1, 20), [(0, 9)], id="it ended early"
        ),
        pytest.param(
            {1: EpochEnd(epoch=0, end_offset=17)}, (0, 12), [(0, 9)], id="the epoch is lost"
        ),
        pytest.param(
            {1: EpochEnd(epoch=0, end_offset=8)}, (0, 8), [], id="lost, and the one before cut"
        ),
        pytest.param({0: UnknownEpoch(), 1: UnknownEpoch()}, None, [], id="both are lost"),
    ],
)
def test_the_brokers_log_counts_not_the_tier(
    answers: dict[int, EpochAnswer],
    taken_over: tuple[int, int] | None,
    below: list[tuple[int, int]],
) -> None:
    found = found_of(elected(), brokers(*NEW_LEADER, answers=answers))
    expected = taken_over and CleanerOffset(epoch=taken_over[0], offset=taken_over[1])
    assert found.cleaner_offset == expected
    assert spans(found)[1] == below
    if expected != CleanerOffset(epoch=1, offset=30):
        assert (15, 24) not in spans(found)[0]

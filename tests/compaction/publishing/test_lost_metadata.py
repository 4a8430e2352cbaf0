"""What is named again of a lost metadata topic, in which order, and when nothing may be.

The model is what the page for operators says, in ten lines: `expected`. Brokers are a fold of all
that was sent since the loss, and of what they deleted for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from tests.compaction.broker_events import FINISHED, GONE, LISTED, view
from tests.compaction.builders import LINEAGE, a_chain, a_segment, epochs, retired
from tests.compaction.looks import a_look, a_row, given, own, replacement, started, whole
from tests.compaction.lost_looks import AGAIN, ROW, TWIN, R, U, V, W, lost, named, sent, step
from tierfold.compaction.brokers.broker_view import Naming, ReadOnly, ReadOnlyCause
from tierfold.compaction.brokers.event_bytes import encode
from tierfold.compaction.brokers.events import Event, SegmentAdded
from tierfold.compaction.brokers.partition_fold import PartitionFold
from tierfold.compaction.model.segments import PartitionState, RetiredSegment, Segment
from tierfold.compaction.publishing.batches import batch_bytes
from tierfold.compaction.publishing.event_check import (
    Checked,
    EventRule,
    ForbiddenEvent,
    checked,
)
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.lost_metadata import (
    LostAlready,
    NameAgain,
    NothingLost,
    RebuildStep,
    SafeOrder,
    StopCopying,
)
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.ranges import OffsetRange, ranges_found
from tierfold.compaction.publishing.steps import Done, Purpose, RefusalCode, Refused, Send


def in_words(events: Iterable[Event]) -> list[str]:
    names = {R.segment_id: "R", U.segment_id: "U", V.segment_id: "V", W.segment_id: "W"}
    return [
        f"{'STARTED' if isinstance(one, SegmentAdded) else one.state.name.removeprefix('COPY_')}"
        f" {names[one.segment_id]}"
        for one in events
    ]


def test_all_are_started_before_the_first_is_finished_and_retired_ones_never_are() -> None:
    *begun, r, w = in_words(sent())
    assert sorted(begun) == ["STARTED R", "STARTED U", "STARTED V", "STARTED W"]
    assert (r, w) == ("FINISHED R", "FINISHED W")


def test_compact_goes_on_from_there() -> None:
    """What was replaced is listed as after a swap that was not wholly sent."""
    after = a_look(ROW, sent())
    following = next_step(after)
    assert isinstance(following, Send)
    assert following.purpose is Purpose.SWAP
    assert in_words(following.events) == ["FINISHED R", "DELETE_STARTED U", "DELETE_STARTED V"]
    assert next_step(a_look(ROW, [*sent(), *following.events])) == Done()


def test_what_the_listing_no_longer_has_is_not_named() -> None:
    there = frozenset({R.segment_id, W.segment_id})
    assert in_words(sent(whole=there, present=there)) == [
        *("STARTED R", "STARTED W", "FINISHED R", "FINISHED W"),
    ]


def test_nothing_is_lost_while_the_topic_names_all() -> None:
    events = [*whole(U, V, W), *whole(R), given(U, LISTED), given(V, LISTED)]
    assert step(lost(events=events), is_served=False) == NothingLost()


def test_a_swap_on_its_way_is_no_loss() -> None:
    assert step(lost(events=[*whole(U, V, W), started(R)._replace(broker_id=-1)])) == NothingLost()


def test_an_upload_on_its_way_is_no_loss() -> None:
    row = a_row([U, V])
    assert step(lost(row, [*whole(U), started(V)])) == NothingLost()


def test_what_a_killed_rebuild_started_is_finished() -> None:
    begun = sent()[:4]
    found = named(lost(events=begun))
    assert found.purpose is Purpose.SERVE_AGAIN
    assert in_words(found.events) == ["FINISHED R", "FINISHED W"]


def test_uploads_that_brokers_finished_since_stay_as_they_are() -> None:
    assert in_words(named(lost(events=whole(W))).events).count("STARTED W") == 0


@pytest.mark.parametrize(
    ("is_served", "is_copying", "order"),
    [
        (True, True, SafeOrder.FROM_MEMORY),
        (True, False, SafeOrder.FROM_MEMORY),
        (False, False, SafeOrder.COPYING_STOPPED),
    ],
)
def test_the_order_says_why_it_is_safe(
    is_served: bool, is_copying: bool, order: SafeOrder
) -> None:
    found = named(lost(), is_served=is_served, is_copying=is_copying)
    assert found.order is order
    assert found.events_left == 6
    assert {one.segment_id for one in found.segments} == ROW.named_ids


def test_brokers_that_forgot_must_not_copy() -> None:
    found = step(lost(), is_served=False, is_copying=True)
    assert isinstance(found, StopCopying)
    assert {one.segment_id for one in found.segments} == ROW.named_ids


@pytest.mark.parametrize("is_copying", [True, False])
@pytest.mark.parametrize("is_served", [True, False])
def test_above_the_log_start_of_the_tier_nothing_is_named(
    is_served: bool, is_copying: bool
) -> None:
    found = step(lost(log_start=30), is_served=is_served, is_copying=is_copying)
    assert isinstance(found, LostAlready)
    assert found.log_start == 30
    assert found.ranges == (OffsetRange(0, 29),)
    assert [one.segment_id for one in found.segments] == [R.segment_id, W.segment_id]
    assert not found.has_rest


def test_the_offsets_that_are_lost_begin_and_end_with_what_was_live() -> None:
    row = replace(ROW, log_start_offset=5)
    found = step(lost(row, log_start=40))
    assert isinstance(found, LostAlready)
    assert found.ranges == (OffsetRange(5, 29),)


def test_what_brokers_deleted_since_is_not_named_again() -> None:
    events = [*whole(W), given(W, LISTED), given(W, GONE)]
    assert W.segment_id not in [one.segment_id for one in named(lost(events=events)).events]


def test_an_upload_is_finished_beside_what_the_row_has_retired() -> None:
    twin = a_segment(0, 9, segment_id=TWIN)
    begun = started(U)._replace(broker_id=-1)
    found = named(lost(a_row([U, V], [twin]), [*whole(twin), *whole(V), begun]))
    assert [one.segment_id for one in found.events] == [U.segment_id]


def test_a_part_may_be_lost() -> None:
    found = step(lost(log_start=22))
    assert isinstance(found, LostAlready)
    assert found.ranges == (OffsetRange(0, 21),)
    assert [one.segment_id for one in found.segments] == [R.segment_id]
    assert found.has_rest


def test_a_log_start_within_the_first_segment_is_right() -> None:
    assert isinstance(step(lost(log_start=19)), NameAgain)


def test_what_the_row_knows_to_be_below_the_log_start_is_not_lost() -> None:
    row = replace(ROW, segments=(W,), log_start_offset=20)
    assert isinstance(step(lost(row, log_start=20)), NameAgain)


def test_an_upload_that_others_cover_is_only_started() -> None:
    twin = a_segment(12, 18, segment_id=TWIN)
    look = lost(a_row([U, V]), covered=[twin])
    started_ids = [one.segment_id for one in named(look).events]
    assert twin.segment_id in started_ids
    assert isinstance(checked(look, named(look).events), Checked)
    later = lost(a_row([U, V]), named(look).events, covered=[twin])
    assert twin.segment_id not in [one.segment_id for one in named(later).events]


def test_an_upload_that_begins_before_what_it_gives_is_named_whole() -> None:
    late = a_segment(
        10, 25, segment_id=TWIN, skipped_offsets=4, skipped_bytes=40, size_bytes=60
    )
    (event,) = (
        one for one in named(lost(a_row([U, late]))).events if one.segment_id == late.segment_id
    )
    assert isinstance(event, SegmentAdded)
    assert (event.start_offset, event.end_offset, event.size_bytes) == (6, 25, 100)
    assert event.leader_epochs == epochs((0, 6))


def test_an_update_whose_start_was_cut_off_names_nothing() -> None:
    """Brokers drop it, and would not have the segment after a restart."""
    cut_off = [given(W, FINISHED), given(R, FINISHED), given(U, LISTED), given(V, LISTED)]
    assert {one.segment_id for one in named(lost(events=cut_off)).events} == ROW.named_ids


def test_what_was_asked_about_too_late_is_not_taken_for_named() -> None:
    """The event check then sends nothing: the next run asks in time."""
    look = lost()
    late = replace(look, naming={**look.naming, W.segment_id: Naming.ASKED_LATE})
    found = named(late)
    assert W.segment_id in [one.segment_id for one in found.events]
    assert isinstance(checked(late, found.events), ForbiddenEvent)


def test_retired_segments_below_the_log_start_are_not_named() -> None:
    """Brokers would delete them; `vacuum` does."""
    events = in_words(sent(log_start=10))
    assert "STARTED V" in events
    assert "STARTED U" not in events
    assert "STARTED U" in in_words(sent(log_start=9))


def test_no_event_hides_an_offset_that_a_later_one_shows_again() -> None:
    """A broker has uploaded R's offsets and a part of W's again since."""
    again = whole(a_segment(0, 24, segment_id=AGAIN))
    events = [*again, *named(lost(events=again)).events]
    look = lost(events=events)
    found = named(look)
    assert in_words(found.events) == ["FINISHED W", "FINISHED R"]
    assert isinstance(checked(look, found.events), Checked)
    ascending = checked(look, tuple(reversed(found.events)))
    assert isinstance(ascending, ForbiddenEvent)
    assert ascending.rule is EventRule.FOUND


def finished(row: PartitionState) -> list[str]:
    """The ids that a rebuild finishes, in its order."""
    return [one.segment_id for one in sent(row) if not isinstance(one, SegmentAdded)]


def test_a_source_that_is_cut_still_serves_what_is_not_finished_yet() -> None:
    """Brokers may read it from memory: the swap was committed, and perhaps not sent."""
    first, second, third = (
        replacement(f"{start}", start, start + 9) for start in (0, 10, 20)
    )
    after = a_segment(30, 39)
    row = a_row([first, second, third, after], [a_segment(0, 19, segment_id=AGAIN)])
    ids = [one.segment_id for one in (second, first, third, after)]
    assert finished(row) == ids


def test_what_a_restore_brings_back_is_finished_from_the_end() -> None:
    """Tombstones are back before the values that they hide; where it may be open, as the last."""
    back = [
        replacement("", start, start + 9, segment_id=own(f"{start}", is_restored=True))
        for start in (0, 10)
    ]
    old, older = (
        [replacement(f"{name}{start}", start, start + 9) for start in (0, 10)]
        for name in ("old", "older")
    )
    ids = [one.segment_id for one in back]
    gone = (*retired_at(older, 5), *retired_at(old, 6))
    assert finished(replace(a_row(back), retired=gone)) == ids[::-1]
    rest = replacement("rest", 20, 29)
    beyond = retired_at([a_segment(20, 29)], 7)
    row = replace(a_row([*back, rest]), retired=(*gone, *beyond))
    assert finished(row) == [*ids, rest.segment_id]


def retired_at(segments: Iterable[Segment], at_ms: int) -> tuple[RetiredSegment, ...]:
    return tuple(retired(one, retired_at_ms=at_ms) for one in segments)


def test_what_holds_another_is_finished_after_it() -> None:
    """Otherwise the one within would hide what lies behind it."""
    inner, outer = a_segment(0, 9), a_segment(10, 30, skipped_offsets=5, skipped_bytes=50)
    row = a_row([inner, outer])
    look = a_look(row, sent(row))
    found = ranges_found(PartitionFold.resumed(look.view), LINEAGE, OffsetRange(0, 30))
    assert found == (OffsetRange(0, 30),)


@pytest.mark.parametrize(
    ("look", "code"),
    [
        (lost(high_watermark=30 - 1), RefusalCode.BEYOND_LOG),
        (lost(a_row([V, W])), RefusalCode.UNCOVERED),
        (lost(events=whole(replacement("set back", 40, 49))), RefusalCode.CATALOG_SET_BACK),
        # A broker uploaded again from R's start, and further than all that is to be named.
        (lost(events=whole(a_segment(0, 34, segment_id=AGAIN))), RefusalCode.NO_ORDER),
    ],
)
def test_what_does_not_fit_is_refused(look: Look, code: RefusalCode) -> None:
    found = step(look)
    assert isinstance(found, Refused), found
    assert found.code is code


def test_records_that_cannot_be_followed_refuse() -> None:
    why = ReadOnly(cause=ReadOnlyCause.KEYED, metadata_partition=0, offset=3, why="has a key")
    look = lost()
    found = step(replace(look, view=replace(look.view, read_only=(why,))))
    assert isinstance(found, Refused)
    assert found.code is RefusalCode.READ_ONLY


def test_only_retired_segments_may_be_left() -> None:
    row = replace(a_row([], [U]), log_start_offset=9)
    assert in_words(named(lost(row, log_start=9)).events) == ["STARTED U"]


def test_a_batch_holds_as_many_as_fit() -> None:
    look = lost()
    one = named(look).events[0]
    limits = replace(look.limits, batch_bytes_max=batch_bytes([encode(one)]) + 5)
    assert len(named(replace(look, limits=limits)).events) == 1
    assert len(sent(limits=replace(look.limits, batch_bytes_max=400))) == 6


# By chance, against what the page for operators says.


def expected(
    log_start: int, live: Sequence[Segment], names: set[str], *, is_served: bool, copies: bool
) -> type[RebuildStep]:
    missing = [one for one in live if one.segment_id not in names]
    if not missing:
        return NothingLost
    if any(one.end_offset < log_start for one in missing):
        return LostAlready
    if live[0].start_offset > log_start:
        return Refused
    return StopCopying if copies and not is_served else NameAgain


@drawn(
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    first=st.integers(0, 3),
    log_start=st.integers(0, 20),
    kept=st.integers(0, 6),
    is_served=st.booleans(),
    copies=st.booleans(),
)
def test_brokers_read_all_that_may_be_named_and_delete_nothing(
    lengths: list[int], first: int, log_start: int, kept: int, is_served: bool, copies: bool
) -> None:
    """The newest `kept` segments were uploaded, and named, after the loss."""
    live = a_chain(*lengths, start_offset=first)
    since = live[max(0, len(live) - kept) :] if kept else ()
    row = replace(a_row(live), log_start_offset=first)
    events: list[Event] = whole(*since)
    names = {one.segment_id for one in since}
    look = lost(row, events, log_start=log_start)
    found = step(look, is_served=is_served, is_copying=copies)
    wanted = expected(log_start, live, names, is_served=is_served, copies=copies)
    assert isinstance(found, wanted), found
    while isinstance(found, NameAgain):
        assert isinstance(checked(look, found.events), Checked)
        # What lies below their log start, brokers delete as soon as it is named.
        ends = {one.segment_id: one.end_offset for one in live}
        assert all(ends[event.segment_id] >= log_start for event in found.events)
        events += found.events
        look = lost(row, events, log_start=log_start)
        found = step(look, is_served=is_served, is_copying=copies)
    if wanted is NameAgain:
        assert found == NothingLost()
        bounds = OffsetRange(log_start, live[-1].end_offset)
        read = ranges_found(PartitionFold.resumed(view(*events)), LINEAGE, bounds)
        assert read == (bounds,)

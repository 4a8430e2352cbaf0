"""What a look says to do next, a picture of each rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.compaction.broker_events import GONE, LISTED
from tests.compaction.builders import a_segment, epochs
from tests.compaction.looks import (
    LIMITS,
    NOW_MS,
    a_look,
    a_row,
    given,
    replacement,
    shown,
    started,
    whole,
)
from tests.compaction.three_uploads import ROW, SWAP, R, U, V, W, late, names
from tierfold.compaction.model.segments import LeaderEpoch, Segment
from tierfold.compaction.model.serving import Pass
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.steps import (
    Done,
    Merge,
    Purpose,
    RefusalCode,
    Refused,
    Retire,
    Send,
    Wait,
)

MINUTE_MS = 60_000


def test_nothing_to_send() -> None:
    assert next_step(a_look(a_row([U, V, W]), whole(U, V, W))) == Done()


def test_a_swap_from_its_start_to_its_end() -> None:
    topic = whole(U, V, W)
    step = next_step(a_look(ROW, topic))
    assert isinstance(step, Send)
    assert step.purpose is Purpose.START
    topic += step.events
    step = next_step(a_look(ROW, topic))
    assert names(step) == SWAP
    topic += step.events
    assert next_step(a_look(ROW, topic)) == Done()


def test_a_swap_that_is_found_half_listed_goes_on() -> None:
    topic = [*whole(U, V, W), *whole(R), given(U, LISTED)]
    assert names(next_step(a_look(ROW, topic))) == ["FINISHED R", "DELETE_STARTED V"]


def test_all_replacements_are_started_before_the_first_swap() -> None:
    first, second = replacement("1", 0, 9), replacement("2", 10, 19)
    row, topic = a_row([first, second, W], [U, V]), whole(U, V, W)
    step = next_step(a_look(row, topic))
    assert isinstance(step, Send)
    assert [event.segment_id for event in step.events] == [first.segment_id, second.segment_id]
    step = next_step(a_look(row, [*topic, *step.events]))
    assert isinstance(step, Send)
    assert [event.segment_id for event in step.events] == [first.segment_id, U.segment_id]


def test_a_first_publication_by_versions_is_one_batch() -> None:
    first, second = replacement("1", 0, 9), replacement("2", 20, 29)
    fields: dict[str, Any] = {"has_dropped": True, "strategies": ("timestamp",)}
    row = a_row([first, V, second], [U, W], **fields)
    topic = [*whole(U, V, W), started(first), started(second)]
    both = ["FINISHED 1", "DELETE_STARTED U", "FINISHED 2", "DELETE_STARTED W"]
    step = next_step(a_look(row, topic))
    assert shown(step, first, U, second, W, names="1U2W") == both
    pending = (started(late("P", 20, 35)), NOW_MS)
    assert isinstance(next_step(a_look(row, [*topic, pending])), Wait)
    later = Pass(epoch=1, horizon_ms=None, published_at_ms=1, has_spared=False)
    for other in (
        {"has_dropped": False},
        {"strategies": ("offset",)},
        {"passes": (later,)},
    ):
        step = next_step(a_look(replace(row, **other), topic))
        assert shown(step, first, U, second, W, names="1U2W") == both[:2]


def test_what_can_be_started_is_started_before_a_group_that_waits() -> None:
    first, second = replacement("1", 0, 9), replacement("2", 20, 29)
    pending = (started(late("P", 20, 35)), NOW_MS)
    step = next_step(a_look(a_row([first, V, second], [U, W]), [*whole(U, V, W), pending]))
    assert isinstance(step, Send)
    assert [event.segment_id for event in step.events] == [first.segment_id]


def test_a_copy_of_what_brokers_deleted_is_finished_without_sources() -> None:
    copy = replacement("C", 10, 19)
    topic = [*whole(U, V, W), given(V, LISTED), started(copy)]
    step = next_step(a_look(a_row([U, copy, W], [V]), topic))
    assert shown(step, copy, names="C") == ["FINISHED C"]


def test_only_what_takes_the_place_of_something_is_finished_again() -> None:
    beside, twin, dead = late("L", 5, 14), late("T", 0, 4), late("P", 7, 14)
    row = a_row([U, replace(beside, start_offset=10, skipped_offsets=5), dead], [twin])
    step = next_step(a_look(row, [*whole(twin, U, beside), started(dead)]))
    assert shown(step, U, twin, names="UT") == ["FINISHED U", "DELETE_STARTED T"]


def test_what_is_retired_is_dropped_whenever_it_was_retired() -> None:
    topic = [*whole(U, V, W), *whole(R), given(U, LISTED), given(V, LISTED)]
    twin = late("T", 0, 9)
    row = a_row([R, W], [U, V, twin])
    step = next_step(a_look(row, [*topic[:2], *whole(twin), *topic[2:]]))
    assert isinstance(step, Send)
    assert [event.segment_id for event in step.events] == [R.segment_id, twin.segment_id]


def test_an_upload_beside_a_replacement_is_merged_with_it() -> None:
    beside = late("L", 10, 35)
    step = next_step(a_look(ROW, [*whole(U, V, W, beside), started(R)]))
    assert isinstance(step, Merge)
    assert list(step.segment_ids) == [R.segment_id, beside.segment_id, W.segment_id]


def test_an_upload_beside_a_published_replacement_is_merged_with_it() -> None:
    beside = late("L", 15, 34)
    topic = [*whole(U, V, W), *whole(R), given(U, LISTED), given(V, LISTED), *whole(beside)]
    assert isinstance(next_step(a_look(ROW, topic)), Merge)


@pytest.mark.parametrize("reach", [15, 19, 25, 29])
def test_an_upload_of_which_live_segments_have_all_offsets_is_retired(reach: int) -> None:
    beside = late("L", 10, reach)
    step = next_step(a_look(ROW, [*whole(U, V, W, beside), started(R)]))
    assert isinstance(step, Retire)
    assert step.segment_ids == (beside.segment_id,)


def test_an_upload_that_was_given_up_and_hides_offsets_is_dropped_by_the_next_send() -> None:
    beside = late("L", 5, 12)
    topic = [*whole(U, V, W), *whole(R), given(U, LISTED), given(V, LISTED), *whole(beside)]
    # No look-up finds offsets 13 to 19 now, and R cannot hide L, as W was finished beyond it.
    assert isinstance(next_step(a_look(ROW, topic)), Retire)
    step = next_step(a_look(a_row([R, W], [U, V, beside]), topic))
    assert shown(step, R, beside, names="RL") == ["FINISHED R", "DELETE_STARTED L"]


def test_an_upload_below_the_log_start_that_would_hide_a_replacement_is_retired_first() -> None:
    beside = late("L", 5, 9)
    topic = [*whole(U, V, W, beside), started(R)]
    step = next_step(a_look(ROW, topic, log_start=12))
    assert isinstance(step, Retire)
    assert step.segment_ids == (beside.segment_id,)
    step = next_step(a_look(a_row([R, W], [U, V, beside]), topic, log_start=12))
    assert shown(step, R, U, beside, V, names="RULV") == [
        *("FINISHED R", "DELETE_STARTED U", "DELETE_STARTED L", "DELETE_STARTED V")
    ]
    other = replace(beside, leader_epochs=epochs((7, 5)))
    elsewhere = a_look(ROW, [*whole(U, V, W, other), started(R)], log_start=12)
    assert names(next_step(elsewhere)) == SWAP, "another history's hides nothing"
    below = a_look(a_row([V, W], [U]), [*whole(U, V, W, beside), given(U, LISTED)], log_start=12)
    assert next_step(below) == Done(), "what hides nothing is left to brokers"


def test_an_upload_within_a_live_one_is_retired_if_no_order_passes_otherwise() -> None:
    long, beside, above = late("L", 0, 19), late("B", 5, 9), a_segment(20, 29)
    replaced = late("O", 10, 19)
    # L covers all. Look-ups of 10 to 19 find O, and once that is listed B, which ends at 9.
    topic = whole(long, above, beside, replaced)
    step = next_step(a_look(a_row([long, above], [replaced]), topic))
    assert isinstance(step, Retire)
    assert step.segment_ids == (beside.segment_id,)
    step = next_step(a_look(a_row([long, above], [replaced, beside]), topic))
    assert isinstance(step, Send)


def test_an_upload_that_hides_offsets_of_a_live_one_is_dropped() -> None:
    long, within = late("L", 0, 19), late("B", 5, 9)
    topic = whole(long, W, within)
    look = a_look(a_row([long, W]), topic)
    assert look.view.find(0, 10) is None
    step = next_step(look)
    assert isinstance(step, Retire)
    assert step.segment_ids == (within.segment_id,)
    row = a_row([long, W], [within])
    step = next_step(a_look(row, topic))
    assert isinstance(step, Send)
    mended = a_look(row, [*topic, *step.events])
    assert all(mended.view.find(0, offset) for offset in range(30))
    assert next_step(mended) == Done()


def test_an_upload_that_another_one_hides_is_not_finished_once_more() -> None:
    beyond, beside = late("B", 20, 39), late("L", 10, 34)
    row = a_row([R, W, beyond], [U, V, beside])
    step = next_step(a_look(row, [*whole(U, V, W, beyond, beside), started(R)]))
    # Brokers read `beyond` from 20 on: W in its place would end at 29.
    assert shown(step, R, U, V, beside, names="RUVL") == [
        "FINISHED R",
        "DELETE_STARTED U",
        "DELETE_STARTED V",
        "DELETE_STARTED L",
    ]


def test_overlapping_uploads_alone_are_left_as_they_are() -> None:
    beside = late("L", 15, 24)
    assert next_step(a_look(a_row([U, V, W]), whole(U, V, W, beside))) == Done()


def test_a_merge_drops_the_replacement_that_was_only_started() -> None:
    beside = late("L", 10, 24)
    merged = replacement("M", 0, 29)
    row = a_row([merged], [U, V, W, R, beside])
    topic = [*whole(U, V, W, beside), started(R), started(merged)]
    step = next_step(a_look(row, topic))
    assert shown(step, merged, R, U, V, W, beside, names="MRUVWL") == [
        "FINISHED M",
        "DELETE_STARTED U",
        "DELETE_STARTED R",
        "DELETE_STARTED V",
        "DELETE_STARTED L",
        "DELETE_STARTED W",
    ]


class TestUploads:
    """Uploads that brokers began."""

    def test_one_that_may_be_finished_holds_its_group_back(self) -> None:
        pending = (started(late("P", 10, 35)), NOW_MS - MINUTE_MS)
        step = next_step(a_look(ROW, [*whole(U, V, W), started(R), pending]))
        assert isinstance(step, Wait)
        assert step.until_ms is None
        assert "PPP" in step.why

    def test_one_that_others_cover_is_given_up_in_time(self) -> None:
        events = [*whole(U, V, W), started(R)]
        young = (started(late("P", 10, 19)), NOW_MS - LIMITS.upload_wait_ms + 1)
        step = next_step(a_look(ROW, [*events, young]))
        assert isinstance(step, Wait)
        assert step.until_ms == NOW_MS + 1
        old = (started(late("P", 10, 19)), NOW_MS - LIMITS.upload_wait_ms)
        assert names(next_step(a_look(ROW, [*events, old]))) == SWAP

    def test_one_beyond_the_group_holds_nothing_back(self) -> None:
        pending = (started(late("P", 20, 35)), NOW_MS)
        assert names(next_step(a_look(ROW, [*whole(U, V, W), started(R), pending]))) == SWAP

    def test_one_below_the_log_start_holds_nothing_back(self) -> None:
        pending = (started(late("P", 0, 4)), NOW_MS)
        look = a_look(ROW, [*whole(U, V, W), started(R), pending], log_start=5)
        assert names(next_step(look)) == SWAP

    def test_one_that_the_row_has_retired_is_dropped(self) -> None:
        dead = late("P", 10, 19)
        row = a_row([R, W], [U, V, dead])
        topic = [*whole(U, V, W), (started(dead), NOW_MS), started(R)]
        step = next_step(a_look(row, topic))
        assert shown(step, R, U, V, dead, names="RUVP") == [
            "FINISHED R",
            "DELETE_STARTED U",
            "DELETE_STARTED V" if V.segment_id < dead.segment_id else "DELETE_STARTED P",
            "DELETE_STARTED P" if V.segment_id < dead.segment_id else "DELETE_STARTED V",
        ]

    def test_what_waits_holds_back_what_lies_beyond(self) -> None:
        first, second = replacement("1", 0, 9), replacement("2", 20, 29)
        row = a_row([first, V, second], [U, W])
        pending = (started(late("P", 0, 12)), NOW_MS)
        topic = [*whole(U, V, W), started(first), started(second), pending]
        assert isinstance(next_step(a_look(row, topic)), Wait)


class TestHoles:
    """Offsets that no look-up finds."""

    beside = late("L", 10, 29)

    def test_a_live_segment_mends_it(self) -> None:
        """SWAP.md 1: a replacement with the start of a live upload, finished after it."""
        first = replacement("1", 10, 19)
        row = a_row([U, first, self.beside], [V])
        topic = [*whole(U, V, self.beside), *whole(first)]
        step = next_step(a_look(row, topic))
        assert isinstance(step, Send)
        assert step.purpose is Purpose.REPAIR
        assert [event.segment_id for event in step.events] == [self.beside.segment_id]
        assert isinstance(next_step(a_look(row, [*topic, *step.events])), Merge)

    def test_an_upload_that_the_row_does_not_name_mends_it(self) -> None:
        first = replacement("1", 10, 19)
        topic = [*whole(U, V, self.beside), *whole(first)]
        step = next_step(a_look(a_row([U, first], [V]), topic))
        assert isinstance(step, Send)
        assert step.purpose is Purpose.REPAIR

    def test_a_retired_segment_never_does(self) -> None:
        first = replacement("1", 10, 19)
        row = a_row([U, first], [V, self.beside])
        step = next_step(a_look(row, [*whole(U, V, self.beside), *whole(first)]))
        assert isinstance(step, Refused)
        assert step.code is RefusalCode.UNCOVERED

    def test_a_group_that_closes_one_goes_before_one_that_waits(self) -> None:
        """The last group's second send arrived without its first event."""
        last, twin = replacement("2", 20, 29), late("T", 20, 29)
        row = a_row([R, last], [U, V, W, twin])
        pending = (started(late("P", 0, 12)), NOW_MS)
        topic = [*whole(U, V, twin, W), started(R), started(last), pending, given(W, LISTED)]
        step = next_step(a_look(row, topic))
        assert isinstance(step, Send)
        assert last.segment_id == step.events[0].segment_id


def overlapping(own_start: int, start: int) -> Segment:
    """An upload of offsets up to 16 that gives those from `start` on."""
    own = LeaderEpoch(epoch=0, start_offset=own_start)
    return a_segment(start, 16, skipped_offsets=start - own_start, leader_epochs=(own,))


class TestUploadsThatHideOthers:
    """A deposed leader's upload, finished late, hides what one that begins before it has beyond."""

    A, LATER = a_segment(0, 13), a_segment(17, 29)

    def test_one_that_live_segments_cover_is_retired(self) -> None:
        hiding, hidden = late("H", 14, 14), overlapping(13, 14)
        topic = whole(self.A, self.LATER, hiding, hidden)
        step = next_step(a_look(a_row([self.A, hidden, self.LATER]), topic))
        assert isinstance(step, Retire)
        assert step.segment_ids == (hiding.segment_id,)

    def test_live_ones_become_one(self) -> None:
        hiding, hidden = late("H", 14, 14), overlapping(13, 15)
        topic = whole(self.A, self.LATER, hiding, hidden)
        step = next_step(a_look(a_row([self.A, hiding, hidden, self.LATER]), topic))
        assert isinstance(step, Merge)
        assert set(step.segment_ids) == {one.segment_id for one in (self.A, hiding, hidden)}


class TestLogStart:
    """DeleteRecords and retention."""

    def test_what_lies_below_is_left_to_brokers(self) -> None:
        look = a_look(ROW, [*whole(U, V, W), started(R)], log_start=20)
        assert next_step(look) == Done()
        assert next_step(a_look(a_row([W], [U, V]), whole(U, V, W), log_start=20)) == Done()

    def test_sources_below_it_are_listed_with_the_rest_of_their_group(self) -> None:
        """Until brokers delete V, a look-up of offset 20 finds it once W is listed."""
        group, newest = replacement("G", 0, 29), a_segment(30, 39)
        topic = [*whole(U, V, W, newest), started(group)]
        step = next_step(a_look(a_row([group, newest], [U, V, W]), topic, log_start=20))
        assert shown(step, group, U, V, W, names="GUVW") == [
            "FINISHED G",
            "DELETE_STARTED U",
            "DELETE_STARTED V",
            "DELETE_STARTED W",
        ]

    def test_a_group_that_it_passes_goes_on(self) -> None:
        topic = [*whole(U, V, W), started(R), given(U, LISTED), given(U, GONE)]
        look = a_look(ROW, topic, log_start=15)
        assert names(next_step(look)) == ["FINISHED R", "DELETE_STARTED V"]


def test_an_upload_that_cannot_stay_beside_a_live_one_is_merged_with_it() -> None:
    two_epochs = epochs((0, 0), (2, 20))
    live = a_segment(0, 29, leader_epochs=two_epochs)
    nested = late("N", 0, 9)
    beyond = late("B", 20, 39, leader_epochs=epochs((2, 20)))
    topic = whole(live, nested, beyond)
    # `nested` hides `live` in epoch 0; `live`, finished once more, would hide `beyond` in epoch 2.
    look = a_look(a_row([live], [nested]), topic, lineage=two_epochs)
    step = next_step(look)
    assert isinstance(step, Merge)
    assert step.segment_ids == (live.segment_id, beyond.segment_id)

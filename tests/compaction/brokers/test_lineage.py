"""The tier's leader epochs are compared with where brokers say that they end in their log.

    offsets         0    10   20   30   40   50   59
    tier            epoch 0: 0-29  |  epoch 1: 30-59
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.compaction.broker_events import LISTED, added, updated, uploaded, view
from tests.compaction.builders import a_segment, epochs, segment_id
from tierfold.compaction.brokers.broker_view import BrokerView
from tierfold.compaction.brokers.cluster_facts import PartitionOffsets
from tierfold.compaction.brokers.epoch_ends import (
    EpochAnswer,
    EpochEnd,
    NoAnswer,
    NotAllowed,
    UnknownEpoch,
)
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.brokers.lineage import (
    EpochDenied,
    LineageHolds,
    LineageStatus,
    LogEndsBelow,
    NothingTiered,
    Unconfirmed,
    beside,
    epochs_to_ask,
    finished,
    lineage_status,
    outside_lineage,
)
from tierfold.compaction.model.segments import LeaderEpoch

TIER = view(
    *uploaded("a", 0, 19, epochs={0: 0}),
    *uploaded("b", 20, 39, epochs={0: 20, 1: 30}),
    *uploaded("c", 40, 59, epochs={1: 40}),
)
LINEAGE = epochs((0, 0), (1, 30))
SAME = {0: EpochEnd(epoch=0, end_offset=30), 1: EpochEnd(epoch=1, end_offset=60)}
NO_RIGHT, NO_LEADER = NotAllowed("Grant it."), NoAnswer("It has no leader.")


def status(
    answers: Mapping[int, EpochAnswer],
    *,
    of: BrokerView = TIER,
    lineage: tuple[LeaderEpoch, ...] = LINEAGE,
    log_start: int = 0,
    end: int = 60,
) -> LineageStatus:
    offsets = PartitionOffsets(log_start=log_start, high_watermark=end, last_stable=end)
    return lineage_status(of, lineage, offsets, answers)


def test_a_log_that_has_all_of_the_tier_holds() -> None:
    assert status(SAME) == LineageHolds(end_offset=59)
    # The leader has gone on, and another one after it.
    longer = SAME | {1: EpochEnd(epoch=1, end_offset=75)}
    assert status(longer, end=90) == LineageHolds(end_offset=59)


def test_without_a_finished_segment_there_is_nothing_to_compare() -> None:
    started = view(added("a", 0, 9))
    for seen in (view(), started, view(*uploaded("a", 0, 9), updated("a", LISTED))):
        assert status({}, of=seen, end=0) == NothingTiered()
        # A row that was written without brokers may have a started one as live.
        assert epochs_to_ask(seen, 0) == ((0,) if seen is started else ())
    # What ends below the log start is about to be deleted.
    assert status({}, log_start=60) == NothingTiered()


def test_a_high_watermark_below_the_tiers_end_is_a_cut() -> None:
    assert status(SAME, end=59) == LogEndsBelow(high_watermark=59, end_offset=59)
    assert status({}, end=30) == LogEndsBelow(high_watermark=30, end_offset=59)


@pytest.mark.parametrize(
    ("epoch", "end_offset", "answer"),
    [
        (1, 59, EpochEnd(epoch=1, end_offset=59)),
        (1, 59, EpochEnd(epoch=0, end_offset=30)),
        # A log that never had the last epoch, and an older one up to beyond the tier's end: two
        # unclean elections.
        (1, 59, EpochEnd(epoch=0, end_offset=80)),
        (1, 59, UnknownEpoch()),
        (0, 29, EpochEnd(epoch=0, end_offset=29)),
        (0, 29, UnknownEpoch()),
    ],
)
def test_an_epoch_that_ends_earlier_or_is_another_is_denied(
    epoch: int, end_offset: int, answer: EpochEnd | UnknownEpoch
) -> None:
    denied = EpochDenied(epoch=epoch, end_offset=end_offset, found=answer)
    assert status(SAME | {epoch: answer}, end=90) == denied


def test_the_newest_epoch_that_is_denied_is_named() -> None:
    cut = {0: EpochEnd(epoch=0, end_offset=10), 1: EpochEnd(epoch=0, end_offset=10)}
    denied = status(cut, end=90)
    assert isinstance(denied, EpochDenied)
    assert denied.epoch == 1


def test_an_earlier_epoch_that_brokers_do_not_have_is_covered_by_an_older_one() -> None:
    tier = view(*uploaded("a", 0, 59, epochs={0: 0, 1: 20, 2: 30}))
    answers = {epoch: EpochEnd(epoch=epoch, end_offset=60) for epoch in (0, 2)}
    answers[1] = EpochEnd(epoch=0, end_offset=30)  # A cleaner removed all of its records.
    found = status(answers, of=tier, lineage=epochs((0, 0), (1, 20), (2, 30)))
    assert found == LineageHolds(end_offset=59)


def test_what_lies_below_the_log_start_is_not_asked_for() -> None:
    assert epochs_to_ask(TIER, 0) == (1, 0)
    assert epochs_to_ask(TIER, 40) == (1,)
    assert status({1: SAME[1]}, log_start=40) == LineageHolds(end_offset=59)
    # A segment in which the log starts has an older epoch that brokers have forgotten: they say
    # that it ends where the log starts.
    answers = SAME | {0: EpochEnd(epoch=0, end_offset=35)}
    assert status(answers, log_start=35) == LineageHolds(end_offset=59)


@pytest.mark.parametrize("answer", [NO_RIGHT, NO_LEADER])
@pytest.mark.parametrize(("epoch", "end_offset"), [(0, 29), (1, 59)])
def test_without_an_answer_the_lineage_is_unconfirmed(
    epoch: int, end_offset: int, answer: NotAllowed | NoAnswer
) -> None:
    unconfirmed = Unconfirmed(epoch=epoch, end_offset=end_offset, answer=answer)
    assert status(SAME | {epoch: answer}) == unconfirmed


def test_only_the_newest_epochs_are_asked_for_and_the_last_one_must_be() -> None:
    starts = {epoch: 10 * epoch for epoch in range(20)}
    tier = view(*uploaded("a", 0, 199, epochs=starts))
    asked = epochs_to_ask(tier, 0)
    assert asked == tuple(range(19, 11, -1))
    answers = {epoch: EpochEnd(epoch=epoch, end_offset=10 * epoch + 10) for epoch in asked}
    lineage = epochs(*starts.items())
    assert status(answers, of=tier, lineage=lineage, end=200) == LineageHolds(end_offset=199)
    del answers[19]
    unasked = Unconfirmed(epoch=19, end_offset=199, answer=NoAnswer("It was not asked for."))
    assert status(answers, of=tier, lineage=lineage, end=200) == unasked


def test_a_denial_counts_more_than_a_missing_answer() -> None:
    answers: dict[int, EpochAnswer] = {1: NO_LEADER, 0: EpochEnd(epoch=0, end_offset=7)}
    assert isinstance(status(answers), EpochDenied)


def test_an_epoch_without_offsets_is_neither_asked_for_nor_compared() -> None:
    tier = view(*uploaded("a", 0, 59, epochs={0: 0, 1: 30, 2: 30}))
    assert epochs_to_ask(tier, 0) == (2, 0)
    answers = {0: SAME[0], 2: EpochEnd(epoch=2, end_offset=60)}
    found = status(answers, of=tier, lineage=epochs((0, 0), (2, 30)))
    assert found == LineageHolds(end_offset=59)


def after_the_election() -> BrokerView:
    """The new leader's epoch 2 starts at 30; the deposed one had uploaded epoch 0 to 59."""
    events: list[Event] = []
    for start in (0, 10, 20, 30, 40, 50):
        events += uploaded(f"o{start}", start, start + 9, epochs={0: start})
    return view(*events, *uploaded("n30", 30, 44, epochs={2: 30}))


def test_segments_of_another_history_are_outside_and_their_ends_do_not_count() -> None:
    seen, lineage = after_the_election(), epochs((0, 0), (2, 30))
    outside = outside_lineage(finished(seen, 0), lineage)
    assert [segment.added.start_offset for segment in outside] == [30, 40, 50]
    answers = {0: EpochEnd(epoch=0, end_offset=30), 2: EpochEnd(epoch=2, end_offset=50)}
    assert status(answers, of=seen, lineage=lineage, end=50) == LineageHolds(end_offset=44)


def test_a_segment_of_another_history_beside_live_ones_is_found_unless_it_is_retired() -> None:
    seen, lineage = after_the_election(), epochs((0, 0), (2, 30))
    outside = outside_lineage(finished(seen, 0), lineage)
    live = [a_segment(0, 29), a_segment(30, 44)]
    found = beside(outside, live, ())
    assert [segment.added.segment_id for segment in found] == [
        segment_id("o30"),
        segment_id("o40"),
    ]
    assert beside(outside, live, {segment_id("o30")}) == found[1:]
    assert beside(outside, live[:1], ()) == ()

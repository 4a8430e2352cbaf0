"""Attacks on what row, listing and brokers make of a partition that succeed."""

from __future__ import annotations

from dataclasses import replace

from tests.compaction.beside_brokers import discovered_beside, facts_beside
from tests.compaction.broker_events import added, uploaded
from tests.compaction.builders import a_state
from tests.compaction.uploads import a_row, spans, upload
from tierfold.compaction.brokers.epoch_ends import EpochEnd
from tierfold.compaction.commits.adoption import ADOPTED_FOR
from tierfold.compaction.discovery.draft import drafted
from tierfold.compaction.discovery.view import PartitionView, Refusal
from tierfold.compaction.model.segments import Hole

OLD, NEW = (0, 0), (2, 10)
FIRST = upload(0, 9)


def test_the_epochs_of_a_live_upload_that_brokers_only_started_are_confirmed_too() -> None:
    row = a_row((0, 9), (10, 19))
    facts = facts_beside(row, [], [*uploaded("live0", 0, 9), added("live10", 10, 19)])
    assert facts.brokers is not None
    # An unclean election cut the log off at offset 10.
    cut = replace(facts.brokers, epoch_answers={0: EpochEnd(epoch=0, end_offset=10)})
    assert isinstance(drafted(replace(facts, brokers=cut)), Refusal)


def test_a_view_without_a_row_is_not_refused_once_it_is_claimed() -> None:
    second, cut = upload(10, 29, OLD, NEW), upload(10, 19)
    events = [
        *uploaded("0-9", 0, 9),
        *uploaded("10-29", 10, 29, epochs={2: 10}),
        *uploaded("10-19", 10, 19, epochs={0: 10}),
    ]
    view = discovered_beside(None, [FIRST, second, cut], events)
    if isinstance(view, Refusal):
        return  # Rule 2.7: where one overlaps ours the partition is refused.
    row = a_state(view.segments, lineage=view.lineage)
    again = discovered_beside(row, [cut], events)
    assert isinstance(again, PartitionView), again


def test_a_hole_that_brokers_deny_is_refused() -> None:
    hole = Hole(start_offset=10, end_offset=19)
    row = a_row((0, 19), (20, 29), holes=(hole,))
    events = [
        *uploaded("live0", 0, 9),
        *uploaded("10-19", 10, 19),
        *uploaded("live20", 20, 29),
    ]
    found = discovered_beside(row, [upload(10, 19)], events)
    assert isinstance(found, Refusal), (spans(found), found.notes)


def test_a_live_upload_is_what_brokers_noted() -> None:
    events = [*uploaded("live0", 0, 14), *uploaded("live10", 15, 19)]
    found = discovered_beside(a_row((0, 9), (10, 19)), [], events)
    assert isinstance(found, Refusal), spans(found)


def test_a_refusal_that_points_to_forget_is_one_that_forget_takes() -> None:
    found = discovered_beside(a_row((0, 9), (10, 19)), [], uploaded("live0", 0, 9))
    assert isinstance(found, Refusal)
    assert "tierfold forget" not in found.remedy or found.reason in ADOPTED_FOR

"""A row that was written without brokers, and is not what they have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compaction.beside_brokers import discovered_beside, facts_beside
from tests.compaction.broker_events import added, uploaded
from tests.compaction.uploads import a_row, spans, upload
from tierfold.compaction.brokers.epoch_ends import EpochEnd
from tierfold.compaction.commits.adoption import ADOPTED_FOR
from tierfold.compaction.discovery.draft import drafted
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.model.segments import Hole


def test_the_epochs_of_a_live_upload_that_brokers_only_started_are_confirmed_too() -> None:
    row = a_row((0, 9), (10, 19))
    facts = facts_beside(row, [], [*uploaded("live0", 0, 9), added("live10", 10, 19)])
    assert facts.brokers is not None
    # An unclean election cut the log off at offset 10.
    cut = replace(facts.brokers, epoch_answers={0: EpochEnd(epoch=0, end_offset=10)})
    assert isinstance(drafted(replace(facts, brokers=cut)), Refusal)


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


@pytest.mark.parametrize(
    ("first", "last", "is_refused"),
    [
        ((0, 9), (10, 19), False),
        ((0, 9), (10, 21), False),  # A hole behind its last batch.
        ((0, 14), (15, 19), True),
        ((0, 9), (11, 19), True),
        ((0, 9), (10, 18), True),
        ((0, 8), (10, 19), True),
    ],
)
def test_a_live_upload_is_what_brokers_noted(
    first: tuple[int, int], last: tuple[int, int], is_refused: bool
) -> None:
    events = [*uploaded("live0", *first), *uploaded("live10", *last)]
    found = discovered_beside(a_row((0, 9), (10, 19)), [], events)
    assert isinstance(found, Refusal) == is_refused
    if isinstance(found, Refusal):
        assert found.reason is RefusalReason.UNLIKE_BROKERS
        assert found.reason in ADOPTED_FOR


def test_a_refusal_that_points_to_forget_is_one_that_forget_takes() -> None:
    found = discovered_beside(a_row((0, 9), (10, 19)), [], uploaded("live0", 0, 9))
    assert isinstance(found, Refusal)
    assert "tierfold forget" not in found.remedy or found.reason in ADOPTED_FOR

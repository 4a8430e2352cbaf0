"""`forget` beside brokers after an unclean election: what passes had read was cut off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.compaction.beside_brokers import brokers_have, own_id
from tests.compaction.broker_events import LISTED, updated, uploaded
from tests.compaction.builders import CLUSTER, a_segment, a_state, epochs, retired, segment_id
from tests.compaction.commits.test_adoption import (
    CUT_AT_10,
    FIRST,
    OF_NEW_LEADER,
    RUN,
    committed,
    view_of,
)
from tests.compaction.uploads import upload
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.commits.adoption import Adoption, adoption
from tierfold.compaction.commits.undone_passes import Undone, ValuesLost
from tierfold.compaction.discovery.candidates import Candidate
from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.serving import Pass

CUT_OFF: list[Event] = [
    *uploaded("0-9", 0, 9),
    *uploaded("cut", 0, 29),
    *uploaded("10-19", 10, 19, epochs={2: 10}),
    updated("0-9", LISTED),
]
"""`cut` took the place of 0-9, and a new leader wrote from 10 on."""


def after_election(*back: Candidate) -> PartitionView:
    """What discovery makes of the new leader's upload, and of what comes back."""
    view, new = view_of([*back, upload(10, 19)], CUT_OFF), OF_NEW_LEADER.segment
    assert new is not None
    segments = (*view.segments[:-1], new)
    return replace(view, segments=segments, lineage=epochs(*CUT_AT_10))


def a_cut_row(**fields: Any) -> PartitionState:
    first = a_segment(0, 9, segment_id=FIRST.segment_id)
    row = a_state([a_segment(0, 29, segment_id=segment_id("cut"))], retired=(retired(first),))
    return replace(row, served_by=(CLUSTER,), epoch=1, **fields)


def test_what_comes_back_is_live_as_copies_and_stays_retired() -> None:
    view, row = after_election(FIRST), a_cut_row()
    undone = Undone(row=row, back=view.segments[:1])
    found = adoption(view, row, brokers_have(CUT_OFF), RUN, undone)
    assert isinstance(found, Adoption)
    assert found.back == view.segments[:1]
    assert {one.segment_id for one in found.retired} == {FIRST.segment_id, segment_id("cut")}
    # It has to be one of them.
    refusal = adoption(view, row, brokers_have(CUT_OFF), RUN, replace(undone, back=()))
    assert isinstance(refusal, Refusal)
    assert refusal.reason is RefusalReason.CATALOG_SET_BACK


def test_what_comes_back_lets_delete_horizons_begin_again() -> None:
    view, published = after_election(FIRST), Pass(
        epoch=1, horizon_ms=None, published_at_ms=3, has_spared=False
    )
    row = a_cut_row(passes=(published,), strategies=("timestamp",))
    undone = Undone(row=row, back=view.segments[:1])
    found = adoption(view, row, brokers_have(CUT_OFF), RUN, undone)
    assert isinstance(found, Adoption)
    copied = found.live[0].copied(own_id(), RUN)
    after = committed(row, replace(found, live=(copied, *found.live[1:])))
    assert after.strategies == ("timestamp",)
    first, newest = after.passes
    assert (first.epoch, first.published_at_ms) == (1, 3)
    assert (newest.epoch, newest.published_at_ms, newest.has_spared) == (after.epoch, None, True)
    # Without it nothing is back that a pass has dropped.
    assert committed(row, replace(found, live=found.live[1:], back=())).passes == ()


def test_what_only_a_segment_has_that_an_election_cut_off_is_not_covered() -> None:
    refusal = adoption(after_election(), a_cut_row(), brokers_have(CUT_OFF), RUN)
    assert isinstance(refusal, Refusal)
    assert f"offset 0 is only in segment {segment_id('cut')} (offsets 0 to 29)" in refusal.detail
    assert refusal.remedy.startswith("Give up all records up to offset 9")
    # A backup that would save the records is named first.
    lost = ValuesLost(cut_at=10, gone=(a_segment(0, 9),))
    refusal = adoption(after_election(), a_cut_row(), brokers_have(CUT_OFF), RUN, lost)
    assert isinstance(refusal, Refusal)
    assert f"If a backup has the objects of {segment_id(0)}" in refusal.remedy
    assert "Give up all records up to offset 9" in refusal.remedy
    unknown = adoption(
        after_election(), a_cut_row(), brokers_have(CUT_OFF), RUN, replace(lost, gone=())
    )
    assert isinstance(unknown, Refusal)
    assert "backup" not in unknown.remedy


def test_what_nothing_has_is_missing_beside_what_an_election_cut_off_too() -> None:
    """A log of 0 to 4, and one that was cut off from 10 on."""
    events = [*uploaded("0-4", 0, 4), *uploaded("cut", 10, 29)]
    events += uploaded("10-19", 10, 19, epochs={2: 10})
    refusal = adoption(view_of([upload(0, 4)], events), None, brokers_have(events), RUN)
    assert isinstance(refusal, Refusal)
    assert "offset 5 is missing" in refusal.detail
    # A newer leader that only wrote on has cut nothing off.
    events = [*uploaded("0-9", 0, 9), *uploaded("10-19", 10, 19, epochs={2: 10})]
    refusal = adoption(after_election(), None, brokers_have(events), RUN)
    assert isinstance(refusal, Refusal)
    assert "offset 0 is missing" in refusal.detail
    # Nor is there a log to go on with, if nothing of the new leader lies beyond.
    events = [*uploaded("cut", 0, 29), *uploaded("0-4", 0, 4, epochs={2: 0})]
    refusal = adoption(view_of([upload(0, 4)], events), None, brokers_have(events), RUN)
    assert isinstance(refusal, Refusal)
    assert "offset 5 is missing" in refusal.detail


def test_values_that_are_lost_with_what_was_cut_off_are_said() -> None:
    lost = ValuesLost(cut_at=10, gone=())
    found = adoption(after_election(FIRST), None, brokers_have(CUT_OFF), RUN, lost)
    assert isinstance(found, Adoption)
    assert found.lost == lost

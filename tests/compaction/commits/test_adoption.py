"""`forget` beside brokers: what look-ups find is live, and everything else stays replaced."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.compaction.beside_brokers import brokers_have, facts_beside, own_id, view_beside
from tests.compaction.broker_events import FINISHED, LISTED, added, updated, uploaded
from tests.compaction.builders import (
    CLUSTER,
    a_segment,
    a_state,
    agreeing,
    epochs,
    retired,
    segment_id,
)
from tests.compaction.uploads import upload
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.commits.adoption import (
    PUBLISHING_GRACE_MS,
    Adoption,
    adoption,
    half_sent,
    half_sent_refusal,
    overtaken,
    usable,
    within_log,
)
from tierfold.compaction.commits.commit import AdoptSegments, proposed
from tierfold.compaction.commits.invariants import ADOPT_INVARIANTS, ensure
from tierfold.compaction.commits.row_changes import applied, claimed
from tierfold.compaction.discovery.candidates import Candidate
from tierfold.compaction.discovery.draft import PartitionDraft, draft_of
from tierfold.compaction.discovery.drafted_view import view_of as view_of_draft
from tierfold.compaction.discovery.lost_replacements import lost_replacements
from tierfold.compaction.discovery.refused_by_brokers import refused_without_row_by_brokers
from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason
from tierfold.compaction.model.errors import InvariantBroken
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.segments import PartitionState

RUN = "20261127T191317-g_qO69Dv"
FIRST, SECOND, BOTH = upload(0, 9), upload(10, 19), upload(0, 19)
OURS = own_id()
SENT: list[Event] = [added("x", 0, 19)._replace(segment_id=OURS)]
SWAPPED: list[Event] = [
    *uploaded("0-9", 0, 9),
    *uploaded("10-19", 10, 19),
    *SENT,
    updated("x", FINISHED)._replace(segment_id=OURS),
    updated("0-9", LISTED),
    updated("10-19", LISTED),
]


def ours(candidate: Candidate, new_id: str = OURS) -> Candidate:
    segment = candidate.segment
    assert segment is not None
    return replace(
        candidate,
        listed=replace(candidate.listed, segment_id=new_id),
        segment=replace(segment, segment_id=new_id),
    )


def view_of(found: list[Candidate], events: list[Event], **offsets: Any) -> PartitionView:
    """What discovery makes of candidates, whatever else brokers have."""
    plain = [event for one in found for event in _as_uploads(one)]
    return replace(view_beside(None, found, plain, **offsets), brokers=brokers_have(events))


def _as_uploads(candidate: Candidate) -> list[Event]:
    event = added("x", candidate.start_offset, candidate.reach or 0)
    named = event._replace(segment_id=candidate.segment_id)
    return [named, updated("x", FINISHED)._replace(segment_id=candidate.segment_id)]


def adopted(
    view: PartitionView, events: list[Event], row: PartitionState | None = None, **offsets: Any
) -> Adoption:
    found = adoption(view, row, brokers_have(events, **offsets), RUN)
    assert isinstance(found, Adoption), found
    return found


def ids(candidates: tuple[Candidate, ...]) -> list[str]:
    return [candidate.segment_id for candidate in candidates]


def test_what_look_ups_find_is_live_and_the_rest_retired() -> None:
    brokers = brokers_have(SWAPPED)
    (live,) = usable([ours(BOTH)], [], brokers, RUN)
    assert live.segment is not None
    assert live.segment.origin == Compacted(RUN)
    found = adopted(view_of([FIRST, SECOND], SWAPPED), SWAPPED)
    assert found.is_published
    assert {one.segment_id for one in found.retired} == {OURS}
    swapped = adopted(view_of([BOTH], SWAPPED), SWAPPED)
    assert {one.segment_id for one in swapped.retired} == {
        OURS,
        FIRST.segment_id,
        SECOND.segment_id,
    }


def test_what_no_look_up_finds_is_not_usable() -> None:
    shadowed = [*uploaded("0-9", 0, 9), *uploaded("0-19", 0, 19)]
    assert ids(usable([FIRST, BOTH], [], brokers_have(shadowed), RUN)) == [BOTH.segment_id]


def test_a_half_sent_segment_takes_the_place_of_its_sources() -> None:
    events = [*uploaded("0-9", 0, 9), *uploaded("10-19", 10, 19), *SENT]
    brokers = brokers_have(events)
    assert [one.added.segment_id for one in half_sent(brokers)] == [OURS]
    assert ids(usable([FIRST, SECOND], [ours(BOTH)], brokers, RUN)) == [OURS]
    beyond = upload(20, 29)
    more = brokers_have([*events, *uploaded("20-29", 20, 29)])
    kept = usable([FIRST, SECOND, beyond], [ours(BOTH)], more, RUN)
    assert ids(kept) == [beyond.segment_id, OURS]


def test_what_was_finished_since_overtakes_a_half_sent_segment() -> None:
    """After a rebuild what had been replaced is begun, too; with seed 46 it became live again."""
    sources = [*uploaded("0-9", 0, 9), *uploaded("10-19", 10, 19)]
    assert overtaken(brokers_have([*sources, *SENT])) == set()
    beyond = uploaded("20-29", 20, 29)
    assert overtaken(brokers_have([*sources, *SENT, *beyond])) == set()
    finished_since = updated("10-19", FINISHED)
    rebuilt = [added("0-9", 0, 9), added("10-19", 10, 19), *SENT, finished_since]
    assert overtaken(brokers_have(rebuilt)) == {OURS}


def test_of_half_sent_segments_that_overlap_the_larger_is_taken() -> None:
    small, other = ours(FIRST, own_id()), own_id()
    brokers = brokers_have([])
    assert ids(usable([], [small, ours(BOTH)], brokers, RUN)) == [OURS]
    twins = usable([], [ours(BOTH), ours(BOTH, other)], brokers, RUN)
    assert ids(twins) == [min(OURS, other)]


def test_half_sent_without_objects_waits_for_the_grace_period() -> None:
    brokers = brokers_have(SENT)  # Its record's timestamp is 1000.
    assert half_sent_refusal(brokers, [OURS], 2000) is None
    refusal = half_sent_refusal(brokers, [], PUBLISHING_GRACE_MS + 999)
    assert refusal is not None
    assert OURS in refusal.detail
    assert "again in" in refusal.remedy
    assert half_sent_refusal(brokers, [], PUBLISHING_GRACE_MS + 1000) is None
    assert half_sent_refusal(brokers_have([added("0-9", 0, 9)]), [], 2000) is None


@pytest.mark.parametrize(
    ("found", "log_start", "missing"), [([SECOND], 0, 0), ([FIRST], 0, 10), ([], 5, 5)]
)
def test_a_log_that_look_ups_do_not_cover_is_refused(
    found: list[Candidate], log_start: int, missing: int
) -> None:
    events = [*uploaded("0-9", 0, 9), *uploaded("10-19", 10, 19)]
    brokers = brokers_have(events, log_start=log_start)
    view = view_of(found, events) if found else view_beside(None, [], [], log_start=log_start)
    refusal = adoption(view, None, brokers, RUN)
    assert isinstance(refusal, Refusal)
    assert f"offset {missing} is missing" in refusal.detail


def test_what_an_election_cut_off_needs_no_cover_but_what_a_newer_leader_wrote_does() -> None:
    events = [*uploaded("0-9", 0, 9), *uploaded("10-19", 10, 19, epochs={2: 10})]
    events += uploaded("cut", 10, 29, epochs={0: 10})
    view = replace(view_of([FIRST, SECOND], events), lineage=epochs((0, 0), (2, 10)))
    found = adopted(view, events)
    assert {one.segment_id for one in found.retired} == {segment_id("cut")}
    # The lineage of a view ends where its segments end.
    events = [*uploaded("0-9", 0, 9), *uploaded("late", 20, 29, epochs={1: 20})]
    refusal = adoption(view_of([FIRST], events), None, brokers_have(events), RUN)
    assert isinstance(refusal, Refusal)
    assert "offset 10 is missing" in refusal.detail


def test_a_retired_segment_of_a_served_row_never_returns() -> None:
    first = a_segment(0, 9, segment_id=FIRST.segment_id)
    row = a_state([a_segment(0, 19)], retired=(retired(first),))
    events = [*uploaded("0-9", 0, 9)]
    view = view_of([FIRST], events)
    served = replace(row, served_by=(CLUSTER,))
    refusal = adoption(view, served, brokers_have(events), RUN)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is RefusalReason.CATALOG_SET_BACK
    assert adopted(view, events, row).live[0].segment_id == FIRST.segment_id


def committed(row: PartitionState, taken: Adoption) -> PartitionState:
    held = claimed(row, run=RUN, commit_id="claim", at_ms=5)
    update = AdoptSegments(
        live=taken.live,
        retired=taken.retired,
        brings_back=bool(taken.back),
        lineage=taken.lineage,
        log_start_offset=taken.log_start_offset,
        served_by=(CLUSTER,),
        at_ms=7,
        run=RUN,
    )
    after = applied(proposed(held, update, commit_id="adopted", at_ms=7), held)
    ensure(held, after, ADOPT_INVARIANTS)
    return after


def test_the_row_names_all_that_brokers_have_and_what_it_named() -> None:
    older = retired(a_segment(0, 4, segment_id=segment_id("old")), retired_at_ms=3)
    row = a_state([a_segment(0, 19)], retired=(older,))
    events = [*uploaded("0-9", 0, 9), *uploaded("10-19", 10, 19), added("dead", 5, 9)]
    after = committed(row, adopted(view_of([FIRST, SECOND], events), events, row))
    assert after.live_ids == {FIRST.segment_id, SECOND.segment_id}
    assert after.retired_ids == {segment_id(0), segment_id("old")}
    assert older in after.retired
    assert (after.has_dropped, after.served_by) == (True, (CLUSTER,))
    assert after.cleaner_offset is None


def test_who_wrote_a_segment_stays_known() -> None:
    written = replace(a_segment(0, 19, segment_id=BOTH.segment_id), origin=Compacted("an earlier"))
    view = view_of([BOTH], SWAPPED)
    assert [one.origin for one in adopted(view, SWAPPED).live] != [written.origin]
    assert [one.origin for one in adopted(view, SWAPPED, a_state([written])).live] == [
        written.origin
    ]


def test_an_adoption_that_loses_a_name_is_refused() -> None:
    row = a_state([a_segment(30, 39)])
    events = [*uploaded("0-9", 0, 9)]
    taken = adopted(view_of([FIRST], events), events, row)
    assert segment_id(30) in {one.segment_id for one in taken.retired}
    with pytest.raises(InvariantBroken, match="forgotten"):
        committed(row, replace(taken, retired=()))



def draft_by(
    found: list[Candidate], sent: list[Candidate], events: list[Event]
) -> PartitionDraft:
    """What discovery drafts of what is usable."""
    facts = facts_beside(None, found, events)
    taken = usable(facts.candidates, sent, brokers_have(events), RUN)
    draft = draft_of(replace(facts, candidates=taken))
    assert isinstance(draft, PartitionDraft), draft
    return draft


CUT_AT_10 = ((0, 0), (2, 10))
OF_NEW_LEADER = upload(10, 19, *CUT_AT_10)
AFTER_ELECTION = [*uploaded("0-9", 0, 9), *uploaded("10-19", 10, 19, epochs={2: 10})]


def test_a_deposed_leaders_tail_that_reaches_further_is_given_up() -> None:
    events = [*AFTER_ELECTION, *uploaded("10-29", 10, 29, epochs={0: 10})]
    draft = draft_by([FIRST, OF_NEW_LEADER, upload(10, 29)], [], events)
    assert draft.chain.reached == 19


def test_a_half_sent_segment_that_an_election_cut_off_does_not_hide_its_sources() -> None:
    events = [*AFTER_ELECTION, added("x", 0, 14)._replace(segment_id=OURS)]
    draft = draft_by([FIRST, OF_NEW_LEADER], [ours(upload(0, 14))], events)
    assert [one.segment_id for one in draft.chain.taken] == [
        FIRST.segment_id,
        OF_NEW_LEADER.segment_id,
    ]


def test_a_half_sent_segment_that_is_broken_does_not_hide_its_sources() -> None:
    events = [*uploaded("0-9", 0, 9), *uploaded("10-19", 10, 19), *SENT]
    broken = replace(ours(BOTH), corruption="x.log: torn")
    draft = draft_by([FIRST, SECOND], [broken], events)
    assert len(draft.chain.taken) == 2
    # Its run may still finish it, so it waits as one without objects does.
    assert within_log([FIRST, SECOND], [broken]) == {FIRST.segment_id, SECOND.segment_id}


def test_what_a_vacuum_began_to_delete_is_refused_and_breaks_no_invariant() -> None:
    first = a_segment(0, 9, segment_id=FIRST.segment_id)
    marked = replace(retired(first), deletion_started_at_ms=5)
    row = a_state([a_segment(0, 19)], retired=(marked,))
    events = uploaded("0-9", 0, 9)
    refusal = adoption(view_of([FIRST], events), row, brokers_have(events), RUN)
    assert isinstance(refusal, Refusal)
    assert FIRST.segment_id in refusal.detail
    assert "--catalog" in refusal.remedy


LOST = own_id()
TWICE_LATE: list[Event] = [*SWAPPED, added("x", 0, 19), updated("x", FINISHED)]
TWICE_LATE[-2:] = [event._replace(segment_id=LOST) for event in TWICE_LATE[-2:]]
"""OURS took the place of LOST, whose objects were deleted; late sends finished it once more."""


def adopted_beside(found: list[Candidate], events: list[Event], **offsets: Any) -> Adoption:
    """As `forget` adopts for a row that names none of it."""
    facts = facts_beside(None, found, events, **offsets)
    assert facts.brokers is not None
    assert refused_without_row_by_brokers(facts, None) is None
    lost = lost_replacements(facts, facts.brokers)
    taken = usable(facts.candidates, [], facts.brokers, RUN, lost)
    draft = draft_of(replace(facts, candidates=taken))
    assert isinstance(draft, PartitionDraft), draft
    view = view_of_draft(draft, agreeing(draft))
    assert isinstance(view, PartitionView), view
    return adopted(view, events, **offsets)


def test_a_lost_replacement_is_retired_and_what_it_hides_is_live() -> None:
    found = adopted_beside([ours(BOTH)], TWICE_LATE)
    assert [one.segment_id for one in found.live] == [OURS]
    assert {one.segment_id for one in found.retired} == {
        LOST,
        FIRST.segment_id,
        SECOND.segment_id,
    }


def test_of_what_a_lost_replacement_hides_the_largest_is_live() -> None:
    inner = upload(0, 9)
    found = adopted_beside([inner, ours(BOTH)], [*uploaded("0-9", 0, 9), *TWICE_LATE[4:]])
    assert [one.segment_id for one in found.live] == [OURS]


def test_what_a_lost_replacement_does_not_hide_stays_hidden() -> None:
    """An upload that look-ups no longer find, on either side of it."""
    ranges = [(0, 19), (0, 9), (10, 19), (40, 59), (40, 49), (50, 59)]
    events = [event for one in ranges for event in uploaded("{}-{}".format(*one), *one)]
    for new_id in (OURS, LOST):
        made = [added("x", 20, 39), updated("x", FINISHED)]
        events += [event._replace(segment_id=new_id) for event in made]
    found = adopted_beside([*(upload(*one) for one in ranges), ours(upload(20, 39))], events)
    spans = [(one.start_offset, one.end_offset) for one in found.live]
    assert spans == [(0, 9), (10, 19), (20, 39), (40, 49), (50, 59)]


def test_parts_of_a_lost_replacement_are_not_read() -> None:
    part = upload(0, 19, lacking="index")
    part = replace(part, listed=replace(part.listed, segment_id=LOST))
    found = adopted_beside([ours(BOTH), part], TWICE_LATE)
    assert [one.segment_id for one in found.live] == [OURS]


def test_a_lost_replacement_that_others_do_not_cover_is_refused() -> None:
    events = [*uploaded("0-9", 0, 9), *TWICE_LATE[-2:]]
    facts = facts_beside(None, [FIRST], events)
    refusal = refused_without_row_by_brokers(facts, None)
    assert refusal is not None
    assert refusal.reason is RefusalReason.NOT_IN_TIER
    assert LOST in refusal.detail
    assert "kafka-delete-records" in refusal.remedy
    # What the row has all the same is not given up.
    refusal = refused_without_row_by_brokers(facts, a_state([a_segment(0, 19)]))
    assert refusal is not None
    assert "kafka-delete-records" not in refusal.remedy
    # Below the log start nothing is needed.
    second = [*uploaded("10-19", 10, 19), *TWICE_LATE[-2:]]
    assert adopted_beside([SECOND], second, log_start=10).live[0].segment_id == SECOND.segment_id
    # What is missing below it is another segment's.
    above = [added("x", 10, 19), updated("x", FINISHED)]
    late = [*second[:2], *(event._replace(segment_id=LOST) for event in above)]
    assert refused_without_row_by_brokers(facts_beside(None, [SECOND], late), None) is None
    after_a_gap = [*uploaded("12-19", 12, 19), *second[2:]]
    facts = facts_beside(None, [upload(12, 19)], after_a_gap, log_start=10)
    assert refused_without_row_by_brokers(facts, None) is not None


def test_an_upload_is_no_lost_replacement() -> None:
    events = [*SWAPPED, *uploaded("lost", 0, 19)]
    refusal = refused_without_row_by_brokers(facts_beside(None, [ours(BOTH)], events), None)
    assert refusal is not None
    assert refusal.reason is RefusalReason.NOT_IN_TIER


def test_what_an_election_cut_off_covers_no_lost_replacement() -> None:
    events = [*AFTER_ELECTION, *uploaded("cut", 20, 39, epochs={0: 20})]
    late = added("x", 0, 29, epochs={0: 0, 2: 10})._replace(segment_id=LOST)
    events += [late, updated("x", FINISHED)._replace(segment_id=LOST)]
    beyond = upload(20, 39)
    beyond = replace(beyond, listed=replace(beyond.listed, segment_id=segment_id("cut")))
    facts = facts_beside(None, [FIRST, OF_NEW_LEADER, beyond], events)
    assert refused_without_row_by_brokers(facts, None) is not None

"""What does not fit between row, listing and brokers refuses the partition, with a way out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.compaction.beside_brokers import (
    discovered_beside,
    facts_beside,
    own_id,
    refusal_beside,
    view_beside,
)
from tests.compaction.broker_events import FINISHED, GONE, LISTED, added, updated, uploaded
from tests.compaction.builders import (
    CLUSTER,
    a_segment,
    a_state,
    agreeing,
    epochs,
    leave_alone,
    retired,
    segment_id,
)
from tests.compaction.uploads import a_row, spans, upload
from tierfold.compaction.brokers.cluster_facts import Absence, UnknownOffsets
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.discovery.draft import drafted
from tierfold.compaction.discovery.drafted_view import view_of
from tierfold.compaction.discovery.view import PLACE, PartitionView, Refusal, RefusalReason
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.segments import PartitionState

FIRST, SECOND = upload(0, 9), upload(10, 19)
FINISHED_FIRST = uploaded("0-9", 0, 9)
DELETED = (LISTED, GONE)


def spans_of(*given: Any, **offsets: Any) -> list[str]:
    return spans(view_beside(*given, **offsets))


def deleted(name: object, start: int, end: int) -> list[Event]:
    return [*uploaded(name, start, end), *(updated(name, state) for state in DELETED)]


def test_whole_objects_that_brokers_never_had() -> None:
    refusal = refusal_beside(None, [FIRST, SECOND], FINISHED_FIRST)
    assert refusal.reason is RefusalReason.NEVER_NAMED
    assert f"{SECOND.listed} with all objects, not written by tierfold" in refusal.detail
    assert "Do not restart a broker" in refusal.remedy
    assert "docs/kafka.md" in refusal.remedy


def test_a_metadata_topic_that_lost_its_beginning() -> None:
    """Until the row notes that all was named again since."""
    row = replace(a_state([a_segment(0, 9)]), served_by=(CLUSTER,))

    def beside(state: PartitionState, start: int) -> PartitionView | Refusal:
        facts = facts_beside(state, [], uploaded(0, 0, 9))
        assert facts.brokers is not None
        brokers = replace(facts.brokers, metadata_start=start)
        draft = drafted(replace(facts, brokers=brokers))
        return draft if isinstance(draft, Refusal) else view_of(draft, agreeing(draft))

    assert isinstance(beside(row, 0), PartitionView)
    refusal = beside(row, 14)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is RefusalReason.METADATA_LOST
    assert "begins at offset 14" in refusal.detail
    assert "Do not restart a broker" in refusal.remedy
    assert "`tierfold rebuild TIER`" in refusal.remedy
    noted = replace(row, served_by=(replace(CLUSTER, metadata_start=14),))
    assert isinstance(beside(noted, 14), PartitionView)
    assert isinstance(beside(noted, 15), Refusal)
    # No cluster was ever noted: whatever brokers have must be named, as it is here.
    assert isinstance(beside(replace(row, served_by=()), 14), PartitionView)


def test_the_command_that_leaves_them_alone_names_them_all() -> None:
    strange = [upload(start, start + 9) for start in range(10, 100, 10)]
    refusal = refusal_beside(None, [FIRST, *strange], FINISHED_FIRST)
    ids = ",".join(one.segment_id for one in strange)
    assert f"`tierfold forget {PLACE} --leave-alone {ids}`" in refusal.remedy


def test_what_a_person_leaves_alone_refuses_nothing_and_is_not_read() -> None:
    row = a_state([a_segment(0, 9)], consents=(leave_alone(SECOND.segment_id),))
    view = view_beside(row, [SECOND], uploaded(0, 0, 9))
    assert [segment.end_offset for segment in view.segments] == [9]
    assert (view.orphans, view.waiting, view.set_apart) == ((), (), ())
    assert view.notes == ("1 segment that a person says to leave alone: kept, not read",)
    # What appears later was not agreed to.
    later = upload(20, 29)
    refusal = refusal_beside(row, [SECOND, later], uploaded(0, 0, 9))
    assert refusal.reason is RefusalReason.NEVER_NAMED
    assert later.segment_id in refusal.detail
    assert SECOND.segment_id not in refusal.sentence


def test_what_a_person_leaves_alone_and_brokers_have_after_all() -> None:
    row = a_state([a_segment(0, 9)], consents=(leave_alone(SECOND.segment_id),))
    events = [*uploaded(0, 0, 9), *uploaded("10-19", 10, 19)]
    refusal = refusal_beside(row, [SECOND], events)
    assert refusal.reason is RefusalReason.LEFT_ALONE
    assert SECOND.segment_id in refusal.detail
    assert "tierfold forget" in refusal.remedy
    # They are only uploading it, or deleting it: it is not read in either case.
    for some in (events[:-1], [*events, updated("10-19", LISTED)]):
        assert spans_of(row, [SECOND], some) == ["0-9"]


def test_they_are_refused_at_any_age_and_below_the_log_start() -> None:
    old = replace(SECOND, listed=replace(SECOND.listed, modified_ms=0))
    refusal = refusal_beside(None, [FIRST, old], FINISHED_FIRST, log_start=500)
    assert refusal.reason is RefusalReason.NEVER_NAMED


def test_a_part_of_an_upload_that_brokers_never_had_is_only_noted() -> None:
    part = upload(10, 19, lacking="index")
    view = view_beside(None, [FIRST, part], FINISHED_FIRST)
    assert view.notes == ("1 segment that brokers never had: kept, not read",)


def test_uploads_of_the_row_that_brokers_never_had() -> None:
    row = a_row((0, 9), (10, 19))
    refusal = refusal_beside(row, [], uploaded("live0", 0, 9))
    assert refusal.reason is RefusalReason.NEVER_NAMED
    assert segment_id("live10") in refusal.detail
    ours = a_segment(0, 9, segment_id=own_id(), origin=Compacted(run="r"))
    compacted = a_state([ours], retired=(retired(a_segment(0, 9)),))
    assert refusal_beside(compacted, [], []).reason is RefusalReason.NEVER_NAMED
    # A person moved it out of the tier.
    assert view_beside(compacted, [], [], gone=[segment_id(0)]).segments == (ours,)
    assert view_beside(compacted, [], uploaded(0, 0, 9)).segments == (ours,)


def test_another_catalogs_segments_refuse_whatever_their_state() -> None:
    theirs = own_id(fingerprint=5)
    event = added("0-9", 0, 9)._replace(segment_id=theirs)
    refusal = refusal_beside(None, [FIRST], [*FINISHED_FIRST, event])
    assert refusal.reason is RefusalReason.ANOTHER_CATALOG
    assert theirs in refusal.detail
    assert "--catalog" in refusal.remedy
    assert "tierfold forget" in refusal.remedy


def test_our_own_segments_that_the_row_lacks_show_that_it_was_set_back() -> None:
    ours = own_id()
    started = added("0-9", 0, 9)._replace(segment_id=ours)
    # A run that died after its first send: no reason.
    assert isinstance(view_beside(None, [FIRST], [*FINISHED_FIRST, started]), PartitionView)
    finished = updated("0-9", FINISHED)._replace(segment_id=ours)
    for events in ([started, finished], [started, finished, finished._replace(state=LISTED)]):
        refusal = refusal_beside(None, [FIRST], [*FINISHED_FIRST, *events])
        assert refusal.reason is RefusalReason.CATALOG_SET_BACK
        assert ours in refusal.detail
    in_row = a_state([a_segment(0, 9, segment_id=ours, origin=Compacted(run="r"))])
    view_beside(in_row, [], [started, finished])


def test_live_segments_that_brokers_deleted_above_their_log_start() -> None:
    row = a_row((0, 9), (10, 19))
    events = [*deleted("live0", 0, 9), *uploaded("live10", 10, 19)]
    refusal = refusal_beside(row, [], events)
    assert refusal.reason is RefusalReason.DELETED_BY_BROKERS
    assert "segment live0" in refusal.detail
    assert spans_of(row, [], events, log_start=10) == ["10-19"]


def test_segments_whose_objects_are_not_in_the_tier() -> None:
    events = [*FINISHED_FIRST, *uploaded("10-19", 10, 19)]
    refusal = refusal_beside(None, [FIRST], events)
    assert refusal.reason is RefusalReason.NOT_IN_TIER
    assert "offsets 10 to 19" in refusal.detail
    assert "with offset 20 lets" in refusal.remedy
    part = upload(10, 19, lacking="index")
    assert refusal_beside(None, [FIRST, part], events).reason is RefusalReason.NOT_IN_TIER


def test_what_an_election_cut_off_need_not_be_in_the_tier() -> None:
    events = [*uploaded("0-9", 0, 9), *uploaded("cut", 10, 19, epochs={0: 10})]
    # Its loss is none, so nothing asks to delete records at its offsets.
    refusal = refusal_beside(None, [FIRST], events, high_watermark=10)
    assert refusal.reason is RefusalReason.TIER_BEYOND_LOG
    elected = upload(10, 19, (0, 0), (2, 10))
    events += uploaded("10-19", 10, 19, epochs={2: 10})
    refusal = refusal_beside(None, [FIRST, elected], events)
    assert refusal.reason is RefusalReason.OUTSIDE_LINEAGE
    # `forget` retires it.
    row = a_state([], retired=(retired(a_segment(10, 19, segment_id=segment_id("cut"))),))
    assert spans_of(row, [FIRST, elected], events, gone=[segment_id("cut")]) == ["0-9", "10-19"]


def test_what_is_retired_or_expired_need_not_be_in_the_tier() -> None:
    ours = a_segment(0, 9, segment_id=own_id(), origin=Compacted(run="r"))
    row = a_state([ours], retired=(retired(a_segment(0, 9)),))
    view_beside(row, [], uploaded(0, 0, 9), gone=[segment_id(0)])
    events = [*FINISHED_FIRST, *uploaded("10-19", 10, 19)]
    assert spans_of(None, [SECOND], events, log_start=10) == ["10-19"]


def test_a_log_start_waits_until_brokers_have_deleted_what_is_below() -> None:
    row = a_row((0, 9), (10, 19))
    events = [*uploaded("live0", 0, 9), *uploaded("live10", 10, 19)]
    refusal = refusal_beside(row, [], events, log_start=10)
    assert refusal.reason is RefusalReason.LOG_START_UNPROVEN
    assert "run again" in refusal.remedy
    within = view_beside(row, [], events, log_start=5)
    assert within.log_start_offset == 5
    events.append(updated("live0", LISTED))
    assert spans_of(row, [], events, log_start=10) == ["10-19"]


def compacted_head(**fields: object) -> PartitionState:
    """A row whose first segment a run wrote, and of which no upload is left."""
    ours = a_segment(0, 9, segment_id=own_id(), origin=Compacted(run="r"))
    return replace(a_state([ours, a_segment(10, 19)]), **fields)  # type: ignore[arg-type]


def test_a_log_start_without_a_trace_of_deletions_is_not_followed() -> None:
    events = uploaded(10, 10, 19)
    refusal = refusal_beside(compacted_head(), [], events, log_start=10)
    assert refusal.reason is RefusalReason.LOG_START_UNPROVEN
    assert "Do not restart a broker" in refusal.remedy
    served = compacted_head(served_by=(CLUSTER,))
    assert spans_of(served, [], events, log_start=10) == ["10-19"]


def test_a_dead_upload_below_a_log_start_is_no_sign_of_lost_metadata() -> None:
    # A run without brokers took it: its objects are whole.
    row = a_row((0, 9), (10, 19))
    events = [added("live0", 0, 9), *uploaded("live10", 10, 19)]
    assert spans_of(row, [], events, log_start=10) == ["10-19"]
    # Beside what brokers never named, it shows no deletion either.
    with_ours = compacted_head(retired=(retired(a_segment(0, 9, segment_id=segment_id("dead"))),))
    events = [added("dead", 0, 9), *uploaded(10, 10, 19)]
    refusal = refusal_beside(with_ours, [], events, log_start=10)
    assert refusal.reason is RefusalReason.LOG_START_UNPROVEN
    assert with_ours.segments[0].segment_id in refusal.detail
    assert segment_id("dead") not in refusal.detail


@pytest.mark.parametrize(
    ("absence", "code", "remedy"),
    [
        (Absence.NO_PARTITION, "not_in_cluster", "name the cluster that has it"),
        (Absence.NO_RIGHT, "right_missing", "Then run again."),
        (Absence.NO_ANSWER, "unanswered", "Run again once the partition has a leader."),
    ],
)
def test_without_offsets_nothing_is_decided(absence: Absence, code: str, remedy: str) -> None:
    unknown = UnknownOffsets(absence, "The partition has no leader.")
    refusal = refusal_beside(None, [FIRST], FINISHED_FIRST, offsets=unknown)
    assert refusal.code == code
    assert refusal.detail == unknown.why
    assert remedy in refusal.remedy


def test_many_segments_are_counted() -> None:
    strange = [upload(at, at + 9) for at in range(10, 90, 10)]
    refusal = refusal_beside(None, [FIRST, *strange], FINISHED_FIRST)
    assert " and 3 more" in refusal.detail


def test_a_log_that_ends_below_the_tier_is_refused() -> None:
    refusal = refusal_beside(None, [FIRST], FINISHED_FIRST, high_watermark=8)
    assert refusal.reason is RefusalReason.TIER_BEYOND_LOG
    assert spans_of(None, [FIRST], FINISHED_FIRST, high_watermark=10) == ["0-9"]


def test_a_deposed_leaders_segment_over_live_ones_is_refused() -> None:
    lineage = epochs((0, 0), (2, 5))
    row = a_state([a_segment(0, 9, leader_epochs=lineage)], lineage=lineage)
    deposed = upload(5, 9, (0, 0), (1, 5))
    events = [
        *uploaded(0, 0, 9, epochs={0: 0, 2: 5}),
        *uploaded("5-9", 5, 9, epochs={1: 5}),
    ]
    refusal = refusal_beside(row, [deposed], events)
    assert refusal.reason is RefusalReason.OUTSIDE_LINEAGE
    assert deposed.segment_id in refusal.detail


def test_a_deposed_leaders_segment_is_refused_before_anything_is_claimed() -> None:
    elected = upload(5, 19, (0, 0), (2, 5))
    deposed = upload(5, 9, (0, 0), (1, 5))
    found = [upload(0, 4), elected, deposed]
    events = [
        *uploaded("0-4", 0, 4),
        *uploaded("5-19", 5, 19, epochs={2: 5}),
        *uploaded("5-9", 5, 9, epochs={1: 5}),
    ]
    first = refusal_beside(None, found, events)
    assert first.reason is RefusalReason.OUTSIDE_LINEAGE
    # As if it had been claimed, in whole or up to the election.
    lineage = epochs((0, 0), (2, 5))
    head = a_segment(0, 4, segment_id=segment_id("0-4"))
    tail = a_segment(5, 19, segment_id=segment_id("5-19"), leader_epochs=lineage)
    whole = a_state([head, tail], lineage=lineage)
    assert refusal_beside(whole, [deposed], events) == first
    row = a_state([head], lineage=epochs((0, 0)))
    assert refusal_beside(row, [elected, deposed], events) == first
    # `forget` retires it.
    given_up = a_segment(5, 9, segment_id=segment_id("5-9"))
    adopted = replace(whole, retired=(retired(given_up),))
    assert spans_of(adopted, [], events) == ["0-4", "5-19"]
    # Without brokers, it only empties the row.
    emptied = whole.emptied([deposed.segment_id])
    assert refusal_beside(emptied, found, events) == first


def test_what_brokers_are_deleting_below_their_log_start_is_no_sign_of_an_older_catalog() -> None:
    ours = own_id()
    gone = [
        added("x", 0, 9)._replace(segment_id=ours),
        updated("x", FINISHED)._replace(segment_id=ours),
        updated("x", LISTED)._replace(segment_id=ours),
    ]
    live = a_segment(0, 9, segment_id=ours, origin=Compacted("r"))
    rest = a_segment(10, 19, segment_id=segment_id("live10"))
    row = replace(a_state([live, rest]), served_by=(CLUSTER,))
    events = [*gone, *uploaded("live10", 10, 19)]
    view = view_beside(row, [], events, log_start=10)
    after = replace(row, segments=view.segments, log_start_offset=10)  # As a claim writes it.
    again = discovered_beside(after, [], events, log_start=10)
    assert isinstance(again, PartitionView), again


def test_lost_objects_that_a_live_segment_replaced_are_not_mended_by_deleting_records() -> None:
    ours = a_segment(0, 19, segment_id=own_id(), origin=Compacted("r"))
    # Its originals were deleted while the tier was declared detached.
    row = a_state([ours])
    found = discovered_beside(
        row, [], [*uploaded("0-9", 0, 9), *uploaded("10-19", 10, 19)]
    )
    assert isinstance(found, Refusal)
    assert "kafka-delete-records" not in found.remedy


def test_what_deleting_records_takes_with_it_is_said() -> None:
    refusal = refusal_beside(None, [FIRST], [*FINISHED_FIRST, *uploaded("10-19", 10, 19)])
    assert "gives up all records below, also those that are not lost" in refusal.remedy


def test_a_gap_beside_brokers_takes_nothing_out_of_the_tier() -> None:
    """What brokers name must stay; the log start passes the gap instead."""
    found = [upload(0, 9), upload(20, 29)]
    events = [*uploaded("0-9", 0, 9), *uploaded("20-29", 20, 29)]
    refusal = refusal_beside(None, found, events)
    assert refusal.reason is RefusalReason.GAP
    assert "`kafka-delete-records.sh` lets the log start at offset 20" in refusal.remedy
    assert "out of the tier and keep" not in refusal.remedy
    seen = view_beside(None, found, events, log_start=20)
    assert [segment.start_offset for segment in seen.segments] == [20]

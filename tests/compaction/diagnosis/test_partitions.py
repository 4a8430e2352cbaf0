"""Each illness of a partition is found, and nothing else is wrong with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.compaction.beside_brokers import own_id
from tests.compaction.broker_events import LISTED, added, updated
from tests.compaction.builders import KEY, a_chain, a_segment, a_state, unknown
from tests.compaction.ill_partitions import (
    GONE_FROM_MIDDLE,
    HEALTHY,
    ILL,
    NOW_MS,
    THREE,
    beside,
    by_brokers,
    by_listing,
    examined,
    its,
    other,
    uploads,
)
from tierfold.compaction.diagnosis.diagnosis import findings_of
from tierfold.compaction.diagnosis.examined import Examined
from tierfold.compaction.diagnosis.findings import Finding, Severity
from tierfold.compaction.diagnosis.marks import several_catalogs
from tierfold.compaction.discovery.identity import OfCluster
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.model.rules import DAY_MS
from tierfold.compaction.publishing.steps import Done, RefusalCode, Refused, Wait

ALSO: Final = {
    "not_in_tier": {"gap"},
    "unfound_offsets": {"overlapping_uploads"},
}
"""What an illness brings with it."""


def codes(one: Examined) -> set[str]:
    return {found.code for found in findings_of(one)}


def found(one: Examined, code: str) -> Finding:
    (finding,) = [each for each in findings_of(one) if each.code == code]
    return finding


def test_a_healthy_partition_has_no_finding() -> None:
    assert findings_of(HEALTHY) == ()
    assert findings_of(by_brokers(*uploads())) == ()
    assert findings_of(by_listing(None, THREE)) == ()
    assert findings_of(by_listing(a_state(THREE))) == ()


@pytest.mark.parametrize("code", ILL)
def test_each_illness_is_found(code: str) -> None:
    assert codes(ILL[code]) - ALSO.get(code, set()) == {code}


@pytest.mark.parametrize("code", ["upload_stuck", "deletion_stuck", "orphans", "undeleted_objects"])
def test_what_is_young_is_none(code: str) -> None:
    assert code not in codes(replace(ILL[code], now_ms=1_000_000 + 3_600_000 // 2))


def test_an_upload_without_objects_is_a_note() -> None:
    with_objects = found(ILL["upload_stuck"], "upload_stuck")
    assert (with_objects.severity, with_objects.size_bytes) == (Severity.LEAKS, 1040)
    without = found(beside((), added("other", 10, 19)), "upload_stuck")
    assert (without.severity, without.size_bytes) == (Severity.NOTE, 0)
    # Brokers alone know the size of its log.
    alone = found(by_brokers(*uploads(), added("other", 10, 19)), "upload_stuck")
    assert (alone.severity, alone.size_bytes) == (Severity.LEAKS, 1000)


def test_what_the_row_has_retired_is_no_stuck_deletion() -> None:
    young = replace(ILL["vacuum_due"], now_ms=5 + 7 * DAY_MS - 1)
    assert codes(young) == set()


def test_a_replaced_segment_that_brokers_still_read_waits_for_no_vacuum() -> None:
    due = ILL["vacuum_due"]
    assert due.row is not None
    served = examined(due.row, (), [*uploads(), *its(10, 19)])
    assert "vacuum_due" not in codes(served)


def test_a_leak_is_counted_with_all_its_objects() -> None:
    assert found(ILL["never_named"], "never_named").size_bytes == 1040
    assert found(ILL["undeleted_objects"], "undeleted_objects").size_bytes == 1040
    assert found(ILL["orphans"], "orphans").size_bytes == 1040
    assert found(ILL["not_in_tier"], "not_in_tier").size_bytes == 1000
    assert found(ILL["topic_deleted"], "topic_deleted").size_bytes == 3 * 1040


def test_what_a_loss_left_may_still_be_deleted_by_a_broker_that_remembers_it() -> None:
    left = ILL["left_by_a_loss"]
    assert found(left, "left_by_a_loss").size_bytes == 1040
    assert codes(replace(left, now_ms=5 + DAY_MS - 1)) == set()


def test_another_refusal_does_not_hide_what_is_missing() -> None:
    one = ILL["not_in_tier"]
    refused = Refusal(reason=RefusalReason.CORRUPT, detail="odd", remedy="Look.")
    assert {"not_in_tier", "corrupt"} <= codes(replace(one, refusal=refused))
    partial = unknown(other(10, 19), lacking=["index"])
    assert "never_named" in codes(beside([partial]))


def test_what_cannot_be_compared_is_not() -> None:
    for code in ("not_in_tier", "never_named", "upload_stuck"):
        for reason in (RefusalReason.ANOTHER_PLACE, RefusalReason.METADATA_LOST):
            refused = Refusal(reason=reason, detail="elsewhere", remedy="Look.")
            assert codes(replace(ILL[code], refusal=refused)) == {reason.replace(" ", "_")}


def test_a_topic_that_the_cluster_lacks_has_only_that_finding() -> None:
    deleted = replace(ILL["topic_unknown"], whose=OfCluster.DELETED)
    assert codes(deleted) == {"topic_deleted"}
    assert codes(replace(deleted, listed=())) == set()
    assert codes(replace(ILL["topic_deleted"], now_ms=DAY_MS)) == set()


def test_a_gap_is_found_with_a_tier_and_without() -> None:
    finding = found(ILL["gap"], "gap")
    assert "offsets 10 to 19" in finding.detail
    assert finding.severity is Severity.LOSES_DATA
    assert "gap" in codes(examined(None, [THREE[0], THREE[2]], GONE_FROM_MIDDLE))
    assert "gap" not in codes(by_brokers(*GONE_FROM_MIDDLE, log_start=20))


def test_offsets_that_no_look_up_finds_are_named() -> None:
    assert "offsets 20 to 29" in found(ILL["unfound_offsets"], "unfound_offsets").detail
    assert "unfound_offsets" not in codes(by_brokers(*uploads(), *its(10, 29)))


def test_brokers_confirm_holes() -> None:
    assert "holes_assumed" not in codes(replace(ILL["holes_assumed"], brokers=HEALTHY.brokers))


def test_overlaps_are_found_by_a_listing_too() -> None:
    wide = by_listing(None, [*THREE, other(10, 29)])
    assert wide.view is not None
    assert codes(wide) == {"overlapping_uploads"}
    # What the row has retired is about to go.
    assert "overlapping_uploads" not in codes(ILL["vacuum_due"])


@pytest.mark.parametrize(("count", "is_found"), [(19, False), (20, True)])
def test_segments_are_small_from_twenty_on(count: int, *, is_found: bool) -> None:
    chain = a_chain(*[10] * count)
    assert ("small_segments" in codes(by_brokers(*uploads(chain)))) == is_found
    large = [event._replace(size_bytes=2**30) if hasattr(event, "size_bytes") else event
             for event in uploads(chain)]
    assert codes(by_brokers(*large)) == set()


def test_what_publishing_does_next_is_found_unless_it_is_done_or_waits() -> None:
    wait = Wait(until_ms=None, why="an upload is at work")
    for step in (Done(), wait, None):
        assert codes(replace(HEALTHY, step=step)) == set()
    refused = Refused(code=RefusalCode.UNCOVERED, why="segment x has offsets of its own")
    finding = found(replace(HEALTHY, step=refused), "unpublished")
    assert "segment x" in finding.detail
    assert "`tierfold forget" in finding.remedy


def test_a_replacement_that_brokers_have_as_started_is_unpublished() -> None:
    begun = added("", 0, 9, segment_id=own_id())
    assert codes(by_brokers(*uploads(), begun)) == {"unpublished"}


def test_two_catalogs_are_found_without_a_tier() -> None:
    one = by_brokers(*uploads([THREE[0], a_segment(10, 19, segment_id=own_id())]))
    two = by_brokers(*uploads([THREE[0], a_segment(20, 29, segment_id=own_id(5))]))
    assert [*several_catalogs([one, one])] == []
    (finding,) = several_catalogs([one, two])
    assert (finding.code, finding.key) == ("another_catalog", None)
    assert [*several_catalogs([replace(one, listed=()), two])] == []


def test_what_a_run_replaced_is_known_without_a_row() -> None:
    ours = a_segment(0, 19, segment_id=own_id())
    events = [*uploads(), *uploads([ours]), updated(0, LISTED), updated(10, LISTED)]
    assert codes(by_brokers(*events)) == {"vacuum_due"}
    assert codes(replace(by_brokers(*events), now_ms=2 * DAY_MS)) == set()
    # What nothing of ours covers is not waiting for a run.
    assert "deletion_stuck" in codes(by_brokers(*events, updated(20, LISTED)))


def test_an_orphan_of_this_catalog_is_not_anothers() -> None:
    alone = replace(ILL["orphans"], brokers=None)
    assert "another_catalog" not in codes(alone)
    assert "another_catalog" in codes(replace(alone, fingerprint=None))


def test_a_refusal_of_other_verbs_is_a_finding_with_its_remedy() -> None:
    refusal = Refusal(reason=RefusalReason.CORRUPT, detail="it is odd.", remedy="Mend it.")
    one = Examined(key=KEY, rules=HEALTHY.rules, now_ms=NOW_MS, refusal=refusal)
    (finding,) = findings_of(one)
    assert (finding.code, finding.detail, finding.remedy) == ("corrupt", "it is odd", "Mend it.")
    assert finding.severity is Severity.LOSES_DATA


def test_deletions_below_the_log_start_are_stuck_too() -> None:
    events = [*uploads(), updated(0, LISTED)]
    assert "1 segment" in found(by_brokers(*events, log_start=10), "deletion_stuck").detail

"""What a metadata topic that has lost records does not show, although it never names it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.compaction.beside_brokers import brokers_have, facts_beside, own_id, refusal_beside
from tests.compaction.broker_events import uploaded
from tests.compaction.builders import CLUSTER, a_segment, a_state
from tests.compaction.uploads import upload
from tests.storage.new_ids import foreign_id
from tierfold.compaction.discovery.metadata_loss import (
    is_known_since,
    metadata_lost,
    partitions_refusal,
    perhaps_named,
    topic_deleted,
)
from tierfold.compaction.discovery.refused_by_brokers import (
    refused_by_brokers,
    refused_without_row_by_brokers,
)
from tierfold.compaction.discovery.view import RefusalReason
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.serving import Consent, ConsentKind

ROW = a_state([a_segment(0, 9)], served_by=(CLUSTER,))
EVENTS = uploaded("0-9", 0, 9)


def rebuilt(at_ms: int) -> tuple[Consent, ...]:
    return (Consent(kind=ConsentKind.REBUILT, given_at_ms=at_ms, run="mine"),)


def test_it_is_lost_where_it_begins_later_than_the_row_noted() -> None:
    cut = replace(brokers_have(()), metadata_start=14)
    assert metadata_lost(ROW, cut)
    assert not metadata_lost(ROW, brokers_have(()))
    assert not metadata_lost(replace(ROW, served_by=(replace(CLUSTER, metadata_start=14),)), cut)
    assert not metadata_lost(None, cut)
    assert not metadata_lost(replace(ROW, served_by=()), cut)


def test_a_row_whose_cluster_a_person_gave_up_has_lost_it_too() -> None:
    """What runs published before that, brokers may serve."""
    given_up = Consent(kind=ConsentKind.DETACHED, given_at_ms=1, run="mine")
    row = replace(ROW, consents=(given_up,))
    assert not row.is_served
    assert metadata_lost(row, replace(brokers_have(()), metadata_start=14))


@pytest.mark.parametrize(
    ("row", "start", "made_ms", "is_known"),
    [
        (None, 0, 5, True),
        (ROW, 0, 5, True),
        (None, 14, 5, False),
        (ROW, 14, 5, False),
        (replace(ROW, consents=rebuilt(4)), 14, 5, True),
        (replace(ROW, consents=rebuilt(5)), 14, 5, False),
        # It was created again, so it begins at 0.
        (replace(ROW, consents=rebuilt(4)), 0, 5, True),
        (replace(ROW, consents=rebuilt(5)), 0, 5, False),
    ],
)
def test_what_was_made_before_it_may_have_named(
    row: PartitionState | None, start: int, made_ms: int, is_known: bool
) -> None:
    assert is_known_since(row, start, made_ms) is is_known


def forgotten(new_id: str, row: PartitionState | None = None, **changes: Any) -> str:
    """The reason why `forget` takes nothing over beside a truncated topic; empty: it does."""
    found = upload(20, 29, lacking=changes.get("lacking", ""))
    listed = replace(found.listed, segment_id=new_id, modified_ms=5)
    facts = facts_beside(None, [upload(0, 9), replace(found, listed=listed)], EVENTS)
    assert facts.brokers is not None
    start = changes.get("metadata_start", 14)
    cut = replace(facts, brokers=replace(facts.brokers, metadata_start=start))
    refusal = refused_without_row_by_brokers(cut, row)
    return "" if refusal is None else refusal.reason


@pytest.mark.parametrize("make_id", [own_id, foreign_id])
def test_forget_gives_up_nothing_that_it_may_have_named(make_id: Any) -> None:
    new_id = make_id()
    assert forgotten(new_id) == RefusalReason.METADATA_LOST
    assert forgotten(new_id, metadata_start=0) == ""
    assert forgotten(new_id, lacking="log") == ""
    # The row says what it is, or it was written after the topic named all again.
    named = a_state([a_segment(20, 29, segment_id=new_id)], served_by=(CLUSTER,))
    assert forgotten(new_id, named) == ""
    assert forgotten(new_id, replace(ROW, consents=rebuilt(4))) == ""


def test_it_names_the_segments_and_both_ways_out() -> None:
    new_id = own_id()
    found = upload(20, 29)
    listed = replace(found.listed, segment_id=new_id)
    facts = facts_beside(None, [replace(found, listed=listed)], [])
    assert facts.brokers is not None
    refused = replace(facts.brokers, metadata_start=14)
    refusal = perhaps_named(facts, refused, None)
    assert refusal is not None
    assert new_id in refusal.detail
    assert "`tierfold rebuild TIER`" in refusal.remedy
    # The catalog comes back, or they are moved out.
    assert perhaps_named(facts, refused, a_state([a_segment(20, 29, segment_id=new_id)])) is None
    assert perhaps_named(facts_beside(None, [], []), refused, None) is None


def test_what_brokers_have_begun_is_no_loss() -> None:
    """It stays started for ever where the upload died (KAFKA-17062)."""
    facts = facts_beside(None, [upload(20, 29)], uploaded("20-29", 20, 29)[:1])
    assert facts.brokers is not None
    assert [one.listed.is_complete for one in facts.left_alone] == [True]
    assert perhaps_named(facts, replace(facts.brokers, metadata_start=14), None) is None


def test_an_upload_that_only_an_update_names_was_never_named() -> None:
    cut_off = [*EVENTS, uploaded("10-19", 10, 19)[1]]
    refusal = refusal_beside(None, [upload(0, 9), upload(10, 19)], cut_off)
    assert refusal.reason is RefusalReason.NEVER_NAMED


def test_a_deleted_topic_is_no_cluster_that_never_had_one() -> None:
    found = topic_deleted([ROW], CLUSTER.cluster_id, "broker-1:9092")
    assert found is not None
    assert (found.where, found.code) == ("broker broker-1:9092", "metadata_lost")
    assert "the catalog has noted one: it was deleted" in found.what
    assert found.remedy.startswith("Do not restart a broker.")
    assert "--create --topic __remote_log_metadata --partitions 50 " in found.remedy
    assert topic_deleted([ROW], "another", "broker-1:9092") is None
    assert topic_deleted([replace(ROW, served_by=())], CLUSTER.cluster_id, "b:1") is None
    gave_up = Consent(kind=ConsentKind.DETACHED, given_at_ms=1, run="mine")
    assert topic_deleted([replace(ROW, consents=(gave_up,))], CLUSTER.cluster_id, "b:1") is None


def test_a_topic_with_another_number_of_partitions_is_refused() -> None:
    five = replace(CLUSTER, metadata_topic_id="n" * 21 + "A", metadata_partitions=5)
    found = partitions_refusal(ROW, five, "broker-1:9092")
    assert found is not None
    assert found.reason is RefusalReason.METADATA_PARTITIONS
    assert "has 5 partitions, and had 50" in found.detail
    assert "--bootstrap-server broker-1:9092 --create" in found.remedy
    assert "--partitions 50 " in found.remedy
    assert partitions_refusal(ROW, replace(five, metadata_partitions=50), "b:1") is None
    assert partitions_refusal(ROW, replace(five, cluster_id="another"), "b:1") is None
    assert partitions_refusal(None, five, "b:1") is None
    assert partitions_refusal(replace(ROW, served_by=()), five, "b:1") is None


def test_what_lies_below_the_log_start_was_not_named_again() -> None:
    """Random verbs beside a broker, seed 41: the partition was refused for good."""
    row = a_state([a_segment(0, 9), a_segment(10, 19)], served_by=(CLUSTER,), consents=rebuilt(7))
    events = uploaded(10, 10, 19)
    for log_start, is_refused in ((10, False), (9, True)):
        brokers = brokers_have(events, row.named_ids, log_start=log_start)
        found = refused_by_brokers(replace(facts_beside(row, [], events), brokers=brokers))
        assert (found is not None and found.reason is RefusalReason.NEVER_NAMED) is is_refused
    unlost = replace(row, consents=())
    brokers = brokers_have(events, row.named_ids, log_start=10)
    found = refused_by_brokers(replace(facts_beside(unlost, [], events), brokers=brokers))
    assert found is not None
    assert found.reason is RefusalReason.NEVER_NAMED

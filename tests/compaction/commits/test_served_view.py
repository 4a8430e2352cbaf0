"""What a claim notes in the row of a partition that is published."""

from __future__ import annotations

from dataclasses import replace

from tests.compaction.beside_brokers import brokers_have
from tests.compaction.builders import CLUSTER, KEY, a_chain, a_state, a_view
from tierfold.compaction.commits.invariants import violations
from tierfold.compaction.commits.row_changes import claimed
from tierfold.compaction.commits.served_rows import SERVED_INVARIANTS
from tierfold.compaction.commits.served_view import Serving, detached_view, served_view
from tierfold.compaction.discovery.view import PartitionView, Refusal, state_with_new
from tierfold.compaction.model.bindings import ServedBy
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.serving import Consent, ConsentKind

SERVING = Serving(binding=ServedBy(CLUSTER), at_ms=7, run="mine", readers_begin_again=False)
ROW = a_state(a_chain(10))
SERVED = replace(ROW, served_by=(CLUSTER,))


def row_of(row: PartitionState | None, serving: Serving = SERVING) -> PartitionState:
    """The row that the claim writes; its invariants hold."""
    view = served_view(replace(a_view(a_chain(10)), state=row), serving)
    assert isinstance(view, PartitionView)
    after = claimed(state_with_new(view), run="mine", commit_id="c", at_ms=7)
    if row is not None:
        assert violations(row, after, SERVED_INVARIANTS) == {}
    return after


def test_the_claim_notes_the_cluster_once() -> None:
    assert row_of(None).served_by == (CLUSTER,)
    assert row_of(None).key == KEY
    assert row_of(ROW).served_by == (CLUSTER,)
    assert row_of(SERVED).served_by == (CLUSTER,)
    assert row_of(SERVED).consents == ()


def test_the_claim_notes_since_when_the_metadata_topic_names_all() -> None:
    """A topic that lost records before that had none of ours among them."""
    brokers = replace(brokers_have([]), metadata_start=14)
    view = served_view(replace(a_view(a_chain(10)), state=ROW, brokers=brokers), SERVING)
    assert isinstance(view, PartitionView)
    assert state_with_new(view).served_by == (replace(CLUSTER, metadata_start=14),)
    later = served_view(replace(a_view(a_chain(10)), state=SERVED, brokers=brokers), SERVING)
    assert isinstance(later, PartitionView)
    assert state_with_new(later).served_by == (CLUSTER,)


def test_a_place_to_which_the_tier_moved_is_noted_with_the_consent() -> None:
    there = replace(CLUSTER, place="/mnt/other/")
    moved = replace(SERVING, binding=ServedBy(there, is_moved=True))
    after = row_of(SERVED, moved)
    assert after.served_by == (there,)
    assert after.consents == (Consent(kind=ConsentKind.MOVED, given_at_ms=7, run="mine"),)
    assert row_of(SERVED, replace(moved, binding=ServedBy(there))).served_by == (CLUSTER,)


def test_that_readers_begin_again_is_noted_where_tombstones_went() -> None:
    agreed = replace(SERVING, readers_begin_again=True)
    assert row_of(replace(SERVED, has_dropped=False), agreed).consents == ()
    after = row_of(replace(SERVED, has_dropped=True), agreed)
    assert after.consents == (Consent(kind=ConsentKind.DELETED_KEYS, given_at_ms=7, run="mine"),)
    assert row_of(after, replace(agreed, at_ms=8)).consents == after.consents


def test_a_row_of_a_tier_that_no_broker_serves_notes_that_once() -> None:
    consent = Consent(kind=ConsentKind.DETACHED, given_at_ms=7, run="mine")
    for row in (None, ROW):
        view = replace(a_view(a_chain(10)), state=row)
        assert detached_view(view, consent) == view
    view = detached_view(replace(a_view(a_chain(10)), state=SERVED), consent)
    assert view.state == replace(SERVED, consents=(consent,))
    assert view.state is not None
    assert not view.state.is_served
    assert detached_view(view, replace(consent, given_at_ms=8)) == view


def test_a_row_that_a_person_gave_up_is_not_served_again() -> None:
    given_up = Consent(kind=ConsentKind.DETACHED, given_at_ms=1, run="r")
    abandoned = replace(SERVED, consents=(given_up,))
    refusal = served_view(replace(a_view(a_chain(10)), state=abandoned), SERVING)
    assert isinstance(refusal, Refusal)
    assert "publish = false" in refusal.remedy

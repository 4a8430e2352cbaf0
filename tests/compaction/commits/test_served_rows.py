"""What a row that brokers serve may never become, and what it may mark and forget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest

from tests.compaction.builders import CLUSTER, a_chain, a_segment, a_state, retired, segment_id
from tierfold.compaction.commits.commit import (
    FinishDeletion,
    ForgetPartition,
    StartDeletion,
    Update,
    proposed,
)
from tierfold.compaction.commits.invariants import violations
from tierfold.compaction.commits.row_changes import applied
from tierfold.compaction.commits.served_rows import SERVED_INVARIANTS, deletion_invariants
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.serving import (
    Consent,
    ConsentKind,
    LocalRange,
    Pass,
)

OLD: Final = a_segment(0, 9, segment_id=segment_id("old"))
GOING: Final = a_segment(0, 9, segment_id=segment_id("going"))
CONSENT: Final = Consent(kind=ConsentKind.DETACHED, given_at_ms=5, run="mine")
FIRST, SECOND = LIVE = a_chain(10, 10)
PASS: Final = Pass(epoch=3, horizon_ms=None, published_at_ms=None, has_spared=False)
LOCAL: Final = LocalRange(end_offset=9, until_ms=7)
SERVED: Final = a_state(
    LIVE,
    epoch=3,
    owner_run="mine",
    commit_id="claim",
    retired=(retired(OLD), retired(GOING, deletion_started_at_ms=9)),
    served_by=(CLUSTER,),
    passes=(replace(PASS, epoch=2), PASS),
    local_ranges=(LOCAL,),
    has_dropped=True,
)
NOT_SERVED: Final = replace(SERVED, served_by=())


def test_a_row_that_changes_nothing_keeps_all() -> None:
    assert violations(SERVED, SERVED, SERVED_INVARIANTS) == {}


@pytest.mark.parametrize(
    ("after", "rule"),
    [
        (replace(SERVED, served_by=()), "the_cluster_stays"),
        (replace(SERVED, served_by=(replace(CLUSTER, place="/mnt"),)), "the_cluster_stays"),
        (replace(SERVED, served_by=(CLUSTER, CLUSTER)), "the_cluster_stays"),
        (replace(SERVED, segments=(OLD, SECOND)), "retired_of_served_rows_never_return"),
        (replace(SERVED, has_dropped=False), "what_was_dropped_stays_noted"),
        (replace(SERVED, passes=(PASS, PASS)), "passes_are_in_order"),
        (replace(SERVED, passes=(replace(PASS, epoch=4),)), "passes_are_in_order"),
        (replace(SERVED, local_ranges=(LOCAL, LOCAL)), "local_ranges_are_in_order"),
        (
            replace(SERVED, local_ranges=(LOCAL, LocalRange(end_offset=15, until_ms=6))),
            "local_ranges_are_in_order",
        ),
        (
            replace(SERVED, local_ranges=(replace(LOCAL, end_offset=20),)),
            "local_ranges_are_in_order",
        ),
    ],
)
def test_each_broken_rule_is_named(after: PartitionState, rule: str) -> None:
    assert rule in violations(SERVED, after, SERVED_INVARIANTS)


def test_a_consent_stays_and_ends_serving() -> None:
    agreed = replace(SERVED, consents=(CONSENT,))
    assert violations(SERVED, agreed, SERVED_INVARIANTS) == {}
    assert "what_was_dropped_stays_noted" in violations(agreed, SERVED, SERVED_INVARIANTS)
    assert (SERVED.is_served, agreed.is_served, NOT_SERVED.is_served) == (True, False, False)
    update = FinishDeletion(ids=GOING_IDS)
    assert broken(agreed, update) == []


def test_its_metadata_topic_may_only_change_with_a_consent() -> None:
    another = replace(CLUSTER, metadata_topic_id="n" * 21 + "A", metadata_start=14)
    silent = replace(SERVED, served_by=(another,))
    assert "the_cluster_stays" in violations(SERVED, silent, SERVED_INVARIANTS)
    rebuilt = replace(CONSENT, kind=ConsentKind.REBUILT)
    agreed = replace(silent, consents=(rebuilt,))
    assert violations(SERVED, agreed, SERVED_INVARIANTS) == {}
    for cluster in (replace(another, cluster_id="other"), replace(another, place="/mnt")):
        moved = replace(agreed, served_by=(cluster,))
        assert "the_cluster_stays" in violations(SERVED, moved, SERVED_INVARIANTS)


def test_a_row_without_a_cluster_may_get_one_and_restore() -> None:
    assert violations(NOT_SERVED, SERVED, SERVED_INVARIANTS) == {}
    restored = replace(NOT_SERVED, segments=(OLD, SECOND), local_ranges=())
    assert violations(NOT_SERVED, restored, SERVED_INVARIANTS) == {}
    adopted = replace(restored, served_by=SERVED.served_by)
    assert violations(NOT_SERVED, adopted, SERVED_INVARIANTS) == {}


def broken(row: PartitionState, *updates: Update) -> list[str]:
    proposal = proposed(row, *updates, commit_id="c", at_ms=9)
    return [*violations(row, applied(proposal, row), deletion_invariants(proposal))]


MARKED: Final = "brokers_dropped_what_is_marked"
FORGOTTEN: Final = "brokers_know_what_is_gone"
OLD_IDS: Final = (OLD.segment_id,)
GOING_IDS: Final = (GOING.segment_id,)
OTHERS: Final = frozenset({SECOND.segment_id})


@pytest.mark.parametrize(
    ("update", "rules"),
    [
        (StartDeletion(ids=OLD_IDS, at_ms=9), [MARKED]),
        (StartDeletion(ids=OLD_IDS, at_ms=9, listed=OTHERS, never_named=OTHERS), [MARKED]),
        (StartDeletion(ids=OLD_IDS, at_ms=9, listed=frozenset(OLD_IDS)), []),
        (StartDeletion(ids=OLD_IDS, at_ms=9, never_named=frozenset(OLD_IDS)), []),
        (FinishDeletion(ids=GOING_IDS), [FORGOTTEN]),
        (FinishDeletion(ids=GOING_IDS, gone=OTHERS, never_named=OTHERS), [FORGOTTEN]),
        (FinishDeletion(ids=GOING_IDS, gone=frozenset(GOING_IDS)), []),
        (FinishDeletion(ids=GOING_IDS, never_named=frozenset(GOING_IDS)), []),
    ],
)
def test_served_rows_wait_for_their_brokers(update: Update, rules: Sequence[str]) -> None:
    assert broken(SERVED, update) == rules
    assert broken(NOT_SERVED, update) == []


def test_a_forgotten_row_is_served_as_before() -> None:
    row = SERVED.emptied(())
    assert row.is_forgotten
    assert (row.cluster, row.has_dropped) == (CLUSTER, True)
    assert (row.passes, row.local_ranges) == ((), ())
    assert broken(SERVED, ForgetPartition(consent=())) == [FORGOTTEN]

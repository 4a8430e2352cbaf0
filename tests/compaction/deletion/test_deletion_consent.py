"""A user's word on the cluster leaves a consent: that it is no more, or that the tier moved."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.compaction.beside_brokers import brokers_have
from tests.compaction.builders import CLUSTER, a_chain, a_state, retired, seen
from tierfold.compaction.commits.commit import MoveTier, NoteConsent, StartDeletion, proposed
from tierfold.compaction.commits.invariants import COMMIT_INVARIANTS, violations
from tierfold.compaction.commits.row_changes import applied, claimed
from tierfold.compaction.commits.served_rows import SERVED_INVARIANTS, deletion_invariants
from tierfold.compaction.deletion.deletion_plan import DeletionPlan, VacuumLimits, deletion_plan_of
from tierfold.compaction.model.bindings import UNDECLARED, Binding, Detached, ServedBy
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.rules import DAY_MS, Rules
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.serving import Consent, ConsentKind

GONE, *LIVE = a_chain(10, 10)
ROW: Final = a_state(LIVE, retired=(retired(GONE, retired_at_ms=0),))
SERVED: Final = replace(ROW, served_by=(CLUSTER,))
CONSENT: Final = Consent(kind=ConsentKind.DETACHED, given_at_ms=5, run="r")
INSISTED: Final = Detached(is_insisted=True)


def deletion(row: PartitionState, binding: Binding = INSISTED) -> DeletionPlan:
    times = VacuumLimits(now_ms=2 * DAY_MS)
    return deletion_plan_of(seen(row), Rules(retention_ms=-1), binding, times)


def test_the_consent_is_in_the_commit_that_starts_the_deletion() -> None:
    updates = deletion(SERVED).updates(at_ms=5, run="r")
    start = StartDeletion(ids=(GONE.segment_id,), at_ms=5)
    assert updates == (NoteConsent(consent=CONSENT), start)
    held = claimed(SERVED, run="r", commit_id="1", at_ms=5)
    proposal = proposed(held, *updates, commit_id="2", at_ms=5)
    after = applied(proposal, held)
    rules = (*COMMIT_INVARIANTS, *SERVED_INVARIANTS, *deletion_invariants(proposal))
    assert violations(held, after, rules) == {}
    assert (after.is_served, after.consents) == (False, (CONSENT,))


@pytest.mark.parametrize("row", [ROW, replace(SERVED, consents=(CONSENT,))])
def test_there_is_none_where_no_cluster_serves(row: PartitionState) -> None:
    assert not deletion(row).ends_serving


def test_there_is_none_of_a_user_who_does_not_insist() -> None:
    assert not deletion(SERVED, UNDECLARED).ends_serving


def test_where_the_tier_moved_that_is_noted_before_anything_is_deleted() -> None:
    there = replace(CLUSTER, place="/mnt/other/")
    ours = replace(retired(GONE, retired_at_ms=0), segment=replace(GONE, origin=Compacted("r")))
    row = replace(SERVED, retired=(ours,))
    moved = ServedBy(there, is_moved=True)
    times = VacuumLimits(now_ms=2 * DAY_MS)

    def plan(row: PartitionState) -> DeletionPlan:
        view = replace(seen(row), brokers=brokers_have([], row.named_ids))
        return deletion_plan_of(view, Rules(retention_ms=-1), moved, times)

    first = plan(row)
    consent = Consent(kind=ConsentKind.MOVED, given_at_ms=5, run="r")
    assert first.updates(at_ms=5, run="r") == (MoveTier(place=there.place, consent=consent),)
    assert (first.needs_claim, first.starting) == (True, ())
    assert first.notes == (
        "only the tier's new place, /mnt/other/, is noted; the next run deletes",
    )
    second = plan(replace(row, served_by=(there,)))
    assert (second.starting, second.place_to_note) == ((ours,), "")

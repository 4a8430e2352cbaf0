"""A row names another place only if it names a cluster, and a person says that the tier moved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compaction.builders import CLUSTER, a_chain, a_state
from tierfold.compaction.commits.commit import proposed
from tierfold.compaction.commits.invariants import violations
from tierfold.compaction.commits.moved_tier import move_of, place_to_note
from tierfold.compaction.commits.row_changes import applied
from tierfold.compaction.commits.served_rows import SERVED_INVARIANTS
from tierfold.compaction.model.bindings import UNDECLARED, Binding, Detached, ServedBy
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.serving import Consent, ConsentKind

ROW = a_state(a_chain(10))
SERVED = replace(ROW, served_by=(CLUSTER,))
ABANDONED = replace(
    SERVED, consents=(Consent(kind=ConsentKind.DETACHED, given_at_ms=1, run="r"),)
)
THERE = replace(CLUSTER, place="/mnt/other/")
MOVED = ServedBy(THERE, is_moved=True)


def test_the_commit_notes_the_place_and_the_consent() -> None:
    move = move_of(place_to_note(SERVED, MOVED), at_ms=7, run="mine")
    after = applied(proposed(SERVED, *move, commit_id="c", at_ms=7), SERVED)
    assert after.served_by == (THERE,)
    assert after.consents == (Consent(kind=ConsentKind.MOVED, given_at_ms=7, run="mine"),)
    assert violations(SERVED, after, SERVED_INVARIANTS) == {}
    # From then on nothing needs to be said.
    for binding in (MOVED, ServedBy(THERE)):
        assert place_to_note(after, binding) == ""
    assert move_of("", at_ms=7, run="mine") == ()


@pytest.mark.parametrize(
    ("row", "binding"),
    [
        (None, MOVED),
        (ROW, MOVED),
        (ABANDONED, MOVED),
        (SERVED, ServedBy(THERE)),
        (SERVED, ServedBy(CLUSTER, is_moved=True)),
        (SERVED, ServedBy(replace(THERE, cluster_id="o" * 22), is_moved=True)),
        (SERVED, UNDECLARED),
        (SERVED, Detached(is_insisted=True)),
    ],
)
def test_otherwise_it_stays(row: PartitionState | None, binding: Binding) -> None:
    assert place_to_note(row, binding) == ""

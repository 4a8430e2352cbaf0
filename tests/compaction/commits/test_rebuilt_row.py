"""The row notes the metadata topic as it is only once lost events are named again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compaction.builders import CLUSTER, a_segment, a_state
from tierfold.compaction.commits.commit import proposed
from tierfold.compaction.commits.rebuilt_row import rebuilt, with_metadata_of
from tierfold.compaction.commits.row_changes import applied
from tierfold.compaction.model.serving import Consent, ConsentKind, ServingCluster

ROW = a_state([a_segment(0, 9)], served_by=(CLUSTER,))
NEW = replace(CLUSTER, metadata_topic_id="n" * 21 + "A", metadata_partitions=3, place="/mnt")
CUT = replace(CLUSTER, metadata_start=14)


@pytest.mark.parametrize("found", [NEW, CUT])
def test_another_topic_or_beginning_is_noted_with_a_consent(found: ServingCluster) -> None:
    note = rebuilt(ROW, found, at_ms=7, run="mine")
    assert note is not None
    row = applied(proposed(ROW, note, commit_id="note", at_ms=8), ROW)
    assert row.cluster == replace(found, place=CLUSTER.place)
    assert row.consents == (Consent(kind=ConsentKind.REBUILT, given_at_ms=7, run="mine"),)
    assert row.rebuilt_at_ms == 7
    assert rebuilt(row, found, at_ms=8, run="later") is None


def test_the_same_topic_changes_nothing() -> None:
    assert rebuilt(ROW, CLUSTER, at_ms=7, run="mine") is None


def test_the_row_of_another_cluster_stays_as_it_is() -> None:
    other = replace(ROW, served_by=(replace(CLUSTER, cluster_id="another"),))
    assert with_metadata_of(other, NEW) == other
    assert rebuilt(other, NEW, at_ms=7, run="mine") is None
    assert with_metadata_of(None, NEW) is None
    assert with_metadata_of(replace(ROW, served_by=()), NEW) == replace(ROW, served_by=())

"""The row notes the metadata topic as it is once lost events are named again, with a consent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compaction.builders import CLUSTER, a_segment, a_state
from tierfold.compaction.commits.rebuilt_row import rebuilt_row, with_metadata_of
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.serving import ConsentKind

ROW = a_state([a_segment(0, 9)], served_by=(CLUSTER,))
NEW = replace(CLUSTER, metadata_topic_id="n" * 21 + "A", metadata_partitions=3, place="/mnt")
CUT = replace(CLUSTER, metadata_start=14)


@pytest.mark.parametrize("found", [NEW, CUT])
def test_another_topic_or_beginning_is_noted_with_a_consent(found: object) -> None:
    assert isinstance(found, type(CLUSTER))
    row = rebuilt_row(ROW, ROW, found, at_ms=7, run="mine")
    assert row.cluster == replace(found, place=CLUSTER.place)
    (consent,) = row.consents
    assert (consent.kind, consent.given_at_ms, consent.run) == (ConsentKind.REBUILT, 7, "mine")
    assert rebuilt_row(row, row, found, at_ms=8, run="later") == row


def test_the_same_topic_changes_nothing() -> None:
    assert rebuilt_row(ROW, ROW, CLUSTER, at_ms=7, run="mine") == ROW


@pytest.mark.parametrize("before", [None, replace(ROW, served_by=())])
def test_a_row_that_is_served_only_now(before: PartitionState | None) -> None:
    assert rebuilt_row(ROW, before, CLUSTER, at_ms=7, run="mine") == ROW
    row = rebuilt_row(ROW, before, CUT, at_ms=7, run="mine")
    assert (row.cluster, row.consents) == (CUT, ())


def test_the_row_of_another_cluster_stays_as_it_is() -> None:
    other = replace(ROW, served_by=(replace(CLUSTER, cluster_id="another"),))
    assert with_metadata_of(other, NEW) == other
    assert with_metadata_of(None, NEW) is None
    assert with_metadata_of(replace(ROW, served_by=()), NEW) == replace(ROW, served_by=())

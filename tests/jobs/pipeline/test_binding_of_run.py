"""The cluster that a run asked is its binding, and must be that of the tier and its properties."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.compaction.beside_brokers import brokers_have
from tests.compaction.builders import CLUSTER, KEY, a_chain, a_state
from tests.jobs.claims import ORDERS
from tests.jobs.runs_beside import beside
from tests.jobs.tiers import updated_tier
from tierfold.compaction.brokers.broker_view import ReadOnly, ReadOnlyCause
from tierfold.compaction.discovery.view import RefusalReason
from tierfold.compaction.model.bindings import ServedBy, TierBinding
from tierfold.compaction.model.tier_service import TierPlace
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.tier_identity import place_of, tier_identity
from tierfold.jobs.pipeline.asked_brokers import binding_of_run
from tierfold.jobs.pipeline.known_partition import KnownPartition
from tierfold.jobs.pipeline.survey import with_identity
from tierfold.jobs.settings.resolution import resolve
from tierfold.storage.tiers.layout_options import LayoutOptions


@pytest.fixture
def context(tmp_path: Path) -> RunContext:
    """A run that has looked at the cluster."""
    return beside(updated_tier(tmp_path / "tier", [ORDERS], 1))


@pytest.mark.parametrize("is_moved", [False, True])
def test_it_is_the_cluster_with_the_place_given_as_tier(
    context: RunContext, is_moved: bool
) -> None:
    context = replace(context, declared=TierBinding.MOVED if is_moved else None)
    found = replace(CLUSTER, place=place_of(context))
    assert binding_of_run(context, resolve([])) == ServedBy(found, is_moved=is_moved)


def test_the_row_must_name_that_cluster_there(context: RunContext) -> None:
    identity = tier_identity(context, binding_of_run(context, resolve([])))
    row = a_state(a_chain(10))
    here = replace(CLUSTER, place=place_of(context))
    assert identity.refusal(replace(row, served_by=(here,))) is None
    refusal = identity.refusal(replace(row, served_by=(CLUSTER,)))
    assert refusal is not None
    assert refusal.reason is RefusalReason.ANOTHER_PLACE
    asked = replace(context, declared=TierBinding.MOVED)
    moved = tier_identity(asked, binding_of_run(asked, resolve([])))
    assert moved.refusal(replace(row, served_by=(CLUSTER,))) is None


def test_brokers_must_write_to_that_place_by_their_properties(context: RunContext) -> None:
    def refused(root: str) -> RefusalReason | None:
        layout = LayoutOptions(brokers_place=TierPlace(root))
        asked = replace(context, layout_options=layout)
        found = tier_identity(asked, binding_of_run(asked, resolve([]))).refusal(None)
        return None if found is None else found.reason

    assert refused(place_of(context)) is None
    assert refused("/mnt/other/") is RefusalReason.ANOTHER_PLACE
    elsewhere = replace(
        context, layout_options=LayoutOptions(brokers_place=TierPlace("/mnt/other/"))
    )
    assert tier_identity(elsewhere).refusal(None) is None, "no cluster is asked"


def test_where_the_metadata_topic_cannot_be_followed_no_verb_changes_a_row(
    context: RunContext,
) -> None:
    brokers = brokers_have([])
    why = ReadOnly(
        cause=ReadOnlyCause.UNKNOWN_RECORD, metadata_partition=0, offset=7, why="is not known"
    )
    known = KnownPartition(key=KEY, state=None, refusal=None, listed=(), brokers=brokers)
    identity = tier_identity(context, binding_of_run(context, resolve([])))
    assert with_identity(known, identity).refusal is None
    unread = replace(brokers, view=replace(brokers.view, read_only=(why,)))
    refusal = with_identity(replace(known, brokers=unread), identity).refusal
    assert refusal is not None
    assert refusal.reason is RefusalReason.PRECONDITION

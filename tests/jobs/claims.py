"""Claims of a partition's row, and commits under them, as a run makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.compaction.builders import CLUSTER
from tests.jobs.tiers import key_of
from tierfold.compaction.commits.commit import ReleaseClaim, Requirement, Update, proposed
from tierfold.compaction.discovery.view import PartitionView, state_with_new
from tierfold.compaction.model.outcomes import Committed
from tierfold.compaction.model.segment_ids import SegmentMark
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.compaction.model.serving import ServingCluster
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.tier_identity import place_of
from tierfold.jobs.pipeline.discovery import viewed
from tierfold.storage.catalog.catalog import Catalog, new_commit_id
from tierfold.storage.kafka.kafka_uuid import new_segment_id
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER

ORDERS: Final = key_of("orders")


def catalog_of(tier: Path) -> Catalog:
    """Return the tier's catalog."""
    return Catalog(str(tier / CATALOG_FOLDER))


def own_id_of(catalog: Catalog) -> str:
    """Return the id of a new segment of that catalog."""
    return new_segment_id(SegmentMark(catalog.fingerprint(), is_restored=False))


def note_served(tier: Path, cluster: ServingCluster = CLUSTER) -> None:
    """Make the row of orders-0 name a cluster that serves it from where the tier stands."""
    served = replace(cluster, place=place_of(run_context(str(tier))))
    catalog, row = catalog_of(tier), replace(row_of(tier), served_by=(served,))
    held = catalog.claim([row], "publisher", at_ms=row.committed_at_ms)[ORDERS].row
    release = ReleaseClaim(run="publisher")
    catalog.commit([proposed(held, release, commit_id="r", at_ms=row.committed_at_ms)])


def row_of(tier: Path, key: PartitionKey = ORDERS) -> PartitionState:
    """Return the partition's row."""
    return catalog_of(tier).read([key])[key]


def view_of(tier: Path) -> PartitionView:
    """Return what a run finds of orders-0."""
    context = run_context(str(tier))
    row = context.catalog.read([ORDERS]).get(ORDERS)
    view = viewed(context, ORDERS, row, context.tier.listing(ORDERS))
    assert isinstance(view, PartitionView), view
    return view


def claimed(tier: Path, run: str, at_ms: int) -> PartitionState:
    """Return the row after a run has claimed orders-0 with all segments that it found."""
    claim = catalog_of(tier).claim([state_with_new(view_of(tier))], run, at_ms=at_ms)[ORDERS]
    assert isinstance(claim.outcome, Committed)
    return claim.row


def released(
    tier: Path,
    state: PartitionState,
    *updates: Update,
    at_ms: int,
    requires: Sequence[Requirement] = (),
) -> PartitionState:
    """Commit the updates of the run that holds the row `state`, and release its claim."""
    proposal = proposed(
        state,
        *updates,
        ReleaseClaim(run=state.owner_run),
        commit_id=new_commit_id(),
        at_ms=at_ms,
        requires=tuple(requires),
    )
    assert isinstance(catalog_of(tier).commit([proposal])[ORDERS], Committed)
    return row_of(tier)

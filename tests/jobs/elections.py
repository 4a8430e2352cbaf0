"""Tiers whose log an unclean leader election cut off: two histories in one folder.

The old leader (epoch 3) uploads 0–5 and 6–10. The new one (epoch 4) begins at 6 and uploads 6–9:

    epoch 3   0 ─── 5 │ 6 ───── 10
    epoch 4           └ 6 ─── 9         offset 10 is gone, and 6 to 9 hold other records
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.jobs.tiers import key_of, made_tier
from tests.storage.live_segments import data, log_of
from tierfold.compaction.commits.commit import (
    AddSegments,
    AdvanceCleanerOffset,
    ReleaseClaim,
    RetireSegments,
    proposed,
)
from tierfold.compaction.discovery.view import PartitionView, state_with_new
from tierfold.compaction.model.outcomes import Committed
from tierfold.compaction.model.segments import LeaderEpoch, PartitionState, Segment
from tierfold.jobs.context.run_context import CATALOG_FOLDER, run_context
from tierfold.jobs.pipeline.discovery import viewed
from tierfold.storage.catalog.catalog import Catalog, new_commit_id
from tierfold.storage.segments.broker_upload import BrokerUpload
from tierfold.storage.tiers.local_tiered_storage import Part
from tierfold.storage.tiers.tier_uris import open_tier

ORDERS: Final = key_of("orders")
OLD: Final = (LeaderEpoch(epoch=3, start_offset=0),)
NEW: Final = (*OLD, LeaderEpoch(epoch=4, start_offset=6))
FIRST_MS: Final = 1_795_275_000_000
RUN: Final = "20261121T153000-aaaaaaaa"


def upload(
    tier: Path,
    first: int,
    last: int,
    lineage: tuple[LeaderEpoch, ...] = OLD,
    *,
    start_offset: int | None = None,
) -> Segment:
    """A segment of these offsets, both inclusive, as the leader of the last epoch uploads it.

    Each record is a batch, its key is its offset modulo 4, its value names its epoch. The segment
    starts at `start_offset`, None: at `first`.
    """
    batches = []
    for offset in range(first, last + 1):
        epoch = max(
            leader_epoch.epoch for leader_epoch in lineage if leader_epoch.start_offset <= offset
        )
        pair = (f"k{offset % 4}".encode(), f"{epoch}/{offset}".encode())
        batches.append(replace(data(offset, pair), leader_epoch=epoch))
    broker = BrokerUpload(
        start_offset=first if start_offset is None else start_offset,
        log=log_of(batches),
        index_interval_bytes=50,
        lineage=lineage,
    )
    return broker.put(open_tier(str(tier)), ORDERS)


def old_history(tier: Path) -> tuple[Segment, Segment]:
    """A new tier with what the old leader uploaded."""
    made_tier(tier)
    return upload(tier, 0, 5), upload(tier, 6, 10)


def catalog_of(tier: Path) -> Catalog:
    """The tier's catalog."""
    return Catalog(str(tier / CATALOG_FOLDER))


def row_of(tier: Path) -> PartitionState:
    """The partition's row."""
    return catalog_of(tier).read([ORDERS])[ORDERS]


def claimed(tier: Path, run: str = RUN, *, at_ms: int = FIRST_MS) -> PartitionState:
    """The row once a run has found what is there, and holds it."""
    catalog = catalog_of(tier)
    view = viewed(run_context(str(tier)), ORDERS, catalog.read([ORDERS]).get(ORDERS))
    assert isinstance(view, PartitionView), view
    claim = catalog.claim([state_with_new(view)], run, at_ms=at_ms)[ORDERS]
    assert isinstance(claim.outcome, Committed)
    return claim.state


def known(tier: Path) -> PartitionState:
    """The row once a run has found what is there, and is done."""
    state = claimed(tier)
    release = ReleaseClaim(run=state.owner_run)
    done = proposed(state, release, commit_id=new_commit_id(), at_ms=state.committed_at_ms + 1)
    assert isinstance(catalog_of(tier).commit([done])[ORDERS], Committed)
    return row_of(tier)


def histories(tier: Path) -> tuple[Path, Segment, Segment, Segment]:
    """A new tier whose row knows 0–5 and 6–10, and beside them 6–9 of the new leader."""
    first, second = old_history(tier)
    known(tier)
    return tier, first, second, upload(tier, 6, 9, NEW)


def merged(tier: Path) -> Segment:
    """What a run made of all that is there: the same records in one segment."""
    state = claimed(tier)
    ids = tuple(segment.segment_id for segment in state.segments)
    last = state.next_offset - 1
    one = replace(upload(tier, 0, last), written_by_run=state.owner_run)
    swap = proposed(
        state,
        RetireSegments(ids=ids, at_ms=FIRST_MS + 1, run=state.owner_run),
        AddSegments(segments=(one,)),
        AdvanceCleanerOffset(epoch=state.epoch, offset=last + 1),
        ReleaseClaim(run=state.owner_run),
        commit_id=new_commit_id(),
        at_ms=FIRST_MS + 1,
    )
    assert isinstance(catalog_of(tier).commit([swap])[ORDERS], Committed)
    return one


def part_of(tier: Path, segment: Segment, part: Part) -> Path:
    """Where a part of the segment lies."""
    (found,) = tier.rglob(f"*-{segment.segment_id}.{part}")
    return found


def ids_of(segments: Iterable[Segment]) -> list[str]:
    """Their ids."""
    return [segment.segment_id for segment in segments]

"""Tiers whose log an unclean leader election truncated: two histories in one folder.

The old leader (epoch 3) uploads 0–5 and 6–10. The new one (epoch 4) begins at 6 and uploads 6–9:

    epoch 3   0 ─── 5 │ 6 ───── 10
    epoch 4           └ 6 ─── 9         offset 10 is gone, and 6 to 9 hold other records
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.jobs import claims
from tests.jobs.claims import ORDERS, released
from tests.jobs.tiers import made_tier
from tests.storage.live_segments import data, log_of
from tierfold.compaction.commits.commit import AddSegments, AdvanceCleanerOffset, RetireSegments
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.segments import LeaderEpoch, PartitionState, Segment
from tierfold.storage.segments.broker_upload import BrokerUpload
from tierfold.storage.tiers.remote_tier import Part
from tierfold.storage.tiers.tier_uris import open_tier

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


def claimed(tier: Path, run: str = RUN, *, at_ms: int = FIRST_MS) -> PartitionState:
    """Return the row after a run has found what the tier holds; the run holds the partition."""
    return claims.claimed(tier, run, at_ms)


def known(tier: Path) -> PartitionState:
    """Return the row after a run has found what the tier holds, and has ended."""
    return released(tier, claimed(tier), at_ms=FIRST_MS + 1)


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
    one = replace(upload(tier, 0, last), origin=Compacted(state.owner_run))
    retire = RetireSegments(ids=ids, at_ms=FIRST_MS + 1, run=state.owner_run)
    offset = AdvanceCleanerOffset(epoch=state.epoch, offset=last + 1)
    released(tier, state, retire, AddSegments(segments=(one,)), offset, at_ms=FIRST_MS + 1)
    return one


def part_of(tier: Path, segment: Segment, part: Part) -> Path:
    """Where a part of the segment lies."""
    (found,) = tier.rglob(f"*-{segment.segment_id}.{part}")
    return found


def ids_of(segments: Iterable[Segment]) -> list[str]:
    """Their ids."""
    return [segment.segment_id for segment in segments]

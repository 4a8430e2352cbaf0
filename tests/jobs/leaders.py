"""One log that several leaders upload: each cuts it at other offsets, some are deposed.

Every offset is one record in one batch, with the leader epoch that its leader's log has there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.jobs.claims import ORDERS, catalog_of, claimed, released, row_of, view_of
from tests.jobs.tiers import INDEX_INTERVAL_BYTES, folder_of
from tests.jobs.vacuum_tiers import THEN_MS, parts, written
from tests.storage.live_segments import data, log_of
from tierfold.compaction.commits.commit import AdvanceCleanerOffset
from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.segments import LeaderEpoch, PartitionKey
from tierfold.storage.segments.broker_upload import BrokerUpload
from tierfold.storage.tiers.remote_tier import Part
from tierfold.storage.tiers.tier_uris import open_tier

CHECKPOINT: Final = Part.LEADER_EPOCH_CHECKPOINT


def upload(
    tier: Path,
    first: int,
    last: int,
    *epochs: tuple[int, int],
    lacking: Sequence[str] = (),
    key: PartitionKey = ORDERS,
    value: bytes = b"v",
    offsets: Sequence[int] | None = None,
) -> str:
    """Offsets `first` to `last` by a leader of these (epoch, start), written then; its id.

    `offsets` are those that have a record; None: all.
    """
    lineage = tuple(LeaderEpoch(epoch=epoch, start_offset=start) for epoch, start in epochs)
    held = range(first, last + 1) if offsets is None else offsets
    batches = [
        replace(
            data(offset, (b"k%d" % (offset % 3), value + b"%d" % offset)),
            leader_epoch=max((e.epoch for e in lineage if e.start_offset <= offset), default=-1),
        )
        for offset in held
    ]
    made = BrokerUpload(
        start_offset=first,
        log=log_of(batches),
        index_interval_bytes=INDEX_INTERVAL_BYTES,
        lineage=lineage,
    )
    found = made.put(open_tier(str(tier)), key)
    (log,) = folder_of(tier, key).glob(f"*-{found.segment_id}.log")
    for part in parts(log):
        if part.suffix.removeprefix(".") in lacking:
            part.unlink()
        else:
            written(part, 0)
    return found.segment_id


def adopted(tier: Path, *, run: str = "earlier") -> PartitionView:
    """A run claims what it finds and releases it without compacting it, at `THEN_MS`."""
    view = view_of(tier)
    released(tier, claimed(tier, run, THEN_MS), at_ms=THEN_MS)
    return view


def cleaned(tier: Path) -> None:
    """The row says that all live segments are clean."""
    state = catalog_of(tier).claim([row_of(tier)], "cleaner", at_ms=THEN_MS)[ORDERS].row
    offset = AdvanceCleanerOffset(epoch=state.epoch, offset=state.next_offset)
    released(tier, state, offset, at_ms=THEN_MS)

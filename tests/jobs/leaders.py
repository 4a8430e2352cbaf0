"""One log that several leaders upload: each cuts it at other offsets, some are deposed.

Every offset is one record in one batch, with the leader epoch that its leader's log has there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.jobs.tiers import INDEX_INTERVAL_BYTES, folder_of
from tests.jobs.vacuum_tiers import ORDERS, THEN_MS, parts, row, written
from tests.storage.live_segments import data, log_of
from tierfold.compaction.commits.commit import AdvanceCleanerOffset, ReleaseClaim, Update, proposed
from tierfold.compaction.discovery.view import PartitionView, state_with_new
from tierfold.compaction.model.outcomes import Committed
from tierfold.compaction.model.segments import LeaderEpoch, PartitionKey, PartitionState
from tierfold.jobs.context.run_context import CATALOG_FOLDER, run_context
from tierfold.jobs.pipeline.discovery import viewed
from tierfold.storage.catalog.catalog import Catalog, new_commit_id
from tierfold.storage.segments.broker_upload import BrokerUpload
from tierfold.storage.tiers.local_tiered_storage import Part
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
            leader_epoch=max(
                (
                    leader_epoch.epoch
                    for leader_epoch in lineage
                    if leader_epoch.start_offset <= offset
                ),
                default=-1,
            ),
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
    """What a run claims and gives back without compacting it, at `THEN_MS`."""
    context = run_context(str(tier), None, THEN_MS)
    view = viewed(context, ORDERS, context.catalog.look([ORDERS]).by_key.get(ORDERS))
    assert isinstance(view, PartitionView), view
    _committed(tier, state_with_new(view), run)
    return view


def cleaned(tier: Path) -> None:
    """The row says that all that lives is clean."""
    state = row(tier)
    _committed(
        tier,
        state,
        "cleaner",
        AdvanceCleanerOffset(epoch=state.epoch + 1, offset=state.next_offset),
    )


def _committed(tier: Path, state: PartitionState, run: str, *updates: Update) -> None:
    """Claim the row, change it, and give it back."""
    catalog = Catalog(str(tier / CATALOG_FOLDER))
    held = catalog.claim([state], run, at_ms=THEN_MS)[ORDERS].state
    proposal = proposed(
        held,
        *updates,
        ReleaseClaim(run=run),
        commit_id=new_commit_id(),
        at_ms=THEN_MS,
        requires=(),
    )
    assert isinstance(catalog.commit([proposal])[ORDERS], Committed)

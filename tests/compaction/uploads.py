"""Uploads that no row names, as several leaders cut and write them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from builders import LINEAGE, a_segment, segment_id, unknown

from compaction.histories import EpochStretch, InspectedSegment
from compaction.segments import LeaderEpoch


def epochs(*pairs: tuple[int, int]) -> tuple[LeaderEpoch, ...]:
    """(epoch, first offset) of each."""
    return tuple(LeaderEpoch(epoch=epoch, start_offset=start) for epoch, start in pairs)


def upload(
    start: int, end: int, *checkpoint: tuple[int, int], lacking: str = "", **fields: Any
) -> InspectedSegment:
    """Of epoch 0, or by that checkpoint; named `start-end`."""
    own = epochs(*checkpoint) or LINEAGE
    segment = a_segment(
        start,
        end,
        segment_id=segment_id(f"{start}-{end}"),
        leader_epochs=tuple(
            replace(each, start_offset=max(start, each.start_offset))
            for each, after in zip(own, (*own[1:], None), strict=True)
            if each.start_offset <= end and (after is None or after.start_offset > start)
        ),
    )
    return unknown(
        segment, lacking=lacking.split(), **({"checkpoint": own} if not lacking else {}), **fields
    )


def torn(start: int, *, lacking: str = "") -> InspectedSegment:
    """A log of ten offsets that cannot be read."""
    each = upload(start, start + 9, lacking=lacking)
    return replace(each, segment=None, end_offset=None, checkpoint=(), problem=f"{start}.log: torn")


def by_batches(start: int, end: int, epoch: int) -> InspectedSegment:
    """Cut short before its checkpoint."""
    stretch = EpochStretch(epoch=epoch, first_offset=start, last_offset=end)
    found = upload(start, end, lacking="leader_epoch_checkpoint")
    return replace(found, stretches=(stretch,))

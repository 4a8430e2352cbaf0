"""Uploads of several leaders that no row names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from tests.compaction.builders import (
    LINEAGE,
    a_segment,
    a_state,
    discovered,
    epochs,
    seen,
    segment_id,
    unknown,
)
from tierfold.compaction.discovery.candidates import Candidate, EpochStretch
from tierfold.compaction.discovery.view import PartitionView, Refusal
from tierfold.compaction.model.leader_epochs import epochs_in
from tierfold.compaction.model.segments import PartitionState


def upload(
    start: int, end: int, *checkpoint: tuple[int, int], lacking: str = "", **fields: Any
) -> Candidate:
    """An upload of epoch 0, or with that checkpoint; named `start-end`."""
    own = epochs(*checkpoint) or LINEAGE
    segment = a_segment(
        start,
        end,
        segment_id=segment_id(f"{start}-{end}"),
        leader_epochs=epochs_in(own, start, end),
    )
    return unknown(
        segment, lacking=lacking.split(), **({"checkpoint": own} if not lacking else {}), **fields
    )


def torn(start: int, *, lacking: str = "") -> Candidate:
    """A log of ten offsets that cannot be read."""
    found = upload(start, start + 9, lacking=lacking)
    return replace(
        found, segment=None, end_offset=None, checkpoint=(), corruption=f"{start}.log: torn"
    )


def cut_short(start: int, end: int, *stretches: tuple[int, int, int]) -> Candidate:
    """An upload that ended before its checkpoint; (epoch, first, last offset) of its batches."""
    found = upload(start, end, lacking="leader_epoch_checkpoint")
    return replace(
        found,
        stretches=tuple(
            EpochStretch(epoch=epoch, first_offset=first, last_offset=last)
            for epoch, first, last in stretches
        ),
    )


def a_row(*spans: tuple[int, int], **fields: Any) -> PartitionState:
    live = [a_segment(*span, segment_id=segment_id(f"live{span[0]}")) for span in spans]
    return a_state(live, **fields)


ROW: Final = a_row((0, 10))


def view(row: PartitionState | None, *found: Candidate) -> PartitionView:
    return seen(row, found)


def refusal(row: PartitionState | None, *found: Candidate) -> Refusal:
    refused = discovered(row, found)
    assert isinstance(refused, Refusal), refused
    return refused


def spans(of: PartitionView) -> list[str]:
    """The effective ranges."""
    return [f"{segment.start_offset}-{segment.end_offset}" for segment in of.segments]


def starts(found: Sequence[Any]) -> list[int]:
    return [entry.start_offset for entry in found]


LATE: Final = upload(11, 18, (0, 0), (1, 11))
"""An upload of epoch 1, whose leader was deposed."""

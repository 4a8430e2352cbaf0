"""The values of the catalog's columns, as they follow from the model without its code."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tierfold.compaction.model.segments import PartitionState, Segment


def of_segment(segment: Segment) -> dict[str, Any]:
    """The columns of a segment by name."""
    values = asdict(segment)
    del values["origin"]
    names = ("written_by_run", "copy_of", "copied_upload")
    return values | {name: getattr(segment, name) for name in names}


def of_state(state: PartitionState) -> dict[str, Any]:
    """The columns of a row by name, with those of its key as `key`, without those that follow."""
    values = asdict(state)
    values["segments"] = [*map(of_segment, state.segments)]
    for entry, retired in zip(values["retired"], state.retired, strict=True):
        entry["segment"] = of_segment(retired.segment)
    return values

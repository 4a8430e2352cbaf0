"""Samples of made-up logs of records of 100 bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.compaction.builders import a_segment
from tierfold.compaction.estimation.sample import Sample, SampledWindow
from tierfold.compaction.estimation.sources import Sources
from tierfold.compaction.estimation.windows import PlannedSample, SampleBound, planned_sample

RECORD_BYTES = 100


def a_window(start: int, keys: NDArray[np.int64], **columns: Any) -> SampledWindow:
    """The records from offset `start` on, with these keys."""
    count = len(keys)
    defaults: dict[str, Any] = {
        "offset": start + np.arange(count),
        "key_hash": keys.astype(np.uint64),
        "record_bytes": np.full(count, float(RECORD_BYTES)),
        "goes": np.zeros(count, np.bool_),
        "may_compete": np.ones(count, np.bool_),
    }
    return SampledWindow(
        start_offset=start,
        end_offset=start + count,
        stored_bytes=RECORD_BYTES * count,
        **defaults | columns,
    )


def sampled_log(
    keys: NDArray[np.int64], bound: SampleBound, competes_from: int = 0, segments: int = 10
) -> tuple[Sample, PlannedSample, Sources]:
    """A log with these keys, and what is read of it within the bound."""
    step = len(keys) // segments
    sources = Sources(
        segments=tuple(
            a_segment(
                start,
                start + step - 1,
                size_bytes=step * RECORD_BYTES,
                offset_index_bytes=8 * step,
            )
            for start in range(0, step * segments, step)
        ),
        competes_from=competes_from,
    )
    planned = planned_sample(sources, bound)
    windows = []
    for window in planned.windows:
        first = window.segment.start_offset + -(-window.start // RECORD_BYTES)
        end = window.segment.start_offset + (window.start + window.size_bytes) // RECORD_BYTES
        windows.append(a_window(first, keys[first:end]))
    return Sample(tuple(windows), competes_from), planned, sources


def superseded(keys: NDArray[np.int64], competes_from: int = 0) -> NDArray[np.bool_]:
    """Which records a later one supersedes, one by one."""
    later: set[int] = set()
    found = np.zeros(len(keys), np.bool_)
    for place in range(len(keys) - 1, -1, -1):
        found[place] = int(keys[place]) in later
        if place >= competes_from:
            later.add(int(keys[place]))
    return found

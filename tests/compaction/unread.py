"""Facts of a segment, so that a test states only what matters to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.compaction.builders import segment_id
from tierfold.compaction.cleaning.transactions import DATA
from tierfold.compaction.model.units import NO_HORIZON
from tierfold.compaction.skipping.segment_facts import SegmentFacts, WatchedBatches


def watched(*rows: dict[str, Any]) -> WatchedBatches:
    """Watched batches; of each only what differs from a transactional batch of producer 1."""
    defaults: dict[str, tuple[object, type]] = {
        "base_offset": (0, np.int64),
        "last_offset": (0, np.int64),
        "producer_id": (1, np.int64),
        "producer_epoch": (0, np.int16),
        "control_type": (DATA, np.int16),
        "horizon_ms": (NO_HORIZON, np.int64),
        "is_transactional": (True, np.bool_),
        "is_control": (False, np.bool_),
        "has_records": (True, np.bool_),
        "is_emptied": (False, np.bool_),
    }
    columns = {
        name: np.array([row.get(name, usual) for row in rows], kind)
        for name, (usual, kind) in defaults.items()
    }
    return WatchedBatches(**columns)


def some_facts(rows: Sequence[dict[str, Any]] = (), **fields: Any) -> SegmentFacts:
    """Those of `a_segment(0, 9)` with ten records of 100 bytes; `rows` as in `watched`."""
    found = SegmentFacts(
        segment_id=segment_id(0),
        start_offset=0,
        size_bytes=1000,
        first_offset=0,
        last_offset=9,
        records=10,
        record_bytes=1000,
        tombstones_due_ms=None,
        has_undated_tombstones=False,
        watched=watched(*rows),
    )
    return replace(found, **fields)

"""Random decisions about the batches of random logs."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.storage.decoded_logs import decoded
from tests.storage.drafts import horizon_ms, logs
from tierfold.compaction.cleaning.record_retention import BatchRetention
from tierfold.compaction.model.units import NO_HORIZON
from tierfold.storage.kafka.batch_draft import BatchDraft
from tierfold.storage.kafka.batch_rewrite import RewrittenBatches, rewrite_batches

Decision = tuple[tuple[BatchDraft, ...], list[BatchRetention], list[bool], list[int | None]]
"""Batches; what is written for each; which of their records are kept; new horizons."""


def rewrite_of(
    log: bytes,
    retention: list[BatchRetention],
    keep: list[bool],
    horizons: list[int | None],
    *,
    check_crc: bool = True,
) -> RewrittenBatches:
    return rewrite_batches(
        *decoded(log, check_crc=check_crc),
        np.array(keep, np.bool_),
        np.array(retention, np.int8),
        np.array([NO_HORIZON if h is None else h for h in horizons], np.int64),
    )


@st.composite
def decisions(draw: st.DrawFn) -> Decision:
    drafts = draw(logs())
    retention: list[BatchRetention] = []
    keep: list[bool] = []
    for draft in drafts:
        kept = [draw(st.booleans()) for _ in draft.records]
        any_retention = (
            list(BatchRetention) if any(kept) else [f for f in BatchRetention if f != f.REWRITE]
        )
        retention.append(draw(st.sampled_from(any_retention)))
        keep += kept
    return drafts, retention, keep, [draw(horizon_ms) for _ in drafts]

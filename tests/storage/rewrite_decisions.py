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
def decisions(draw: st.DrawFn, *, drops_keyless: bool = False) -> Decision:
    """Any decisions; with `drops_keyless` no data record without a key is written."""
    drafts = draw(logs())
    retention: list[BatchRetention] = []
    keep: list[bool] = []
    for draft in drafts:
        goes = [
            drops_keyless and not draft.is_control and record.key is None
            for record in draft.records
        ]
        kept = [draw(st.booleans()) and not one for one in goes]
        impossible = {BatchRetention.COPY: any(goes), BatchRetention.REWRITE: not any(kept)}
        possible = [f for f in BatchRetention if not impossible.get(f, False)]
        retention.append(draw(st.sampled_from(possible)))
        keep += kept
    return drafts, retention, keep, [draw(horizon_ms) for _ in drafts]

"""Which batches are already emptied: a header without records, in the form that Kafka writes."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.model.units import BATCH_HEADER_BYTES, NO_TIMESTAMP_MS

_NO_CODEC: Final = 0
"""Kafka's `CompressionType.NONE`."""


def is_emptied(
    *,
    is_legacy: NDArray[np.bool_],
    size_bytes: NDArray[np.int64],
    codec: NDArray[np.int8],
    has_delete_horizon: NDArray[np.bool_],
    base_timestamp_ms: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Shape (b,), as the arguments: batches that are already emptied.

    Kafka's `DefaultRecordBatch.writeEmptyHeader` writes magic 2, a header without records, no
    codec, no delete horizon (KIP-534) and no base timestamp. A batch without records in another
    form is emptied again.
    """
    return np.asarray(
        ~is_legacy
        & (size_bytes == BATCH_HEADER_BYTES)
        & (codec == _NO_CODEC)
        & ~has_delete_horizon
        & (base_timestamp_ms == NO_TIMESTAMP_MS),
        np.bool_,
    )

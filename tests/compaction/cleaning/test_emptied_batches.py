"""The form of an emptied batch: a truth table, one row per combination."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tierfold.compaction.cleaning.record_retention import is_emptied
from tierfold.compaction.model.units import BATCH_HEADER_BYTES, NO_TIMESTAMP_MS


@pytest.mark.parametrize(
    ("is_legacy", "size_bytes", "codec", "has_horizon", "base_timestamp_ms"),
    [
        pytest.param(*row, id=", ".join(words))
        for row, words in (
            (tuple(value for value, _ in form), tuple(word for _, word in form))
            for form in product(
                ((False, "magic 2"), (True, "magic 1")),
                (
                    (BATCH_HEADER_BYTES, "a header alone"),
                    (BATCH_HEADER_BYTES + 7, "a record"),
                    (BATCH_HEADER_BYTES - 1, "a byte less"),
                ),
                ((0, "no codec"), (1, "gzip")),
                ((False, "no horizon"), (True, "a horizon")),
                ((NO_TIMESTAMP_MS, "no base timestamp"), (0, "a base timestamp of 1970")),
            )
        )
    ],
)
def test_only_the_form_that_kafka_writes_is_an_emptied_batch(
    size_bytes: int, codec: int, base_timestamp_ms: int, *, is_legacy: bool, has_horizon: bool
) -> None:
    row = (is_legacy, size_bytes, codec, has_horizon, base_timestamp_ms)
    emptied = (False, BATCH_HEADER_BYTES, 0, False, NO_TIMESTAMP_MS)
    # An emptied batch before it, so that each batch is decided by itself.
    found = is_emptied(
        is_legacy=np.array([False, is_legacy]),
        size_bytes=np.array([BATCH_HEADER_BYTES, size_bytes]),
        codec=np.array([0, codec], np.int8),
        has_delete_horizon=np.array([False, has_horizon]),
        base_timestamp_ms=np.array([NO_TIMESTAMP_MS, base_timestamp_ms]),
    )
    assert found.tolist() == [True, row == emptied]

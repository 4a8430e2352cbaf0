"""The first batch is found in bytes that begin anywhere."""

from __future__ import annotations

import numpy as np
import pytest

from tests.storage.live_segments import data, log_of
from tierfold.compaction.model.units import OffsetSpan
from tierfold.storage.kafka.batch_headers import read_heads
from tierfold.storage.kafka.batch_search import first_batch

LOG = np.frombuffer(
    log_of([data(base, (b"key", b"value" * base)) for base in (10, 11, 12)]), np.uint8
)
STARTS = read_heads(LOG, where="a log").position.tolist()
ALL = OffsetSpan(start=0, end=100)


@pytest.mark.parametrize("cut", range(0, len(LOG), 7))
def test_from_any_byte_the_next_batch_is_found(cut: int) -> None:
    expected = next((start - cut for start in STARTS if start >= cut), None)
    assert first_batch(LOG[cut:], ALL) == expected


def test_a_batch_that_is_cut_off_is_none() -> None:
    assert first_batch(LOG[1 : STARTS[1] + 40], ALL) is None
    assert first_batch(LOG[:0], ALL) is None


def test_bytes_with_another_checksum_or_offset_are_no_batch() -> None:
    wrong = LOG.copy()
    wrong[STARTS[1] - 1] ^= 1
    assert first_batch(wrong, ALL) == STARTS[1]
    assert first_batch(LOG, OffsetSpan(start=12, end=100)) == STARTS[2]
    assert first_batch(LOG, OffsetSpan(start=13, end=100)) is None

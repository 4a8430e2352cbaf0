"""Copying bytes writes exactly the requested range; a null or empty value writes nothing."""

from __future__ import annotations

import numpy as np
import pytest

from tierfold.storage.kafka.memory_copy import copy_bytes

SOURCE = np.arange(1, 101, dtype=np.uint8)


@pytest.mark.parametrize("size", [1, 7, 8, 33])
def test_so_many_bytes_are_copied_and_no_more(size: int) -> None:
    out = np.zeros(100, np.uint8)
    assert copy_bytes(SOURCE, 3, size, out, 50) == 50 + size
    assert out[50 : 50 + size].tolist() == SOURCE[3 : 3 + size].tolist()
    assert not out[:50].any()
    assert not out[50 + size :].any()


@pytest.mark.parametrize("size", [0, -1])
def test_nothing_and_null_copy_nothing(size: int) -> None:
    out = np.zeros(4, np.uint8)
    assert copy_bytes(SOURCE, 0, size, out, 2) == 2
    assert not out.any()

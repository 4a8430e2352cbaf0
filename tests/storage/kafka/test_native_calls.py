"""C functions are found in installed packages, and called with words."""

from __future__ import annotations

import numpy as np
import pytest

from tierfold.storage.kafka.native_calls import address_of, c_function, call, pointer
from tierfold.storage.kafka.wire import kernel

CRC32C = ("google_crc32c._crc32c", "crc32c_extend")


@kernel
def crc32c_from(address: int, data: np.ndarray, start: int) -> int:
    word: int = call(address, (0, pointer(data, start), data.size - start))
    return word & 0xFFFFFFFF


def test_a_kernel_calls_a_function_with_words_and_pointers() -> None:
    data = np.frombuffer(b"..123456789", np.uint8)
    assert crc32c_from(address_of(*CRC32C), data, 2) == 0xE3069283


@pytest.mark.parametrize("module", ["google_crc32c._crc32c", "google_crc32c._no_such"])
def test_a_function_that_is_hidden_is_named(module: str) -> None:
    what = rf"{module} exports no C function crc32d; install the wheel of google_crc32c from PyPI"
    with pytest.raises(ImportError, match=what):
        c_function(module, "crc32d")

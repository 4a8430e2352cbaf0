"""Each magic has its own checksum, over the same bytes as in Kafka."""

from __future__ import annotations

import numpy as np

from tierfold.storage.kafka.checksums import checksum, checksums, crc32, crc32c

# The standard check value of both algorithms is that of these nine digits.
DIGITS = b"123456789"


def after(skipped: int) -> np.ndarray:
    return np.frombuffer(b"\xaa" * skipped + DIGITS, np.uint8)


def test_magic_2_is_summed_from_the_attributes_on() -> None:
    assert crc32c(after(21)) == 0xE3069283 == checksum(after(21), 2)


def test_magic_0_and_1_are_summed_from_the_magic_on() -> None:
    assert crc32(after(16)) == 0xCBF43926 == checksum(after(16), 0) == checksum(after(16), 1)


def test_many_batches_of_all_magics_are_summed_together() -> None:
    log = np.random.default_rng(1).integers(0, 256, 20_000, np.uint8)
    start = np.array([0, 61, 5000, 5100, 19_000])
    end = np.array([61, 5000, 5100, 19_000, 20_000])
    magic = np.array([2, 1, 0, 2, 2], np.int8)
    spans = zip(start, end, magic, strict=True)
    expected = [checksum(log[first:last], kind) for first, last, kind in spans]
    assert checksums(log, start, end, magic).tolist() == expected

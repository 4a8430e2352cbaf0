"""Varints and big-endian words are read and written as in Kafka, always within bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfold.storage.kafka.wire import (
    as_kernel_input,
    be_int,
    be_word,
    read_varint,
    read_varlong,
    varint_bytes,
    write_be,
    write_varint,
)


def buffer(text: str) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(text), np.uint8)


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_varlong_comes_back(value: int) -> None:
    out = np.zeros(10, np.uint8)
    end = write_varint(out, 0, value)
    assert end == varint_bytes(value)
    assert read_varlong(out, 0, end) == (value, end)


@given(st.integers(-(2**31), 2**31 - 1))
def test_a_varint_comes_back(value: int) -> None:
    out = np.zeros(12, np.uint8)
    end = write_varint(out, 2, value)
    assert end <= 7
    assert read_varint(out, 2, end) == (value, end)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (300, "d804")],
)
def test_varints_are_zigzag_low_bits_first(value: int, encoded: str) -> None:
    out = np.zeros(len(encoded) // 2, np.uint8)
    write_varint(out, 0, value)
    assert out.tobytes().hex() == encoded


@pytest.mark.parametrize("cut", ["", "80", "ffff", "8080808080 01"])
def test_a_varint_that_is_cut_or_too_long_has_no_end(cut: str) -> None:
    found = buffer(cut)
    assert read_varint(found, 0, found.size)[1] == -1


def test_a_varint_does_not_read_beyond_its_bound() -> None:
    assert read_varint(buffer("d804"), 0, 1)[1] == -1


def test_a_varlong_has_ten_bytes_at_most() -> None:
    assert read_varlong(buffer("ff" * 9 + "01"), 0, 10) == (-(2**63), 10)
    assert read_varlong(buffer("ff" * 10 + "01"), 0, 11)[1] == -1


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_words_are_big_endian(width: int) -> None:
    value = -(2 ** (8 * width - 1)) + 5
    found = np.frombuffer(b"\x07" + value.to_bytes(width, "big", signed=True), np.uint8)
    assert be_int(found, 1, width) == value
    if width < 8:
        assert be_word(found, 1, width) == value + 2 ** (8 * width)
    written = np.full(len(found), 7, np.uint8)
    assert write_be(written, 1, value, width) == 1 + width
    assert written.tobytes() == found.tobytes()


def test_a_kernel_gets_a_read_only_view() -> None:
    writable = np.zeros(4, np.uint8)
    view = as_kernel_input(writable)
    assert np.shares_memory(view, writable)
    assert writable.flags.writeable
    assert not view.flags.writeable

"""A digest depends only on the value's bytes, and one flipped bit changes both halves."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tierfold.compaction.verification.value_digest import digests


def digest_of(value: bytes, *, before: bytes = b"") -> tuple[int, ...]:
    body = np.frombuffer(before + value, np.uint8)
    return tuple(
        digests(body, np.array([len(before)]), np.array([len(value)], np.int32))[0].tolist()
    )


def test_no_value_has_no_digest() -> None:
    found = digests(np.empty(0, np.uint8), np.array([0]), np.array([-1], np.int32))
    assert found.tolist() == [[0, 0]]
    assert digest_of(b"") != (0, 0)


@given(st.binary(max_size=40), st.binary(max_size=9))
def test_the_position_of_a_value_does_not_matter(value: bytes, before: bytes) -> None:
    assert digest_of(value) == digest_of(value, before=before)


@given(st.binary(min_size=1, max_size=40), st.data())
def test_one_flipped_bit_changes_both_halves(value: bytes, data: st.DataObject) -> None:
    bit = data.draw(st.integers(0, 8 * len(value) - 1))
    flipped = bytearray(value)
    flipped[bit // 8] ^= 1 << bit % 8
    ours, other = digest_of(value), digest_of(bytes(flipped))
    assert ours[0] != other[0]
    assert ours[1] != other[1]


def test_zeros_of_every_length_differ() -> None:
    found = {digest_of(bytes(length)) for length in range(64)}
    assert len(found) == 64


def test_words_in_another_order_differ() -> None:
    one, other = b"01234567", b"abcdefgh"
    assert digest_of(one + other) != digest_of(other + one)


def test_the_two_halves_are_different_hashes() -> None:
    first, second = zip(*(digest_of(i.to_bytes(8, "big")) for i in range(1000)), strict=True)
    assert len(set(first)) == len(set(second)) == 1000
    assert not set(first) & set(second)

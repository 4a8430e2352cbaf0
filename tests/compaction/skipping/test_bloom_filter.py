"""The Bloom filter never denies a key of its segment, and claims others as often as promised."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfold.compaction.skipping.bloom_filter import bloom_filter
from tierfold.compaction.skipping.key_hashes import LOW_BYTE, key_hashes

words = st.integers(0, 2**64 - 1)
fpps = st.floats(1e-6, 0.999)


def hashed(numbers: range) -> np.ndarray:
    """The hashes of these numbers as keys of eight bytes."""
    body = np.array(numbers, np.uint64).view(np.uint8)
    key_at = np.arange(0, len(body), 8, dtype=np.int64)
    return key_hashes(body, key_at, np.full(len(key_at), 8, np.int32))


@given(st.lists(words, max_size=50), fpps)
def test_it_never_denies_a_key(hashes: list[int], fpp: float) -> None:
    keys = np.array(hashes, np.uint64)
    assert bloom_filter(keys, fpp).may_hold(keys).all()


@given(st.lists(words, min_size=1, max_size=50), fpps, st.integers(0, 255))
def test_the_lowest_byte_of_a_hash_does_not_count(
    hashes: list[int], fpp: float, other: int
) -> None:
    keys = np.array(hashes, np.uint64)
    others = (keys & ~LOW_BYTE) | np.uint64(other)
    bloom = bloom_filter(keys, fpp)
    assert bloom.may_hold(others).all()
    assert (bloom_filter(others, fpp).words == bloom.words).all()


@pytest.mark.parametrize("keys", [1_000, 50_000])
@pytest.mark.parametrize("fpp", [0.3, 0.01, 0.0001])
def test_it_claims_foreign_keys_as_often_as_promised(fpp: float, keys: int) -> None:
    bloom = bloom_filter(hashed(range(keys)), fpp)
    assert bloom.may_hold(hashed(range(keys))).all()
    # So many that the rarest is claimed 200 times or so.
    foreign = bloom.may_hold(hashed(range(keys, keys + 2_000_000)))
    claimed = np.count_nonzero(foreign) / len(foreign)
    assert fpp / 1.3 <= claimed <= 1.3 * fpp


@given(st.integers(0, 5000), fpps)
def test_its_size_is_that_of_the_formula(keys: int, fpp: float) -> None:
    bloom = bloom_filter(np.arange(keys, dtype=np.uint64) << np.uint64(8), fpp)
    bits = keys * math.log(1 / fpp) / math.log(2) ** 2
    assert 64 * len(bloom.words) >= bits
    assert 64 * (len(bloom.words) - 1) < max(1, bits)
    assert bloom.bits_per_key == max(1, round(math.log2(1 / fpp)))


def test_without_keys_it_denies_every_key() -> None:
    bloom = bloom_filter(np.empty(0, np.uint64), 0.01)
    assert not bloom.may_hold(hashed(range(1000))).any()


def test_no_keys_have_no_answers() -> None:
    assert bloom_filter(hashed(range(3)), 0.01).may_hold(np.empty(0, np.uint64)).shape == (0,)


def test_a_filter_from_a_file_cannot_be_written_and_answers_the_same() -> None:
    bloom = bloom_filter(hashed(range(100)), 0.01)
    asked = hashed(range(10_000))
    expected = bloom.may_hold(asked)
    bloom.words.setflags(write=False)
    assert (bloom.may_hold(asked) == expected).all()

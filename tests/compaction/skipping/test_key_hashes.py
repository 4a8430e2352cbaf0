"""The stored hash of a key equals that of the package mmh3, and never changes."""

from __future__ import annotations

import mmh3
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfold.compaction.skipping.key_hashes import HASH_BITS, LOW_BYTE, key_hashes


def hashes_of(keys: list[bytes], gaps: list[bytes]) -> list[int]:
    """The hashes of keys in a buffer, each after a gap."""
    key_at, body = [], b""
    for gap, key in zip(gaps, keys, strict=True):
        body += gap
        key_at.append(len(body))
        body += key
    found = key_hashes(
        np.frombuffer(body, np.uint8),
        np.array(key_at, np.int64),
        np.array([len(key) for key in keys], np.int32),
    )
    return [int(one) for one in found]


@given(st.data())
def test_it_is_that_of_mmh3_wherever_the_key_lies(data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.binary(max_size=100), min_size=1, max_size=5))
    gap = st.binary(max_size=17)
    gaps = data.draw(st.lists(gap, min_size=len(keys), max_size=len(keys)))
    assert hashes_of(keys, gaps) == [mmh3.hash64(key, signed=False)[0] & ~0xFF for key in keys]


@pytest.mark.parametrize("length", range(101))
def test_it_is_that_of_mmh3_for_each_length(length: int) -> None:
    key = bytes((255 - 7 * i) % 256 for i in range(length))
    assert hashes_of([key], [b"\xff"]) == [mmh3.hash64(key, signed=False)[0] & ~0xFF]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"", 0x0000000000000000),
        (b"a", 0x85555565F6597800),
        (b"key", 0xA0F887F3011D3E00),
        (b"order-000017", 0x0E268D520E833A00),
        (b"0123456789abcdef", 0x4BE06D94CF4AD100),
        (b"0123456789abcdef0", 0xEB24AE8785A5C000),
        (b"\xd0\xba\xd0\xbb\xd1\x8e\xd1\x87-42", 0x0CE8311D4BE10D00),
    ],
    ids=repr,
)
def test_version_1_of_the_files_has_this_hash(key: bytes, expected: int) -> None:
    assert hashes_of([key], [b""]) == [expected]


def test_the_lowest_byte_is_free() -> None:
    assert (HASH_BITS, int(LOW_BYTE)) == (56, 0xFF)
    assert {one & 0xFF for one in hashes_of([b"%d" % i for i in range(50)], [b""] * 50)} == {0}


def test_no_keys_have_no_hashes() -> None:
    none = np.empty(0, np.int64)
    assert key_hashes(np.empty(0, np.uint8), none, none.astype(np.int32)).shape == (0,)

"""The hash of keys is strongly universal, so that no one without its key can make keys collide."""

from __future__ import annotations

import os
import subprocess
import sys
from operator import mul
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.hash_keys import HASH_KEY
from tests.compaction.keyed import TRICKY
from tierfold.compaction.cleaning.key_blocks import PARTS_AT_LEAST
from tierfold.compaction.cleaning.key_columns import gathered, hash_each
from tierfold.compaction.cleaning.key_hash import hash_key
from tierfold.compaction.cleaning.offset_map import superseded_in_segment
from tierfold.compaction.model.hash_key import MULTILINEAR_BYTES_MAX, WORDS, HashKey, Words

PYTHONS: Final = """
import sys
for key in sys.stdin.read().split():
    print(hash(bytes.fromhex(key)) & 0xFFFFFFFFFFFFFFFF)
"""
"""Since 3.11 the hash of bytes is SipHash-1-3, with the key zero for PYTHONHASHSEED=0."""

MULTIPLIER: Final = 0x9E3779B97F4A7C15
SEED: Final = 0xD6E8FEB86659FD93
ALL: Final = 2**64 - 1


REPOSITORY: Final = Path(__file__).parents[3]

GUARDED: Final = """
import ctypes, mmap
import numpy as np
from tests.compaction.hash_keys import HASH_KEY
from tierfold.compaction.cleaning.key_columns import hash_each

page = mmap.PAGESIZE
memory = np.frombuffer(mmap.mmap(-1, 3 * page), np.uint8)
for guard in (0, 2 * page):
    address = ctypes.c_void_p(memory.ctypes.data + guard)
    assert ctypes.CDLL(None).mprotect(address, ctypes.c_size_t(page), 0) == 0
for length in range(257):
    for at in (page, 2 * page - length):
        lengths, hashes = np.array([length], np.int32), np.ones(1, np.uint64)
        hash_each(memory[at : at + length], lengths, HASH_KEY.words, hashes)
print("all")
"""
"""Keys of zeros that begin or end where a page does, beside pages that no one may read."""


def hash_of(key: bytes, words: Words) -> int:
    return int(hash_key(np.frombuffer(key + b"#" * 8, np.uint8), 0, len(key), words))


def modelled(key: bytes, words: Words) -> int:
    """The hash of a key of at most `MULTILINEAR_BYTES_MAX` bytes, in whole numbers."""
    numbers = [int(high) << 64 | int(low) for high, low in batched(words[2:], 2)]
    pieces = [key[at : at + 8] for at in range(0, len(key) - 8, 8)] + [key[-8:]]
    factors = [1, len(key), *(int.from_bytes(piece, "little") for piece in pieces)]
    high = sum(map(mul, numbers, factors)) % 2**128 >> 64
    scattered = (high ^ high >> 32) * 0x9E3779B97F4A7C15 & ALL
    return scattered ^ scattered >> 32


def batched(words: Words, size: int) -> list[Words]:
    return [words[at : at + size] for at in range(0, len(words), size)]


@given(st.binary(max_size=MULTILINEAR_BYTES_MAX), st.integers(0, ALL), st.integers(0, ALL))
def test_short_keys_have_the_sum_of_products(key: bytes, first: int, second: int) -> None:
    words = HashKey(first, second).words
    assert hash_of(key, words) == modelled(key, words)


def test_each_length_has_its_hash_whatever_lies_around() -> None:
    noise = np.random.default_rng(1).bytes(MULTILINEAR_BYTES_MAX + 16)
    for length in range(MULTILINEAR_BYTES_MAX + 1):
        found = hash_key(np.frombuffer(noise, np.uint8), 8, length, HASH_KEY.words)
        assert found == modelled(noise[8 : 8 + length], HASH_KEY.words)


def test_long_keys_have_siphash_as_python_has_it() -> None:
    keys = [bytes(range(256))[:length] for length in range(MULTILINEAR_BYTES_MAX + 1, 257)]
    told = subprocess.run(
        [sys.executable, "-c", PYTHONS],
        input=" ".join(key.hex() for key in keys),
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert sys.hash_info.algorithm == "siphash13"
    found = [hash_of(key, HashKey(0, 0).words) for key in keys]
    assert found == [int(line) for line in told.stdout.split()]


def test_no_byte_outside_a_key_is_read() -> None:
    command = [sys.executable, "-c", GUARDED]
    ran = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "all\n"), ran.stderr


def test_zeros_at_the_end_and_the_length_count() -> None:
    keys = [start + bytes(zeros) for start in (b"", b"a", b"12345678") for zeros in range(201)]
    assert len({hash_of(key, HASH_KEY.words) for key in keys}) == len(keys)


@pytest.mark.parametrize("other", [HASH_KEY._replace(first=1), HASH_KEY._replace(second=1)])
def test_both_halves_of_the_key_count(other: HashKey) -> None:
    for key in (*TRICKY, bytes(MULTILINEAR_BYTES_MAX + 1)):
        assert hash_of(key, HASH_KEY.words) != hash_of(key, other.words)


def test_each_words_number_is_another_for_each_key() -> None:
    some = [HashKey(first, second).words for first in range(4) for second in range(4)]
    assert {len(words) for words in some} == {WORDS}
    assert len({word for words in some for word in words[2:]}) == 16 * (WORDS - 2)


def crafted(count: int) -> list[bytes]:
    """Keys of 16 bytes that all had one hash when that was a multiplication with a fixed seed."""
    keys = []
    for first in range(count):
        state = ((SEED ^ 16 ^ first) * MULTIPLIER) & ALL
        state ^= state >> 29
        # A second word equal to the state leads to the state zero.
        keys.append(first.to_bytes(8, "little") + state.to_bytes(8, "little"))
    return keys


def test_keys_that_were_crafted_to_collide_do_not() -> None:
    # 100,000 of them took a minute, and as many more four times that: each looked at all others.
    keys = crafted(100_000)
    body = np.frombuffer(b"".join(keys), np.uint8)
    at, lengths = np.arange(len(keys)) * 16, np.full(len(keys), 16, np.int32)
    parted = gathered(body, at, lengths, lengths > 0, PARTS_AT_LEAST, HASH_KEY)
    assert len(np.unique(parted.columns.hash)) == len(keys)
    # Nor do they share the bits that choose a part, or a place in its table.
    in_parts = np.diff(parted.starts[0])
    assert in_parts.max() < 2 * len(keys) / PARTS_AT_LEAST
    assert len(np.unique(parted.columns.hash & np.uint64(0xFFFFF))) > 0.9 * len(keys)
    assert not superseded_in_segment(parted, 0).superseded.any()


def test_keys_at_equal_distances_are_scattered_by_any_secret_numbers() -> None:
    # The first number's upper half ends in 44 zeros: all sums would end in the same 44 bits.
    words = (*HASH_KEY.words[:6], np.uint64(2**44), np.uint64(0), *HASH_KEY.words[8:])
    count = 100_000
    keys, hashes = np.arange(count, dtype=np.uint64), np.empty(count, np.uint64)
    hash_each(keys.view(np.uint8), np.full(count, 8, np.int32), words, hashes)
    assert len(np.unique(hashes)) == count
    assert len(np.unique(hashes & np.uint64(0xFFFFF))) > 0.9 * count
    assert len(np.unique(hashes >> np.uint64(44))) > 0.9 * count

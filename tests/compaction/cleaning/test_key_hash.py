"""The hash of keys is SipHash-1-3, so that no one without its key can make keys collide."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

import numpy as np
import pytest

from tests.compaction.hash_keys import HASH_KEY
from tests.compaction.keyed import TRICKY
from tierfold.compaction.cleaning.key_blocks import PARTS_AT_LEAST
from tierfold.compaction.cleaning.key_columns import gathered
from tierfold.compaction.cleaning.key_hash import hash_key
from tierfold.compaction.cleaning.offset_map import superseded_in_segment
from tierfold.compaction.model.hash_key import HashKey, Words

PYTHONS: Final = """
import sys
for key in sys.stdin.read().split():
    print(hash(bytes.fromhex(key)) & 0xFFFFFFFFFFFFFFFF)
"""
"""Since 3.11 the hash of bytes is SipHash-1-3, with the key zero for PYTHONHASHSEED=0."""

MULTIPLIER: Final = 0x9E3779B97F4A7C15
SEED: Final = 0xD6E8FEB86659FD93
ALL: Final = 2**64 - 1


def hash_of(key: bytes, words: Words) -> int:
    return int(hash_key(np.frombuffer(key + b"#" * 8, np.uint8), 0, len(key), words))


def test_it_is_siphash_as_python_has_it() -> None:
    keys = [key for key in TRICKY if key] + [bytes(range(length)) for length in range(1, 70)]
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


@pytest.mark.parametrize("other", [HASH_KEY._replace(first=1), HASH_KEY._replace(second=1)])
def test_both_halves_of_the_key_count(other: HashKey) -> None:
    for key in TRICKY:
        assert hash_of(key, HASH_KEY.words) != hash_of(key, other.words)


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

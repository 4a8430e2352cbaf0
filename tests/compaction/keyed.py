"""Keys that are hard to distinguish, and columns of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from hypothesis import strategies as st

from tests.compaction.hash_keys import HASH_KEY
from tierfold.compaction.cleaning.key_blocks import PARTS_AT_LEAST, blocks_of
from tierfold.compaction.cleaning.key_columns import (
    KeyColumns,
    PartedKeys,
    gathered,
    joined_windows,
    ordered_by_part,
    taken,
)

TRICKY: Final = (
    b"",
    b"\x00",
    b"\x00\x00",
    b"k",
    b"12345678",
    b"12345678\x00",
    b"12345678x",
    b"x12345678",
    b"1234567812345678",
    b"1234567812345679",
    b"s" * 39 + b"1",
    b"s" * 39 + b"2",
    b"1" + b"s" * 39,
    b"s" * 40,
)
"""Empty, zeros, one word and a byte, equal except in the last or the first byte."""

keys = st.sampled_from(TRICKY) | st.binary(max_size=40)
"""Few, so that there are equal ones."""

maybe_keys = keys | st.none()
"""None: a record without a key."""


def gathered_in(record_keys: Sequence[bytes | None], parts: int, gap: bytes = b"#") -> PartedKeys:
    """The keyed records of one window; in its body, `gap` stands for the fields before each key."""
    body = b"".join(gap + (key or b"") for key in record_keys)
    lengths = np.array([-1 if key is None else len(key) for key in record_keys], np.int32)
    sizes = np.maximum(lengths, 0).astype(np.int64) + len(gap)
    key_at = np.cumsum(sizes) - sizes + len(gap)
    whole = np.frombuffer(body, np.uint8)
    return gathered(whole, key_at, lengths, lengths >= 0, parts, HASH_KEY)


def columns_of(
    record_keys: Sequence[bytes | None], *, first_ordinal: int = 0, gap: bytes = b"#"
) -> KeyColumns:
    """The keyed records' columns, in record order."""
    return gathered_in(record_keys, 1, gap).columns.numbered_from(first_ordinal)


def in_windows(columns: KeyColumns, window: int, parts: int) -> PartedKeys:
    """The entries, so many to a window."""
    rows = np.arange(len(columns))
    windows = [
        ordered_by_part(taken(columns, rows[at : at + window], columns.key_at), parts)
        for at in range(0, len(columns), window)
    ]
    return joined_windows(windows, parts)


def block_of(columns: KeyColumns, competes_from: int = 0) -> bytes:
    """The only block of some entries, at least one, in an order by part."""
    ordered = ordered_by_part(columns, PARTS_AT_LEAST)
    stays = np.zeros(len(columns), np.bool_)
    ((_, block),) = blocks_of(
        ordered, stays, buckets=1, competes_from=competes_from, hash_key=HASH_KEY
    )
    return block


def keys_of(columns: KeyColumns) -> list[bytes]:
    """The keys, one by one."""
    whole = columns.keys.tobytes()
    spans = zip(columns.key_at.tolist(), columns.key_bytes.tolist(), strict=True)
    return [whole[at : at + length] for at, length in spans]

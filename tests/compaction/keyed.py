"""Keys that are hard to distinguish, and columns of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from hypothesis import strategies as st

from tierfold.compaction.cleaning.key_columns import KeyColumns, gathered

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


def columns_of(
    record_keys: Sequence[bytes | None], *, first_ordinal: int = 0, gap: bytes = b"#"
) -> KeyColumns:
    """The keyed records' columns; in the body, `gap` stands for the fields before each key."""
    body = b"".join(gap + (key or b"") for key in record_keys)
    lengths = np.array([-1 if key is None else len(key) for key in record_keys], np.int32)
    sizes = np.maximum(lengths, 0).astype(np.int64) + len(gap)
    return gathered(
        np.frombuffer(body, np.uint8),
        np.cumsum(sizes) - sizes + len(gap),
        lengths,
        lengths >= 0,
    ).numbered_from(first_ordinal)


def keys_of(columns: KeyColumns) -> list[bytes]:
    """The keys, one by one."""
    whole = columns.keys.tobytes()
    spans = zip(columns.key_at.tolist(), columns.key_bytes.tolist(), strict=True)
    return [whole[at : at + length] for at, length in spans]

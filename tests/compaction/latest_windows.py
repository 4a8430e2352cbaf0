"""Records of a decoded window, for tests of their keys."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from tests.compaction.hash_keys import HASH_KEY
from tierfold.compaction.cleaning.key_columns import Versions
from tierfold.compaction.verification.latest_values import (
    Keys,
    LatestValues,
    Values,
    latest_in_window,
)


def fields(contents: list[bytes | None]) -> tuple[np.ndarray, Values]:
    """The contents end to end, and the position of each."""
    lengths = [len(content or b"") for content in contents]
    at = np.array([0, *accumulate(lengths)][:-1], np.int64)
    size_bytes = np.array(
        [-1 if content is None else len(content) for content in contents], np.int32
    )
    body = np.frombuffer(b"".join(content or b"" for content in contents), np.uint8)
    return body, Values(at=at, size_bytes=size_bytes)


def window(
    pairs: list[tuple[bytes, bytes | None]],
    first_offset: int = 0,
    *,
    skipped: int = 0,
    versions: Sequence[int | None] | None = None,
) -> LatestValues:
    """The records as one window; the last `skipped` of them are not chosen.

    `versions`: one for each record, None where it has none; None: offsets decide.
    """
    body, both = fields([key for key, _ in pairs] + [value for _, value in pairs])
    count = len(pairs)
    return latest_in_window(
        body,
        Keys(both.at[:count], both.size_bytes[:count], HASH_KEY),
        Values(at=both.at[count:], size_bytes=both.size_bytes[count:]),
        np.arange(first_offset, first_offset + count),
        np.arange(count) < count - skipped,
        None if versions is None else _columns(versions[: count - skipped]),
    )


def _columns(versions: Sequence[int | None]) -> Versions:
    return Versions(
        value=np.array([version or 0 for version in versions], np.int64),
        is_known=np.array([version is not None for version in versions], np.bool_),
    )

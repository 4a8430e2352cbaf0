"""Logs in memory that are read like those in a store, and windows of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tierfold.storage.kafka.compression import PlainLimits
from tierfold.storage.segments.log_windows import StoredObject
from tierfold.storage.tiers.object_store import MapRange, Spans
from tierfold.storage.tiers.remote_tier import Access


def stored(log: bytes | np.ndarray, **fields: Any) -> StoredObject:
    """The log as an object whose ranges are fresh arrays, as a bucket returns them."""
    data = bytes(log)

    def read(start: int, length: int) -> np.ndarray:
        return np.frombuffer(data[start : start + length], np.uint8).copy()

    return StoredObject(**{"read": read, "end": len(data), "where": "a log", **fields})


def only_used(log: bytes) -> MapRange:
    """Maps ranges of the log; all bytes but those of the spans are wrong."""

    def mapped(start: int, length: int, used: Spans) -> np.ndarray:
        data = np.frombuffer(log[start : start + length], np.uint8)
        wrong = ~data
        for first, end in zip(used.start, used.end, strict=True):
            wrong[first:end] = data[first:end]
        return wrong

    return mapped


def mapped_log(log: bytes, **fields: Any) -> StoredObject:
    """The log as an object whose ranges are mapped."""
    return stored(log, access=lambda: Access(map_range=only_used(log)), **fields)


def small_windows(
    patch: pytest.MonkeyPatch,
    window_bytes: int,
    range_bytes: int | None = None,
    limits: PlainLimits | None = None,
) -> None:
    """Read every log in windows, and in ranges if given, of so many bytes, within limits."""
    replaced: dict[str, Any] = {"window_bytes": window_bytes}
    if limits is not None:
        replaced["limits"] = limits
    if range_bytes is not None:
        replaced |= {"range_bytes": range_bytes, "access": Access}
    begin = StoredObject.__init__

    def small(log: StoredObject, **fields: Any) -> None:
        begin(log, **{**fields, **replaced})

    patch.setattr(StoredObject, "__init__", small)

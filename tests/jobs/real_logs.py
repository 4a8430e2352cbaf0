"""Tiers of `tests/data/real-logs`, as a broker wrote them, and in Aiven's layout."""

from __future__ import annotations

import tarfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from tests.storage.tiers.aiven_objects import PlainSegment, Variant
from tests.storage.tiers.aiven_tiers import local_segments_in, write_aiven

_DATA: Final = Path(__file__).resolve().parents[1] / "data" / "real-logs"

COMPACTED: Final = "compacted-then-tiered"
EMPTIED: Final = "emptied-then-tiered"
LOG_START_MOVED: Final = "log-start-moved"

LAST_MS: Final = 1_795_736_000_000
"""After the last record of each."""


def unpacked(name: str, folder: Path) -> Path:
    """Unpack a tier into the folder; return it."""
    with tarfile.open(_DATA / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def with_ends(segments: list[PlainSegment], end_offset: int) -> list[PlainSegment]:
    """The segments with the ends that brokers' metadata have: each ends where the next one starts.

    `end_offset` is the last one's.
    """
    ends = [after.start_offset - 1 for _, after in pairwise(segments)]
    return [
        replace(segment, end_offset=end)
        for segment, end in zip(segments, [*ends, end_offset], strict=True)
    ]


def in_aiven(local: Path, folder: Path, end_offset: int) -> Path:
    """Write a tier of LocalTieredStorage as Aiven's plugin uploads it; return `folder`."""
    return write_aiven(folder, with_ends(local_segments_in(local), end_offset), Variant())

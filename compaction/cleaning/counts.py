"""How many records of a round were kept or removed, by reason (SEMANTICS 10)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
from numpy.typing import NDArray

KEPT, ABORTED, WITHOUT_KEY, SUPERSEDED, TOMBSTONE_EXPIRED, MARKER_EXPIRED = range(6)
RECORD_OUTCOMES: Final = (
    "kept",
    "aborted",
    "without_key",
    "superseded",
    "tombstones_expired",
    "markers_expired",
)
"""The names of the outcomes, by their number. A record counts under one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Records and their uncompressed bytes (length prefix included), by outcome."""

    records_in: int = 0
    kept: int = 0
    aborted: int = 0
    without_key: int = 0
    superseded: int = 0
    tombstones_expired: int = 0
    markers_expired: int = 0
    record_bytes_in: int = 0
    kept_bytes: int = 0
    aborted_bytes: int = 0
    without_key_bytes: int = 0
    superseded_bytes: int = 0
    tombstones_expired_bytes: int = 0
    markers_expired_bytes: int = 0
    kept_markers: int = 0
    """How many of `kept` are transaction markers."""
    malformed_versions: int = 0
    """Not an outcome: records whose version header under `compaction.strategy=header` is null or
    not of 8 bytes. They are treated as records without a version."""

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            **{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        )

    @property
    def adds_up(self) -> bool:
        """Whether the outcomes add up to the records and bytes that came in."""
        records = sum(getattr(self, name) for name in RECORD_OUTCOMES)
        sizes = sum(getattr(self, f"{name}_bytes") for name in RECORD_OUTCOMES)
        return (records, sizes) == (self.records_in, self.record_bytes_in)

    @property
    def has_dropped(self) -> bool:
        """Whether a tombstone or marker is not kept."""
        return self.tombstones_expired > 0 or self.markers_expired > 0

    @property
    def removed(self) -> int:
        """The number of records that are not kept."""
        return self.records_in - self.kept


def counts_of(
    records_in: int, record_bytes_in: int, outcomes: NDArray[np.uint8], sizes: NDArray[np.int64]
) -> Counts:
    """The counts of `outcomes` (numbers of `RECORD_OUTCOMES`) and `sizes` (bytes), one per record.

    `records_in` and `record_bytes_in` come from the batch headers, so that a record without an
    outcome shows as a difference.
    """
    counts = np.bincount(outcomes, minlength=len(RECORD_OUTCOMES)).tolist()
    # Doubles, but a window has far fewer bytes than the 2^53 up to which they are exact.
    totals = np.bincount(outcomes, sizes, len(RECORD_OUTCOMES)).astype(np.int64).tolist()
    by_name = dict(zip(RECORD_OUTCOMES, counts, strict=True))
    by_name |= {f"{name}_bytes": total for name, total in zip(RECORD_OUTCOMES, totals, strict=True)}
    return Counts(records_in=records_in, record_bytes_in=record_bytes_in, **by_name)


def superseded_unread(records: int, record_bytes: int) -> Counts:
    """The counts of superseded records that were not read, by what the scan counted.

    Raises ValueError if that is too little: the scan has read other records.
    """
    if record_bytes < records:
        raise ValueError(f"{records} records are left, but only {record_bytes} bytes of records")
    return Counts(
        records_in=records,
        superseded=records,
        record_bytes_in=record_bytes,
        superseded_bytes=record_bytes,
    )


def total(counts: Iterable[Counts]) -> Counts:
    """The sum of all counts."""
    return sum(counts, Counts())

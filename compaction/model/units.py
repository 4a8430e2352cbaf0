"""Units, limits and offset spans.

Offsets, timestamps and sizes are plain integers whose names end with the unit (`start_offset`,
`now_ms`, `segment_bytes`). Spans are half open, `[start, end)`; only a segment's `end_offset` is
inclusive, as in Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NO_TIMESTAMP_MS: Final = -1
"""Kafka's `RecordBatch.NO_TIMESTAMP`."""

TIMESTAMP_MS_MAX: Final = 2**63 - 1
"""The latest time that a batch header can hold."""

NO_PRODUCER_ID: Final = -1
"""Kafka's `RecordBatch.NO_PRODUCER_ID`."""

NO_HORIZON: Final = -(2**63)
"""In an array of delete horizons: none is set."""

BATCH_HEADER_BYTES: Final = 61
"""Size of a magic 2 header, and of the smallest magic 2 batch: an emptied one."""

OFFSET_MAX: Final = 2**63 - 2
"""The highest offset that a record can have: the next offset must fit into 64 bits, too."""

LEADER_EPOCH_MAX: Final = 2**31 - 1
"""A leader epoch is an int32."""

LOG_BYTES_MAX: Final = 2**31 - 1 - BATCH_HEADER_BYTES
"""The most bytes of a new `.log`: Kafka's sizes and positions are int32, and a closing batch may
follow."""

OFFSET_SPAN_MAX: Final = 2**31 - 1
"""An index entry stores 31 bits: the distance from its segment's start (Kafka `OffsetIndex`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSpan:
    """Offsets `[start, end)`."""

    start: int
    end: int

    @property
    def is_empty(self) -> bool:
        """Whether the span holds no offset."""
        return self.end <= self.start

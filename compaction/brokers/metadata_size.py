"""How large the metadata topic is, and how fast it grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from tierfold.compaction.brokers.metadata_fold import MetadataRecord
from tierfold.compaction.model.rules import DAY_MS

_TIMESTAMP: Final = MetadataRecord._fields.index("timestamp_ms")
_VALUE: Final = MetadataRecord._fields.index("value")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataSize:
    """Of the records that were read."""

    records: int = 0
    value_bytes: int = 0
    """Bytes of their values, without the overhead of batches."""
    first_ms: int = -1
    """The lowest timestamp, epoch milliseconds; -1: none was read."""
    last_ms: int = -1
    """The highest one."""

    def with_chunk(self, chunk: Sequence[MetadataRecord]) -> MetadataSize:
        """The size with these records, of which there is at least one."""
        times_ms = [*map(itemgetter(_TIMESTAMP), chunk)]
        first_ms = min(times_ms)
        values = filter(None, map(itemgetter(_VALUE), chunk))
        return MetadataSize(
            records=self.records + len(chunk),
            value_bytes=self.value_bytes + sum(map(len, values)),
            first_ms=first_ms if self.first_ms < 0 else min(first_ms, self.first_ms),
            last_ms=max(self.last_ms, *times_ms),
        )

    @property
    def records_a_day(self) -> int:
        """The mean over the whole time, at least a day; 0: none was read."""
        return self.records * DAY_MS // max(self.last_ms - self.first_ms, DAY_MS)

"""What the segments of a tier hold, record by record, and which of their objects exist."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tests.faults.broker_model.served_log import LogRecord, Rank, Value
from tierfold.compaction.model.segments import LeaderEpoch

PARTS: Final = ("log", "index")
"""Two objects are enough for a segment that is there in part."""


class Kept(NamedTuple):
    """A record in a segment."""

    offset: int
    key: str
    value: Value
    at_ms: int
    version: int = 0
    horizon_ms: int | None = None
    """The delete horizon of a tombstone; None: no run has set one."""

    @property
    def rank(self) -> Rank:
        """As `LogRecord.rank`."""
        return self.version, self.offset


class Content(NamedTuple):
    """What a segment holds; it never changes."""

    segment_id: str
    start: int
    end: int
    """Inclusive."""
    epochs: tuple[LeaderEpoch, ...]
    records: tuple[Kept, ...]

    @property
    def max_timestamp_ms(self) -> int:
        """Of its records; −1: it has none."""
        return max((record.at_ms for record in self.records), default=-1)


def kept(records: list[LogRecord]) -> tuple[Kept, ...]:
    """The records as a broker uploads them."""
    return tuple(Kept(*record) for record in records)


@dataclass(slots=True, kw_only=True)
class TierContents:
    """All segments that were ever written, and the objects that exist."""

    removed: Callable[[str], None]
    """Called with a segment's id before each deletion of one of its objects."""
    contents: dict[str, Content] = field(default_factory=dict)
    objects: dict[tuple[str, str], int] = field(default_factory=dict)
    """When each object was written, by segment id and part."""

    def put(self, content: Content, part: str, now_ms: int) -> None:
        """Write an object; nothing is ever overwritten."""
        assert self.contents.setdefault(content.segment_id, content) == content
        self.objects.setdefault((content.segment_id, part), now_ms)

    def remove(self, segment_id: str, part: str) -> None:
        """Delete an object; one that is not there is no error."""
        if (segment_id, part) in self.objects:
            self.removed(segment_id)
            del self.objects[segment_id, part]

    def is_whole(self, segment_id: str) -> bool:
        """Whether all its objects exist."""
        return all((segment_id, part) in self.objects for part in PARTS)

    def present(self) -> frozenset[str]:
        """Ids of the segments of which any object exists."""
        return frozenset(segment_id for segment_id, _ in self.objects)

"""What consumers read of a partition through one broker.

    what_is_wrong   with what consumers would end up, from any offset on
    fetch           one fetch of a consumer that may pause before the next one
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tests.faults.broker_model.metadata_cache import (
    FINISHED,
    CachedSegment,
    MetadataCache,
    epoch_at,
)
from tests.faults.broker_model.served_log import ServedLog, Value
from tests.faults.broker_model.tier_contents import Kept, TierContents


class Fetched(NamedTuple):
    """What a fetch returns."""

    records: tuple[Kept, ...]
    position: int
    """Where the next one goes on."""


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """No segment serves the offset, although it is not below the log start."""

    offset: int


@dataclass(frozen=True, slots=True)
class ObjectMissing:
    """The segment that serves the offset lacks an object."""

    segment_id: str


def serving(cache: MetadataCache, log: ServedLog, offset: int) -> CachedSegment | None:
    """The remote segment from which a broker reads an offset; None: out of range."""
    return cache.found(epoch_at(log.lineage, offset), offset)


def tiered_offsets(cache: MetadataCache, log: ServedLog) -> range:
    """The offsets that finished segments may have, from the log start on."""
    ends = [segment.added.end_offset for segment in cache.in_state(FINISHED)]
    return range(log.log_start, min(max(ends, default=-1) + 1, log.end))


def fetch(
    cache: MetadataCache,
    log: ServedLog,
    tier: TierContents,
    local_start: int,
    position: int,
) -> Fetched | OutOfRange | ObjectMissing:
    """Read from a position to the end of its segment, or of the local log."""
    if position >= local_start:
        return Fetched(tuple(Kept(*record) for record in log.records[position:]), log.end)
    segment = serving(cache, log, position)
    if segment is None:
        return OutOfRange(position)
    if not tier.is_whole(segment.segment_id):
        return ObjectMissing(segment.segment_id)
    content = tier.contents[segment.segment_id]
    records = tuple(record for record in content.records if record.offset >= position)
    return Fetched(records, segment.added.end_offset + 1)


class _Reading(NamedTuple):
    values: dict[str, Value]
    """The last value of each key that remote segments give."""
    local_from: int
    """Where the local log goes on."""


class Wrong(NamedTuple):
    """What a consumer sees wrongly."""

    what: str
    value: Value
    """The value that it has instead of the right one; None: it lacks one."""


def what_is_wrong(
    served: Mapping[int, CachedSegment], log: ServedLog, tier: TierContents, local_start: int
) -> Iterator[Wrong]:
    """What a consumer would see wrongly from any offset on; holes are left to others.

    `served`: by offset, the segment that serves it.
    """
    readings: dict[int, _Reading] = {}
    for position in reversed(range(log.log_start, local_start)):
        segment = served.get(position)
        if segment is None:
            continue
        if not tier.is_whole(segment.segment_id):
            yield Wrong(f"offset {position}: objects of {segment.segment_id} are missing", None)
            return
        end = segment.added.end_offset
        rest = readings.get(end + 1, _Reading({}, end + 1))
        values: dict[str, Value] = {}
        for record in tier.contents[segment.segment_id].records:
            if record.offset >= position:
                values[record.key] = record.value
        values |= rest.values
        readings[position] = _Reading(values, rest.local_from)
        for key, found, right in _wrong_values(log, position, readings[position]):
            yield Wrong(f"from offset {position} on: {key} is {found} instead of {right}", found)


def _wrong_values(
    log: ServedLog, position: int, reading: _Reading
) -> Iterator[tuple[str, Value, Value]]:
    """Keys whose last value is wrong, with that value and the right one."""
    for key, newest in log.newest.items():
        if newest.offset >= reading.local_from:
            continue
        found = reading.values.get(key)
        right = newest.value if newest.offset >= position else None
        if found != right:
            yield key, found, right

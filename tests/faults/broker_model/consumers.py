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
from tests.faults.broker_model.served_log import LogRecord, ServedLog, Value
from tests.faults.broker_model.tier_contents import Kept, TierContents


class Fetched(NamedTuple):
    """What a fetch returns."""

    records: tuple[Kept, ...]
    position: int
    """Where the next one goes on."""
    is_local: bool = False
    """Whether a broker's local copy has them."""


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """No segment serves the offset, although it is not below the log start."""

    offset: int


@dataclass(frozen=True, slots=True)
class Unavailable:
    """No leader serves the partition now."""


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
        records = tuple(Kept(*record) for record in log.records[position:])
        return Fetched(records, log.end, is_local=True)
    segment = serving(cache, log, position)
    if segment is None:
        return OutOfRange(position)
    if not tier.is_whole(segment.segment_id):
        return ObjectMissing(segment.segment_id)
    content = tier.contents[segment.segment_id]
    records = tuple(record for record in content.records if record.offset >= position)
    return Fetched(records, segment.added.end_offset + 1)


class _Reading(NamedTuple):
    records: dict[str, Kept]
    """The record of each key that counts, of those that remote segments give."""
    local_from: int
    """Where the local log goes on, or a hole begins."""


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
    locals_: dict[int, dict[str, LogRecord]] = {}
    for position in reversed(range(log.log_start, local_start)):
        segment = served.get(position)
        if segment is None:
            continue
        if not tier.is_whole(segment.segment_id):
            yield Wrong(f"offset {position}: objects of {segment.segment_id} are missing", None)
            return
        end = segment.added.end_offset
        rest = readings.get(end + 1, _Reading({}, end + 1))
        records = dict(rest.records)
        for record in tier.contents[segment.segment_id].records:
            if record.offset >= position:
                other = records.get(record.key)
                if other is None or record.rank > other.rank:
                    records[record.key] = record
        reading = readings[position] = _Reading(records, rest.local_from)
        begins = reading.local_from
        if begins not in locals_:
            locals_[begins] = _newest_from(log, begins) if begins >= local_start else {}
        for key, found in _wrong_values(log, position, reading, locals_[begins]):
            right = log.newest[key].value
            yield Wrong(f"from offset {position} on: {key} is {found} instead of {right}", found)


def _newest_from(log: ServedLog, first: int) -> dict[str, LogRecord]:
    """The records that count, of those from an offset on."""
    newest: dict[str, LogRecord] = {}
    for record in log.records[first:]:
        if record.key not in newest or record.rank > newest[record.key].rank:
            newest[record.key] = record
    return newest


def _wrong_values(
    log: ServedLog, position: int, reading: _Reading, local: Mapping[str, LogRecord]
) -> Iterator[tuple[str, Value]]:
    """Keys of which a consumer ends with a wrong value, and that value."""
    for key, newest in log.newest.items():
        if newest.offset >= reading.local_from:
            continue
        found, its_local = reading.records.get(key), local.get(key)
        value, is_local = None if found is None else found.value, False
        if its_local is not None and (found is None or its_local.rank > found.rank):
            value, is_local = its_local.value, True
        beyond = log.end if local else reading.local_from
        if not log.is_right(range(position, beyond), key, value, is_local=is_local):
            yield key, value

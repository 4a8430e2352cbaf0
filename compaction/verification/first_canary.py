"""Chooses the partition that is published alone, before all others, to prove the tier.

Rule: PUBLISHING 7.2: one of which a record was dropped; of another no canary could count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tierfold.compaction.model.segments import PartitionKey, PartitionState, Segment
from tierfold.compaction.model.serving import LocalRange
from tierfold.compaction.verification.canary import latest_sources, replaced_segments


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstCandidate:
    """A partition that may be published first."""

    key: PartitionKey
    dropped_bytes: int
    """By how much its replaced segments are smaller than what they replace."""
    local_until_ms: int | None
    """Until when brokers can have local copies of the first of them; None: it is not known."""


def first_to_publish(candidates: Iterable[FirstCandidate], now_ms: int) -> PartitionKey | None:
    """The partition to publish first; None: nothing was dropped of any, so none can count.

    One whose local copies are gone by now; else the one whose copies go first. Of those, the one of
    which most was dropped.
    """
    dropping = [one for one in candidates if one.dropped_bytes > 0]
    return min(dropping, key=lambda one: _order(one, now_ms)).key if dropping else None


def _order(one: FirstCandidate, now_ms: int) -> tuple[bool, int, int, PartitionKey]:
    is_unknown = one.local_until_ms is None
    wait_ms = max(0, (one.local_until_ms or 0) - now_ms)
    return is_unknown, wait_ms, -one.dropped_bytes, one.key


def first_candidate(
    row: PartitionState, ranges: Sequence[LocalRange], log_start: int
) -> FirstCandidate:
    """The partition as a candidate; `ranges`: its `local_ranges`.

    Only replaced segments that lie wholly at or above the log start count.
    """
    shrunk = [
        segment
        for segment in replaced_segments(row)
        if segment.start_offset >= log_start and dropped_bytes(row, segment) > 0
    ]
    return FirstCandidate(
        key=row.key,
        dropped_bytes=sum(dropped_bytes(row, segment) for segment in shrunk),
        local_until_ms=_until_ms(ranges, shrunk[0].end_offset) if shrunk else None,
    )


def dropped_bytes(row: PartitionState, segment: Segment) -> int:
    """By how much a replaced segment is smaller than its sources, a source that was cut in full."""
    sources_bytes = sum(source.size_bytes for source in latest_sources(row, segment))
    return max(0, sources_bytes - segment.size_bytes)


def _until_ms(ranges: Sequence[LocalRange], offset: int) -> int | None:
    """Until when brokers can have local copies up to the offset."""
    return next((one.until_ms for one in ranges if one.end_offset >= offset), None)

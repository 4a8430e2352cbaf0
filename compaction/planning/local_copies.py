"""Until when a broker can have a local copy of each live segment's range.

Consumers read from local copies what was there before a pass. Brokers drop local segments only from
the head of the log, by their largest timestamp, and their borders may differ from the tier's: the
next segment may begin in the same local one.

    an upload          largest timestamp up to the next segment + local.retention.ms + an hour, and
                       not before an hour after it was finished
    a replacement      what the row noted, over all its sources
    one without note   as if its newest record came just now
    the last segment   not known yet: what follows it is not in the tier

Rule: PUBLISHING 5.2; Kafka `UnifiedLog.deleteOldSegments`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Final

from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.model.segments import PartitionState

SLACK_MS: Final = 3_600_000
"""How late a broker may drop a local segment: it looks every few minutes, and clocks differ."""


def local_until_ms(
    row: PartitionState, brokers: BrokerPartition | None, at_ms: int
) -> dict[str, int]:
    """By id of a live segment: until when a broker can have its range locally, epoch milliseconds.

    Segments of which it is not known are left out: all of them, if no time limits local copies, or
    no broker was asked. `at_ms`: now; the row's own notes were made before.
    """
    if brokers is None or brokers.local_retention_ms is None:
        return {}
    found = dict(_each_until(row, brokers, brokers.local_retention_ms, at_ms))
    # A range goes after all those below it.
    latest = accumulate(found.values(), max)
    return dict(zip(found, latest, strict=True))


def _each_until(
    row: PartitionState, brokers: BrokerPartition, retention_ms: int, at_ms: int
) -> Iterator[tuple[str, int]]:
    """What each segment's own range says; a range below may still hold it back."""
    before_ms = row.local_retention_ms
    finished = {
        one.added.segment_id: one.since_ms
        for one in brokers.view.in_state(SegmentState.COPY_FINISHED)
    }
    # What brokers still had when local.retention.ms rose, they keep longer.
    added_ms = max(retention_ms - before_ms, 0) if before_ms is not None else 0
    # Until it fell, they kept what the smaller value lets go.
    fell_at_ms = 0 if before_ms is not None and before_ms <= retention_ms else at_ms
    noted = {one.segment_id: one.until_ms + added_ms for one in row.local_ranges}
    newest_ms = -1
    for segment, following in pairwise(row.segments):
        newest_ms = max(newest_ms, segment.max_timestamp_ms, following.max_timestamp_ms)
        by_time_ms = newest_ms + retention_ms + SLACK_MS
        segment_id = segment.segment_id
        if segment_id in noted:
            # A segment that is new since then may begin in the same local one.
            is_old = following.segment_id in noted
            yield segment_id, noted[segment_id] if is_old else max(noted[segment_id], by_time_ms)
        elif not segment.is_named_by_brokers:
            yield segment_id, max(by_time_ms, at_ms + retention_ms + SLACK_MS)
        elif segment_id in finished:
            yield segment_id, max(by_time_ms, max(finished[segment_id], fell_at_ms) + SLACK_MS)

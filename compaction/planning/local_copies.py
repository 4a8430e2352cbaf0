"""Until when a broker can have local copies of a log, from its start on.

Consumers read from local copies what was there before a pass. Brokers drop local segments only from
the head of the log, by their largest timestamp, and their borders may differ from the tier's: the
next segment may begin in the same local one.

    an upload          largest timestamp up to the next segment + local.retention.ms + an hour, and
                       not before an hour after it was finished
    uploads beside     the same for all offsets from their own start on: a new leader may have
                       uploaded again what the row has
    what is noted      as the row noted it, before rounds replaced the uploads
    not noted, ours    as if its newest record came just now

Rule: PUBLISHING 5.2; Kafka `UnifiedLog.deleteOldSegments`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, zip_longest

from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.brokers.topic_retention import LOCAL_SLACK_MS
from tierfold.compaction.model.segment_ids import is_own_id
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.serving import LocalRange


def local_ranges(
    row: PartitionState, brokers: BrokerPartition | None, at_ms: int
) -> tuple[LocalRange, ...]:
    """Until when a broker can have local copies of the live range, in offset order.

    It ends before the first segment of which it is not known; that is the first one if no time
    limits local copies, or no broker was asked. The last range's time may still grow, once another
    segment follows it. `at_ms`: now; the row's own notes were made before.
    """
    if brokers is None or brokers.local_retention_ms is None:
        return ()
    until_ms = 0
    found: list[LocalRange] = []
    for one in _ranges(row, brokers, brokers.local_retention_ms, at_ms):
        # A range goes after all those below it.
        until_ms = max(until_ms, one.until_ms)
        found.append(replace(one, until_ms=until_ms))
    return tuple(found)


def gone_before(row: PartitionState, ranges: Sequence[LocalRange], now_ms: int) -> int:
    """The offset below which no broker has local copies any longer, by `local_ranges`."""
    found = row.log_start_offset
    for one in ranges:
        if one.until_ms > now_ms:
            break
        found = one.end_offset + 1
    return found


def joined_past(ranges: Sequence[LocalRange], before_ms: int) -> tuple[LocalRange, ...]:
    """The same with fewer ranges: those that ended by `before_ms` are one, except the last."""
    kept = [
        one
        for one, following in pairwise(ranges)
        if following is ranges[-1] or following.until_ms > before_ms
    ]
    return (*kept, *ranges[-1:])


def _complete(row: PartitionState) -> tuple[LocalRange, ...]:
    """The row's notes, without the last one if it is not known what followed it."""
    noted = row.local_ranges
    if noted and all(segment.end_offset != noted[-1].end_offset for segment in row.segments):
        return noted[:-1]
    return noted


def _ranges(
    row: PartitionState, brokers: BrokerPartition, retention_ms: int, at_ms: int
) -> Iterator[LocalRange]:
    """What each range's own records say; a range below may still hold it back."""
    before_ms = row.local_retention_ms
    # What brokers still had when local.retention.ms rose, they keep longer.
    added_ms = max(retention_ms - before_ms, 0) if before_ms is not None else 0
    # Until it fell, they kept what the smaller value lets go.
    fell_at_ms = 0 if before_ms is not None and before_ms <= retention_ms else at_ms
    finished = brokers.view.in_state(SegmentState.COPY_FINISHED)
    finished_ms = {one.added.segment_id: one.since_ms for one in finished}
    noted = _complete(row)
    noted_until = noted[-1].end_offset if noted else -1
    newest_ms = -1
    grown_ms = 0
    new: list[LocalRange] = []
    for segment, following in zip_longest(row.segments, row.segments[1:]):
        next_ms = -1 if following is None else following.max_timestamp_ms
        newest_ms = max(newest_ms, segment.max_timestamp_ms, next_ms)
        until_ms = newest_ms + retention_ms + LOCAL_SLACK_MS
        if segment.end_offset <= noted_until:
            # Its last local segment may hold what follows now.
            is_new = following is not None and segment.end_offset == noted_until
            grown_ms = until_ms if is_new else 0
            continue
        if not segment.is_named_by_brokers:
            until_ms = max(until_ms, at_ms + retention_ms + LOCAL_SLACK_MS)
        elif segment.segment_id in finished_ms:
            since_ms = max(finished_ms[segment.segment_id], fell_at_ms)
            until_ms = max(until_ms, since_ms + LOCAL_SLACK_MS)
        else:
            break
        new.append(LocalRange(end_offset=segment.end_offset, until_ms=until_ms))
    for one in noted:
        noted_ms = one.until_ms + added_ms
        is_last = one.end_offset == noted_until
        new.append(replace(one, until_ms=max(noted_ms, grown_ms) if is_last else noted_ms))
    covered = {one.segment_id for one in row.segments if one.end_offset <= noted_until}
    uploads = [
        (one.added.start_offset, max(one.added.max_timestamp_ms + retention_ms, one.since_ms))
        for one in finished
        if one.added.segment_id not in covered and not is_own_id(one.added.segment_id)
    ]
    yield from _held_by(sorted(new), uploads, fell_at_ms)


def _held_by(
    ranges: Iterable[LocalRange], uploads: Iterable[tuple[int, int]], not_before_ms: int
) -> Iterator[LocalRange]:
    """The ranges, each as long as any upload that begins at or below its end keeps it.

    `uploads`: start offsets, and until when, no earlier than `not_before_ms`; in offset order, as
    the ranges are.
    """
    waiting, until_ms = deque(uploads), 0
    for one in ranges:
        while waiting and waiting[0][0] <= one.end_offset:
            _, upload_ms = waiting.popleft()
            until_ms = max(until_ms, max(upload_ms, not_before_ms) + LOCAL_SLACK_MS)
        yield replace(one, until_ms=max(one.until_ms, until_ms))

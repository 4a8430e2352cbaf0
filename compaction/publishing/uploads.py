"""Uploads that brokers began: which may still be finished, and which are given up.

Dead ones are common and stay for ever (KAFKA-17062). A live one may be finished at any time, beside
a replacement over the same offsets.
"""

from __future__ import annotations

from collections.abc import Sequence

from tierfold.compaction.brokers.broker_view import BrokerSegment, BrokerView
from tierfold.compaction.brokers.events import SegmentAdded, SegmentState
from tierfold.compaction.model.segment_ids import is_own_id


def uploads_at_work(view: BrokerView) -> list[BrokerSegment]:
    """The uploads of brokers that are not finished, by start offset."""
    return [
        segment
        for segment in view.in_state(SegmentState.COPY_STARTED)
        if not is_own_id(segment.added.segment_id)
    ]


def is_given_up(
    upload: BrokerSegment,
    log: Sequence[BrokerSegment],
    log_start: int,
    *,
    wait_ms: int,
    now_ms: int,
) -> bool:
    """Whether its leader has given it up: others cover it, and it began long ago.

    `log`: the finished segments of the log, by start offset. Live segments of a row prove nothing:
    without brokers a row takes an upload once its objects are whole.
    """
    return is_covered(upload.added, log, log_start) and now_ms - upload.since_ms >= wait_ms


def is_covered(added: SegmentAdded, log: Sequence[BrokerSegment], log_start: int) -> bool:
    """Whether finished segments cover its range from the log start on."""
    reached = max(added.start_offset, log_start) - 1
    for segment in log:
        if segment.added.start_offset <= reached + 1:
            reached = max(reached, segment.added.end_offset)
    return reached >= added.end_offset

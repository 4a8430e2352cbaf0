"""How many events brokers must be sent until they have what a row says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tierfold.compaction.brokers.broker_view import BrokerView
from tierfold.compaction.brokers.events import SegmentState

_TO_SERVE: Final = {None: 2, SegmentState.COPY_STARTED: 1}
"""Started and finished; finished. Without brokers' state, they do not have the segment."""
_TO_DROP: Final = {
    SegmentState.COPY_STARTED: 2,
    SegmentState.COPY_FINISHED: 2,
    SegmentState.DELETE_STARTED: 1,
}
"""Listed and gone; gone."""


def events_needed(
    view: BrokerView, *, new: int, live: Iterable[str], retired: Iterable[str]
) -> int:
    """How many events are missing: first sends, second sends, later deletions.

    `new`: how many replacements are yet to be made; `live`, `retired`: the ids that brokers must
    have, and must drop, once they are. A swap of n segments for one needs 2 + 2n.
    """
    states = {segment_id: segment.state for segment_id, segment in view.segments.items()}
    to_serve = sum(_TO_SERVE.get(states.get(one), 0) for one in live)
    to_drop = sum(_TO_DROP.get(states[one], 0) for one in retired if one in states)
    return _TO_SERVE[None] * new + to_serve + to_drop

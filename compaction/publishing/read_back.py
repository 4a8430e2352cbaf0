"""Whether brokers took a batch as expected, once the topic was read through it.

Brokers may have gone on by themselves: they list what lies below their log start. So each segment
must be in the state that the batch gave it, or in a later one.

Rule: PUBLISHING 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tierfold.compaction.brokers.broker_view import BrokerView
from tierfold.compaction.brokers.events import Event, SegmentAdded, SegmentState

_GONE: Final = 3


def unlike_expected(view: BrokerView, events: Sequence[Event]) -> str:
    """The first difference, a clause; empty: there is none.

    `events`: of one batch, all of them sent; `view`: after the topic was read through the last one.
    """
    expected = {event.segment_id: _state(event) for event in events}
    for segment_id, state in expected.items():
        segment = view.segments.get(segment_id)
        reached = _GONE if segment is None else segment.state
        if reached < state:
            named = SegmentState(reached).name
            return f"segment {segment_id} is in {named}, and {state.name} was sent and acknowledged"
    return ""


def _state(event: Event) -> SegmentState:
    return SegmentState.COPY_STARTED if isinstance(event, SegmentAdded) else event.state

"""Reads what brokers are to read before they are sent it (PUBLISHING 3.9).

What this run wrote was verified when it was committed. What another run wrote is read in full: its
objects may be lost or damaged since, and consumers that reach it would make no progress.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tierfold.compaction.brokers.events import Event, SegmentAdded, SegmentState
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.publishing.steps import Purpose, Send
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.publishing.served_partition import ServedPartition
from tierfold.storage.segments.segment_check import CheckOrder, read_and_check

_AGAIN: Final = frozenset({Purpose.NAME_AGAIN, Purpose.SERVE_AGAIN})


@dataclass(slots=True, kw_only=True)
class VerifiedObjects:
    """Which segments this run has verified."""

    context: RunContext
    ids: set[str] = field(default_factory=set)

    def why_not(self, partition: ServedPartition, send: Send) -> str:
        """Return why segments must not be read, a sentence; empty: brokers may be sent the events.

        Only what brokers begin to read is read here, each segment once a run. That its objects are
        there counts by the newest listing. What brokers served before their metadata were lost is
        not read: a restart meanwhile would lose it.
        """
        if send.purpose in _AGAIN:
            return ""  # The event check compares it with the listing.
        wanted = set(filter(None, map(_to_be_read, send.events)))
        live = {segment.segment_id: segment for segment in partition.look.row.segments}
        for segment_id in sorted(wanted):
            segment = live.get(segment_id)
            if why := self._why_not(partition, segment_id, segment):
                return why
            self.ids.add(segment_id)
        return ""

    def _why_not(
        self, partition: ServedPartition, segment_id: str, segment: Segment | None
    ) -> str:
        where = f"{partition.key}: segment {segment_id}"
        if segment_id not in partition.look.whole:
            return f"{where} is not in the tier with all its objects"
        if segment_id in self.ids or segment is None or segment.written_by_run == self.context.run:
            return ""
        try:
            read = read_and_check(self.context.tier, self._order(partition, segment))
        except TierfoldError as error:
            return str(error)
        return read.checked.corruptions[0] if read.checked.corruptions else ""

    def _order(self, partition: ServedPartition, segment: Segment) -> CheckOrder:
        return CheckOrder(
            key=partition.key,
            segment=segment,
            is_live=True,
            is_last=segment == partition.look.row.segments[-1],
            index_interval_bytes=partition.rules.index_interval_bytes,
            buckets=1,
            aborted_now=None,
            aborted_before=None,
            hash_key=self.context.hash_key,
            batch_bytes_max=self.context.batch_bytes_max(partition.key.topic),
        )


def _to_be_read(event: Event) -> str:
    """The id of the segment if brokers come to read it, or may; else empty."""
    is_read = isinstance(event, SegmentAdded) or event.state is SegmentState.COPY_FINISHED
    return event.segment_id if is_read else ""


"""The one check that every event passes before it is sent: it trusts no decision.

An event is serialized, parsed back and compared with what the look showed, and folded after those
before it in the batch. So what the decision got wrong, or what was changed after it, is not sent:
a value that ends a broker's metadata consumer stops tiering for every partition that the broker
reads, and a deletion with nothing in its place loses data.

Rule: PUBLISHING 3.5, 3.7, 3.8, 4.2; SWAP.md 2.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from tierfold.compaction.brokers.broker_view import BrokerSegment, Naming
from tierfold.compaction.brokers.event_bytes import decode, encode
from tierfold.compaction.brokers.events import Event, NoEvent, SegmentAdded, SegmentState
from tierfold.compaction.brokers.partition_fold import PartitionFold, Taken
from tierfold.compaction.model.segment_ids import Maker, maker_of
from tierfold.compaction.publishing.batches import batch_bytes
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.lost_metadata import named_event
from tierfold.compaction.publishing.ranges import OffsetRange, joined, range_of, without
from tierfold.compaction.publishing.rebuild_order import contested_ids, hidden_offsets
from tierfold.compaction.publishing.replacements import NO_BROKER, started_event


class EventRule(StrEnum):
    """What an event must keep to."""

    READABLE = "readable"
    """Its value is parsed back as the same event."""
    PARTITION = "partition"
    """It is of the look's partition."""
    BROKER = "broker"
    """It names no broker."""
    TRANSITION = "transition"
    """Brokers take it: they neither drop it nor stop."""
    METADATA = "metadata"
    """It repeats what the plugin noted of the segment."""
    LIVE = "live"
    """What brokers are to read is live in the row, or an upload that they read already."""
    MAKER = "maker"
    """What enters the metadata was made by a run."""
    NEW = "new"
    """An id that was ever named keeps its contents, and lives once."""
    AS_IN_ROW = "as in the row"
    """What enters the metadata is as the row describes it."""
    LINEAGE = "lineage"
    """What brokers are to read is of their log."""
    ALONE = "alone"
    """A replacement shares no offset with another segment that stays."""
    RETIRED = "retired"
    """What goes is retired in the row."""
    COVERED = "covered"
    """Over every offset of the log of what goes, brokers read live segments."""
    GRACE = "grace"
    """What is forgotten went a grace period ago."""
    OBJECTS = "objects"
    """What is forgotten has no object."""
    BATCH = "batch"
    """The batch has an event, and is not too large."""
    LOG_START = "log start"
    """What is named again reaches the log start: brokers would delete what lies below it."""
    FOUND = "found"
    """What is named again hides no offset that look-ups found."""
    READ_ONLY = "read only"
    """No record of the metadata topic forbids to publish for the partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForbiddenEvent:
    """The batch is not sent, because of this event."""

    event: Event | None
    """None: because of the whole batch."""
    rule: EventRule
    why: str
    """A clause that names the segment."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The batch may be sent."""

    values: tuple[bytes, ...]
    """Of its records, in order; their keys are null."""


CheckResult: TypeAlias = Checked | ForbiddenEvent
"""What `checked` finds."""


def checked(look: Look, events: Sequence[Event]) -> CheckResult:
    """The values of one batch, if each of its events is allowed after those before it."""
    if look.view.read_only:
        return _forbidden(None, EventRule.READ_ONLY, look.view.read_only[0].finding)
    if not events:
        return _forbidden(None, EventRule.BATCH, "the batch is empty")
    check, values = _Check(look), []
    # What is finished again is hidden within the batch: two segments begin alike in an epoch.
    reads_again = bool(look.rebuilds) and any(_is_read(look, event) for event in events)
    for event in events:
        value = _value_of(event)
        if not isinstance(value, bytes):
            return value
        if (forbidden := check.taken(event)) is not None:
            return forbidden
        is_due = event is events[-1] if reads_again else check.may_hide(event)
        if is_due and (hiding := check.hidden(event)) is not None:
            return hiding
        values.append(value)
    size = batch_bytes(values)
    if size > look.limits.batch_bytes_max:
        why = f"the batch may have {size} bytes, more than {look.limits.batch_bytes_max}"
        return _forbidden(None, EventRule.BATCH, why)
    return Checked(tuple(values))


def _value_of(event: Event) -> bytes | ForbiddenEvent:
    try:
        value = encode(event)
    except (ValueError, struct.error) as error:
        return _forbidden(event, EventRule.READABLE, f"an event cannot be written: {error}")
    parsed = decode(value)
    if isinstance(parsed, NoEvent):
        return _forbidden(event, EventRule.READABLE, f"an event {parsed.why}")
    if parsed != event:
        return _forbidden(event, EventRule.READABLE, f"an event is parsed back as {parsed}")
    return value


class _Check:
    """What brokers have after the events of a batch so far, and what stays of it."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._fold = PartitionFold.resumed(look.view)
        self._live = {segment.segment_id: segment for segment in look.row.segments}
        self._named = {segment.segment_id: segment for segment in look.row.named_segments}
        self._staying = {
            segment.added.segment_id: range_of(segment.added)
            for segment in look.finished
            if segment.added.segment_id not in look.retired_ids
        }
        """By id: the ranges of finished segments of the log that no event may drop."""
        self._covered = joined(its for one, its in self._staying.items() if one in look.live_ids)
        """What live segments have of it, which brokers read."""
        self._contested = contested_ids(look) if look.rebuilds else frozenset[str]()
        """Ids of segments that may hide offsets of others once they are finished."""

    def taken(self, event: Event) -> ForbiddenEvent | None:
        """The reason if the event is forbidden; else it is folded."""
        if event.key != self._look.row.key:
            return _forbidden(event, EventRule.PARTITION, f"it is of {event.key}")
        if event.broker_id != NO_BROKER:
            return _forbidden(event, EventRule.BROKER, f"it names broker {event.broker_id}")
        known = self._fold.segments.get(event.segment_id)
        forbidden = self._of_kind(event, known)
        if forbidden is not None:
            return forbidden
        match self._fold.apply(event, self._look.now_ms):
            case Taken.DROPPED:
                return _forbidden(event, EventRule.TRANSITION, "brokers would drop it")
            case Taken.STOPS_BROKERS:
                return _forbidden(event, EventRule.TRANSITION, "it would stop brokers")
        if known is not None and _state(event) is SegmentState.COPY_FINISHED:
            self._finish(event.segment_id, range_of(known.added))
        return None

    def may_hide(self, event: Event) -> bool:
        """Whether the event of a rebuild may hide offsets of other segments."""
        return _state(event) is SegmentState.COPY_FINISHED and event.segment_id in self._contested

    def hidden(self, event: Event) -> ForbiddenEvent | None:
        """The reason if what is named again hides offsets: brokers may have other segments there.

        Other batches are made so that no event in them does (`batches`).
        """
        if not (lost := hidden_offsets(self._look, self._fold)):
            return None
        why = f"look-ups would no longer find offsets {lost[0]}"
        return _forbidden(event, EventRule.FOUND, why)

    def _finish(self, segment_id: str, bounds: OffsetRange) -> None:
        self._staying[segment_id] = bounds
        if segment_id in self._look.live_ids:
            self._covered = joined([*self._covered, bounds])

    def _of_kind(self, event: Event, known: BrokerSegment | None) -> ForbiddenEvent | None:
        if isinstance(event, SegmentAdded):
            return self._started(event, known)
        if known is None:
            return _forbidden(event, EventRule.TRANSITION, "brokers do not have the segment")
        if event.custom_metadata != known.custom_metadata:
            why = f"the plugin noted {known.custom_metadata!r}, not {event.custom_metadata!r}"
            return _forbidden(event, EventRule.METADATA, why)
        match event.state:
            case SegmentState.COPY_FINISHED:
                return self._finished(event, known)
            case SegmentState.DELETE_STARTED:
                return self._listed(event, known)
            case SegmentState.DELETE_FINISHED:
                return self._gone(event, known)
            case SegmentState.COPY_STARTED:
                return None  # Brokers never take it.

    def _started(
        self, event: SegmentAdded, known: BrokerSegment | None
    ) -> ForbiddenEvent | None:
        look = self._look
        if event.segment_id in look.rebuilds:
            expected = self._described(event.segment_id)
            if (forbidden := self._named_again(event, event)) is not None:
                return forbidden
        else:
            segment = self._live.get(event.segment_id)
            if segment is None:
                return _forbidden(event, EventRule.LIVE, "the row does not have it as live")
            maker = maker_of(event.segment_id, look.fingerprint)
            if segment.is_named_by_brokers or maker not in _RUNS:
                return _forbidden(event, EventRule.MAKER, "no run of this catalog wrote it")
            expected = started_event(look.row.key, segment, look.now_ms)
        if _contents(event) != _contents(expected):
            return _forbidden(event, EventRule.AS_IN_ROW, "the row describes it otherwise")
        if event.size_bytes <= 0:
            return _forbidden(event, EventRule.AS_IN_ROW, "it has no bytes")
        if known is not None and _contents(known.added) != _contents(event):
            return _forbidden(event, EventRule.NEW, "brokers have its id with other contents")
        if known is None and look.naming.get(event.segment_id) is not Naming.NEVER_NAMED:
            return _forbidden(event, EventRule.NEW, "the topic has named its id before")
        is_read_again = event.segment_id in look.live_ids or not look.rebuilds
        if is_read_again and not look.is_of_log(event):
            return _forbidden(event, EventRule.LINEAGE, "it is of another history")
        return None

    def _described(self, segment_id: str) -> SegmentAdded:
        """The event by which a segment is named again, as the row has the segment.

        Of an upload that no row names, there is only the decision's word: it is never read.
        """
        look = self._look
        segment = self._named.get(segment_id)
        return look.rebuilds[segment_id] if segment is None else named_event(look, segment)

    def _named_again(self, event: Event, added: SegmentAdded) -> ForbiddenEvent | None:
        """The reason if brokers must not learn again of a segment.

        Live ones they read: below their log start they delete all objects of what is named.
        """
        look = self._look
        if added.segment_id not in look.live_ids:
            if look.present is None or added.segment_id not in look.present:
                return _forbidden(event, EventRule.OBJECTS, "no object of it is in the tier")
            return None
        if added.segment_id not in look.whole:
            return _forbidden(event, EventRule.OBJECTS, "its objects are not all in the tier")
        if added.end_offset < look.log_start:
            why = f"it lies below the brokers' log start {look.log_start}, so they would delete it"
            return _forbidden(event, EventRule.LOG_START, why)
        return None

    def _finished(self, event: Event, known: BrokerSegment) -> ForbiddenEvent | None:
        look, segment_id = self._look, event.segment_id
        is_read = known.state is SegmentState.COPY_FINISHED
        is_again = segment_id in look.rebuilds and known.added.broker_id == NO_BROKER
        if segment_id in look.retired_ids:
            return _forbidden(event, EventRule.LIVE, "the row has retired it")
        if look.is_upload(segment_id):
            if not is_read and not (is_again and segment_id in look.live_ids):
                return _forbidden(event, EventRule.LIVE, "only its broker may finish it")
        elif segment_id not in look.live_ids:
            return _forbidden(event, EventRule.LIVE, "the row does not have it as live")
        if not look.is_of_log(known.added):
            return _forbidden(event, EventRule.LINEAGE, "it is of another history")
        if is_again:
            return self._named_again(event, known.added)
        if not is_read and (other := self._beside(known)) is not None:
            return _forbidden(event, EventRule.ALONE, f"segment {other} shares offsets with it")
        return None

    def _beside(self, segment: BrokerSegment) -> str | None:
        """The id of a segment that stays over offsets of a replacement."""
        bounds = range_of(segment.added)
        return next((one for one, its in self._staying.items() if its.overlaps(bounds)), None)

    def _listed(self, event: Event, known: BrokerSegment) -> ForbiddenEvent | None:
        look, added = self._look, known.added
        if added.segment_id not in look.retired_ids:
            return _forbidden(event, EventRule.RETIRED, "the row has not retired it")
        if known.state is SegmentState.DELETE_STARTED or not look.is_of_log(added):
            return None
        of_log = joined([OffsetRange(max(added.start_offset, look.log_start), added.end_offset)])
        if uncovered := without(of_log, self._covered):
            why = f"brokers would read nothing live over its offsets {uncovered[0]}"
            return _forbidden(event, EventRule.COVERED, why)
        return None

    def _gone(self, event: Event, known: BrokerSegment) -> ForbiddenEvent | None:
        look, segment_id = self._look, event.segment_id
        if segment_id not in look.retired_ids:
            return _forbidden(event, EventRule.RETIRED, "the row has not retired it")
        if look.present is None or segment_id in look.present:
            return _forbidden(event, EventRule.OBJECTS, "objects of it are, or may be, in the tier")
        if look.now_ms - known.since_ms < look.limits.grace_ms:
            return _forbidden(event, EventRule.GRACE, "its grace period is not over")
        return None


_RUNS: Final = (Maker.THIS_CATALOG, Maker.OLDER_TIERFOLD)
"""Ids of a release before marks say nothing of their catalog, but the row does that has them live.
"""


def _contents(added: SegmentAdded) -> SegmentAdded:
    """The event without what may differ each time it is sent."""
    return added._replace(event_timestamp_ms=0, broker_id=NO_BROKER)


def _is_read(look: Look, event: Event) -> bool:
    """Whether brokers read the segment before the batch."""
    return look.state_of(event.segment_id) is SegmentState.COPY_FINISHED


def _state(event: Event) -> SegmentState:
    return SegmentState.COPY_STARTED if isinstance(event, SegmentAdded) else event.state


def _forbidden(event: Event | None, rule: EventRule, why: str) -> ForbiddenEvent:
    subject = "" if event is None else f"segment {event.segment_id}: "
    return ForbiddenEvent(event=event, rule=rule, why=f"{subject}{why}")

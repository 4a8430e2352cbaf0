"""Reads a partition as a consumer does after its swap, and compares it with the tier.

    windows of the row → records that brokers give ─┐
                         records of live segments  ─┼→ agrees, or differs
                         of whole retired ones     ─┘

What differs is read again for some seconds before it counts: a broker may follow its metadata topic
a little later. A log start that moved meanwhile explains what is missing below it.

Rule: PUBLISHING 7.2; before a deletion 6.1.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, TypeAlias

from tierfold.compaction.brokers.missing_rights import lacking
from tierfold.compaction.discovery.broker_refusals import WITHOUT_CANARY
from tierfold.compaction.model.errors import CorruptLog, MissingRight, UnreadableObject
from tierfold.compaction.model.rights import Resource, Right
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.model.units import OffsetSpan
from tierfold.compaction.planning.local_copies import gone_before, local_ranges
from tierfold.compaction.verification.canary import (
    Agreed,
    CanaryMode,
    CanaryResult,
    CanaryWindow,
    CannotRead,
    Counted,
    Difference,
    Differs,
    NotCounted,
    NotServed,
    Stale,
    canary_windows,
    latest_sources,
    may_show_stale,
    replaced_segments,
    sources_of,
    window_around,
)
from tierfold.compaction.verification.canary_records import (
    Agreement,
    Expected,
    LocalCopies,
    RecordDigests,
    compared,
    first_dropped,
    joined_records,
)
from tierfold.compaction.verification.first_canary import dropped_bytes
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.stopping import check
from tierfold.storage.brokers.connection import Connection
from tierfold.storage.brokers.facts import partition_offsets, topic_facts
from tierfold.storage.brokers.record_reader import (
    GivenRecords,
    OutOfRange,
    RecordReader,
    Unserved,
    WindowPart,
    record_reader,
)
from tierfold.storage.clock import elapsed_s, pause
from tierfold.storage.segments.written_records import (
    pieces_of_records,
    whole_segment,
    written_records,
)

CONFIRM_S: Final = 10.0
"""For how long a difference is read again before it counts."""
SEARCH_PIECES: Final = 16
"""How many pieces of sources, 8 MiB at most each, are searched for a dropped record if the windows
have none."""
_PAUSE_MS: Final = 500

_Found: TypeAlias = Agreement | Differs | NotServed


def read_canary(
    context: RunContext,
    connection: Connection,
    row: PartitionState,
    log_start: int,
    mode: CanaryMode,
) -> CanaryResult:
    """What consumers get of a partition that brokers have as its row says.

    `log_start`: the brokers', as last asked; `mode`: not `OFF`. Needs Read on the topic.
    """
    canary = _Canary(context=context, connection=connection, row=row, log_start=log_start)
    return canary.result(mode)


def read_before_deletion(
    context: RunContext,
    connection: Connection,
    row: PartitionState,
    log_start: int,
    mode: CanaryMode,
) -> CanaryResult | None:
    """As `read_canary`, only of offsets of which no broker can have local copies any longer.

    None: there are none of which it is known that a record was dropped, so nothing was read.
    """
    canary = _Canary(context=context, connection=connection, row=row, log_start=log_start)
    canary.below = canary.gone_before
    return canary.result(mode) if may_show_stale(row, log_start, canary.below) else None


def without_right(server: str, topic: str) -> MissingRight:
    """Without Describe, too, Read is the right to ask for: it includes that."""
    right = Right(operation="Read", resource=Resource.TOPIC, name=topic)
    error = lacking([right], server)
    return MissingRight(
        error.what,
        where=error.where,
        remedy=f"{error.remedy} {WITHOUT_CANARY}",
        rights=error.rights,
    )


@dataclass(slots=True, kw_only=True)
class _Canary:
    """One canary of one partition."""

    context: RunContext
    connection: Connection
    row: PartitionState
    log_start: int
    """The brokers', as far as it is known."""
    gone_before: int = field(init=False)
    below: int = field(init=False)
    """Only offsets below are read."""
    sources: frozenset[str] = field(init=False)
    unreadable: set[str] = field(default_factory=set)
    """Ids of retired segments whose objects are gone or damaged: nothing is concluded from them."""
    suspected_s: float | None = None
    """Since when a difference has been read again."""

    def __post_init__(self) -> None:
        brokers, now_ms = self.context.brokers_of(self.row.key), self.context.clock()
        self.gone_before = gone_before(self.row, local_ranges(self.row, brokers, now_ms), now_ms)
        self.below = self.row.next_offset
        self.sources = frozenset(entry.segment.segment_id for entry in sources_of(self.row))

    def result(self, mode: CanaryMode) -> CanaryResult:
        """What is found, or why nothing could be compared."""
        try:
            # Before, since nothing answers readers of a topic that is not there, or not theirs.
            return self.topic_changed() or self.read(mode)
        except MissingRight:
            return CannotRead(without_right(self.connection.server, self.row.key.topic))
        except (UnreadableObject, CorruptLog) as error:
            return CannotRead(error)

    def read(self, mode: CanaryMode) -> CanaryResult:
        """Read the windows; raises UnreadableObject and CorruptLog."""
        windows = canary_windows(self.row, self.log_start, mode)
        with record_reader(self.connection, self.row.key.topic, self.row.key.partition) as reader:
            found = self._windows_read(reader, windows)
            if isinstance(found, Agreement) and not found.missing_dropped + found.read_dropped:
                more = self._windows_read(reader, self._with_dropped())
                found = found.with_more(more) if isinstance(more, Agreement) else more
        result = self._result(found) if isinstance(found, Agreement) else found
        return self.topic_changed() or result

    def topic_changed(self) -> CannotRead | None:
        """Why nothing that was read counts: it may be another topic's; None: it is this one's."""
        key = self.row.key
        facts = topic_facts(self.connection, [key.topic]).get(key.topic)
        if isinstance(facts, UnreadableObject):
            raise facts
        if facts is not None and facts.topic_id == key.topic_id:
            return None
        what = "was deleted" if facts is None else f"has another id now, {facts.topic_id}"
        return CannotRead(
            UnreadableObject(f"the topic {what}", where=str(key), remedy="Run again.")
        )

    def _result(self, found: Agreement) -> CanaryResult:
        if found.stale_offset is not None:
            return Stale(offset=found.stale_offset)
        if found.missing_dropped:
            return Counted(records=found.records, dropped=found.missing_dropped)
        if found.read_dropped:
            why = NotCounted.STILL_LOCAL
        elif self.log_start >= self.row.next_offset:
            why = NotCounted.LOG_START_PASSED
        else:
            why = NotCounted.NOTHING_DROPPED
        return Agreed(records=found.records, why=why)

    def _windows_read(self, reader: RecordReader, windows: Iterable[CanaryWindow]) -> _Found:
        """All that agrees, up to the first difference that stays."""
        total, waiting = Agreement(), deque(windows)
        while waiting:
            window = _until(waiting.popleft(), self.below)
            if window.span.is_empty:
                continue  # The log start has passed it, or brokers may have all of it locally.
            for part in reader.read(window):
                check()
                found = self._found(part)
                if self._is_to_confirm(found, total):
                    waiting.appendleft(_from(window, _start_of(part)))
                    break
                if not isinstance(found, Agreement):
                    return found
                total = total.with_more(found)
                if isinstance(part, OutOfRange | Unserved):  # Below the log start, as it is now.
                    waiting.appendleft(_from(window, self.log_start))
                    break
        return total

    def _is_to_confirm(self, found: _Found, total: Agreement) -> bool:
        """Whether to read it again; waits before it returns that."""
        is_stale = isinstance(found, Agreement) and found.stale_offset is not None
        if not isinstance(found, Differs) and not (is_stale and total.stale_offset is None):
            self.suspected_s = None
            return False
        now_s = elapsed_s()
        self.suspected_s = now_s if self.suspected_s is None else self.suspected_s
        if now_s - self.suspected_s > CONFIRM_S:
            self.suspected_s = None
            return False
        pause(_PAUSE_MS)
        return True

    def _found(self, part: WindowPart) -> _Found:
        """What a part shows; a log start that moved explains what is not served below it."""
        if isinstance(part, GivenRecords):
            return compared(part.span, part.records, self._expected(part.span))
        self._ask_log_start()
        if part.offset < self.log_start:
            return Agreement()
        if isinstance(part, OutOfRange):
            return Differs(offset=part.offset, difference=Difference.OUT_OF_RANGE)
        return NotServed(offset=part.offset, error=part.error)

    def _ask_log_start(self) -> None:
        """Ask the brokers; raises UnreadableObject."""
        one = (self.row.key.topic, self.row.key.partition)
        offsets = partition_offsets(self.connection, [one])[one]
        if isinstance(offsets, UnreadableObject):
            raise offsets
        self.log_start = max(self.log_start, offsets.log_start)

    def _expected(self, span: OffsetSpan) -> Expected:
        """What the tier has of the span; raises UnreadableObject and CorruptLog of live ones."""
        retired = {
            entry.segment.segment_id: self._retired_records(entry.segment, span)
            for entry in self.row.whole_retired
        }
        return Expected(
            live=self._live_records(span),
            sources=tuple(found for one, found in retired.items() if one in self.sources),
            others=tuple(found for one, found in retired.items() if one not in self.sources),
            local=LocalCopies(gone_before=self.gone_before, uploads=tuple(self._uploads())),
        )

    def _uploads(self) -> Iterator[OffsetSpan]:
        """The offsets of which the tier has what brokers uploaded."""
        retired = (entry.segment for entry in self.row.whole_retired)
        for segment in (*self.row.segments, *retired):
            if segment.is_upload and segment.segment_id not in self.unreadable:
                yield OffsetSpan(start=segment.own_start_offset, end=segment.next_offset)

    def _live_records(self, span: OffsetSpan) -> RecordDigests:
        return joined_records([self._records(segment, span) for segment in self.row.segments])

    def _retired_records(self, segment: Segment, span: OffsetSpan) -> RecordDigests:
        """Its records; none if its objects are gone, as after the grace period."""
        if segment.segment_id not in self.unreadable:
            try:
                return self._records(whole_segment(segment), span)
            except (UnreadableObject, CorruptLog):
                self.unreadable.add(segment.segment_id)
        return joined_records([])

    def _records(self, segment: Segment, span: OffsetSpan) -> RecordDigests:
        key, most = self.row.key, self.context.batch_bytes_max(self.row.key.topic)
        return written_records(self.context.tier, key, segment, span, most)

    def _with_dropped(self) -> tuple[CanaryWindow, ...]:
        """The window around the first dropped record that a search of the sources shows."""
        for live, source in islice(self._source_pieces(), SEARCH_PIECES):
            offset = first_dropped(live, (source,))
            if offset is not None:
                return (window_around(self.row, self.log_start, offset),)
        return ()

    def _source_pieces(self) -> Iterator[tuple[RecordDigests, RecordDigests]]:
        """Live and source records of the same offsets; of where most was dropped first."""
        shrunk = {one: dropped_bytes(self.row, one) for one in replaced_segments(self.row)}
        for segment in sorted(shrunk, key=lambda one: -shrunk[one]):
            span = OffsetSpan(
                start=max(self.log_start, segment.start_offset),
                end=min(self.below, segment.next_offset),
            )
            for source in latest_sources(self.row, segment):
                for records in self._pieces(source, span):
                    first, last = int(records.offset[0]), int(records.offset[-1])
                    within = OffsetSpan(start=first, end=last + 1)
                    yield self._records(segment, within), records

    def _pieces(self, source: Segment, span: OffsetSpan) -> Iterator[RecordDigests]:
        """The records of a source, as far as they can be read."""
        key, most = self.row.key, self.context.batch_bytes_max(self.row.key.topic)
        with suppress(UnreadableObject, CorruptLog):
            yield from pieces_of_records(self.context.tier, key, source, span, most)


def _start_of(part: WindowPart) -> int:
    return part.span.start if isinstance(part, GivenRecords) else part.offset


def _from(window: CanaryWindow, start: int) -> CanaryWindow:
    """The rest of the window."""
    return replace(window, span=replace(window.span, start=start))


def _until(window: CanaryWindow, end: int) -> CanaryWindow:
    """The part of the window below an offset."""
    return replace(window, span=replace(window.span, end=min(window.span.end, end)))

"""What holds a round back before the end of the remote range, besides open transactions.

    young records     min.compaction.lag.ms
    a pending upload  brokers may yet finish it over offsets that a round would replace
    the tail          a new leader's upload may overlap the newest segments

The last two are known only where brokers were asked. Once a round is published, brokers must have
no other segment over its offsets than its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tierfold.compaction.brokers.broker_view import BrokerSegment, BrokerView
from tierfold.compaction.brokers.lineage import finished, not_cut_off
from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.model.wording import counted, duration
from tierfold.compaction.publishing.uploads import is_given_up, uploads_at_work

_NAMED: Final = 3
"""How many dead uploads a note names; it counts the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """From an offset on, a round has to wait."""

    offset: int
    """The start of a segment, or the end of the log."""
    why: str
    """A clause; it names the offset."""
    is_young: bool = False
    """Whether `min.compaction.lag.ms` holds it back; otherwise what brokers have."""


def is_overdue(segment: Segment, rules: Rules, now_ms: int) -> bool:
    """Whether the segment has waited longer than `max.compaction.lag.ms` (KIP-354).

    Its age is that of its first batch. A segment whose first batch has no timestamp above 0 is
    never overdue, as in Kafka `LogCleanerManager.maxCompactionDelay`.
    """
    age_ms = now_ms - segment.first_timestamp_ms
    return segment.first_timestamp_ms > 0 and age_ms > rules.max_compaction_lag_ms


def broker_holds(view: PartitionView, rules: Rules, now_ms: int) -> Iterator[Hold]:
    """What brokers have that a round must not reach; nothing if none were asked."""
    if view.brokers is None or not view.segments:
        return
    yield from _pending(view, view.brokers.view, rules, now_ms)
    yield from _tail(view, view.brokers.view, rules, now_ms)


def dead_uploads(view: PartitionView, rules: Rules, now_ms: int) -> str:
    """Uploads that brokers began and will not finish, a clause; empty: there are none."""
    if view.brokers is None:
        return ""
    log = _log(view, view.brokers.view)
    dead = [
        pending
        for pending in uploads_at_work(view.brokers.view)
        if _is_dead(pending, view, log, rules, now_ms)
    ]
    if not dead:
        return ""
    more = f" and {len(dead) - _NAMED} more" if len(dead) > _NAMED else ""
    named = ", ".join(pending.added.segment_id for pending in dead[:_NAMED])
    return (
        f"{counted(len(dead), 'upload')} of brokers never ended, and others have taken their place"
        f" ({named}{more}): ignored"
    )


def _pending(
    view: PartitionView, brokers: BrokerView, rules: Rules, now_ms: int
) -> Iterator[Hold]:
    """Uploads at work that begin within the log as far as it is in the tier."""
    log = _log(view, brokers)
    for pending in uploads_at_work(brokers):
        added = pending.added
        is_within = added.start_offset < view.next_offset
        is_expired = added.end_offset < view.log_start_offset
        if not is_within or is_expired or _is_dead(pending, view, log, rules, now_ms):
            continue
        age, wait = duration(max(now_ms - pending.since_ms, 0)), duration(rules.upload_wait_ms)
        offset = _start_of(view, added.start_offset)
        yield Hold(
            offset=offset,
            why=f"held back from offset {offset} on: brokers began to upload segment"
            f" {added.segment_id} (offsets {added.start_offset} to {added.end_offset}) {age} ago"
            f" and have not finished it; it is given up once others cover it and upload.wait.ms"
            f" ({wait}) has passed",
        )


def _log(view: PartitionView, brokers: BrokerView) -> tuple[BrokerSegment, ...]:
    """The whole segments of brokers that are part of the log, by start offset.

    What a deposed leader uploaded is left out: it may reach beyond the log's newest segment.
    """
    return not_cut_off(finished(brokers, view.log_start_offset), view.lineage)


def _is_dead(
    upload: BrokerSegment,
    view: PartitionView,
    log: Sequence[BrokerSegment],
    rules: Rules,
    now_ms: int,
) -> bool:
    return is_given_up(
        upload, log, view.log_start_offset, wait_ms=rules.upload_wait_ms, now_ms=now_ms
    )


def _tail(view: PartitionView, brokers: BrokerView, rules: Rules, now_ms: int) -> Iterator[Hold]:
    """The newest segments that readers find, unless they have waited too long (KIP-354)."""
    margin = rules.tail_margin_segments
    referenced = brokers.referenced_ids
    log = _log(view, brokers)
    starts = sorted(
        (one.added.start_offset for one in log if one.added.segment_id in referenced),
        reverse=True,
    )[:margin]
    if not starts:
        return
    first = _start_of(view, starts[-1])
    waiting = [
        segment.start_offset
        for segment in view.segments
        if segment.start_offset >= first and not is_overdue(segment, rules, now_ms)
    ]
    if waiting:
        yield Hold(
            offset=waiting[0],
            why=f"held back from offset {waiting[0]} on: a new leader may upload the newest"
            f" segment again (tail.margin.segments={margin})",
        )


def _start_of(view: PartitionView, offset: int) -> int:
    """The start of the live segment that covers an offset, or the first one's."""
    below = (segment.start_offset for segment in view.segments if segment.start_offset <= offset)
    return max(below, default=view.segments[0].start_offset)

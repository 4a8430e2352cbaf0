"""The check of what is published: batches that were decided, with one to three changes.

The plain check goes offset by offset, and knows nothing of folds, ranges or look-ups.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any, Final, NamedTuple

from tests.compaction.broker_events import FINISHED, GONE, LISTED, OTHER_KEY, STARTED
from tests.compaction.looks import own
from tests.compaction.publishing.drawn_partitions import drawn_partition
from tests.faults.malformed.malformed_bytes import interesting
from tests.faults.malformed.malformed_metadata_parsers import plain_meaning
from tests.faults.malformed.malformed_outcome import Outcome, Parser, WrongAnswer, must_equal
from tierfold.compaction.brokers.broker_view import Naming
from tierfold.compaction.brokers.event_bytes import encode
from tierfold.compaction.brokers.events import Event, SegmentAdded, SegmentState, SegmentUpdated
from tierfold.compaction.model.segment_ids import mark_of
from tierfold.compaction.model.segments import LeaderEpoch
from tierfold.compaction.publishing.deletions import next_deletion
from tierfold.compaction.publishing.event_check import Checked, checked
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.replacements import started_event
from tierfold.compaction.publishing.steps import Send

_LOOKS: Final = 200


class Batch(NamedTuple):
    """What is to be sent after a look."""

    look: Look
    events: tuple[Event, ...]


@cache
def _decided() -> tuple[Batch, ...]:
    """Batches that the decision sends."""
    return tuple(batch for seed in range(_LOOKS) for batch in _decided_of(Random(seed)))


def _decided_of(rng: Random) -> Iterator[Batch]:
    partition = drawn_partition(rng)
    for _ in range(8):
        look = partition.look()
        step: Any = next_step(look)
        if not isinstance(step, Send) and rng.random() < 0.7:
            step = next_deletion(look)
        if isinstance(step, Send):
            yield Batch(look, step.events)
        if not partition.taken(step):
            partition.surprised()


def changed_batch(rng: Random) -> Batch:
    """A batch that was decided, with up to three changes; some are still allowed."""
    look, events = rng.choice(_decided())
    changed = list(events)
    for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 3))):
        change = rng.choice(_CHANGES)
        if changed or change is _added:
            change(changed, look, rng)
    if rng.random() < 0.1:
        bytes_max = 61 + rng.randrange(len(changed) + 1) * rng.choice((80, 120, 160, 200))
        look = replace(look, limits=replace(look.limits, batch_bytes_max=bytes_max))
    return Batch(look, tuple(changed))


def _removed(events: list[Event], look: Look, rng: Random) -> None:
    del events[rng.randrange(len(events))]


def _moved(events: list[Event], look: Look, rng: Random) -> None:
    event = events.pop(rng.randrange(len(events)))
    events.insert(rng.randrange(len(events) + 1), event)


def _repeated(events: list[Event], look: Look, rng: Random) -> None:
    events.insert(rng.randrange(len(events) + 1), rng.choice(events))


def _added(events: list[Event], look: Look, rng: Random) -> None:
    """Any event of a segment that the row or brokers have."""
    segments = list(look.view.segments.values())
    live = [one for one in look.row.segments if not one.is_named_by_brokers]
    if live and rng.random() < 0.3:
        event: Event = started_event(look.row.key, rng.choice(live), look.now_ms)
    elif segments:
        segment, state = rng.choice(segments), rng.choice((FINISHED, LISTED, GONE, STARTED))
        metadata = segment.custom_metadata
        ids = (segment.added.key, segment.added.segment_id)
        event = SegmentUpdated(*ids, -1, look.now_ms, metadata, state)
    else:
        return
    events.insert(rng.randrange(len(events) + 1), event)


def _of_another_look(events: list[Event], look: Look, rng: Random) -> None:
    events.append(rng.choice(rng.choice(_decided()).events))


def _field_changed(events: list[Event], look: Look, rng: Random) -> None:
    place = rng.randrange(len(events))
    event = events[place]
    name = rng.choice(event._fields)
    values = {
        "key": lambda: rng.choice((OTHER_KEY, replace(event.key, topic="."), replace(
            event.key, topic_id=rng.choice(("", "x", "T" * 21 + "B"))))),
        "segment_id": lambda: _id(look, rng),
        "custom_metadata": lambda: rng.choice((None, b"", b"x", bytes(300))),
        "leader_epochs": lambda: _epochs(getattr(event, "leader_epochs", ()), rng),
        "is_transaction_index_empty": lambda: rng.random() < 0.5,
        "has_unknown_fields": lambda: True,
        "state": lambda: rng.choice((*SegmentState, *SegmentState, 4, -1, 256)),
    }
    drawn = values.get(name, lambda: _number(getattr(event, name), rng))()
    events[place] = event._replace(**{name: drawn})


def _id(look: Look, rng: Random) -> str:
    ids = sorted({*look.view.segments, *look.row.named_ids})
    strange = ("", "x" * 22, "A" * 21 + "B", "ä" * 22, own("other"), own("foreign", 77))
    return rng.choice((*rng.choices(ids or strange, k=3), rng.choice(strange)))


def _number(value: int, rng: Random) -> int:
    if rng.random() < 0.5:
        return value + rng.choice((-10, -1, 1, 5))
    return rng.choice((-1, interesting("i", rng), interesting("q", rng), 2**63))


def _epochs(epochs: tuple[LeaderEpoch, ...], rng: Random) -> tuple[LeaderEpoch, ...]:
    more = LeaderEpoch(epoch=rng.randrange(9), start_offset=rng.randrange(-1, 70))
    return rng.choice(((), epochs[1:], epochs[::-1], (*epochs, more), (*epochs, *epochs)))


_CHANGES: Final[tuple[Callable[[list[Event], Look, Random], None], ...]] = (
    *(_removed, _moved, _repeated, _added, _added, _of_another_look),
    *(_field_changed, _field_changed, _field_changed),
)


@dataclass(slots=True)
class _Known:
    """What brokers have of a segment."""

    added: SegmentAdded
    state: int
    noted: bytes | None
    since_ms: int

    @property
    def offsets(self) -> set[int]:
        return set(range(self.added.start_offset, self.added.end_offset + 1))


_TAKEN: Final = {
    (None, STARTED, True),
    (STARTED, STARTED, True),
    *((before, FINISHED, False) for before in (STARTED, FINISHED)),
    *((before, LISTED, False) for before in (STARTED, FINISHED, LISTED)),
    (LISTED, GONE, False),
}
"""The state before, the state that an event gives, and whether the event adds the segment."""


class _PlainCheck:
    """Whether events are allowed, one after the other."""

    def __init__(self, look: Look) -> None:
        self.look = look
        self.live = {one.segment_id: one for one in look.row.segments}
        self.retired = {one.segment.segment_id for one in look.row.retired}
        self.known = {
            one: _Known(its.added, its.state, its.custom_metadata, its.since_ms)
            for one, its in look.view.segments.items()
        }

    def allows(self, event: Event) -> bool:
        if not _is_readable(event) or event.broker_id != -1 or event.key != self.look.row.key:
            return False
        known = self.known.get(event.segment_id)
        is_added = isinstance(event, SegmentAdded)
        state = STARTED if isinstance(event, SegmentAdded) else event.state
        if (known.state if known else None, state, is_added) not in _TAKEN:
            return False
        if isinstance(event, SegmentAdded):
            if not self._may_start(event, known):
                return False
            self.known[event.segment_id] = _Known(event, STARTED, None, self.look.now_ms)
            return True
        if known is None or event.custom_metadata != known.noted:
            return False
        rules = {FINISHED: self._may_finish, LISTED: self._may_list, GONE: self._may_forget}
        if not rules[event.state](event.segment_id, known):
            return False
        known.state, known.since_ms = event.state, self.look.now_ms
        if event.state == GONE:
            del self.known[event.segment_id]
        return True

    def _may_start(self, event: SegmentAdded, known: _Known | None) -> bool:
        look, segment = self.look, self.live.get(event.segment_id)
        if segment is None or not segment.written_by_run:
            return False
        mark = mark_of(event.segment_id)
        ours = (
            segment.own_start_offset,
            segment.end_offset,
            segment.max_timestamp_ms,
            segment.leader_epochs,
            segment.log_bytes,
            None,
            not segment.has_transaction_index,
        )
        is_same = known is None or _contents(known.added) == ours
        is_new = known is not None or look.naming[event.segment_id] == Naming.NEVER_NAMED
        is_marked = mark is not None and mark.fingerprint == look.fingerprint
        is_as_in_row = _contents(event) == ours and is_marked
        return is_as_in_row and is_same and is_new and self._is_ours(event)

    def _is_ours(self, added: SegmentAdded) -> bool:
        """Whether each offset is of the leader epoch that wrote it in the log."""
        return all(
            _epoch_at(added.leader_epochs, offset) == _epoch_at(self.look.lineage, offset)
            for offset in range(added.start_offset, added.end_offset + 1)
        )

    def _read(self) -> Iterator[tuple[str, set[int]]]:
        """The offsets of each segment that is finished, of the log, and not about to go."""
        for one, its in self.known.items():
            is_over = its.added.end_offset < self.look.log_start
            is_read = its.state == FINISHED and not is_over
            if is_read and one not in self.retired and self._is_ours(its.added):
                yield one, its.offsets

    def _may_finish(self, segment_id: str, known: _Known) -> bool:
        is_upload = mark_of(segment_id) is None
        if segment_id in self.retired or not self._is_ours(known.added):
            return False
        if is_upload or known.state == FINISHED:
            is_known = is_upload or segment_id in self.live
            return is_known and known.state == FINISHED
        is_alone = all(not known.offsets & offsets for _, offsets in self._read())
        return segment_id in self.live and is_alone

    def _may_list(self, segment_id: str, known: _Known) -> bool:
        if segment_id not in self.retired:
            return False
        read = set().union(*(offsets for one, offsets in self._read() if one in self.live))
        needed = {offset for offset in known.offsets if offset >= self.look.log_start}
        return known.state == LISTED or not self._is_ours(known.added) or needed <= read

    def _may_forget(self, segment_id: str, known: _Known) -> bool:
        is_past = known.since_ms + self.look.limits.grace_ms <= self.look.now_ms
        return segment_id in self.retired and segment_id not in self.look.present and is_past


def _contents(added: SegmentAdded) -> tuple[Any, ...]:
    start, end, _, max_timestamp, _, *rest, _ = added[2:]
    return start, end, max_timestamp, *rest


def _epoch_at(epochs: tuple[LeaderEpoch, ...], offset: int) -> int:
    return max((one.epoch for one in epochs if one.start_offset <= offset), default=-1)


def _is_readable(event: Event) -> bool:
    try:
        value = encode(event)
    except (ValueError, struct.error):
        return False
    (key, segment_id, *fields) = event
    if isinstance(event, SegmentAdded):
        fields[5] = [(entry.epoch, entry.start_offset) for entry in event.leader_epochs]
    names = (key.topic, key.topic_id, key.partition, segment_id)
    return plain_meaning(value) == (*names, *fields)


def _checked(batch: Batch) -> Outcome:
    """Check that the two agree, and that brokers read what is allowed."""
    look, events = batch
    plain = _PlainCheck(look)
    is_allowed = bool(events) and all(map(plain.allows, events))
    found = checked(look, events)
    if isinstance(found, Checked):
        size = 61 + sum(len(value) + 32 for value in found.values)
        must_equal(is_allowed and size <= look.limits.batch_bytes_max, True)
        must_equal(found.values, tuple(map(encode, events)))
        return Outcome.RIGHT
    if not found.why.strip():
        raise WrongAnswer(f"no reason: {found}")
    size = 61 + sum(len(encode(event)) + 32 for event in events) if is_allowed else 0
    must_equal(is_allowed and size <= look.limits.batch_bytes_max, False)
    return Outcome.REFUSED


EVENT_PARSERS: Final = (
    Parser(name="published events", made=changed_batch, checked=_checked, share=10),
)

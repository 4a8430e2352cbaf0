"""Events of brokers' metadata: made in a word, or drawn at random, invalid ones included."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, Final

from tests.compaction.builders import KEY, segment_id
from tierfold.compaction.brokers.broker_view import BrokerView
from tierfold.compaction.brokers.event_bytes import encode
from tierfold.compaction.brokers.events import Event, SegmentAdded, SegmentState, SegmentUpdated
from tierfold.compaction.brokers.metadata_fold import MetadataFold, MetadataRecord
from tierfold.compaction.model.segments import LeaderEpoch

STARTED, FINISHED, LISTED, GONE = SegmentState
OTHER_KEY: Final = replace(KEY, partition=4)
CUSTOM: Final = (None, b"", b"\x00", b"place", bytes(300))


def added(name: object, start_offset: int, end_offset: int, **fields: Any) -> SegmentAdded:
    """A segment enters the metadata; of epoch 0 unless `epochs` says otherwise, a dict."""
    epochs = fields.pop("epochs", {0: start_offset})
    event = SegmentAdded(
        key=KEY,
        segment_id=segment_id(name),
        start_offset=start_offset,
        end_offset=end_offset,
        broker_id=1,
        max_timestamp_ms=500,
        event_timestamp_ms=600,
        leader_epochs=tuple(
            LeaderEpoch(epoch=epoch, start_offset=start) for epoch, start in epochs.items()
        ),
        size_bytes=1000,
        custom_metadata=None,
        is_transaction_index_empty=True,
    )
    return event._replace(**fields)


def updated(name: object, state: SegmentState, **fields: Any) -> SegmentUpdated:
    """A segment changes its state."""
    event = SegmentUpdated(KEY, segment_id(name), 1, 700, None, state)
    return event._replace(**fields)


def uploaded(name: object, start_offset: int, end_offset: int, **fields: Any) -> list[Event]:
    """A segment enters the metadata, and its upload is finished."""
    return [added(name, start_offset, end_offset, **fields), updated(name, FINISHED)]


def records(*events: Event | bytes | None, begin: int = 0) -> list[MetadataRecord]:
    """Records of metadata partition 0, without keys; their timestamps are 1000 + their offsets."""
    values = (encode(event) if isinstance(event, tuple) else event for event in events)
    return [
        MetadataRecord(0, offset, 1000 + offset, value, None)
        for offset, value in enumerate(values, begin)
    ]


def view(*events: Event | bytes | None) -> BrokerView:
    """What brokers have of `KEY` after these records, in the only metadata partition."""
    fold = MetadataFold(1)
    fold.apply(records(*events))
    return fold.view(KEY)


def drawn_topic(rng: Random) -> list[Event]:
    """Events of one or two partitions, whose segments overlap in many ways; many are invalid."""
    events: list[Event] = []
    names, hostility = range(rng.choice((2, 4, 8))), rng.choice((0.0, 0.1, 0.4))
    keys = rng.choice(((KEY,), (KEY,), (KEY, OTHER_KEY)))
    last: dict[tuple[Any, int], SegmentState] = {}
    for _ in range(rng.choice((5, 15, 40))):
        key, name = rng.choice(keys), rng.choice(names)
        state = last.get((key, name))
        if rng.random() < hostility:
            wanted = rng.choice((None, *SegmentState))
        else:
            wanted = _next(state, rng)
        if wanted is None:
            events.append(_drawn_added(name, rng)._replace(key=key))
            last[key, name] = STARTED
        else:
            custom = rng.choice(CUSTOM)
            events.append(updated(name, wanted, key=key, custom_metadata=custom))
            last[key, name] = wanted
    return events


def drawn_event(rng: Random) -> Event:
    """One event, some of which stop brokers."""
    if rng.random() < 0.5:
        return _drawn_added(0, rng)
    return updated(0, rng.choice(tuple(SegmentState)), custom_metadata=rng.choice(CUSTOM))


def _next(state: SegmentState | None, rng: Random) -> SegmentState | None:
    """What a broker would say next; None: it adds the segment."""
    match state:
        case None | SegmentState.DELETE_FINISHED:
            return None
        case SegmentState.COPY_STARTED:
            return rng.choice((FINISHED, FINISHED, FINISHED, LISTED, None))
        case SegmentState.COPY_FINISHED:
            return rng.choice((FINISHED, LISTED))
        case SegmentState.DELETE_STARTED:
            return rng.choice((LISTED, GONE, GONE))


def _drawn_added(name: int, rng: Random) -> SegmentAdded:
    """A segment of few offsets, so that many share a start, an end or an epoch's border."""
    start = rng.randrange(0, 60, 10)
    end = start + rng.choice((0, 9, 9, 9, 19, 39))
    first = rng.randrange(3)
    epochs = {first: start}
    for epoch in range(first + 1, first + rng.choice((1, 1, 2, 3))):
        epochs[epoch] = rng.randrange(start, end + 1)
    if rng.random() < 0.05:
        epochs[rng.randrange(5)] = rng.randrange(-20, 100)
    if rng.random() < 0.02:
        epochs = {}
    if rng.random() < 0.02:
        end = start - rng.choice((1, 5))
    return added(
        name,
        start,
        end,
        epochs=dict(sorted(epochs.items())),
        broker_id=rng.choice((-1, 0, 7)),
        max_timestamp_ms=rng.choice((-1, 0, 10**12)),
        size_bytes=rng.choice((0, 61, 2**31 - 1)),
        custom_metadata=rng.choice(CUSTOM),
        is_transaction_index_empty=rng.random() < 0.5,
    )

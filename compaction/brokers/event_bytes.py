"""The bytes of a record's value in `__remote_log_metadata`, read and written.

A value is a frame version, an api key and a message version, each an unsigned varint, and a
flexible Kafka message. Api 0 adds a segment, api 1 changes the state of one.

Rule: Kafka 4.4 `RemoteLogMetadataSerde`, its messages `RemoteLogSegmentMetadataRecord` and
`RemoteLogSegmentMetadataUpdateRecord`, and the constructor of `RemoteLogSegmentMetadata`. A value
that they refuse ends a broker's metadata consumer: it reads no more, and after a restart only up
to that record again.
"""

from __future__ import annotations

import re
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import lru_cache
from struct import Struct
from typing import Final

from tierfold.compaction.brokers.events import (
    Effect,
    Event,
    NoEvent,
    SegmentAdded,
    SegmentState,
    SegmentUpdated,
)
from tierfold.compaction.model.segments import LeaderEpoch, PartitionKey

_ADDED: Final = b"\x01\x00\x00"
_UPDATED: Final = b"\x01\x01\x00"
_NUMBERS: Final = Struct(">qqiqq")
_EPOCH: Final = Struct(">iq")
_INT32: Final = Struct(">i")
_IDS: Final = Struct(">16siB16sB")
"""A topic id, a partition, no tagged fields, a segment id, no tagged fields."""
_SENT: Final = Struct(">iq")
_STATES: Final = tuple(SegmentState)
_ID_BYTES: Final = 16
_NO_TAGS: Final = b"\x00"
_TRANSACTION_INDEX_EMPTY: Final = b"\x01\x00\x01\x01"
_NAME_BYTES_MAX: Final = 2**15 - 1
_TOPIC: Final = re.compile(rb"(?!\.\.?\Z)[a-zA-Z0-9._-]{1,249}")
"""The names that Kafka allows for topics."""
_STOPS: Final = Effect.STOPS_BROKERS
_OF_NO_PARTITION: Final = NoEvent(Effect.IGNORED, "names a partition that cannot exist")


class _Refused(Exception):
    """Brokers do not read the value; its one argument says why, as in `NoEvent`."""


def decode(value: bytes | None) -> Event | NoEvent:
    """The event that a record's value is, or why it is none; raises nothing."""
    if value is None:
        return NoEvent(_STOPS, "has no value")
    try:
        return _message(value)
    except _Refused as refused:
        return NoEvent(_STOPS, refused.args[0])
    except (IndexError, struct.error):
        return NoEvent(_STOPS, "ends within a field")


def _message(value: bytes) -> Event | NoEvent:
    head = value[:3]
    if head == _UPDATED:
        return _updated(value, 3)
    if head == _ADDED:
        return _added(value, 3)
    frame, at = _short(value, 0, "frame version")
    if frame == 0:
        raise _Refused("has frame version 0")
    if frame != 1:
        return NoEvent(Effect.UNKNOWN, f"has frame version {frame}")
    api, at = _short(value, at, "api key")
    version, at = _short(value, at, "message version")
    if api not in (0, 1):
        return NoEvent(Effect.UNKNOWN, f"has api key {api}")
    if version != 0:
        return NoEvent(Effect.UNKNOWN, f"has version {version} of api key {api}")
    return _updated(value, at) if api else _added(value, at)


def _updated(value: bytes, at: int) -> SegmentUpdated | NoEvent:
    key, segment_id, at, has_unknown = _segment(value, at)
    broker_id, event_timestamp_ms = _SENT.unpack_from(value, at)
    custom_metadata, at = _custom_metadata(value, at + _SENT.size)
    state = _state(value, at)
    tags, at = _tags(value, at + 1)
    _must_end(value, at)
    if key is None:
        return _OF_NO_PARTITION
    return SegmentUpdated(
        key,
        segment_id,
        broker_id,
        event_timestamp_ms,
        custom_metadata,
        state,
        has_unknown or tags > 0,
    )


def _added(value: bytes, at: int) -> SegmentAdded | NoEvent:
    key, segment_id, at, has_unknown = _segment(value, at)
    start_offset, end_offset, broker_id, max_timestamp_ms, event_timestamp_ms = (
        _NUMBERS.unpack_from(value, at)
    )
    leader_epochs, at, has_unknown_in_epochs = _leader_epochs(value, at + _NUMBERS.size)
    (size_bytes,) = _INT32.unpack_from(value, at)
    custom_metadata, at = _custom_metadata(value, at + _INT32.size)
    state = _state(value, at)
    is_empty, tags, at = _added_tags(value, at + 1)
    _must_end(value, at)
    if start_offset < 0:
        raise _Refused(f"adds a segment that starts at offset {start_offset}")
    if end_offset < start_offset:
        raise _Refused(f"adds a segment of offsets {start_offset} to {end_offset}")
    if not leader_epochs:
        raise _Refused("adds a segment without leader epochs")
    if state != SegmentState.COPY_STARTED:
        raise _Refused(f"adds a segment in state {state.name}")
    if key is None:
        return _OF_NO_PARTITION
    return SegmentAdded(
        key,
        segment_id,
        start_offset,
        end_offset,
        broker_id,
        max_timestamp_ms,
        event_timestamp_ms,
        leader_epochs,
        size_bytes,
        custom_metadata,
        is_empty,
        has_unknown or has_unknown_in_epochs or tags > 0,
    )


def _segment(value: bytes, at: int) -> tuple[PartitionKey | None, str, int, bool]:
    """The ids that both messages begin with, the position after, and if unknown fields are there.

    The partition is None if Kafka allows none of that name or number.
    """
    size, at = _length(value, at)
    if not 0 <= size <= _NAME_BYTES_MAX:
        raise _Refused(f"has a topic's name of {size} bytes")
    end = at + size
    topic_id, partition, tags, segment_id, more_tags = _IDS.unpack_from(value, end)
    key = _key(value[at:end], topic_id, partition)
    if tags == more_tags == 0:
        return key, _text(segment_id), end + _IDS.size, False
    tags, start = _tags(value, end + _ID_BYTES + _INT32.size)
    end = start + _ID_BYTES
    # A slice beyond the end is too short, but then reading the tags behind it fails.
    more_tags, at = _tags(value, end)
    return key, _text(value[start:end]), at, tags + more_tags > 0


@lru_cache(maxsize=2**16)
def _key(name: bytes, topic_id: bytes, partition: int) -> PartitionKey | None:
    if partition < 0 or not _TOPIC.fullmatch(name):
        return None
    return PartitionKey(topic=name.decode(), partition=partition, topic_id=_text(topic_id))


def _text(id_bytes: bytes) -> str:
    """An id as Kafka prints it."""
    return urlsafe_b64encode(id_bytes)[:-2].decode("ascii")


def _leader_epochs(value: bytes, at: int) -> tuple[tuple[LeaderEpoch, ...], int, bool]:
    """The leader epochs, the position after them, and whether unknown fields are among them."""
    count, at = _length(value, at)
    if not 0 <= count <= len(value) - at:
        raise _Refused(f"has a list of {count} leader epochs")
    starts: dict[int, int] = {}
    unknown = 0
    for _ in range(count):
        epoch, start = _EPOCH.unpack_from(value, at)
        tags, at = _tags(value, at + _EPOCH.size)
        unknown += tags
        starts[epoch] = start  # Of two entries of an epoch, brokers take the latter.
    epochs = [LeaderEpoch(epoch=epoch, start_offset=start) for epoch, start in starts.items()]
    return tuple(sorted(epochs)), at, unknown > 0


def _custom_metadata(value: bytes, at: int) -> tuple[bytes | None, int]:
    if value[at] == 0:
        return None, at + 1
    size, at = _length(value, at)
    if size < 0:
        return None, at
    # A slice beyond the end is too short, but then reading the state behind it fails.
    return value[at : at + size], at + size


def _state(value: bytes, at: int) -> SegmentState:
    number = value[at]
    if number >= len(_STATES):
        raise _Refused(f"has state {number}")
    return _STATES[number]


def _tags(value: bytes, at: int) -> tuple[int, int]:
    """The number of tagged fields, none of them known, and the position after them."""
    if value[at] == 0:
        return 0, at + 1
    count, at = _tag_count(value, at)
    for _ in range(count):
        _, at = _unsigned_varint(value, at)
        at = _unknown_field_end(value, at)
    return count, at


def _added_tags(value: bytes, at: int) -> tuple[bool, int, int]:
    """Whether the transaction index is empty, the number of unknown fields, the position after."""
    if value[at:] == _TRANSACTION_INDEX_EMPTY:
        return True, 0, len(value)
    count, at = _tag_count(value, at)
    is_empty, unknown = False, 0
    for _ in range(count):
        tag, at = _unsigned_varint(value, at)
        if tag == 0:
            # Kafka reads one byte, whichever length the field has.
            _, at = _unsigned_varint(value, at)
            is_empty = value[at] != 0
            at += 1
        else:
            at = _unknown_field_end(value, at)
            unknown += 1
    return is_empty, unknown, at


def _tag_count(value: bytes, at: int) -> tuple[int, int]:
    count, at = _unsigned_varint(value, at)
    if not 0 <= count <= len(value) - at:
        raise _Refused(f"has {count} tagged fields")
    return count, at


def _unknown_field_end(value: bytes, at: int) -> int:
    size, at = _unsigned_varint(value, at)
    if not 0 <= size <= len(value) - at:
        raise _Refused(f"has a tagged field of {size} bytes")
    return at + size


def _must_end(value: bytes, at: int) -> None:
    if at != len(value):
        raise _Refused(f"has {len(value) - at} bytes after its last field")


def _length(value: bytes, at: int) -> tuple[int, int]:
    """A compact length, which is written plus one; −1 stands for null."""
    number, at = _unsigned_varint(value, at)
    return number - 1, at


def _short(value: bytes, at: int, name: str) -> tuple[int, int]:
    """An unsigned varint that Kafka reads as an int16, wrapping what is below the sign."""
    number, at = _unsigned_varint(value, at)
    if number > 2**15 - 1:
        raise _Refused(f"has {name} {number}")
    return (number + 2**15) % 2**16 - 2**15, at


def _unsigned_varint(value: bytes, at: int) -> tuple[int, int]:
    """A varint of at most five bytes, wrapped to an int32 as Kafka's `ByteUtils` does."""
    byte = value[at]
    if byte < 0x80:
        return byte, at + 1
    number = 0
    for i in range(5):
        byte = value[at + i]
        number |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return (number + 2**31) % 2**32 - 2**31, at + i + 1
    raise _Refused("has a varint of more than five bytes")


def encode(event: Event) -> bytes:
    """The value of an event's record, as Kafka's serializer writes it.

    Raises ValueError if the event has fields that are not known here: they would be lost.
    """
    if event.has_unknown_fields:
        raise ValueError(f"segment {event.segment_id} has fields that are not known here")
    key = event.key
    ids = (
        _compact(key.topic.encode())
        + _id_bytes(key.topic_id)
        + _INT32.pack(key.partition)
        + _NO_TAGS
        + _id_bytes(event.segment_id)
        + _NO_TAGS
    )
    custom_metadata = _compact(event.custom_metadata)
    if isinstance(event, SegmentUpdated):
        sent = _SENT.pack(event.broker_id, event.event_timestamp_ms)
        return _UPDATED + ids + sent + custom_metadata + bytes([event.state]) + _NO_TAGS
    numbers = _NUMBERS.pack(
        event.start_offset,
        event.end_offset,
        event.broker_id,
        event.max_timestamp_ms,
        event.event_timestamp_ms,
    )
    epochs = (_EPOCH.pack(entry.epoch, entry.start_offset) for entry in event.leader_epochs)
    return b"".join(
        (
            _ADDED,
            ids,
            numbers,
            _varint(len(event.leader_epochs) + 1),
            *(epoch + _NO_TAGS for epoch in epochs),
            _INT32.pack(event.size_bytes),
            custom_metadata,
            bytes([SegmentState.COPY_STARTED]),
            _TRANSACTION_INDEX_EMPTY if event.is_transaction_index_empty else _NO_TAGS,
        )
    )


def _id_bytes(text: str) -> bytes:
    return urlsafe_b64decode(f"{text}==")


def _compact(data: bytes | None) -> bytes:
    return b"\x00" if data is None else _varint(len(data) + 1) + data


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)

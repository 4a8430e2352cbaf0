"""The parser of brokers' metadata records, malformed values, and what they mean to Kafka."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from random import Random
from typing import Any, Final

from tests.compaction.broker_events import GONE, KEY, STARTED, drawn_event, records, uploaded
from tests.faults.malformed.malformed_bytes import (
    VARINT_EXTREMES,
    Field,
    corrupted,
    fields_of,
    overwritten,
)
from tests.faults.malformed.malformed_outcome import Outcome, Parser, WrongAnswer, must_equal
from tests.faults.malformed.malformed_reference import Meaningless, must_mean
from tierfold.compaction.brokers.event_bytes import decode, encode
from tierfold.compaction.brokers.events import Effect, NoEvent, SegmentAdded
from tierfold.compaction.brokers.metadata_fold import MetadataFold
from tierfold.storage.kafka.topic_names import is_topic

_NUMBERS_AT: Final = 3 + 1 + len(KEY.topic) + 16 + 4 + 1 + 16 + 1
"""Where the numbers after both ids begin, for topics with names of that length."""
_ADDED_NUMBERS: Final = fields_of("qqiqq")
_VARINTS: Final = (*VARINT_EXTREMES, bytes.fromhex("8180fcff0f"))  # 1 in its lowest 16 bits


def malformed_value(rng: Random) -> bytes:
    """The value of a record, with one to three fields changed; some are still right."""
    value = encode(drawn_event(rng))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        value = rng.choice(_CHANGES)(value, rng)
    return value


def _number_changed(value: bytes, rng: Random) -> bytes:
    fields: list[Field] = [(_NUMBERS_AT + at, form) for at, form in _ADDED_NUMBERS]
    return overwritten(value, [*fields, (3 + 1 + len(KEY.topic) + 16, "i")], rng)


def _byte_changed(value: bytes, rng: Random) -> bytes:
    """Change a byte of the head, of an id or of the end: versions, lengths, states, tags."""
    at = rng.choice((rng.randrange(60), rng.randrange(4), -1, -2, -3))
    if not -len(value) <= at < len(value):
        return value
    changed = bytearray(value)
    changed[at] = rng.choice((0, 1, 2, 3, 4, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(changed)


def _tags_added(value: bytes, rng: Random) -> bytes:
    """Put tagged fields, right or wrong, in place of the byte that says that there are none."""
    at = rng.choice((_NUMBERS_AT - 18, _NUMBERS_AT - 1, len(value) - 1))
    tags = rng.choice(
        (
            b"\x01\x00\x01\x01",
            b"\x01\x00\x01\x00",
            b"\x01\x00\x00\x01",
            b"\x01\x00\x02\x01",
            b"\x02\x00\x01\x01\x05\x02ab",
            b"\x01\x07\x03abc",
            b"\x01\x07\x7fabc",
            b"\x02\x07\x00",
            b"\x01" + rng.choice(VARINT_EXTREMES) + b"\x00",
            b"\x01\x07" + rng.choice(VARINT_EXTREMES),
            rng.choice(VARINT_EXTREMES),
        )
    )
    return value[:at] + tags + value[at + 1 :]


def _length_changed(value: bytes, rng: Random) -> bytes:
    at = rng.choice((0, 1, 2, 3, _NUMBERS_AT + 36, len(value) - 3))
    return value[:at] + rng.choice(_VARINTS) + value[at + 1 :]


_CHANGES: Final[tuple[Callable[[bytes, Random], bytes], ...]] = (
    _number_changed,
    _number_changed,
    _byte_changed,
    _tags_added,
    _length_changed,
    corrupted,
)


class _Message:
    """Reads fields as Kafka's generated classes do; raises `Meaningless` where those throw."""

    def __init__(self, value: bytes) -> None:
        self._value = value
        self._at = 0
        self.unknown = 0
        """Tagged fields that Kafka does not know."""

    @property
    def left(self) -> int:
        return len(self._value) - self._at

    def take(self, size: int) -> bytes:
        must_mean(0 <= size <= self.left)
        self._at += size
        return self._value[self._at - size : self._at]

    def number(self, form: str) -> int:
        (number,) = struct.unpack(f">{form}", self.take(struct.calcsize(f">{form}")))
        return int(number)

    def varint(self) -> int:
        bits = ""
        for _ in range(5):
            byte = self.number("B")
            bits = f"{byte & 0x7F:07b}{bits}"
            if byte < 0x80:
                (number,) = struct.unpack(">i", int(bits[-32:], 2).to_bytes(4, "big"))
                return int(number)
        raise Meaningless("not a varint")

    def short(self) -> int:
        number = self.varint()
        must_mean(number < 2**15)
        (number,) = struct.unpack(">h", (number & 0xFFFF).to_bytes(2, "big"))
        return int(number)

    def id(self) -> str:
        return base64.urlsafe_b64encode(self.take(16)).decode().rstrip("=")

    def nullable(self) -> bytes | None:
        size = self.varint() - 1
        return None if size < 0 else self.take(size)

    def tags(self, known: Callable[[], None] | None = None) -> None:
        count = self.varint()
        must_mean(0 <= count <= self.left)
        for _ in range(count):
            tag, size = self.varint(), self.varint()
            if tag == 0 and known is not None:
                known()
            else:
                self.take(size)
                self.unknown += 1


def plain_meaning(value: bytes) -> tuple[Any, ...] | Effect:
    """What a value means to Kafka: the fields of an event, or its effect on brokers."""
    message = _Message(value)
    try:
        frame = message.short()
        must_mean(frame != 0)
        if frame != 1:
            return Effect.UNKNOWN
        api, version = message.short(), message.short()
        if api not in (0, 1) or version != 0:
            return Effect.UNKNOWN
        return _plain_event(message, api)
    except Meaningless:
        return Effect.STOPS_BROKERS


def _plain_event(message: _Message, api: int) -> tuple[Any, ...] | Effect:
    name = message.nullable()
    must_mean(name is not None and len(name) < 2**15)
    topic_id, partition = message.id(), message.number("i")
    message.tags()
    segment_id = message.id()
    message.tags()
    fields = _plain_added(message) if api == 0 else _plain_updated(message)
    must_mean(message.left == 0)
    topic = (name or b"").decode(errors="replace")
    if partition < 0 or not is_topic(topic):
        return Effect.IGNORED
    return topic, topic_id, partition, segment_id, *fields, message.unknown > 0


def _plain_updated(message: _Message) -> tuple[Any, ...]:
    broker, event_ms = message.number("i"), message.number("q")
    custom, state = message.nullable(), message.number("b")
    message.tags()
    must_mean(0 <= state <= GONE)
    return broker, event_ms, custom, state


def _plain_added(message: _Message) -> tuple[Any, ...]:
    start, end, broker, max_ms, event_ms = (message.number(form) for form in "qqiqq")
    count, epochs = message.varint() - 1, {}
    must_mean(0 <= count <= message.left)
    for _ in range(count):
        epoch = message.number("i")
        epochs[epoch] = message.number("q")
        message.tags()
    size, custom, state = message.number("i"), message.nullable(), message.number("b")
    is_empty = [False]

    def read_empty() -> None:
        is_empty[0] = message.number("b") != 0

    message.tags(read_empty)
    must_mean(0 <= start <= end and len(epochs) > 0 and state == STARTED)
    fields = (start, end, broker, max_ms, event_ms, sorted(epochs.items()), size, custom)
    return *fields, is_empty[0]


def _fields(value: bytes) -> tuple[Any, ...] | Effect:
    """What our parser reads, in the same form."""
    event = decode(value)
    if isinstance(event, NoEvent):
        if not event.why.strip():
            raise WrongAnswer(f"no reason: {event}")
        return event.effect
    (_, _, *fields) = event
    if isinstance(event, SegmentAdded):
        fields[5] = [(entry.epoch, entry.start_offset) for entry in event.leader_epochs]
    return event.key.topic, event.key.topic_id, event.key.partition, event.segment_id, *fields


def _checked(value: bytes) -> Outcome:
    """Check what is read, and that a fold goes on after it and keeps what brokers have."""
    found = _fields(value)
    must_equal(found, plain_meaning(value))
    fold = MetadataFold(1)
    fold.apply(records(*uploaded("a", 0, 9), value, *uploaded("b", 10, 19)))
    view = fold.view(KEY)
    if not isinstance(found, Effect):
        return Outcome.RIGHT
    must_equal(len(view.segments), 2)
    must_equal([reason.offset for reason in view.read_only], [2] * (found != Effect.IGNORED))
    return Outcome.REFUSED


METADATA_PARSERS: Final = (
    Parser(name="metadata records", made=malformed_value, checked=_checked, share=10),
)

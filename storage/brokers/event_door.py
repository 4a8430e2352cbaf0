"""The one door to `__remote_log_metadata`: no other code can write to that topic.

    check      each batch passes `event_check`, against its own look; nothing leads around it
    age        the last statement before the producer gets a batch: its look is not too old
    one batch  librdkafka keeps records until all of them are there, so they go together
    reports    what brokers answered of each record; the next look reads the topic all the same

The producer's linger is as long as a record may wait at all. So nothing is sent before `flush`, and
then all records of a metadata partition go as one record batch. `produce_batch` gives all records
of a batch the same deadline, so librdkafka never drops the first ones of a batch and sends the
rest, which would delete without a replacement. If this process stands still while it queues them,
all are withdrawn.

Rule: PUBLISHING 3.1, 3.2, 3.5 to 3.7; SWAP.md 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tierfold.compaction.brokers.cluster_facts import MetadataTopic
from tierfold.compaction.brokers.events import METADATA_TOPIC, Event
from tierfold.compaction.brokers.metadata_partitions import metadata_partition
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.publishing.event_check import Checked, ForbiddenEvent, checked
from tierfold.compaction.publishing.look import Look
from tierfold.storage.brokers.connection import Connection
from tierfold.storage.brokers.event_pace import EventPace
from tierfold.storage.brokers.send_refusals import DENIED, other_partitions, refusal_of
from tierfold.storage.clock import boot_s, elapsed_s, now_ms, pause

_OPTIONS: Final[Mapping[str, Any]] = {
    "enable.idempotence": True,
    "acks": "all",
    "compression.type": "none",
    "allow.auto.create.topics": False,
    # None of librdkafka's own limits closes a batch: the check has refused what is too large.
    "batch.num.messages": 1_000_000,
    "batch.size": 2**24,
    "message.max.bytes": 2**24,
    "queue.buffering.max.messages": 0,
    "queue.buffering.max.kbytes": 2**21,
}
_LINGER_MS_MAX: Final = 900_000
"""librdkafka's bound of `linger.ms`."""
_FLUSH_S: Final = 0.2
"""A signal is noticed within this."""
_LATE_S: Final = 2.0
"""How much later than its own timeout librdkafka may report a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookTime:
    """When a look was taken, by two clocks."""

    at_ms: int
    """Epoch milliseconds, before the first thing was read."""
    at_boot_s: float
    """`storage.clock.boot_s` then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingBatch:
    """Events that must be one record batch, and the look that they follow from."""

    look: Look
    taken: LookTime
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """All brokers in sync have the events, in order and without a gap."""

    metadata_partition: int
    first_offset: int
    last_offset: int
    """Inclusive."""


@dataclass(frozen=True, slots=True)
class Forbidden:
    """Nothing was sent: the check forbids an event."""

    forbidden: ForbiddenEvent


@dataclass(frozen=True, slots=True)
class TooLate:
    """Nothing was sent: look again, then send what follows from that."""

    why: str
    """A clause."""


@dataclass(frozen=True, slots=True)
class RefusedByBrokers:
    """Brokers took nothing, and will not until the cause is removed: a normal stop."""

    error: TierfoldError


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The events may have arrived or not, or only some of them: look again."""

    why: str
    """A clause."""


SendOutcome: TypeAlias = Sent | Forbidden | TooLate | RefusedByBrokers | Unanswered
"""What became of a batch. Whichever it is, the next step follows from a new look."""


@dataclass(slots=True, kw_only=True)
class _Delivery:
    """One batch on its way."""

    number: int
    """Its place among those of the call."""
    taken: LookTime
    metadata_partition: int
    values: tuple[bytes, ...]
    offsets: list[int | None] = field(default_factory=list)
    """Of the records that brokers have, as they were reported."""
    errors: list[KafkaError] = field(default_factory=list)

    def note(self, error: KafkaError | None, message: Message) -> None:
        """Take the report of a record."""
        if error is None:
            self.offsets.append(message.offset())
        else:
            self.errors.append(error)

    @property
    def sent(self) -> Sent | None:
        """The outcome if each record has the offset after the one before it."""
        first = self.offsets[0] if self.offsets else None
        if first is None or self.offsets != list(range(first, first + len(self.values))):
            return None
        return Sent(
            metadata_partition=self.metadata_partition,
            first_offset=first,
            last_offset=first + len(self.values) - 1,
        )


class EventDoor:
    """Sends events, for one run; only one thread may use it."""

    def __init__(
        self,
        connection: Connection,
        metadata_topic: MetadataTopic,
        *,
        message_timeout_ms: int,
        events_per_second_max: int | None,
    ) -> None:
        """Connect to nothing yet.

        `message_timeout_ms`: how long a look is valid, and then how long a record may be on its
        way; `events_per_second_max`: None: no limit.
        """
        self._connection = connection
        self._partitions = metadata_topic.partitions
        self._timeout_ms = message_timeout_ms
        self._pace = EventPace(events_per_second_max, elapsed_s())
        self._producer: Producer | None = None

    def wait_ms_for(self, events: int) -> int:
        """How long to wait, before the look, until so many events may be sent in one call."""
        return self._pace.wait_ms_for(events, elapsed_s())

    def send(self, batches: Sequence[OutgoingBatch]) -> list[SendOutcome]:
        """Send batches, at most one of each user partition; their outcomes, in the same order.

        Waits until it is the turn of so many events (`wait_ms_for`), and then for the brokers'
        answers, but no longer than a record may be on its way. Batches of different partitions go
        together, those of the same metadata partition one after the other.
        """
        _check_distinct(batches)
        pause(self.wait_ms_for(sum(len(batch.events) for batch in batches)))
        outcomes: dict[int, SendOutcome] = {}
        allowed = []
        for number, batch in enumerate(batches):
            match checked(batch.look, batch.events):
                case ForbiddenEvent() as forbidden:
                    outcomes[number] = Forbidden(forbidden)
                case Checked(values):
                    place = metadata_partition(batch.look.row.key, self._partitions)
                    allowed.append(
                        _Delivery(
                            number=number,
                            taken=batch.taken,
                            metadata_partition=place,
                            values=values,
                        )
                    )
        try:
            for together in _one_of_each_place(allowed):
                if any(isinstance(one, Unanswered) for one in outcomes.values()):
                    why = TooLate("brokers did not answer to a batch before it")
                    outcomes |= dict.fromkeys((one.number for one in together), why)
                    continue
                outcomes |= self._outcomes_of(together)
        except BaseException:
            self._abandon()
            raise
        return [outcomes[number] for number in range(len(batches))]

    def _outcomes_of(self, together: Sequence[_Delivery]) -> dict[int, SendOutcome]:
        """Send what goes to different metadata partitions, and wait for the answers."""
        producer = self._producer or self._opened()
        if not isinstance(producer, Producer):
            return dict.fromkeys((one.number for one in together), producer)
        self._producer = producer
        outcomes: dict[int, SendOutcome] = {}
        queued = []
        for one in together:
            messages = [{"value": value} for value in one.values]
            if why := why_too_late(one.taken, self._timeout_ms):
                outcomes[one.number] = TooLate(why)
                continue
            count = producer.produce_batch(
                METADATA_TOPIC, messages, partition=one.metadata_partition, on_delivery=one.note
            )
            queued.append(one)
            if count != len(messages):
                return outcomes | self._withdrawn(queued, _not_queued(messages))
        self._pace.spend(sum(len(one.values) for one in queued), elapsed_s())
        for one in queued:
            if why := why_too_late(one.taken, self._timeout_ms):
                return outcomes | self._withdrawn(queued, f"while it was being sent, {why}")
        fatal = self._flush(producer)
        answered = {one.number: self._outcome_of(one, fatal) for one in queued}
        if not all(isinstance(outcome, Sent) for outcome in answered.values()):
            self._abandon()  # After an error, records may still be with it.
        return outcomes | answered

    def _opened(self) -> Producer | RefusedByBrokers | Unanswered:
        """A producer that knows the topic.

        Otherwise its first records would wait elsewhere in librdkafka, and enter the queue of their
        partition one by one while it is being sent.
        """
        timeout_ms = min(self._connection.settings.timeout_ms, self._timeout_ms)
        producer = Producer(
            self._connection.options(
                {
                    **_OPTIONS,
                    "message.timeout.ms": self._timeout_ms,
                    "linger.ms": min(self._timeout_ms - 1, _LINGER_MS_MAX),
                    "request.timeout.ms": timeout_ms,
                    "socket.timeout.ms": timeout_ms,
                }
            ),
            logger=self._connection.logger,
        )
        try:
            topic = producer.list_topics(METADATA_TOPIC, timeout_ms / 1000).topics[METADATA_TOPIC]
        except KafkaException as error:
            return self._silent(_error_in(error))
        if topic.error is not None:
            return RefusedByBrokers(refusal_of(self._connection, topic.error))
        if len(topic.partitions) != self._partitions:
            return RefusedByBrokers(other_partitions(len(topic.partitions), self._partitions))
        return producer

    def _flush(self, producer: Producer) -> KafkaError | None:
        """Send what is queued, and wait until all of it is reported; the error that ended it."""
        began_s = elapsed_s()
        try:
            while producer.flush(_FLUSH_S):
                if elapsed_s() - began_s > self._timeout_ms / 1000 + _LATE_S:
                    break
        except KafkaException as error:
            return _error_in(error)
        except SystemError as error:  # A report came while the other one was raised.
            if not isinstance(error.__cause__, KafkaException):
                raise
            return _error_in(error.__cause__)
        return None

    def _outcome_of(self, one: _Delivery, fatal: KafkaError | None) -> SendOutcome:
        if one.sent is not None:
            return one.sent
        if fatal is not None:
            if fatal.code() in DENIED:
                return RefusedByBrokers(refusal_of(self._connection, fatal))
            return Unanswered(f"the producer ended ({fatal.name()})")
        is_answered = all(error.code() > 0 for error in one.errors)  # By brokers.
        if is_answered and len(one.errors) == len(one.values):
            return RefusedByBrokers(refusal_of(self._connection, one.errors[0]))
        if len(one.offsets) == len(one.values):
            first, last = one.offsets[0], one.offsets[-1]
            return Unanswered(f"its records are not in a row at offsets {first} to {last}")
        return self._silent(*one.errors)

    def _silent(self, *reported: KafkaError) -> Unanswered:
        error = self._connection.silence()
        names = sorted({one.name() for one in reported})
        return Unanswered(f"{error.where}: {error.what} ({', '.join(names) or 'no report'})")

    def _withdrawn(self, queued: Sequence[_Delivery], why: str) -> dict[int, SendOutcome]:
        self._abandon()
        return dict.fromkeys((one.number for one in queued), Unanswered(why))

    def _abandon(self) -> None:
        """Drop what is queued and the producer; the next batch gets a new one."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()


def why_too_late(taken: LookTime, message_timeout_ms: int) -> str:
    """Why nothing may be sent by a look of this time, a clause; empty: it may."""
    ages_ms = (now_ms() - taken.at_ms, (boot_s() - taken.at_boot_s) * 1000)
    if min(ages_ms) < 0:
        return "this machine's clock went back"
    if max(ages_ms) > message_timeout_ms:
        limit = f"the {message_timeout_ms} ms of message.timeout.ms"
        return f"its look became {max(ages_ms):.0f} ms old, more than {limit}"
    return ""


def _check_distinct(batches: Sequence[OutgoingBatch]) -> None:
    keys = [batch.look.row.key for batch in batches]
    if len(set(keys)) < len(keys):
        raise ValueError("of each partition one batch; it must be read back before the next")


def _one_of_each_place(deliveries: Sequence[_Delivery]) -> Iterator[list[_Delivery]]:
    """Lists of deliveries, in each at most one to a metadata partition, in their order."""
    waiting = list(deliveries)
    while waiting:
        firsts: dict[int, _Delivery] = {}
        for one in waiting:
            firsts.setdefault(one.metadata_partition, one)
        yield list(firsts.values())
        waiting = [one for one in waiting if firsts[one.metadata_partition] is not one]


def _not_queued(messages: Sequence[Mapping[str, Any]]) -> str:
    names = {one["_error"].name() for one in messages if "_error" in one}
    return f"not all of its records could be queued ({', '.join(sorted(names))})"


def _error_in(exception: KafkaException) -> KafkaError:
    error: KafkaError = exception.args[0]
    return error

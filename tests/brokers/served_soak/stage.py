"""A cluster that is soaked: its tier, topics that `compact --publish` works on, and comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from tests.brokers.cluster import KafkaCluster
from tests.brokers.served_reads import assert_served_as
from tests.brokers.topics import Topic
from tests.brokers.uploaded_log import UploadedLog
from tests.jobs.commands import ALWAYS, Ran, tierfold
from tests.oracle.kafka_lab import KafkaLab
from tierfold.storage.brokers.event_door import EventDoor, OutgoingBatch, SendOutcome

RUNS_MAX: Final = 3
"""So many runs at most complete what one began."""
_DONE: Final = frozenset({"compacted", "published", "nothing_to_do"})


@dataclass(slots=True, kw_only=True)
class Soaked:
    """A topic whose first partition is compacted and published."""

    topic: Topic
    log: UploadedLog
    entries: list[Mapping[str, Any]] = field(default_factory=list)
    """Of the documents of its runs."""
    began_ms: list[int] = field(default_factory=list)
    """When each pass of tierfold began."""

    @property
    def cleaned_below(self) -> int:
        """The end of what was compacted last, or 0."""
        ends = [entry["next_offset"] for entry in self.entries if entry["outcome"] == "compacted"]
        return int(ends[-1]) if ends else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A running cluster, Kafka's own classes beside it, and a folder for what is kept."""

    kafka: KafkaCluster
    lab: KafkaLab
    folder: Path
    rounds: int
    """How often scenarios that go on for a while swap."""
    minutes: float
    """How long the scenario under load goes on."""
    say: Callable[[str], None]

    def soaked(self, topic: Topic) -> Soaked:
        """Keep what is uploaded of a topic, from now on."""
        log = UploadedLog(topic.folder(), self.lab, self.folder / topic.id)
        return Soaked(topic=topic, log=log)

    def compact(self, soaked: Soaked, *more: str) -> Ran:
        """Compact and publish a topic once, whatever comes of it."""
        ran = tierfold(
            "compact",
            str(self.kafka.tier),
            *ALWAYS,
            *("--topic", soaked.topic.name, "--bootstrap-server", self.kafka.servers),
            *("--publish", "--json", *more),
        )
        entries = ran.entries if ran.stdout else []
        for entry in entries:
            if entry["topic_id"] == soaked.topic.id:
                soaked.entries.append(entry)
                if entry["outcome"] == "compacted":
                    soaked.began_ms.append(ran.document["started_at_ms"])
        return ran

    def complete(self, soaked: Soaked) -> int:
        """Compact and publish until nothing is left to do; return how many runs it took.

        Fails if one of them refuses the partition, or the last one did not end well.
        """
        for number in range(1, RUNS_MAX + 1):
            ran = self.compact(soaked)
            assert ran.stdout, brief(ran)
            (entry,) = (one for one in ran.entries if one["topic_id"] == soaked.topic.id)
            assert entry["outcome"] != "refused", brief(ran)
            if entry["outcome"] in _DONE and entry["publishing"] in {"", "published"}:
                return number
        raise AssertionError(f"{RUNS_MAX} runs did not complete {soaked.topic.name}: {brief(ran)}")

    def assert_served(self, soaked: Soaked, *, log_start: int = 0, starts: int = 5) -> None:
        """Fail unless consumers read what Kafka's own cleaner leaves of all uploads."""
        expected = soaked.log.expected(
            cleaned_below=soaked.cleaned_below, passes_ms=soaked.began_ms[-1:]
        )
        if log_start:
            expected = expected.from_log_start(log_start)
        assert_served_as(self.kafka, self.lab, soaked.topic, expected, starts=starts)

    def restart(self) -> None:
        """Restart the first broker."""
        self.kafka.restart(self.kafka.brokers[0])


def brief(ran: Ran) -> str:
    """What a failure shows of a run."""
    entries = ran.entries if ran.stdout else []
    ends = [f"{one['outcome']} ({one['publishing']}): {one['reason']}" for one in entries]
    return "\n".join((f"exit code {ran.code}", *ends, ran.stderr))


@contextmanager
def before_send(number: int, action: Callable[[], object]) -> Iterator[list[int]]:
    """Do something right before the n-th call that sends events, counted from 1.

    The list gets the number of events of each call; one beyond the last call is never reached.
    """
    sends: list[int] = []
    plain = EventDoor.send

    def send(door: EventDoor, batches: Sequence[OutgoingBatch]) -> list[SendOutcome]:
        sends.append(sum(len(batch.events) for batch in batches))
        if len(sends) == number:
            action()
        return plain(door, batches)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(EventDoor, "send", send)
        yield sends


@contextmanager
def after_send(number: int, action: Callable[[], object]) -> Iterator[list[int]]:
    """Do something right after the n-th call that sends events, before it is read back."""
    sends: list[int] = []
    plain = EventDoor.send

    def send(door: EventDoor, batches: Sequence[OutgoingBatch]) -> list[SendOutcome]:
        outcomes = plain(door, batches)
        sends.append(sum(len(batch.events) for batch in batches))
        if len(sends) == number:
            action()
        return outcomes

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(EventDoor, "send", send)
        yield sends

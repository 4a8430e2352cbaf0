"""Signals a run at one instant of its publication, counted from its start.

A run passes these places, most of them several times:

    claim, look, replay, probe, note, send, produce, flush, commit

A look has a `replay` after it has read the row; the first one is the survey's. A `probe` is the
record that `rebuild` reads at the log start. `produce` is the last thing before the client gets a
batch, and `flush` comes after the last check of its age, while all records wait in the client. An
instant is before or after one of these calls.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest

from tierfold.jobs.context.metadata_replay import MetadataReplay
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.publishing import joint_sends, publishing_run, rebuild_looks
from tierfold.storage.brokers import event_door
from tierfold.storage.brokers.event_door import EventDoor


class Instant(NamedTuple):
    """Before or after a call."""

    place: str
    number: int
    """Calls of a place count from 1."""
    is_after: bool

    def __str__(self) -> str:
        return f"{'after' if self.is_after else 'before'} {self.place} {self.number}"

    @classmethod
    def parsed(cls, text: str) -> Self:
        """The instant that is written so."""
        when, place, number = text.split()
        return cls(place, int(number), when == "after")


@dataclass(slots=True, kw_only=True)
class Instants:
    """The instants that this process passes."""

    passed: Path
    """A line is added for each."""
    at: Instant | None
    """Where the process gets the signal; None: nowhere."""
    signum: signal.Signals
    calls: Counter[str] = field(default_factory=Counter)

    def around(self, place: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The call, with an instant before and after it."""

        def counted(*arguments: Any, **named: Any) -> Any:
            self.calls[place] += 1
            number = self.calls[place]
            self._pass(Instant(place, number, is_after=False))
            answer = call(*arguments, **named)
            self._pass(Instant(place, number, is_after=True))
            return answer

        return counted

    def _pass(self, instant: Instant) -> None:
        with self.passed.open("a", encoding="utf-8") as file:
            file.write(f"{instant}\n")
        if instant == self.at:
            os.kill(os.getpid(), self.signum)


@contextmanager
def watched(instants: Instants) -> Iterator[None]:
    """Count the calls of this process."""

    class CountedProducer(event_door.Producer):  # type: ignore[misc]
        """A client whose `produce_batch` is counted."""

        produce_batch = instants.around("produce", event_door.Producer.produce_batch)

    with pytest.MonkeyPatch.context() as patch:
        for place, owner, name in (
            ("claim", HeldPartitions, "claim"),
            ("commit", HeldPartitions, "commit"),
            ("look", joint_sends, "looks_at"),
            ("replay", MetadataReplay, "go_on"),
            ("probe", rebuild_looks, "read_log_start"),
            ("note", publishing_run, "note_service"),
            ("send", EventDoor, "send"),
            ("flush", EventDoor, "_flush"),
        ):
            patch.setattr(owner, name, instants.around(place, getattr(owner, name)))
        patch.setattr(event_door, "Producer", CountedProducer)
        yield


def instants_in(passed: Path) -> list[Instant]:
    """The instants that a run has passed, in their order."""
    lines = passed.read_text(encoding="utf-8").splitlines() if passed.exists() else []
    return [Instant.parsed(line) for line in lines]

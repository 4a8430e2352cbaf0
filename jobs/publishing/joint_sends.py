"""Takes looks at some claimed partitions together, sends what follows, and looks again.

    look → what follows (`_take`) → events through the one door → look: brokers took them → …

What was sent stays, however this ends. The next run derives the rest from its own look.

Rule: PUBLISHING 3.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self, TypeAlias

from tierfold.compaction.brokers.events import Event
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.outcomes import Fenced, LostRace, Outcome, Unknown
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.model.wording import counted
from tierfold.compaction.publishing.read_back import unlike_expected
from tierfold.compaction.publishing.steps import (
    Copy,
    Delete,
    Deletion,
    Done,
    Merge,
    Purpose,
    Retire,
    Send,
    Step,
)
from tierfold.jobs.context.stopping import Stopped, check
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.publication import Publication, PublicationState
from tierfold.jobs.publishing.looks import LookAt, Looks, by_discovery, looks_at
from tierfold.jobs.publishing.publishing_run import PublishingRun
from tierfold.jobs.publishing.served_partition import ServedPartition
from tierfold.storage.brokers.event_door import (
    Forbidden,
    LookTime,
    OutgoingBatch,
    RefusedByBrokers,
    SendOutcome,
    Sent,
    TooLate,
    Unanswered,
)
from tierfold.storage.clock import pause

_log: Final = logging.getLogger(__name__)

REPEATS_MAX: Final = 3
"""How often a partition may ask for the same step: each should bring it forward."""

_Asked: TypeAlias = tuple[type[Step | Deletion], Purpose | None, tuple[str, ...]]


@dataclass(slots=True, kw_only=True)
class _Going:
    """A partition on its way."""

    rules: Rules
    events: int = 0
    """How many were sent."""
    expected: tuple[Event, ...] = ()
    """Of the last batch that was acknowledged, until it is read back."""
    asked: Counter[_Asked] = field(default_factory=Counter)
    """How often each step came."""


@dataclass(slots=True, kw_only=True)
class JointSends(ABC):
    """Some partitions on their way, all of them claimed."""

    shared: PublishingRun
    held: HeldPartitions
    going: dict[PartitionKey, _Going]
    ended: dict[PartitionKey, Publication] = field(default_factory=dict)
    """What became of those that left `going`."""

    @classmethod
    def of(
        cls, shared: PublishingRun, held: HeldPartitions, rules: Mapping[PartitionKey, Rules]
    ) -> Self:
        """Partitions that `held` has claimed, before the first look."""
        going = {key: _Going(rules=its) for key, its in rules.items()}
        return cls(shared=shared, held=held, going=going)

    def run(self) -> None:
        """Go on until every partition has ended; raises Stopped, and as `looks_at`."""
        shared = self.shared
        while self.going:
            check()
            if shared.stopped_by:
                self.leave_all(
                    PublicationState.LEFT, f"publishing stopped: {shared.stopped_by}"
                )
                return
            pause(shared.door.wait_ms_for(1))  # Before the look, which would grow old.
            rules = {key: one.rules for key, one in self.going.items()}
            looks = looks_at(self.held, shared.cluster, rules, shared.grace_ms, self._look_at)
            self._take(looks)

    def run_to_its_end(self) -> None:
        """As `run`; a signal or an error of the cluster ends all that are on their way."""
        try:
            self.run()
        except Stopped as stopped:
            self.leave_all(PublicationState.LEFT, f"stopped by {stopped.by}")
        except TierfoldError as error:
            self.shared.stopped_by = str(error)
            self.leave_all(PublicationState.FAILED, str(error))

    @property
    def _look_at(self) -> LookAt:
        """What the looks are from."""
        return by_discovery

    def leave_all(self, state: PublicationState, why: str) -> None:
        """End all partitions that are on their way."""
        for key in [*self.going]:
            self._leave(key, state, why)

    @abstractmethod
    def _take(self, looks: Looks) -> None:
        """Take one step with each partition."""

    def _stuck(self, partition: ServedPartition, step: Step | Deletion) -> str:
        """Why the partition does not go forward, a sentence; empty: it does."""
        going = self.going[partition.key]
        difference = unlike_expected(partition.look.view, going.expected)
        going.expected = ()
        if difference:
            return (
                f"{partition.key}: brokers took events otherwise than they were sent: {difference}."
                " Find out what else writes to the metadata topic"
            )
        asked = _asked(step)
        going.asked[asked] += 1
        if going.asked[asked] > REPEATS_MAX:
            why = "" if isinstance(step, Done) else step.why
            return f"{partition.key}: the same step came {REPEATS_MAX} times: {why}"
        return ""

    def _send(self, sends: Sequence[tuple[ServedPartition, Send]], taken: LookTime) -> None:
        """Send one batch of each partition, and note what became of it."""
        ready: list[tuple[ServedPartition, Send]] = []
        for partition, send in sends:
            if why := self.shared.verified.why_not(partition, send):
                nothing = "Nothing was sent for it, so consumers read what they read before"
                why = f"{why.rstrip('.')}. {nothing}"
                self._leave(partition.key, PublicationState.FAILED, why)
            else:
                ready.append((partition, send))
        check()
        if not ready or not self.shared.may_send():
            return
        outcomes = self.shared.door.send(
            [
                OutgoingBatch(look=partition.look, taken=taken, events=send.events)
                for partition, send in ready
            ]
        )
        for (partition, send), outcome in zip(ready, outcomes, strict=True):
            self._after_send(partition.key, send, outcome)

    def _after_send(self, key: PartitionKey, send: Send, outcome: SendOutcome) -> None:
        match outcome:
            case Sent():
                self.going[key].events += len(send.events)
                self.going[key].expected = send.events
                _log.debug("%s: %s: %s", key, send.purpose, counted(len(send.events), "event"))
            case TooLate() | Unanswered():
                _log.debug("%s: %s", key, outcome.why)  # The next look shows what arrived.
            case Forbidden():
                self._leave(key, PublicationState.FAILED, f"{key}: {outcome.forbidden.why}")
            case RefusedByBrokers():
                self.shared.stopped_by = str(outcome.error)
                self._leave(key, PublicationState.FAILED, str(outcome.error))

    def _leave(self, key: PartitionKey, state: PublicationState, why: str) -> None:
        self._end(key, Publication(state=state, why=why))

    def _end(self, key: PartitionKey, publication: Publication) -> None:
        events = self.going.pop(key).events
        row = self.held.by_key[key].row
        self.ended[key] = replace(publication, events=events, row=row)


def state_after(outcome: Outcome) -> tuple[PublicationState, str]:
    """How a commit ends a publication, and why it does not succeed."""
    match outcome:
        case Fenced() | LostRace():
            return PublicationState.FENCED, "another run took the partition over"
        case Unknown(cause=cause):
            return PublicationState.LEFT, f"the catalog gave no answer ({cause})"
        case _:
            return PublicationState.PUBLISHED, ""


def _asked(step: Step | Deletion) -> _Asked:
    """The step without what differs each time it comes."""
    match step:
        case Send():
            ids = tuple(event.segment_id for event in step.events)
            return type(step), step.purpose, ids
        case Merge() | Retire() | Delete():
            return type(step), None, step.segment_ids
        case Copy():
            return type(step), None, (step.segment_id,)
        case _:
            return type(step), None, ()

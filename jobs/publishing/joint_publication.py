"""Publishes some claimed partitions together: they share looks, commits and sends.

    look → step → events through the one door → look: brokers took them → step …
                → a change of the row          → look → step …
                → done: the row notes that its passes are published

What was sent stays, however this ends. The next run derives the rest from its own look.

Rule: PUBLISHING 3; `compaction.publishing.next_step` decides.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from tierfold.compaction.brokers.events import Event
from tierfold.compaction.commits.commit import NotePublished, proposed
from tierfold.compaction.model.errors import MissingRight
from tierfold.compaction.model.outcomes import Committed, Fenced, LostRace, Outcome, Unknown
from tierfold.compaction.model.passes import is_unpublished
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.model.wording import counted
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.read_back import unlike_expected
from tierfold.compaction.publishing.steps import (
    Copy,
    Done,
    Merge,
    Purpose,
    Refused,
    Retire,
    Send,
    Step,
    Wait,
)
from tierfold.jobs.context.stopping import check
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.publication import Publication, PublicationState
from tierfold.jobs.publishing.looks import Looks, looks_at
from tierfold.jobs.publishing.publishing_run import PublishingRun
from tierfold.jobs.publishing.row_steps import (
    Changed,
    NotChanged,
    StepFailed,
    StepOutcome,
    carried_out,
)
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
from tierfold.storage.catalog.catalog import new_commit_id
from tierfold.storage.clock import pause

_log: Final = logging.getLogger(__name__)

REPEATS_MAX: Final = 3
"""How often a partition may ask for the same step: each should bring it forward."""

_Asked: TypeAlias = tuple[type[Step], Purpose | None, tuple[str, ...]]


@dataclass(slots=True, kw_only=True)
class _Going:
    """A partition that is being published."""

    rules: Rules
    events: int = 0
    """How many were sent."""
    expected: tuple[Event, ...] = ()
    """Of the last batch that was acknowledged, until it is read back."""
    asked: Counter[_Asked] = field(default_factory=Counter)
    """How often each step came."""


@dataclass(slots=True, kw_only=True)
class JointPublication:
    """Some partitions on their way."""

    shared: PublishingRun
    held: HeldPartitions
    going: dict[PartitionKey, _Going]
    ended: dict[PartitionKey, Publication] = field(default_factory=dict)
    """What became of those that left `going`."""

    @classmethod
    def of(
        cls, shared: PublishingRun, held: HeldPartitions, rules: Mapping[PartitionKey, Rules]
    ) -> JointPublication:
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
            self._take(looks_at(self.held, shared.cluster, rules, shared.grace_ms))

    def leave_denied(self, denied: Mapping[str, MissingRight]) -> None:
        """End the partitions of topics for which a right is missing."""
        for key in [key for key in self.going if key.topic in denied]:
            self._leave(key, PublicationState.FAILED, str(denied[key.topic]))

    def leave_all(self, state: PublicationState, why: str) -> None:
        """End all partitions that are on their way."""
        for key in [*self.going]:
            self._leave(key, state, why)

    def _take(self, looks: Looks) -> None:
        """Take one step with each partition."""
        refused = self.shared.refused_setup(looks.seen)
        sends: list[tuple[ServedPartition, Send]] = []
        done: list[ServedPartition] = []
        for key, seen in looks.seen.items():
            if isinstance(seen, Publication):
                self._end(key, self._unless_overtaken(key, seen))
                continue
            step = next_step(seen.look)
            if why := self._stuck(seen, step):
                self._leave(key, PublicationState.FAILED, why)
                continue
            match step:
                case Done():
                    done.append(seen)
                case Wait():
                    self._leave(key, PublicationState.WAITS, step.why)
                case Refused():
                    failed = Publication(state=PublicationState.FAILED, why=f"{key}: {step.why}")
                    self._end(key, self._unless_overtaken(key, failed))
                case _ if key in refused:
                    self._end(key, refused[key])
                case Send():
                    sends.append((seen, step))
                case Merge() | Copy() | Retire():
                    self._after_change(key, carried_out(self.held, seen, step))
        self._note_published(done)
        self._send(sends, looks.taken)

    def _stuck(self, partition: ServedPartition, step: Step) -> str:
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

    def _unless_overtaken(self, key: PartitionKey, publication: Publication) -> Publication:
        """How it ends: perhaps another run changed the row between its reading and the replay.

        Brokers then have what the row, as this run read it, does not name.
        """
        self.held.recheck([key])
        outcome = self.held.by_key[key].outcome
        if isinstance(outcome, Committed):
            return publication
        state, why = _of_outcome(outcome)
        return Publication(state=state, why=why)

    def _note_published(self, done: Sequence[ServedPartition]) -> None:
        """Note in the rows that their passes are published, and end these partitions."""
        at_ms = self.shared.context.clock()
        self.held.commit(
            [
                proposed(
                    partition.look.row,
                    NotePublished(at_ms=at_ms),
                    commit_id=new_commit_id(),
                    at_ms=at_ms,
                )
                for partition in done
                if is_unpublished(partition.look.row)
            ]
        )
        self.held.settle()
        for partition in done:
            state, why = _of_outcome(self.held.by_key[partition.key].outcome)
            self._leave(partition.key, state, why)

    def _after_change(self, key: PartitionKey, outcome: StepOutcome) -> None:
        match outcome:
            case Changed():
                return
            case NotChanged():
                self._leave(key, *_of_outcome(outcome.outcome))
            case StepFailed():
                self._leave(key, PublicationState.FAILED, outcome.why)

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


def _asked(step: Step) -> _Asked:
    """The step without what differs each time it comes."""
    match step:
        case Send():
            ids = tuple(event.segment_id for event in step.events)
            return type(step), step.purpose, ids
        case Merge() | Retire():
            return type(step), None, step.segment_ids
        case Copy():
            return type(step), None, (step.segment_id,)
        case _:
            return type(step), None, ()


def _of_outcome(outcome: Outcome) -> tuple[PublicationState, str]:
    """How a commit ends a publication, and why it does not succeed."""
    match outcome:
        case Fenced() | LostRace():
            return PublicationState.FENCED, "another run took the partition over"
        case Unknown(cause=cause):
            return PublicationState.LEFT, f"the catalog gave no answer ({cause})"
        case _:
            return PublicationState.PUBLISHED, ""

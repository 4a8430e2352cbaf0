"""Publishes some claimed partitions together: they share looks, commits and sends.

    look → step → events (`joint_sends`) → look …
                → a change of the row   → look …
                → done: the row notes that its passes are published

Rule: PUBLISHING 3; `compaction.publishing.next_step` decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tierfold.compaction.deletion.dropped import dropped_in
from tierfold.compaction.model.errors import MissingRight
from tierfold.compaction.model.outcomes import Committed
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.steps import Copy, Done, Merge, Refused, Retire, Send, Wait
from tierfold.jobs.pipeline.publication import Publication, PublicationState
from tierfold.jobs.publishing.joint_sends import JointSends, state_after
from tierfold.jobs.publishing.looks import Looks
from tierfold.jobs.publishing.row_steps import (
    Changed,
    NotChanged,
    StepFailed,
    StepOutcome,
    carried_out,
    note_published,
)
from tierfold.jobs.publishing.served_partition import ServedPartition


@dataclass(slots=True, kw_only=True)
class JointPublication(JointSends):
    """Some partitions that are being published."""

    def leave_denied(self, denied: Mapping[str, MissingRight]) -> None:
        """End the partitions of topics for which a right is missing."""
        for key in [key for key in self.going if key.topic in denied]:
            self._leave(key, PublicationState.FAILED, str(denied[key.topic]))

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

    def _unless_overtaken(self, key: PartitionKey, publication: Publication) -> Publication:
        """How it ends: perhaps another run changed the row between its reading and the replay.

        Brokers then have what the row, as this run read it, does not name.
        """
        self.held.recheck([key])
        outcome = self.held.by_key[key].outcome
        if isinstance(outcome, Committed):
            return publication
        state, why = state_after(outcome)
        return Publication(state=state, why=why)

    def _note_published(self, done: Sequence[ServedPartition]) -> None:
        """Note in the rows that their passes are published, and end these partitions."""
        at_ms = self.shared.context.clock()
        looks = {partition.look.row.key: partition.look for partition in done}
        outcomes = note_published(self.held, [*looks.values()], at_ms)
        for key, outcome in outcomes.items():
            if isinstance(outcome, Changed):
                dropped = dropped_in(looks[key], looks[key].retired_ids)
                state = PublicationState.PUBLISHED
                self._end(key, Publication(state=state, dropped=dropped))
            else:
                self._after_change(key, outcome)

    def _after_change(self, key: PartitionKey, outcome: StepOutcome) -> None:
        match outcome:
            case Changed():
                return
            case NotChanged():
                self._leave(key, *state_after(outcome.outcome))
            case StepFailed():
                self._leave(key, PublicationState.FAILED, outcome.why)

"""Names again what a lost metadata topic had of some claimed partitions, together.

    look → STARTED of all that is lost → look → FINISHED of all that is live → look: all is named
    → the row notes the metadata topic as it is

Before each batch a consumer is to read at the log start once more: a broker may have restarted.
What the row has retired is only started then: `compact` lists it for deletion, as after any swap
that was not wholly sent.

Rule: PUBLISHING 6.6; `compaction.publishing.lost_metadata` decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tierfold.compaction.discovery.view import Refusal
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.publishing.look import PublishingLimits
from tierfold.compaction.publishing.lost_metadata import NameAgain
from tierfold.compaction.publishing.steps import Send
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.stopping import finishing
from tierfold.jobs.context.tier_identity import TierIdentity
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.known_partition import KnownPartition, refusal_of
from tierfold.jobs.pipeline.publication import Publication, PublicationState
from tierfold.jobs.pipeline.survey import READERS
from tierfold.jobs.publishing.joint_sends import JointSends, state_after
from tierfold.jobs.publishing.log_start_probe import LogStartReading
from tierfold.jobs.publishing.looks import LookAt, Looks, Seen, failed_by
from tierfold.jobs.publishing.publishing_run import STAYS, PublishingRun
from tierfold.jobs.publishing.rebuild_looks import (
    RebuildDecision,
    decided,
    rebuild_look,
    topic_configs,
    with_rebuilt_identity,
)
from tierfold.jobs.publishing.row_steps import Changed, NotChanged, StepFailed, note_rebuilt
from tierfold.jobs.publishing.served_partition import ServedPartition


@dataclass(slots=True, kw_only=True)
class JointRebuild(JointSends):
    """Some partitions whose metadata are named again."""

    unserved: dict[PartitionKey, LogStartReading] = field(default_factory=dict)
    """What a consumer got at the log start where it got no record: it is not asked again, as what
    is named meanwhile it may read."""

    @property
    def _look_at(self) -> LookAt:
        return rebuild_look_at

    def _take(self, looks: Looks) -> None:
        """Take one step with each partition."""
        partitions: list[ServedPartition] = []
        for key, seen in looks.seen.items():
            if isinstance(seen, Publication):
                self._end(key, seen)
            else:
                partitions.append(seen)
        with ThreadPoolExecutor(READERS) as pool:
            decisions = [*pool.map(self._decided, partitions)]
        sends: list[tuple[ServedPartition, Send]] = []
        named: list[ServedPartition] = []
        for partition, decision in zip(partitions, decisions, strict=True):
            match self._send_of(partition, decision):
                case Send() as send:
                    sends.append((partition, send))
                case Publication() as ended:
                    self._end(partition.key, ended)
                case None:
                    named.append(partition)
        self._note_rebuilt(named)
        self._send(sends, looks.taken)

    def _note_rebuilt(self, named: Sequence[ServedPartition]) -> None:
        """Note in the rows that all is named again, and end these partitions."""
        at_ms = self.shared.context.clock()
        outcomes = note_rebuilt(self.held, [one.look for one in named], at_ms)
        for key, outcome in outcomes.items():
            match outcome:
                case Changed():
                    self._leave(key, PublicationState.PUBLISHED, "")
                case NotChanged():
                    self._leave(key, *state_after(outcome.outcome))
                case StepFailed():
                    self._leave(key, PublicationState.FAILED, outcome.why)

    def _decided(self, partition: ServedPartition) -> RebuildDecision | Refusal:
        context, key = self.shared.context, partition.key
        configs = topic_configs(context, key.topic)
        if isinstance(configs, Refusal):
            return configs
        try:
            found = decided(context, partition.look, configs, self.unserved.get(key))
        except TierfoldError as error:
            return refusal_of(error, str(key))
        if found.reading is not None and not found.reading.is_served:
            self.unserved[key] = found.reading
        return found.refusal(context, key.topic, configs) or found

    def _send_of(
        self, partition: ServedPartition, decision: RebuildDecision | Refusal
    ) -> Send | Publication | None:
        """What to send for a partition, or how it has ended; None: all is named."""
        if isinstance(decision, Refusal):
            return failed_by(decision.at(self.shared.context.place(partition.key)))
        step = decision.step
        if not isinstance(step, NameAgain):
            return None
        send = Send(purpose=step.purpose, events=step.events, why="the metadata topic was lost")
        if why := self._stuck(partition, send):
            return Publication(state=PublicationState.FAILED, why=why)
        return send


def named_again(
    run: PublishingRun, held: HeldPartitions, rules: Mapping[PartitionKey, Rules]
) -> dict[PartitionKey, Publication]:
    """Name again the partitions of `rules`, which `held` has claimed; what became of each."""
    joint = JointRebuild.of(run, held, rules)
    with finishing(STAYS):
        joint.run_to_its_end()
    return joint.ended


def rebuild_look_at(
    context: RunContext,
    known: KnownPartition,
    identity: TierIdentity,
    rules: Rules,
    limits: PublishingLimits,
) -> Seen:
    """The look at a claimed partition, whichever metadata topic its row notes."""
    found = rebuild_look(context, with_rebuilt_identity(context, known, identity), limits)
    if isinstance(found, Refusal):
        return failed_by(found)
    return ServedPartition(known=known, look=found.look, rules=rules)

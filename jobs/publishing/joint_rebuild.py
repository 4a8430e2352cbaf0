"""Names again what a lost metadata topic had of some claimed partitions, together.

    look → STARTED of all that is lost → look → FINISHED of all that is live → look: all is named

What the row has retired is only started then: `compact` lists it for deletion, as after any swap
that was not wholly sent.

Rule: PUBLISHING 6.6; `compaction.publishing.lost_metadata` decides.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from tierfold.jobs.pipeline.known_partition import KnownPartition, refusal_of
from tierfold.jobs.pipeline.publication import Publication, PublicationState
from tierfold.jobs.pipeline.survey import READERS
from tierfold.jobs.publishing.joint_sends import JointSends
from tierfold.jobs.publishing.log_start_probe import LogStartReading
from tierfold.jobs.publishing.looks import Looks, Seen, failed_by, looks_at
from tierfold.jobs.publishing.rebuild_looks import (
    RebuildDecision,
    decided,
    rebuild_look,
    topic_configs,
)
from tierfold.jobs.publishing.served_partition import ServedPartition


@dataclass(slots=True, kw_only=True)
class JointRebuild(JointSends):
    """Some partitions whose metadata are named again."""

    readings: dict[PartitionKey, LogStartReading] = field(default_factory=dict)
    """What a consumer got at the log start, at the first look that asked it."""

    def _looks(self, rules: Mapping[PartitionKey, Rules]) -> Looks:
        shared = self.shared
        return looks_at(self.held, shared.cluster, rules, shared.grace_ms, _look_at)

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
        for partition, decision in zip(partitions, decisions, strict=True):
            send = self._send_of(partition, decision)
            if isinstance(send, Send):
                sends.append((partition, send))
            else:
                self._end(partition.key, send)
        self._send(sends, looks.taken)

    def _decided(self, partition: ServedPartition) -> RebuildDecision | Refusal:
        context, key = self.shared.context, partition.key
        configs = topic_configs(context, key.topic)
        if isinstance(configs, Refusal):
            return configs
        try:
            found = decided(context, partition.look, configs, self.readings.get(key))
        except TierfoldError as error:
            return refusal_of(error, str(key))
        if found.reading is not None:
            self.readings[key] = found.reading
        return found.refusal(context, key.topic, configs) or found

    def _send_of(
        self, partition: ServedPartition, decision: RebuildDecision | Refusal
    ) -> Send | Publication:
        """What to send for a partition, or how it has ended."""
        if isinstance(decision, Refusal):
            return failed_by(decision.at(self.shared.context.place(partition.key)))
        step = decision.step
        if not isinstance(step, NameAgain):
            return Publication(state=PublicationState.PUBLISHED)
        send = Send(purpose=step.purpose, events=step.events, why="the metadata topic was lost")
        if why := self._stuck(partition, send):
            return Publication(state=PublicationState.FAILED, why=why)
        return send


def _look_at(
    context: RunContext, known: KnownPartition, rules: Rules, limits: PublishingLimits
) -> Seen:
    found = rebuild_look(context, known, limits)
    if isinstance(found, Refusal):
        return failed_by(found)
    return ServedPartition(known=known, look=found.look, rules=rules)

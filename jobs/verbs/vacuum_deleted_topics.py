"""What `vacuum` may delete of partitions whose topic the cluster does not have.

Of a topic that was deleted there it is what tierfold wrote, if the run publishes; nothing is sent,
because no broker reads events of it any longer. All others are left alone.
`compaction.deletion.deleted_topics` decides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tierfold.compaction.commits.moved_tier import place_to_note
from tierfold.compaction.deletion.deleted_topics import (
    DeletedPartition,
    TopicKept,
    deleted_topic_plan,
    topic_kept,
)
from tierfold.compaction.deletion.deletion_plan import (
    DeletionPlan,
    VacuumLimits,
    only_noting,
)
from tierfold.compaction.discovery.identity import OfCluster
from tierfold.compaction.discovery.listing import IncompleteUpload
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionState
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.tier_identity import TierIdentity
from tierfold.jobs.context.timestamps import timestamp_text
from tierfold.jobs.pipeline.known_partition import (
    KnownPartition,
    left_alone,
    refusal_of,
    why_deleted,
)
from tierfold.jobs.pipeline.partition_report import NOTHING_TO_DO
from tierfold.jobs.pipeline.survey import with_identity
from tierfold.jobs.verbs.deletion_candidates import candidates_of
from tierfold.jobs.verbs.vacuum_outcome import PartitionVacuum

_UNPROVEN: Final = (
    "no canary has shown yet that these brokers read this tier; `tierfold compact` reads one"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTopics:
    """The topics that the cluster does not have, and whether something of them may go."""

    context: RunContext
    times: VacuumLimits
    identity: TierIdentity
    is_proven: bool
    """As of the canary."""
    kept: Mapping[str, TopicKept | None]
    """By topic id, as of `topic_kept`."""

    @classmethod
    def among(
        cls,
        context: RunContext,
        known: Iterable[KnownPartition],
        times: VacuumLimits,
        identity: TierIdentity,
        *,
        is_proven: bool,
    ) -> DeletedTopics:
        """Return those of the partitions that are left alone."""
        by_topic: dict[str, list[DeletedPartition]] = defaultdict(list)
        for one in known:
            if one.is_left_alone and one.brokers is not None:
                found = DeletedPartition(row=one.state, brokers=one.brokers)
                by_topic[one.key.topic_id].append(found)
        kept = {topic_id: topic_kept(parts, times) for topic_id, parts in by_topic.items()}
        return cls(context=context, times=times, identity=identity, is_proven=is_proven, kept=kept)

    def vacuum_of(
        self,
        known: KnownPartition,
        row: PartitionState,
        rules: Rules,
        uploads: tuple[IncompleteUpload, ...] | Exception,
    ) -> PartitionVacuum:
        """Return what may be deleted of a partition that is left alone.

        `row`: as it is claimed; `uploads`: what unfinished writes left.
        """
        brokers = known.brokers
        if known.whose is not OfCluster.DELETED or brokers is None or not self.times.publishes:
            return _nothing(row, left_alone(known))
        if why := self._why_kept(known, rules):
            return _nothing(row, f"left alone: {why_deleted(known)}; {why}")
        if isinstance(uploads, Exception):
            why = refusal_of(uploads, str(known.key)).sentence
            return _nothing(row, f"left alone: {why_deleted(known)}; {why}")
        if place := place_to_note(row, self.identity.binding):
            plan = only_noting(row, place)
        else:
            plan = deleted_topic_plan(row, brokers, known.listed, uploads, self.times)
        if plan.is_nothing:
            return _nothing(row, f"left alone: {why_deleted(known)}")
        candidates = tuple(candidates_of(self.context, known.listed, plan))
        return PartitionVacuum(deletion=plan, row=row, candidates=candidates, rules=rules)

    def _why_kept(self, known: KnownPartition, rules: Rules) -> str:
        """Why nothing of a deleted topic may go, a clause; empty: it may."""
        kept = self.kept[known.key.topic_id]
        if (refusal := with_identity(known, self.identity).refusal) is not None:
            return refusal.sentence
        if not rules.publish:
            return f"publish is false in the settings of topic {known.key.topic}"
        if kept is not None:
            until = "" if kept.until_ms is None else f", until {timestamp_text(kept.until_ms)}"
            return f"{kept.why}{until}"
        return "" if self.is_proven else _UNPROVEN


def _nothing(row: PartitionState, why: str) -> PartitionVacuum:
    deletion = DeletionPlan(key=row.key)
    return PartitionVacuum(deletion=deletion, row=row, outcome=NOTHING_TO_DO, reason=why)

"""Looks at partitions whose metadata topic may be lost: the row and the listing say what is there.

Discovery beside brokers refuses them, as brokers have named nothing of what is in the tier. So the
view is made without them; what they say of identity, lineage and offsets is compared all the same.

Rule: PUBLISHING 2.7, 6.6.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tierfold.compaction.brokers.cluster_configs import Configs
from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.brokers.lineage import lineage_status
from tierfold.compaction.brokers.topic_retention import is_copying, is_tiered
from tierfold.compaction.commits.rebuilt_row import row_to_claim, with_metadata_of
from tierfold.compaction.commits.served_view import Serving, served_view
from tierfold.compaction.discovery.broker_refusals import metadata_refusal
from tierfold.compaction.discovery.facts import PartitionFacts
from tierfold.compaction.discovery.metadata_loss import partitions_refusal
from tierfold.compaction.discovery.refused_by_brokers import unknown_offsets
from tierfold.compaction.discovery.refused_by_lineage import refused_by_lineage
from tierfold.compaction.discovery.view import (
    PartitionView,
    Refusal,
    RefusalReason,
    state_with_new,
)
from tierfold.compaction.model.bindings import ServedBy
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.planning.open_step import look_of
from tierfold.compaction.planning.rebuild_look import (
    covered_uploads,
    unknown_uploads,
    unpublished_refusal,
    unused_refusal,
    was_never_published,
    with_uploads_only,
    without_deleted,
)
from tierfold.compaction.planning.rebuild_refusals import step_refusal
from tierfold.compaction.publishing.look import Look, PublishingLimits
from tierfold.compaction.publishing.lost_metadata import (
    NameAgain,
    RebuildStep,
    rebuild_step,
    with_rebuilds,
)
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.tier_identity import TierIdentity, served_binding
from tierfold.jobs.pipeline.discovery import facts_of, view_from
from tierfold.jobs.pipeline.known_partition import KnownPartition, refusal_of
from tierfold.jobs.publishing.log_start_probe import LogStartReading, read_log_start
from tierfold.storage.brokers.epoch_ends import epoch_ends

_EPOCHS_ASKED: Final = 3
"""How many of the newest leader epochs brokers confirm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildLook:
    """One look at a partition."""

    look: Look
    """Its row notes the metadata topic as it is now."""
    to_claim: PartitionState
    """The same row as a claim writes it: it notes the topic as it was, until all is named again."""
    configs: Configs
    """The topic's settings."""
    is_unnoted: bool
    """Whether the row that was read does not note the metadata topic as it is now."""
    unknown: tuple[str, ...] = ()
    """As of `unknown_uploads`, without what may be another cluster's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildDecision:
    """What to do by a look, and what a consumer got at the log start."""

    step: RebuildStep
    reading: LogStartReading | None = None
    """None: nothing was read, as it decides nothing."""

    def refusal(self, context: RunContext, topic: str, configs: Configs) -> Refusal | None:
        """Return why nothing is named again; None: it is, or nothing is lost."""
        look = context.cluster_view
        server = "" if look is None else look.setup.server
        why = "" if self.reading is None else self.reading.why
        return step_refusal(self.step, why, configs, topic, server)


def with_rebuilt_identity(
    context: RunContext, known: KnownPartition, identity: TierIdentity
) -> KnownPartition:
    """Return the partition, refused as by `with_identity`, whichever metadata topic it notes.

    But a topic with another number of partitions than before is not the one that brokers read.
    """
    row, refusal, look = known.state, known.refusal, context.cluster_view
    if isinstance(identity.binding, ServedBy) and look is not None:
        found = identity.binding.cluster
        refusal = refusal or partitions_refusal(row, found, look.setup.server)
        row = with_metadata_of(row, found)
    refusal = refusal or identity.refusal(row) or metadata_refusal(known.brokers)
    return replace(known, refusal=refusal)


def rebuild_look(
    context: RunContext, known: KnownPartition, limits: PublishingLimits
) -> RebuildLook | Refusal:
    """Look at one partition, with what brokers have of it; an error in reading is its refusal.

    Raises ValueError without brokers.
    """
    binding, brokers = served_binding(context), known.brokers
    if binding is None or brokers is None:
        raise ValueError(f"{known.key}: no brokers were asked")
    if (refusal := known.refusal or unknown_offsets(brokers)) is not None:
        return refusal
    found = replace(binding.cluster, metadata_start=brokers.metadata_start)
    serving = Serving(
        binding=replace(binding, cluster=found),
        at_ms=context.now_ms,
        run=context.run,
        readers_begin_again=False,
    )
    try:
        seen = _looked_at(context, known, brokers, serving, limits)
    except Exception as error:  # noqa: BLE001 - it stops this partition alone, and is reported
        seen = refusal_of(error, str(known.key))
    return seen.at(context.place(known.key)) if isinstance(seen, Refusal) else seen


def _looked_at(
    context: RunContext,
    known: KnownPartition,
    brokers: BrokerPartition,
    serving: Serving,
    limits: PublishingLimits,
) -> RebuildLook | Refusal:
    configs = topic_configs(context, known.key.topic)
    if isinstance(configs, Refusal):
        return configs
    tier = tier_view(context, known, brokers.log_start)
    if isinstance(tier, Refusal):
        return tier
    if (refusal := _denied(context, tier.view, brokers)) is not None:
        return refusal
    look = lost_look(known, tier, serving, limits, context.clock())
    if isinstance(look, Refusal):
        return look
    found = serving.binding.cluster
    return RebuildLook(
        look=look,
        to_claim=row_to_claim(known.state, look.row, found),
        configs=configs,
        is_unnoted=with_metadata_of(known.state, found) != known.state,
        unknown=tuple(
            one for one in unknown_uploads(look) if one not in tier.facts.doubtful_ids
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TierView:
    """What the row and the listing say of a partition, without brokers."""

    facts: PartitionFacts
    view: PartitionView


def tier_view(
    context: RunContext, known: KnownPartition, log_start: int
) -> TierView | Refusal:
    """Read what the tier has beside the row; raises TierfoldError."""
    row = without_deleted(known.state, known.listed, log_start)
    facts = facts_of(context, known.key, row, known.listed)
    view = view_from(context, facts)
    if isinstance(view, Refusal):
        return view
    return unused_refusal(view) or TierView(facts=facts, view=view)


def lost_look(
    known: KnownPartition, tier: TierView, serving: Serving, limits: PublishingLimits, now_ms: int
) -> Look | Refusal:
    """Return the look: the tier's view beside brokers, and what they are to have of it.

    Its row notes the cluster of `serving`. Raises ValueError if brokers did not say the offsets.
    """
    found, brokers = serving.binding.cluster, known.brokers
    noted = with_metadata_of(tier.view.state, found)
    served = served_view(replace(tier.view, state=noted, brokers=brokers), serving)
    if isinstance(served, Refusal):
        return served
    served = replace(served, state=state_with_new(served))
    plain = look_of(served, limits, now_ms, known.listed)
    if plain is None:
        raise ValueError(f"{known.key}: its offsets are known")
    look = with_rebuilds(plain, covered_uploads(tier.facts, tier.view))
    if not was_never_published(known.state):
        return look
    return unpublished_refusal(look) or with_uploads_only(look)


def decided(
    context: RunContext, look: Look, configs: Configs, reading: LogStartReading | None = None
) -> RebuildDecision:
    """What to do by a look; reads at the log start if that decides it, unless `reading` is given.

    Raises TierfoldError if that is not allowed, or no broker answers.
    """
    copies = is_copying(configs)
    step = rebuild_step(look, is_served=True, is_copying=copies)
    if context.cluster is None or not isinstance(step, NameAgain):
        return RebuildDecision(step=step)
    if reading is None:
        end = max(look.log_start + 1, look.row.next_offset)
        reading = read_log_start(context.cluster.connection, look.row.key, look.log_start, end)
    step = rebuild_step(look, is_served=reading.is_served, is_copying=copies)
    return RebuildDecision(step=step, reading=reading)


def topic_configs(context: RunContext, topic: str) -> Configs | Refusal:
    """The topic's settings, as the newest look has read them; raises as they were refused."""
    look = context.cluster_view
    found = None if look is None else look.topics[topic].configs
    if isinstance(found, UnreadableObject):
        raise found
    if found is not None and is_tiered(found):
        return found
    return Refusal(
        reason=RefusalReason.PRECONDITION,
        detail="remote.storage.enable is false: brokers do not read the topic's objects in the"
        " tier, so nothing of it is lost with their metadata",
        remedy="Leave the topic out: name the others with --topic.",
    )


def _denied(
    context: RunContext, view: PartitionView, brokers: BrokerPartition
) -> Refusal | None:
    """The refusal if the brokers' log is not the one that the tier has; None: it is.

    The newest epochs are asked for here: the look asks for those that brokers have named.
    """
    cluster, offsets = context.cluster, brokers.known_offsets
    if cluster is None or offsets is None or not view.segments:
        return None
    epochs = {one.epoch for segment in view.segments for one in segment.leader_epochs}
    one = (view.key.topic, view.key.partition)
    asked = {one: tuple(sorted(epochs, reverse=True)[:_EPOCHS_ASKED])}
    answers = epoch_ends(cluster.connection, asked)[one]
    status = lineage_status(brokers.view, view.lineage, offsets, answers, view.segments)
    return refused_by_lineage(status)
